package host

import "os/exec"

// EngineCommand gives the command line by which this Host would start an
// engine's process, for tools that start one themselves, with dial.Launch.
// The program is checked as for a start. Who has done with it calls release: with a
// pinned checksum, what is executed is the file that was verified.
func (h *Host) EngineCommand(name string) (cmd *exec.Cmd, release func(), err error) {
	spec, err := h.findEngine(h.engineName(name))
	if err != nil {
		return nil, nil, err
	}
	if err := spec.unpinned(); err != nil {
		return nil, nil, err
	}
	cmd, release, err = spec.command()
	if err != nil {
		return nil, nil, &EngineError{Engine: spec.name, Source: spec.source, Err: err}
	}
	cmd.Dir = "/"
	return cmd, release, nil
}
