package host

import (
	"fmt"
	"os"
	"os/exec"
)

// EngineCommand gives the command line by which this Host would start an
// engine's process, for tools that start one themselves, with shared.Launch.
// The program is checked as for a start. With a pinned checksum, ExtraFiles has
// the file that was verified, which is what Path executes, on Linux; the caller
// closes it.
func (h *Host) EngineCommand(name string) (*exec.Cmd, error) {
	spec, err := h.findEngine(h.engineName(name))
	if err != nil {
		return nil, err
	}
	if err := spec.unpinned(); err != nil {
		return nil, err
	}
	cmd := &exec.Cmd{Path: spec.path, Args: append([]string{spec.path}, spec.args...), Env: spec.env, Dir: "/"}
	if spec.pinned {
		verified, err := openPinned(spec.path, spec.sha256)
		if err != nil {
			return nil, &EngineError{Engine: spec.name, Source: spec.source, Err: err}
		}
		if !executesDescriptors {
			verified.Close() // who can write to the file in between is trusted: it was checked
			return cmd, nil
		}
		cmd.ExtraFiles = []*os.File{verified}
		if cmd.Path, _, err = pinnedExecutable(verified, 3, ""); err != nil {
			verified.Close()
			return nil, fmt.Errorf("engine %q: %w", name, err)
		}
	}
	return cmd, nil
}
