package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// measureFloor compares what go-plugin alone costs, in the program in floor, with plain bubblewrap and
// with what sbxhost does likewise: no host of plugins costs less.
func measureFloor(ctx context.Context, s *scene, o options, r *report) {
	program := s.buildFloor(ctx, "floor")
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

// buildFloor builds a program in floor, or floor itself, once.
func (s *scene) buildFloor(ctx context.Context, of string) (program string) {
	program = filepath.Join(s.bin, filepath.Base(of))
	if _, err := os.Stat(program); err == nil {
		return program
	}
	check(s.run(exec.CommandContext(ctx, "go", "build", "-trimpath", "-tags=grpcnotrace", "-ldflags=-s -w", "-o", program+".linked", "github.com/sbxhost/sbxhost/test/bench/"+of)))
	check(install(program+".linked", program))
	return program
}

// startFloor starts the floor of a server of sbx, and returns its client.
func (v *served) startFloor(dir string) (client []string, stop func()) {
	bare, socket := v.buildFloor(v.ctx, "floor/bare"), filepath.Join(v.dir, "floor.socket")
	ctx, cancel := context.WithCancel(v.ctx)
	server := exec.CommandContext(ctx, v.buildFloor(v.ctx, "floor"), "server", socket)
	server.Dir, server.Stderr = dir, v.stderr
	ready, err := server.StdoutPipe()
	check(errors.Join(err, server.Start()))
	_, err = io.ReadAll(ready)
	check(err)
	return []string{bare, "client", socket}, func() {
		cancel()
		server.Wait()
	}
}
