package host

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/sbxhost/sbxhost/host/view"
	"github.com/sbxhost/sbxhost/shared/dial"
)

// launchSpec is an engine's executable and how to start it.
type launchSpec struct {
	name   string
	path   string // absolute
	source string // for people: "built in", the path
	// declared says that the user chose it in place of what is built in.
	declared bool
	self     bool     // this program itself, re-executed
	pinned   bool     // checksums are declared, if not for this platform
	sha256   string   // what the executable must have; empty means any
	args     []string // beyond argv[0]
	env      []string // "name=value": all that the process sees of the host's environment
}

// unpinned refuses an engine whose checksums are declared for other platforms
// alone.
func (s *launchSpec) unpinned() error {
	if s.pinned && s.sha256 == "" {
		return view.Invalid("engine."+s.name+".sha256", "no checksum is pinned for "+Platform(),
			"check the engine and pin it with `sbxhost engines pin "+s.name+"`")
	}
	return nil
}

// command gives the command line of the program, checked against its checksum. Who has
// started it calls release.
func (s *launchSpec) command() (cmd *exec.Cmd, release func(), err error) {
	cmd = &exec.Cmd{Path: s.path, Args: append([]string{s.path}, s.args...), Env: s.env}
	if s.sha256 == "" {
		return cmd, func() {}, nil
	}
	verified, err := openPinned(s.path, s.sha256)
	if err != nil {
		return nil, nil, err
	}
	dir, err := executePinned(cmd, verified)
	if err != nil {
		verified.Close()
		return nil, nil, err
	}
	return cmd, func() {
		verified.Close()
		if dir != "" {
			os.RemoveAll(dir)
		}
	}, nil
}

// launch starts an engine and speaks to it. Every error is an *EngineError.
func (h *Host) launch(ctx context.Context, spec launchSpec) (*dial.Launched, error) {
	cmd, release, err := spec.command()
	if err != nil {
		return nil, &EngineError{Engine: spec.name, Source: spec.source, Err: err}
	}
	defer release()
	process, err := dial.Launch(ctx, cmd, dial.LaunchOptions{StartTimeout: h.startTimeout(), Logger: h.logger.Named(spec.name), SocketDirs: h.socketDirs()})
	if err != nil {
		failed := &EngineError{Engine: spec.name, Source: spec.source, Err: err}
		if e, ok := errors.AsType[*dial.LaunchError](err); ok {
			failed.Err, failed.Log = e.Err, e.Log
		}
		return nil, failed
	}
	return process, nil
}

// socketDirs are the directories that the caller's environment names for files like an
// engine's socket.
func (h *Host) socketDirs() (dirs []string) {
	if dir, _ := h.caller.LookupEnv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		if info, err := os.Stat(dir); err == nil && info.IsDir() && ownedPrivately(info) {
			dirs = append(dirs, dir)
		}
	}
	if dir, _ := h.caller.LookupEnv("TMPDIR"); filepath.IsAbs(dir) {
		dirs = append(dirs, dir)
	}
	return dirs
}
