package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/sbxhost/sbxhost/host"
)

// overlays is how many directories the sandbox with overlays makes writable for
// its session.
const overlays = 10

const (
	nameSession       = "in a session, warm"
	nameOverlays      = "the same with 10 overlays"
	nameFirstOnce     = "first of a host, no session"
	nameFirstSession  = "first of a host and session"
	nameFirstOverlays = "first of a session with 10 overlays"
)

// sessionTable tells what sessions cost, warm and at their beginning. A first
// command starts the engine, too.
type sessionTable struct {
	Missing string       `json:"missing,omitempty"` // why there is no table
	Warm    []latencyRow `json:"warm,omitempty"`
	First   []latencyRow `json:"first,omitempty"`
}

func measureSessions(ctx context.Context, s *scene, rounds int) (_ sessionTable, err error) {
	var readable []string
	for i := range overlays {
		dir := filepath.Join(s.dir, fmt.Sprintf("tool%d", i))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return sessionTable{}, err
		}
		readable = append(readable, dir)
	}
	with := libraryOptions(s.dir)
	with.Sandboxes = map[string]host.Definition{sandboxFast: {Engine: "native"}}
	without := with
	with.Workspace.Readable = readable
	once := without
	once.Session.Once = true

	overlaid, err := host.New(ctx, with)
	if err != nil {
		return sessionTable{}, err
	}
	defer func() { err = errors.Join(err, overlaid.Close()) }()
	probe := overlaid.Command(ctx, sandboxFast, "/bin/true")
	if err := probe.Run(); err != nil {
		return sessionTable{}, err
	}
	report := probe.Report()
	switch {
	case len(report.Overlays) != overlays:
		return sessionTable{Missing: fmt.Sprintf("%d overlays where %d were asked for", len(report.Overlays), overlays)}, nil
	case len(report.Degraded) > 0:
		return sessionTable{Missing: report.Degraded[0]}, nil
	}

	raw := contender{name: nameRaw, run: func() error { return s.runRaw(ctx, s.raw, "/bin/true") }}
	var t sessionTable
	if t.Warm, err = compare(ctx, []contender{
		raw,
		{name: nameSession, run: func() error { return runLibrary(ctx, s.warm, sandboxFast) }},
		{name: nameOverlays, run: func() error { return runLibrary(ctx, overlaid, sandboxFast) }},
	}, rounds); err != nil {
		return t, err
	}
	t.First, err = compare(ctx, []contender{
		raw,
		{name: nameFirstOnce, run: func() error { return runFirst(ctx, once) }},
		{name: nameFirstSession, run: func() error { return runFirst(ctx, without) }},
		{name: nameFirstOverlays, run: func() error { return runFirst(ctx, with) }},
	}, max(1, rounds/4))
	return t, err
}

// runFirst makes a host for one command and closes it.
func runFirst(ctx context.Context, o host.Options) error {
	h, err := host.New(ctx, o)
	if err != nil {
		return err
	}
	return errors.Join(runLibrary(ctx, h, sandboxFast), h.Close())
}
