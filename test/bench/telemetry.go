package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os/exec"
	"sync/atomic"
	"time"
)

// The names of the same one-shot run, with telemetry and without. What nobody
// asks for is not even linked, which the binaries show.
const (
	nameUntraced = "one-shot, no telemetry asked for"
	nameTraced   = "one-shot, telemetry to a receiver"
)

// measureTelemetry compares one-shot runs that send telemetry to a receiver in this process
// with those that send none.
func measureTelemetry(ctx context.Context, s *scene, rounds int) (rows []row, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	var received atomic.Int64
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n, _ := io.Copy(io.Discard, r.Body); n > 0 {
			received.Add(1)
		}
		w.Header().Set("Content-Type", "application/x-protobuf") // of an empty answer
	})}
	go server.Serve(listener)
	defer func() { err = errors.Join(err, server.Close()) }()
	with := func() *exec.Cmd {
		cmd := s.sbxhost(ctx, "native", "/bin/true")
		cmd.Env = append(cmd.Env, "OTEL_EXPORTER_OTLP_ENDPOINT=http://"+listener.Addr().String())
		return cmd
	}
	rows, err = compare(ctx, []contender{
		s.plainBwrap(ctx),
		{name: nameUntraced, run: func() error { return s.run(s.sbxhost(ctx, "native", "/bin/true")) }},
		{name: nameTraced, run: func() error { return s.run(with()) }},
	}, rounds)
	if err == nil && received.Load() < 2*int64(rounds) {
		err = errors.New("the receiver was sent less telemetry than that of each run")
	}
	return rows, err
}
