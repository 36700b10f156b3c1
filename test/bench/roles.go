package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"time"
)

// These are argv[1] of this program where it has to be a process of its own, with the
// library inside.
const (
	roleMemoryHost = "play-memory-host"
	roleFirstHost  = "play-first-host"
	roleClient     = "play-client"
	roleHolder     = "play-holder"
	roleRelay      = "play-relay"
)

// play starts this program in a role and reads what it writes.
func (s *scene) play(ctx context.Context, result any, role string, args ...string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, self, append([]string{role}, args...)...)
	cmd.Stderr = s.stderr
	out, err := cmd.Output()
	if err != nil {
		return s.failed(cmd, err)
	}
	return json.Unmarshal(out, result)
}

// playRole must be the first call of main. In a process that has a role it
// does not return.
func playRole() {
	if len(os.Args) < 2 {
		return
	}
	play := map[string]func([]string) error{roleMemoryHost: playMemoryHost, roleFirstHost: playFirstHost, roleClient: playClient, roleHolder: playHolder, roleRelay: playRelay}[os.Args[1]]
	if play == nil {
		return
	}
	if err := play(os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// playMemoryHost is a program with the library inside: it runs the workload in
// a sandbox and writes on stdout what memory it and its engine took.
func playMemoryHost(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("%s: want DIR BYTES, got %q", roleMemoryHost, args)
	}
	bytes, err := strconv.ParseInt(args[1], 10, 64)
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
		if _, err := commandsPerSecond(atOnce, 40, func() error { return runLibrary(ctx, h, sandboxFast) }); err != nil {
			return err
		}
	}
	if err := readOutput(ctx, h, sandboxFast, bytes); err != nil {
		return err
	}
	peak, err := peakOfFamily(os.Getpid())
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(peak)
}

// playFirstHost is a program that has much in memory when it runs its first commands. It
// writes on stdout how many milliseconds they took.
func playFirstHost(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("%s: want DIR MIB, got %q", roleFirstHost, args)
	}
	mib, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	ballast := make([]byte, mib<<20)
	for i := 0; i < len(ballast); i += os.Getpagesize() {
		ballast[i] = 1
	}
	defer runtime.KeepAlive(ballast)
	ctx := context.Background()
	h, err := newLibraryHost(ctx, args[0])
	if err != nil {
		return err
	}
	defer h.Close()
	begin := time.Now()
	for range 3 {
		if err := runLibrary(ctx, h, sandboxFast); err != nil {
			return err
		}
	}
	return json.NewEncoder(os.Stdout).Encode(milliseconds(time.Since(begin)))
}
