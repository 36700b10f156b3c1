package launch

import (
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
)

// countingOutput counts what a Logger writes, and holds the first of it up.
type countingOutput struct {
	n                int
	entered, release chan struct{}
}

func (o *countingOutput) Write(p []byte) (int, error) {
	if o.n++; o.n == 1 {
		close(o.entered)
		<-o.release
	}
	return len(p), nil
}

// A Logger, and all that was made of it, is used until its gate is closed, which waits for who
// uses it, and never again.
func TestGatedLogger(t *testing.T) {
	t.Parallel()
	out := &countingOutput{entered: make(chan struct{}), release: make(chan struct{})}
	gate := &LogGate{}
	var logger hclog.Logger = gate.Logger(hclog.New(&hclog.LoggerOptions{Level: hclog.Trace, Output: out}))
	named := logger.Named("engine").With("a", 1)
	standard, writer := named.StandardLogger(nil), named.StandardWriter(&hclog.StandardLoggerOptions{})
	all := func() {
		for _, l := range []hclog.Logger{logger, named, named.ResetNamed("x")} {
			l.Log(hclog.Info, "x")
			l.Trace("x")
			l.Debug("x")
			l.Info("x")
			l.Warn("x")
			l.Error("x")
		}
		standard.Print("x")
		writer.Write([]byte("x\n"))
	}
	logged, closed := make(chan struct{}), make(chan struct{})
	go func() { defer close(logged); logger.Info("first") }()
	<-out.entered
	go func() { defer close(closed); gate.Close(time.Minute) }()
	select {
	case <-closed:
		t.Error("the gate was closed while the Logger was in use")
	default:
	}
	close(out.release)
	<-logged
	<-closed
	if all(); out.n != 1 {
		t.Errorf("%d lines were logged", out.n)
	}
	gate.closed = false
	if all(); out.n != 1+3*6+2 {
		t.Errorf("%d lines were logged while the gate was open", out.n)
	}
}
