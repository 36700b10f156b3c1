package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/shared/sandboxinit"
	"github.com/sbxhost/sbxhost/telemetry"
)

// exporterName is the program that exports, which stands beside this one.
const exporterName = "sbxhost-telemetry"

// exportPatience bounds how long the end of a command waits for its telemetry
// to be sent: as long as one OTLP request may take by default, and a little.
const exportPatience = 12 * time.Second

// span is the trace of one command. Nil traces nothing.
type span struct {
	app     *app
	context telemetry.Context
	record  telemetry.Record
	process *exec.Cmd
	stdin   io.WriteCloser
	stderr  bytes.Buffer
}

// startSpan begins to trace a command where the environment asks for it. What is
// wrong with telemetry is told, and no reason not to run the command.
func (a *app) startSpan(sandbox, engine string, begin time.Time) *span {
	if !telemetry.Wanted(a.getenv) {
		return nil
	}
	parent, err := telemetry.ParseTraceparent(a.getenv("TRACEPARENT"), a.getenv("TRACESTATE"))
	if err != nil {
		parent = telemetry.Context{}
	}
	s := &span{app: a}
	if s.context, err = telemetry.Child(parent, a.getenv("OTEL_TRACES_SAMPLER"), a.getenv("OTEL_TRACES_SAMPLER_ARG")); err != nil {
		a.say("telemetry: " + err.Error() + "; nothing is sent")
		return nil
	}
	s.record = telemetry.Record{
		TraceID: s.context.TraceID, SpanID: s.context.SpanID, ParentID: parent.SpanID, TraceState: s.context.State, Sampled: s.context.Sampled,
		Start: begin, Sandbox: sandbox, Engine: engine,
	}
	if err := s.startExporter(); err != nil {
		a.say(fmt.Sprintf("telemetry: %v; nothing is sent", err))
		return nil
	}
	return s
}

// startExporter starts the exporter while the command is still to be started, so
// that its own start costs no time of its own.
func (s *span) startExporter() error {
	self, err := os.Executable()
	if err == nil {
		self, err = filepath.EvalSymlinks(self)
	}
	if err != nil {
		return err
	}
	// Never from PATH: the workspace could supply its own.
	path := filepath.Join(filepath.Dir(self), exporterName)
	info, err := os.Lstat(path)
	if os.IsNotExist(err) {
		return fmt.Errorf("it is asked for by OTEL_ variables, and %s is not there: install it beside sbxhost", path)
	} else if err != nil {
		return err
	}
	if err := sandboxinit.CheckExecutable(path, info); err != nil {
		return err
	}
	s.process = &exec.Cmd{
		Path: path, Args: []string{exporterName}, Dir: "/", Env: s.app.exporterEnv(), Stderr: &s.stderr,
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true}, WaitDelay: time.Second,
	}
	if s.stdin, err = s.process.StdinPipe(); err != nil {
		return err
	}
	return s.process.Start()
}

// exporterEnv is what the exporter's libraries read, and no more.
func (a *app) exporterEnv() (env []string) {
	for _, entry := range a.environ {
		name, _, _ := strings.Cut(entry, "=")
		switch strings.ToUpper(name) {
		case "SSL_CERT_FILE", "SSL_CERT_DIR", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY":
			env = append(env, entry)
		default:
			if strings.HasPrefix(name, "OTEL_") {
				env = append(env, entry)
			}
		}
	}
	return env
}

// env passes the trace on to the command.
func (s *span) env() []string {
	if s == nil {
		return nil
	}
	env := []string{"TRACEPARENT=" + s.context.Traceparent()}
	if s.context.State != "" {
		env = append(env, "TRACESTATE="+s.context.State)
	}
	return env
}

// end tells how the command ended, and waits until that is sent.
func (s *span) end(report host.Report, status int, err error) {
	if s == nil {
		return
	}
	r, result := &s.record, newResult(s.record.Sandbox, report, status, err)
	r.End, r.Outcome, r.ExitCode, r.Degraded = time.Now(), result.Outcome, result.ExitCode, len(result.Degraded)
	r.Decision, r.Rule = result.Decision, result.Rule
	if result.Engine != "" {
		r.Engine = result.Engine
	}
	if result.Signal != nil {
		r.Signal = *result.Signal
	}
	line, marshalErr := json.Marshal(r)
	if marshalErr == nil {
		_, marshalErr = s.stdin.Write(append(line, '\n'))
	}
	s.stdin.Close()
	timer := time.AfterFunc(exportPatience, func() { s.process.Process.Kill() })
	defer timer.Stop()
	if waitErr := s.process.Wait(); waitErr != nil || marshalErr != nil {
		why := strings.TrimSpace(s.stderr.String())
		if why == "" {
			why = fmt.Sprint(waitErr, " ", marshalErr)
		}
		s.app.say("telemetry: " + strings.ReplaceAll(why, "\n", "; "))
	}
}
