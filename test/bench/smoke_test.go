package main

import (
	"bytes"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/internal/testing/programs"
)

// TestWhole runs the benchmark, shortened, over binaries of this tree; a short run, of its
// sections that of the engines.
func TestWhole(t *testing.T) {
	t.Parallel()
	requireBwrap(t)
	bin := t.TempDir()
	if err := programs.Copy(bin, "cmd/sbx", "cmd/sbxhost", "cmd/sbxhost-mcp", "plugins/bwrap/sbxhost-engine-bwrap", "plugins/landlock/sbxhost-engine-landlock", "plugins/native/sbxhost-engine-native", "cmd/sbxhost-init"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(programs.Remove)
	args, sections := []string{"-bin", bin, "-n", "3", "-bytes", "16777216", "-files", "1000"}, 4
	if testing.Short() {
		args = append(args, "-only", "engines")
	} else {
		sections += 12
	}
	o, err := parseOptions(args, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	r := report{medians: map[string]float64{}}
	if err := bench(t.Context(), o, &r, t.Output()); err != nil {
		t.Fatalf("%v\n%s", err, r.String())
	}
	for name, median := range r.medians {
		if median <= 0 {
			t.Errorf("%s: %v", name, median)
		}
	}
	for _, g := range r.goals {
		if g.measured <= 0 {
			t.Errorf("nothing was measured: %+v", g)
		}
	}
	text := r.String()
	if n := strings.Count(text, "of the first\n"); n != sections {
		t.Errorf("%d comparisons, want %d", n, sections)
	}
	for line := range strings.Lines(text) {
		if n := len(strings.TrimRight(line, "\n")); n > 100 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	t.Log("\n" + text)
}

func TestOnly(t *testing.T) {
	t.Parallel()
	o, err := parseOptions([]string{"-only", "^eng|search"}, new(bytes.Buffer))
	if err != nil || !o.only.MatchString("engines") || o.only.MatchString("memory") {
		t.Errorf("got %v, %v", o.only, err)
	}
}

func TestMissingBinaries(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	if status := run([]string{"-bin", t.TempDir()}, &stdout, &stderr); status != 1 || !strings.Contains(stderr.String(), "make build") {
		t.Errorf("status %d, said %q", status, stderr.String())
	}
}

func required() []string { return strings.Split(os.Getenv("SBXHOST_REQUIRE"), ",") }

// requireBwrap skips a test where bubblewrap is missing, unless the
// environment says that it must be there.
func requireBwrap(t *testing.T) {
	t.Helper()
	for _, path := range []string{"/usr/bin/bwrap", "/usr/local/bin/bwrap", "/bin/bwrap"} {
		if _, err := os.Stat(path); err == nil && runtime.GOOS == "linux" {
			return
		}
	}
	if slices.Contains(required(), "bwrap") {
		t.Fatal("bubblewrap is required here and not installed")
	}
	t.Skip("bubblewrap is not installed")
}
