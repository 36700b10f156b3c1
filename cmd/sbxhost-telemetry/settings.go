package main

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"

	"github.com/sbxhost/sbxhost/internal/telemetry"
)

// checkSettings refuses unreadable headers and endpoints. The exporters would ignore them and go
// on, to their default endpoint or without authentication, and would write the unreadable text,
// which contains tokens, to a log.
func checkSettings(getenv func(string) string) error {
	for _, signal := range [...]string{telemetry.Traces, telemetry.Metrics} {
		protocol, err := exporter(getenv, signal)
		if err != nil {
			return err
		} else if protocol == "none" {
			continue
		}
		for _, prefix := range [...]string{"OTEL_EXPORTER_OTLP_", "OTEL_EXPORTER_OTLP_" + signal + "_"} {
			if n, err := checkHeaders(getenv(prefix + "HEADERS")); err != nil {
				return fmt.Errorf("%sHEADERS: entry %d %w", prefix, n, err)
			}
			if !isEndpoint(getenv(prefix+"ENDPOINT"), protocol) {
				return fmt.Errorf("%sENDPOINT is no URL such as http://localhost:4318", prefix)
			}
		}
	}
	return nil
}

// checkHeaders says which entry of a list of headers is invalid, and never shows its text:
// "authorization: Bearer TOKEN" is a common mistake.
func checkHeaders(list string) (entry int, err error) {
	for i, header := range strings.Split(strings.TrimSpace(list), ",") {
		if strings.TrimSpace(header) == "" {
			continue
		}
		name, value, found := strings.Cut(header, "=")
		if !found || !isToken(strings.TrimSpace(name)) {
			return i + 1, errors.New("is not of the form name=value")
		}
		if _, err := url.PathUnescape(value); err != nil {
			return i + 1, errors.New("has a % that is not followed by two hexadecimal digits: write %25")
		}
	}
	return 0, nil
}

// isToken reports whether a text can be the name of a header.
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		return !letter && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
}

// isEndpoint reports whether an exporter reads an endpoint correctly. For gRPC it may be an address
// without a scheme.
func isEndpoint(endpoint, protocol string) bool {
	if endpoint = strings.TrimSpace(endpoint); endpoint == "" {
		return true
	}
	u, err := url.Parse(endpoint)
	return err == nil && (protocol == "grpc" || (u.Scheme == "http" || u.Scheme == "https") && u.Host != "")
}

// sdkLog collects the SDK's error logs. It drops the values in them, which can come from a
// variable.
type sdkLog struct {
	mu    sync.Mutex
	lines []string // each once
}

// listen makes the SDK log to s instead of standard error.
func (s *sdkLog) listen() { otel.SetLogger(logr.New(s)) }

func (s *sdkLog) Init(logr.RuntimeInfo)          {}
func (s *sdkLog) Enabled(int) bool               { return false }
func (s *sdkLog) Info(int, string, ...any)       {}
func (s *sdkLog) WithValues(...any) logr.LogSink { return s }
func (s *sdkLog) WithName(string) logr.LogSink   { return s }
func (s *sdkLog) Error(err error, msg string, _ ...any) {
	if _, ok := errors.AsType[*url.Error](err); ok || err == nil {
		err = errors.New("not possible") // err quotes the URL, with its password
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if line := fmt.Sprintf("%s: %v", cmp.Or(msg, "setting up"), err); !slices.Contains(s.lines, line) {
		s.lines = append(s.lines, line)
	}
}

// joinLogged adds the log to an error: the log may have the cause.
func (s *sdkLog) joinLogged(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		return nil
	}
	for _, line := range s.lines {
		err = fmt.Errorf("%w\n%s", err, line)
	}
	return err
}
