//go:build unix

package launch

import (
	"context"
	"errors"
	"slices"

	"github.com/sbxhost/sbxhost/internal/dial"
)

// launch starts an engine and connects to it. Every error is an *Error, or one of the definition.
func (s *Engines) launch(ctx context.Context, p program) (*dial.Process, error) {
	cmd, release, err := p.command()
	if err != nil {
		return nil, err
	}
	defer release()
	cmd.Env = append(slices.Clip(cmd.Env), s.o.Usage.Environ()...)
	process, err := dial.Launch(ctx, cmd, dial.LaunchOptions{StartTimeout: s.o.StartTimeout, Logger: s.o.Logger.Named(p.name), SocketDirs: s.socketDirs()})
	if err != nil {
		failed := &Error{Engine: p.name, Source: p.source, Err: err}
		if e, ok := errors.AsType[*dial.LaunchError](err); ok {
			failed.Err, failed.Log = e.Err, e.Log
		}
		return nil, failed
	}
	return process, nil
}

// socketDirs are the directories of the caller's environment for files such as an engine's socket.
func (s *Engines) socketDirs() (dirs []string) {
	for _, name := range []string{"XDG_RUNTIME_DIR", "TMPDIR"} {
		dir, _ := s.o.LookupEnv(name)
		dirs = append(dirs, dir)
	}
	return dirs
}
