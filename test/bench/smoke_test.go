package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/test/programs"
)

// TestWhole runs the benchmark, shortened, over binaries of this tree; a short run, of its
// sections those of the engines and of the binaries.
func TestWhole(t *testing.T) {
	t.Parallel()
	requireBwrap(t)
	bin := t.TempDir()
	if err := programs.Copy(bin, "cmd/sbxhost", "cmd/sbxhost-telemetry", "plugins/bwrap/sbxhost-engine-bwrap", "plugins/landlock/sbxhost-engine-landlock", "plugins/native/sbxhost-engine-native", "shared/sandboxinit/sbxhost-init"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(programs.Remove)
	file := filepath.Join(t.TempDir(), "results.json")
	var stdout, stderr bytes.Buffer
	only := "."
	if testing.Short() {
		only = "engines|binaries"
	}
	if status := run([]string{"-bin", bin, "-n", "3", "-bytes", "16777216", "-files", "1000", "-json", file, "-only", only}, &stdout, &stderr); status != 0 {
		t.Fatalf("exit status %d\n%s%s", status, stdout.String(), stderr.String())
	}
	for line := range strings.Lines(stdout.String()) {
		if n := len(strings.TrimRight(line, "\n")); n > 100 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var r results
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	if r.Engines == nil {
		t.Fatalf("a section is missing:\n%s", text)
	}
	all := slices.Clone(r.Engines.Rows)
	for _, row := range r.Engines.AtOnce {
		if row.PerSecond <= 0 || row.Ratio <= 0 {
			t.Errorf("at once: %+v", row)
		}
	}
	whole := len(r.Engines.Rows) == 18 && len(r.Engines.AtOnce) == 4 && len(r.Engines.First) == 2 && len(r.Binaries) == 3
	if !testing.Short() {
		if r.Network == nil || r.Review == nil || r.Search == nil {
			t.Fatalf("a section is missing:\n%s", text)
		}
		all = slices.Concat(all, r.Search.OneShot, r.Search.Alone, r.Telemetry, r.Network.Ready, r.Network.Small, r.Network.TLS, r.Network.Big, slices.Concat(r.Review.Commands...), r.Review.Carrying)
		whole = whole && len(r.Telemetry) == 3 && len(r.Search.OneShot) == 5 && len(r.Search.Alone) == 4 && len(r.Memory) == 2 && len(r.Review.Carrying) == 2 && len(r.Targets) == 28 && len(r.Network.TLS) == 3
	}
	for _, row := range all {
		if row.P50 <= 0 || row.P95 < row.P50 || len(row.Samples) != 3 {
			t.Errorf("%+v", row)
		}
	}
	if !whole {
		t.Errorf("not all is there:\n%s", text)
	}
	if t.Failed() {
		t.Log("\n" + stdout.String())
	}
}

func TestOnly(t *testing.T) {
	t.Parallel()
	o, err := parseOptions([]string{"-only", "^eng|binaries"}, new(bytes.Buffer))
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
