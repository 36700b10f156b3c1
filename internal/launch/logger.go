package launch

import (
	"io"
	"time"

	"github.com/hashicorp/go-hclog"
)

// LogGate ends the use of a caller's Logger. A dying engine, and the reader of its log, may log
// something after Close has returned, when the caller's logger is gone.
type LogGate struct {
	logger hclog.InterceptLogger
	sink   hclog.SinkAdapter
}

// Logger returns a Logger that ends with the gate.
func (g *LogGate) Logger(of hclog.Logger) hclog.Logger {
	g.logger = hclog.NewInterceptLogger(&hclog.LoggerOptions{Level: hclog.Off, Output: io.Discard})
	g.sink = &sink{of} // a pointer: a Logger itself may be no key of a map
	g.logger.RegisterSink(g.sink)
	return g.logger
}

// Close returns when nobody uses the Logger any more, or after patience.
func (g *LogGate) Close(patience time.Duration) {
	done := make(chan struct{})
	go func() {
		g.logger.DeregisterSink(g.sink) // waits for goroutines that log
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(patience):
	}
}

// sink passes lines on to a Logger.
type sink struct{ hclog.Logger }

func (s *sink) Accept(name string, level hclog.Level, msg string, args ...any) {
	to := s.Logger
	if name != "" {
		to = to.Named(name)
	}
	to.Log(level, msg, args...)
}
