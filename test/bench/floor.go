package main

import (
	"context"
	"os/exec"
	"path/filepath"
)

// measureFloor compares what go-plugin alone costs, in the program in floor, with plain bubblewrap and
// with what sbxhost does likewise: no host of plugins costs less.
func measureFloor(ctx context.Context, s *scene, o options, r *report) {
	program := filepath.Join(s.bin, "floor")
	check(s.run(exec.CommandContext(ctx, "go", "build", "-trimpath", "-tags=grpcnotrace", "-ldflags=-s -w", "-o", program+".linked", "github.com/sbxhost/sbxhost/test/bench/floor")))
	check(install(program+".linked", program))
	runs := func(name string, words ...string) contender {
		return contender{name: name, run: func() error { return s.run(exec.CommandContext(ctx, words[0], words[1:]...)) }}
	}
	r.compare(ctx, "The floor", []contender{
		s.plainBwrap(ctx),
		runs("a program that links go-plugin, and ends", program, "exit"),
		runs("sbxhost -version", s.lean, "-version"),
		runs("a bare host and plugin, no sandbox", program),
		{name: "sbxhost, one-shot", run: s.oneShot(ctx, "native", s.workspace)},
	}, o.rounds)
}
