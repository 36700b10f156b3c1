package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"github.com/sbxhost/sbxhost/plugins/bwrap"
	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/sandboxinit"
)

// The benchmark executes itself for what has to be in a process of its own:
// argv[1] says for what.
const (
	roleStreamedEngine = "play-streamed-engine"
	roleMemoryHost     = "play-memory-host"
)

// playRole must be the first call of main. In a process that has a role it
// does not return.
func playRole() {
	sandboxinit.Hook()
	if len(os.Args) < 2 {
		return
	}
	switch os.Args[1] {
	case roleStreamedEngine:
		withoutChannel()
		shared.Serve(bwrap.New())
	case roleMemoryHost:
		if err := playMemoryHost(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// withoutChannel makes this process an engine that cannot be handed
// descriptors, as one on another machine or in another language: all stdio of
// its commands is streamed.
func withoutChannel() {
	if fd, err := strconv.Atoi(os.Getenv(shared.ChannelEnv)); err == nil {
		syscall.CloseOnExec(fd)
	}
	os.Unsetenv(shared.ChannelEnv)
}

// playMemoryHost is a program with the library inside: it runs the workload in
// the named sandbox and writes on stdout what memory it and its engine took.
func playMemoryHost(args []string) error {
	if len(args) != 3 {
		return fmt.Errorf("%s: want DIR SANDBOX BYTES, got %q", roleMemoryHost, args)
	}
	bytes, err := strconv.ParseInt(args[2], 10, 64)
	if err != nil {
		return err
	}
	ctx := context.Background()
	h, err := newLibraryHost(ctx, args[0])
	if err != nil {
		return err
	}
	defer h.Close()
	for _, atOnce := range []int{1, 8} {
		if _, err := commandsPerSecond(atOnce, 40, func() error { return runLibrary(ctx, h, args[1]) }); err != nil {
			return err
		}
	}
	if _, err := libraryOutput(ctx, h, args[1], bytes); err != nil {
		return err
	}
	peak, err := peakOfFamily(os.Getpid())
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(peak)
}
