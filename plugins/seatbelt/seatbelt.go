// Package seatbelt is the place of the engine that isolates commands with the
// sandbox of macOS, /usr/bin/sandbox-exec.
//
// This version cannot generate profiles yet. It claims no feature, is never
// ready, and refuses every Spec: a definition that names it fails with the
// cause, and never runs without isolation.
package seatbelt

import (
	"context"
	"runtime"

	"github.com/sbxhost/sbxhost/shared"
)

const version = "0.1.0-dev"

// New makes the engine.
func New() shared.Engine { return engine{goos: runtime.GOOS} }

type engine struct {
	goos string // of the machine it runs on
}

func (engine) Info(context.Context) (shared.Info, error) {
	return shared.Info{
		Name:    "seatbelt",
		Version: version,
		Doc:     "the sandbox of macOS; this version cannot generate its profiles yet",
	}, nil
}

// unavailable says why it doesn't work and what to do.
func (e engine) unavailable() (reason, fix string) {
	if e.goos != "darwin" {
		return "seatbelt needs macOS", `use engine = "bwrap" on Linux, or "auto"`
	}
	return "this version of sbxhost cannot generate seatbelt profiles yet", "use a later version, or an engine that runs containers"
}

func (e engine) Probe(context.Context) (shared.Probe, error) {
	reason, fix := e.unavailable()
	return shared.Probe{Reason: reason, Fix: fix}, nil
}

func (e engine) Open(_ context.Context, spec shared.Spec) (shared.Sandbox, error) {
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	reason, fix := e.unavailable()
	return nil, &shared.Error{Kind: shared.ErrUnavailable, Attribute: "engine", Message: reason, Hint: fix}
}
