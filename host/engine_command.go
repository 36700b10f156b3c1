package host

import "os/exec"

// EngineCommand gives the command line by which this Host would start an
// engine's process, for tools that start one themselves, with shared.Launch.
// The program is checked as for a start.
func (h *Host) EngineCommand(name string) (*exec.Cmd, error) {
	spec, err := h.findEngine(engineName(name))
	if err != nil {
		return nil, err
	}
	if spec.pinned {
		verified, err := openPinned(spec.path, spec.sha256)
		if err != nil {
			return nil, &EngineError{Engine: spec.name, Source: spec.source, Err: err}
		}
		verified.Close()
	}
	return &exec.Cmd{Path: spec.path, Args: append([]string{spec.path}, spec.args...), Env: spec.env, Dir: "/"}, nil
}
