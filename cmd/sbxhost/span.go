package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/telemetry"
)

// span is the trace of one command. Nil traces nothing.
type span struct {
	app     *app
	context telemetry.Context
	record  telemetry.Record
	process *exec.Cmd
	stdin   io.WriteCloser
	stderr  bytes.Buffer
	signals <-chan os.Signal // that came when the relay had ended
}

// newSpan is a span that nothing is sent of yet; nil where nobody asks for one.
func (a *app) newSpan(sandbox, engine string, begin time.Time) (*span, error) {
	if !telemetry.Wanted(a.getenv) {
		return nil, nil
	}
	parent, err := telemetry.ParseTraceparent(a.getenv("TRACEPARENT"), a.getenv("TRACESTATE"))
	if err != nil {
		parent = telemetry.Context{}
	}
	s := &span{app: a}
	if s.context, err = telemetry.Child(parent, a.getenv("OTEL_TRACES_SAMPLER"), a.getenv("OTEL_TRACES_SAMPLER_ARG")); err != nil {
		return nil, err
	}
	if engine == "" {
		engine = "auto" // which it stays if none is reached
	}
	s.record = telemetry.Record{
		TraceID: s.context.TraceID, SpanID: s.context.SpanID, ParentID: parent.SpanID, TraceState: s.context.State, Sampled: s.context.Sampled,
		Start: begin, Sandbox: sandbox, Engine: engine,
	}
	return s, nil
}

// pass passes the trace on to the command.
func (s *span) pass(cmd *host.Cmd) {
	if s != nil {
		cmd.TraceParent, cmd.TraceState = s.context.Traceparent(), s.context.State
	}
}
