package main

import (
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/enginetest"
)

func TestMain(m *testing.M) { enginetest.Main(m, engine()) }

// ready skips where there is no firejail, unless SBXHOST_REQUIRE lists it.
func ready(t *testing.T) {
	t.Helper()
	probe, err := engine().Probe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if probe.Ready {
		return
	}
	if slices.Contains(strings.Split(os.Getenv("SBXHOST_REQUIRE"), ","), "firejail") {
		t.Fatal(probe.Reason)
	}
	t.Skip(probe.Reason)
}

// The kit, on the engine in a process of its own.
func TestConformance(t *testing.T) {
	ready(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	enginetest.RunBinary(t, self, enginetest.Options{StreamBytes: 4 << 20})
}

func TestWords(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		spec shared.Spec
		want string // the end of the command line, or
		err  string // the attribute at fault
	}{
		"nothing":      {shared.Spec{}, "--net=none --seccomp", ""},
		"network":      {shared.Spec{Network: shared.Network{Mode: shared.NetworkHost}}, "--allusers --seccomp", ""},
		"no seccomp":   {shared.Spec{Options: []byte(`{"seccomp": false}`)}, "--net=none", ""},
		"blacklist":    {shared.Spec{Options: []byte(`{"blacklist": ["/a b", "/c"]}`)}, "--seccomp --blacklist=/a b --blacklist=/c", ""},
		"a pattern":    {shared.Spec{Options: []byte(`{"blacklist": ["/a*"]}`)}, "", "config.blacklist"},
		"a macro":      {shared.Spec{Options: []byte(`{"blacklist": ["${HOME}/x"]}`)}, "", "config.blacklist"},
		"two in one":   {shared.Spec{Options: []byte(`{"blacklist": ["/a,/b"]}`)}, "", "config.blacklist"},
		"another type": {shared.Spec{Options: []byte(`{"seccomp": "yes"}`)}, "", "config"},
	} {
		got, err := commandLine(&test.spec)
		var e *shared.Error
		switch {
		case test.err == "" && (err != nil || !strings.HasSuffix(strings.Join(got, " "), test.want)):
			t.Errorf("%s: %q, %v", name, got, err)
		case test.err != "" && (!errors.As(err, &e) || e.Attribute != test.err):
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What the README says that firejail holds back, and that it is there without.
func TestHolds(t *testing.T) {
	t.Parallel()
	ready(t)
	secret := t.TempDir() + "/secret"
	if err := os.WriteFile(secret, []byte("a secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	script := "cat " + secret + " 2>/dev/null; grep -c : /proc/net/dev; grep -E '^(CapEff|NoNewPrivs|Seccomp):' /proc/self/status; true"
	held := run(t, shared.Spec{Unconfined: true, Options: []byte(`{"blacklist": ["` + secret + `"]}`)}, script)
	if want := "1\nCapEff:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\n"; held != want {
		t.Errorf("%q, want %q", held, want)
	}
	open := run(t, shared.Spec{Unconfined: true, Options: []byte(`{"seccomp": false}`)}, script)
	if !strings.HasPrefix(open, "a secret\n") || !strings.HasSuffix(open, "Seccomp:\t0\n") {
		t.Errorf("without: %q", open)
	}
}

func run(t *testing.T, spec shared.Spec, script string) string {
	t.Helper()
	sandbox, err := engine().Open(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	defer sandbox.Close(t.Context())
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	process, err := sandbox.Start(t.Context(), shared.Command{Script: script, Env: []string{"PATH=/usr/bin:/bin"}, Dir: "/"}, shared.Stdio{Stdout: w})
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := process.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	return string(out)
}
