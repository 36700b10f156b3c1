package launch

import (
	"io"
	"log"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

// LogGate ends the use of a caller's Logger. A dying engine, and the reader of its log, may log
// something after Close has returned, when the caller's logger is gone.
type LogGate struct {
	mu     sync.RWMutex
	closed bool
}

// Logger returns a Logger that ends with the gate.
func (g *LogGate) Logger(of hclog.Logger) hclog.Logger { return gatedLogger{of, g} }

// Close returns when nobody uses the Logger any more, or after patience.
func (g *LogGate) Close(patience time.Duration) {
	done := make(chan struct{})
	go func() {
		g.mu.Lock()
		g.closed = true
		g.mu.Unlock()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(patience):
	}
}

func (g *LogGate) use(f func()) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if !g.closed {
		f()
	}
}

// gatedLogger is a Logger until its gate is closed.
type gatedLogger struct {
	hclog.Logger
	gate *LogGate
}

func (l gatedLogger) Log(level hclog.Level, msg string, args ...any) {
	l.gate.use(func() { l.Logger.Log(level, msg, args...) })
}
func (l gatedLogger) Trace(msg string, args ...any) { l.Log(hclog.Trace, msg, args...) }
func (l gatedLogger) Debug(msg string, args ...any) { l.Log(hclog.Debug, msg, args...) }
func (l gatedLogger) Info(msg string, args ...any)  { l.Log(hclog.Info, msg, args...) }
func (l gatedLogger) Warn(msg string, args ...any)  { l.Log(hclog.Warn, msg, args...) }
func (l gatedLogger) Error(msg string, args ...any) { l.Log(hclog.Error, msg, args...) }

func (l gatedLogger) derived(f func() hclog.Logger) hclog.Logger {
	l.gate.use(func() { l.Logger = f() })
	return l
}

func (l gatedLogger) With(args ...any) hclog.Logger {
	return l.derived(func() hclog.Logger { return l.Logger.With(args...) })
}
func (l gatedLogger) Named(name string) hclog.Logger {
	return l.derived(func() hclog.Logger { return l.Logger.Named(name) })
}
func (l gatedLogger) ResetNamed(name string) hclog.Logger {
	return l.derived(func() hclog.Logger { return l.Logger.ResetNamed(name) })
}

func (l gatedLogger) StandardLogger(o *hclog.StandardLoggerOptions) *log.Logger {
	if o == nil {
		o = &hclog.StandardLoggerOptions{}
	}
	return log.New(l.StandardWriter(o), "", 0)
}
func (l gatedLogger) StandardWriter(o *hclog.StandardLoggerOptions) io.Writer {
	return gatedWriter{l.Logger.StandardWriter(o), l.gate}
}

type gatedWriter struct {
	io.Writer
	gate *LogGate
}

func (w gatedWriter) Write(p []byte) (n int, err error) {
	n = len(p)
	w.gate.use(func() { n, err = w.Writer.Write(p) })
	return n, err
}
