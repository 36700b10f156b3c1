// Package trace reports a command to OpenTelemetry, by a program next to this one.
package trace

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/internal/telemetry"
)

// Span is the trace of one command. Nil traces nothing.
type Span struct {
	App     *cli.App
	context telemetry.Context
	record  telemetry.Record
	Process *exec.Cmd
	Stdin   io.WriteCloser
	stderr  bytes.Buffer
	signals <-chan os.Signal // signals from after the end of the relay
}

// New makes a span and sends nothing; it returns nil if nobody asks for a trace.
func New(a *cli.App, sandbox, engine string, begin time.Time) (*Span, error) {
	if !telemetry.Requested(a.Getenv) {
		return nil, nil
	}
	parent, err := telemetry.ParseTraceparent(a.Getenv("TRACEPARENT"), a.Getenv("TRACESTATE"))
	if err != nil {
		parent = telemetry.Context{}
	}
	s := &Span{App: a}
	if s.context, err = telemetry.Child(parent, a.Getenv("OTEL_TRACES_SAMPLER"), a.Getenv("OTEL_TRACES_SAMPLER_ARG")); err != nil {
		return nil, err
	}
	if engine == "" {
		engine = "auto" // it stays if sbxhost reaches no engine
	}
	s.record = telemetry.Record{
		TraceID: s.context.TraceID, SpanID: s.context.SpanID, ParentID: parent.SpanID, TraceState: s.context.State, Sampled: s.context.Sampled,
		Start: begin, Sandbox: sandbox, Engine: engine,
	}
	return s, nil
}

// Pass passes the trace on to the command.
func (s *Span) Pass(cmd *host.Cmd) {
	if s != nil {
		cmd.TraceParent, cmd.TraceState = s.context.Traceparent(), s.context.State
	}
}
