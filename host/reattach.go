package host

import (
	"context"

	"github.com/sbxhost/sbxhost/shared"
)

// reattach connects to an engine that somebody has started with -debug. It is
// never stopped from here.
func (h *Host) reattach(ctx context.Context, name string, at shared.Reattach) (*runningEngine, error) {
	source := "attached to " + at.Socket
	h.logger.Warn("this engine was not started by sbxhost: whoever did, and whoever knows its token, decides what it isolates", "engine", name, "pid", at.PID, "socket", at.Socket)
	engine, conn, err := shared.Attach(at)
	if err != nil {
		return nil, &EngineError{Engine: name, Source: source, Err: err}
	}
	asked, cancel := context.WithTimeout(ctx, h.startTimeout())
	defer cancel()
	info, err := engine.Info(asked)
	if err != nil {
		conn.Close()
		return nil, &EngineError{Engine: name, Source: source, Err: err}
	}
	return &runningEngine{Engine: engine, info: info, source: source, attached: conn}, nil
}

// detach gives up the connection to an attached engine.
func (e *runningEngine) detach() {
	if e.attached != nil {
		e.attached.Close()
	}
}
