package launch

import (
	"strings"
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
	logger := gate.Logger(hclog.New(&hclog.LoggerOptions{Level: hclog.Trace, Output: out}))
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
	if logInEachWay(logger); out.n != 1 {
		t.Errorf("%d lines were logged", out.n)
	}
	if logInEachWay((&LogGate{}).Logger(hclog.New(&hclog.LoggerOptions{Level: hclog.Trace, Output: out}))); out.n != 1+3*6+2 {
		t.Errorf("%d lines were logged while the gate was open", out.n)
	}
}

// A Logger of a caller can have any type.
func TestGatedLoggerOfAnyType(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	gate := &LogGate{}
	gate.Logger(struct {
		hclog.Logger
		uncomparable []string
	}{Logger: hclog.New(&hclog.LoggerOptions{Output: &out})}).Info("line")
	if gate.Close(time.Minute); !strings.Contains(out.String(), "line") {
		t.Errorf("%q", out.String())
	}
}

func logInEachWay(logger hclog.Logger) {
	named := logger.Named("engine").With("a", 1)
	for _, l := range []hclog.Logger{logger, named, named.ResetNamed("x")} {
		l.Log(hclog.Info, "x")
		l.Trace("x")
		l.Debug("x")
		l.Info("x")
		l.Warn("x")
		l.Error("x")
	}
	named.StandardLogger(&hclog.StandardLoggerOptions{}).Print("x")
	named.StandardWriter(&hclog.StandardLoggerOptions{}).Write([]byte("x\n"))
}

// A line has the name and the values of the logger that it came by.
func TestGatedLine(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	logger := (&LogGate{}).Logger(hclog.New(&hclog.LoggerOptions{Name: "sbxhost", Output: &text, DisableTime: true}))
	logger.Named("engine").With("a", 1).Warn("hangs", "b", 2)
	if want := "[WARN]  sbxhost.engine: hangs: a=1 b=2\n"; text.String() != want {
		t.Errorf("%q, want %q", text.String(), want)
	}
}
