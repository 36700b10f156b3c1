//go:build unix

package launch

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sbxhost/sbxhost/internal/dial"
	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/wire"
)

// reattach connects to an engine that somebody has started with -debug. This process never stops
// it.
func (s *Engines) reattach(ctx context.Context, name string, at wire.Reattach) (_ *Engine, err error) {
	e := &Engine{Source: "attached to " + at.Socket}
	s.o.Logger.Warn("this program did not start this engine: whoever started it, or knows its token, decides what it isolates", "engine", name, "pid", at.PID, "socket", at.Socket)
	if err := checkReattach(at); err != nil {
		return nil, &Error{Engine: name, Source: e.Source, Err: err}
	}
	asked, cancel := context.WithTimeout(ctx, s.o.StartTimeout)
	defer cancel()
	if e.Engine, e.detach, err = dial.Attach(asked, at); err == nil {
		if e.Info, err = e.Engine.Info(asked); err != nil {
			e.detach()
		}
	}
	if err != nil {
		return nil, &Error{Engine: name, Source: e.Source, Err: fmt.Errorf("%w; %s", err, reattachAgain)}
	}
	return e, nil
}

const reattachAgain = "if that process has ended, start the engine with -debug again and use the value that it prints, or unset " + wire.ReattachEnv

// checkReattach refuses a socket that no engine of this user can have made: it would see every
// command and its variables. An ended engine's socket directories are gone, and in /tmp anybody can
// make them again.
func checkReattach(at wire.Reattach) error {
	socket, err := filepath.EvalSymlinks(at.Socket)
	if err != nil {
		return fmt.Errorf("no engine listens there; %s", reattachAgain)
	}
	info, err := os.Lstat(socket)
	if err != nil || info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("no engine listens there; %s", reattachAgain)
	}
	if err := hostpath.CheckOwner(socket, info); err != nil {
		return err
	}
	return hostpath.CheckAbove(socket)
}
