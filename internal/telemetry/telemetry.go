// Package telemetry defines the messages between sbxhost and its OpenTelemetry exporter, and the
// W3C trace context by which they join the traces of others.
//
// The exporter is a separate program, sbxhost-telemetry: Go initializes everything that a program
// links, and the SDK with its exporters would cost each command a millisecond and a half, even
// without telemetry. This package uses the standard library alone. Only the content of a [Record]
// leaves the machine: no argument, no variable, no path.
package telemetry

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// A Record is one run of a command, as one line of JSON.
type Record struct {
	TraceID    string `json:"trace_id"`            // 32 hexadecimal digits
	SpanID     string `json:"span_id"`             // 16 hexadecimal digits
	ParentID   string `json:"parent_id,omitempty"` // the span around it, in the same trace
	TraceState string `json:"trace_state,omitempty"`
	Sampled    bool   `json:"sampled"`

	Start time.Time `json:"start"`
	End   time.Time `json:"end"`

	Sandbox  string `json:"sandbox"`
	Engine   string `json:"engine"`
	Decision string `json:"decision,omitempty"` // "sandboxed", "unsandboxed"; empty without a decision
	Rule     string `json:"rule,omitempty"`
	Outcome  string `json:"outcome"`             // "exited", "signaled", "timed_out", "failed"
	ExitCode *int   `json:"exit_code,omitempty"` // of a command that exited
	Signal   string `json:"signal,omitempty"`    // such as "SIGKILL", of a command that a signal ended
	// DurationMS is how long the command itself ran; zero if it did not run.
	DurationMS int64 `json:"duration_ms"`
	Degraded   int   `json:"degraded"` // how many settings were enforced less than requested
}

// SpanName is the name of a record's span.
func (r *Record) SpanName() string { return "sbxhost.sandbox." + r.Engine + ".exec" }

// Context is a W3C trace context: the trace that contains a command, and the span around it.
type Context struct {
	TraceID, SpanID string
	Sampled         bool
	State           string // TRACESTATE, passed on unchanged
}

// ErrTraceparent is the error for an invalid TRACEPARENT. By the specification, a new trace then
// begins.
var ErrTraceparent = errors.New("not a W3C traceparent")

// ParseTraceparent reads a TRACEPARENT of version 00, and from a later version the parts that are
// the same.
func ParseTraceparent(text, state string) (Context, error) {
	fields := strings.Split(text, "-")
	if len(fields) < 4 || !lowerHex(fields[0], 2) || fields[0] == "ff" || fields[0] == "00" && len(fields) != 4 ||
		!lowerHex(fields[1], 32) || !lowerHex(fields[2], 16) || !lowerHex(fields[3], 2) ||
		strings.Trim(fields[1], "0") == "" || strings.Trim(fields[2], "0") == "" {
		return Context{}, ErrTraceparent
	}
	flags, err := strconv.ParseUint(fields[3], 16, 8)
	if err != nil {
		return Context{}, ErrTraceparent
	}
	return Context{TraceID: fields[1], SpanID: fields[2], Sampled: flags&1 != 0, State: state}, nil
}

// Traceparent returns c as a value of the variable TRACEPARENT.
func (c Context) Traceparent() string {
	flags := "00"
	if c.Sampled {
		flags = "01"
	}
	return "00-" + c.TraceID + "-" + c.SpanID + "-" + flags
}

// Child begins a span: in the trace of parent, or in a new one if parent is zero. sampler and
// argument are OTEL_TRACES_SAMPLER and its _ARG.
func Child(parent Context, sampler, argument string) (Context, error) {
	var id [24]byte
	rand.Read(id[:]) // never fails
	c := Context{TraceID: parent.TraceID, SpanID: hex.EncodeToString(id[16:]), State: parent.State}
	if c.TraceID == "" {
		c.TraceID = hex.EncodeToString(id[:16])
	}
	var err error
	c.Sampled, err = sampled(c.TraceID, parent, sampler, argument)
	return c, err
}

// sampled decides as the SDK's samplers of those names do.
func sampled(traceID string, parent Context, sampler, argument string) (bool, error) {
	if sampler == "" {
		sampler = "parentbased_always_on"
	}
	if root, ok := strings.CutPrefix(sampler, "parentbased_"); ok {
		if parent.TraceID != "" {
			return parent.Sampled, nil
		}
		sampler = root
	}
	switch sampler {
	case "always_on":
		return true, nil
	case "always_off":
		return false, nil
	case "traceidratio":
		ratio := 1.0
		if argument != "" {
			var err error
			if ratio, err = strconv.ParseFloat(argument, 64); err != nil || math.IsNaN(ratio) || ratio < 0 || ratio > 1 {
				return false, fmt.Errorf("OTEL_TRACES_SAMPLER_ARG: %q is no ratio from 0 to 1", argument)
			}
		}
		low, err := strconv.ParseUint(traceID[16:], 16, 64)
		return float64(low>>1) < ratio*(1<<63), err
	}
	return false, fmt.Errorf("OTEL_TRACES_SAMPLER: %q is none of always_on, always_off, traceidratio and the same after parentbased_", sampler)
}

func lowerHex(s string, n int) bool {
	return len(s) == n && strings.Trim(s, "0123456789abcdef") == ""
}

// Signals of OpenTelemetry, as in the names of variables.
const (
	Traces  = "TRACES"
	Metrics = "METRICS"
)

// Requested reports whether the environment asks for telemetry: it asks for one of the signals, and
// does not disable the SDK.
func Requested(getenv func(string) string) bool {
	return !strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true") && (Exports(getenv, Traces) || Exports(getenv, Metrics))
}

// Exports reports whether the environment asks for a signal: it names an OTLP endpoint for it, or
// an exporter. OpenTelemetry's default is to send to localhost; sbxhost sends nothing unless asked.
func Exports(getenv func(string) string, signal string) bool {
	if exporter := getenv("OTEL_" + signal + "_EXPORTER"); exporter != "" {
		return exporter != "none"
	}
	return getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || getenv("OTEL_EXPORTER_OTLP_"+signal+"_ENDPOINT") != ""
}

// defaultPatience is much shorter than OpenTelemetry's ten seconds for one request: a person waits
// for it, after each command.
const defaultPatience = 2 * time.Second

// Patience is how long the exporter may take to send its records: the longest time in
// OTEL_EXPORTER_OTLP_TIMEOUT and the same variables of the signals, in milliseconds, or two seconds
// if none is set.
func Patience(getenv func(string) string) time.Duration {
	var longest time.Duration
	for _, signal := range [...]string{Traces, Metrics} {
		if !Exports(getenv, signal) {
			continue
		}
		patience := defaultPatience
		for _, name := range [...]string{"OTEL_EXPORTER_OTLP_TIMEOUT", "OTEL_EXPORTER_OTLP_" + signal + "_TIMEOUT"} {
			if n, err := strconv.ParseUint(getenv(name), 10, 31); err == nil && n > 0 {
				patience = time.Duration(n) * time.Millisecond
			}
		}
		longest = max(longest, patience)
	}
	return longest
}
