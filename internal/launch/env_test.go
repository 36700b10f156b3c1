package launch

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/sbxhost/sbxhost/internal/wire"
	"github.com/sbxhost/sbxhost/shared"
)

// An engine of others is told how much to log, and sees nothing else but what its block lists.
func TestEnvironmentOfOthers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "sbxhost-engine-mine")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	s := New(Options{
		Declared: map[string]Source{"theirs": {Source: path, Env: []string{"LISTED"}}, "mine": {Source: path}}, WritableDir: func(string) string { return "" },
		LookupEnv: func(name string) (string, bool) {
			value, ok := map[string]string{"SBXHOST_LOG": "debug", "LISTED": "1", "HOME": "/home/u", "PATH": "/bin"}[name]
			return value, ok
		},
	})
	for name, want := range map[string][]string{"theirs": {"SBXHOST_LOG=debug", "LISTED=1"}, "mine": {"SBXHOST_LOG=debug"}} {
		p, err := s.find(name)
		if err != nil || len(p.env) != len(want) || slices.ContainsFunc(want, func(e string) bool { return !slices.Contains(p.env, e) }) {
			t.Errorf("%s: %q, %v", name, p.env, err)
		}
	}
}

// Engines of ours are told that the host runs one command.
func TestEnvironmentOfOnce(t *testing.T) {
	t.Parallel()
	for _, once := range []bool{false, true} {
		s := New(Options{Builtins: Builtins{engines: map[string]shared.Engine{"mine": nil}}, OneShot: once, LookupEnv: func(string) (string, bool) { return "", false }, WritableDir: func(string) string { return "" }})
		if p, err := s.find("mine"); err != nil || slices.Contains(p.env, wire.OnceEnv+"=1") != once {
			t.Errorf("%v: %q, %v", once, p.env, err)
		}
	}
}
