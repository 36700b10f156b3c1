// Package noop is the engine that does not isolate: it runs commands as they
// are, on the host's files, for a host whose policy has allowed that. It
// refuses every Spec that does not say Unconfined, so that it can never
// stand in for an engine that isolates.
//
// What it holds are the things that concern the process alone: arguments, exact environment,
// directory, terminal, user, timeout, and the end of the command's process
// group with the command. What a command moves out of its process group
// (daemons, an interactive shell's jobs) outlives it. Limits, masks, networks and
// read-only mounts are not held, and events say so.
package noop

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/cmdengine"
)

// Version is the engine's version.
const Version = "0.1.0"

// New makes the engine.
func New() shared.Engine {
	return cmdengine.New(cmdengine.Config{
		Info: shared.Info{
			Name:    "noop",
			Version: Version,
			Doc:     "runs commands without any isolation",
			Features: shared.Features{
				shared.FeatureUnconfined,
				shared.FeatureTTY,
				shared.FeatureUser,
			},
		},
		Open:   open,
		Launch: launch,
		Plan:   plan,
		Events: events,
	})
}

// open refuses what would make a command work on other files than those it was
// given. That files are merely less protected is what Unconfined means.
func open(_ context.Context, spec *shared.Spec) error {
	for i, m := range spec.Mounts {
		attribute := m.Origin
		if attribute == "" {
			attribute = fmt.Sprintf("mounts[%d]", i)
		}
		refuse := func(message, hint string) error {
			return &shared.Error{Kind: shared.ErrUnsupported, Attribute: attribute, Message: message, Hint: hint}
		}
		switch {
		case m.Kind == shared.MountTmpfs:
			return refuse(fmt.Sprintf("without isolation %q would be the host's own directory and not fresh memory", m.Destination),
				"leave it out, or use an engine that isolates")
		case m.Kind == shared.MountOverlay && !m.Degradable:
			return refuse(fmt.Sprintf("without isolation writes to %q would be lasting", m.Destination),
				"leave it out, or use an engine that isolates")
		case m.Source != m.Destination:
			return refuse(fmt.Sprintf("without isolation %q cannot appear as %q", m.Source, m.Destination),
				"use the host's path inside, or an engine that isolates")
		}
	}
	if names := limits(spec.Limits); len(names) > 0 && !spec.Limits.BestEffort {
		return &shared.Error{
			Kind: shared.ErrUnsupported, Attribute: "limits." + names[0],
			Message: "no limit is held without isolation",
			Hint:    `leave it out, or set enforce = "best_effort" to run without it`,
		}
	}
	return nil
}

// limits names those that are set, as a definition spells them.
func limits(l shared.Limits) []string {
	var names []string
	for _, limit := range []struct {
		name string
		set  bool
	}{
		{"memory", l.Memory > 0},
		{"cpus", l.CPUs > 0},
		{"pids", l.PIDs > 0},
		{"open_files", l.OpenFiles > 0},
		{"temp_size", l.TempSize > 0},
	} {
		if limit.set {
			names = append(names, limit.name)
		}
	}
	return names
}

// launch leaves Path empty: the command is looked up in its own PATH.
func launch(_ *shared.Spec, cmd *shared.Command) (*exec.Cmd, error) {
	return &exec.Cmd{Args: cmd.Args, Env: cmd.Env, Dir: cmd.Dir}, nil
}

func plan(spec *shared.Spec, cmd *shared.Command) (shared.Plan, error) {
	notes := []string{"the command runs without any isolation"}
	for _, e := range events(spec, cmd) {
		notes = append(notes, e.Message)
	}
	return shared.Plan{Notes: notes}, nil
}

func events(spec *shared.Spec, cmd *shared.Command) []shared.Event {
	var list []shared.Event
	for _, name := range limits(spec.Limits) {
		list = append(list, shared.Event{
			Kind:    shared.EventLimit,
			Message: "limits." + name + " is not held without isolation",
			Details: map[string]string{"limit": name, "mechanism": "none", "hold": "not held"},
		})
	}
	if n := len(cmd.Masks); n > 0 {
		list = append(list, shared.Event{
			Kind:    shared.EventDegraded,
			Message: strconv.Itoa(n) + " denied or protected paths are within reach without isolation",
			Details: map[string]string{"masks": strconv.Itoa(n)},
		})
	}
	return list
}
