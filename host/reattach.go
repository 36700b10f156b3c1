package host

import (
	"context"
	"fmt"
	"io/fs"
	"os"

	"github.com/sbxhost/sbxhost/host/facts"
	"github.com/sbxhost/sbxhost/hostpath"
	"github.com/sbxhost/sbxhost/shared/dial"
	"github.com/sbxhost/sbxhost/shared/wire"
)

// reattach connects to an engine that somebody has started with -debug. It is
// never stopped from here.
func (h *Host) reattach(ctx context.Context, name string, at wire.Reattach) (*runningEngine, error) {
	source := "attached to " + at.Socket
	h.logger.Warn("this engine was not started by sbxhost: whoever did, and whoever knows its token, decides what it isolates", "engine", name, "pid", at.PID, "socket", at.Socket)
	if err := checkReattach(at); err != nil {
		return nil, &EngineError{Engine: name, Source: source, Err: err}
	}
	engine, disconnect, err := dial.Attach(ctx, at)
	if err != nil {
		return nil, &EngineError{Engine: name, Source: source, Err: fmt.Errorf("%w; %s", err, reattachAgain)}
	}
	asked, cancel := context.WithTimeout(ctx, h.startTimeout())
	defer cancel()
	info, err := engine.Info(asked)
	if err != nil {
		disconnect()
		return nil, &EngineError{Engine: name, Source: source, Err: fmt.Errorf("%w; %s", err, reattachAgain)}
	}
	return &runningEngine{Engine: engine, info: info, source: source, disconnect: disconnect}, nil
}

const reattachAgain = "if that process has ended, start the engine with -debug again and take the value that it prints, or unset " + wire.ReattachEnv

// checkReattach refuses what no engine of this user has left: it would be shown
// every command and its variables. The directories that an engine which has ended
// had its socket in are gone, and in /tmp anybody can make them anew.
func checkReattach(at wire.Reattach) error {
	way := facts.Follow(at.Socket)
	if way.Err != nil {
		return way.Err
	}
	info, err := os.Lstat(way.End)
	if err != nil || info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("no engine listens there; %s", reattachAgain)
	}
	if err := hostpath.CheckOwner(way.End, info); err != nil {
		return err
	}
	return hostpath.CheckAbove(way.End)
}
