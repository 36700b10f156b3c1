package seatbelt

import (
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/shared"
)

// elsewhere is the engine on a system that is no Mac.
func elsewhere() shared.Engine {
	return newEngine(platform{"plan9", sandboxExec})
}

func TestPlanNeedsNoMac(t *testing.T) {
	t.Parallel()
	e := elsewhere()
	probe, err := e.Probe(t.Context())
	if err != nil || probe.Ready || probe.Reason != reasonUnsupported || probe.Fix == "" {
		t.Errorf("Probe = %+v, %v", probe, err)
	}
	sandbox, err := e.Open(t.Context(), project())
	if err != nil {
		t.Fatal(err)
	}
	defer sandbox.Close(t.Context())
	cmd := shared.Command{Args: []string{"make", "-C", "x y"}, Dir: "/Users/me/p", Env: []string{"HOME=/Users/me", "PATH=/usr/bin"}}
	plan, err := sandbox.Plan(t.Context(), cmd)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(plan.Argv); plan.Argv[0] != "/usr/bin/sandbox-exec" || !slices.Equal(plan.Argv[n-4:], []string{"--", "make", "-C", "x y"}) {
		t.Errorf("Argv = %q", plan.Argv)
	}
	if len(plan.Documents) != 2 || !strings.HasPrefix(plan.Documents[0].Text, "(version 1)\n(deny default") || !strings.Contains(plan.Documents[1].Text, "= \"/Users/me/p\"\n") {
		t.Errorf("Documents = %+v", plan.Documents)
	}
	if len(plan.Notes) == 0 {
		t.Error("no notes")
	}
	if _, err := sandbox.Start(t.Context(), cmd, shared.Stdio{}); !errors.Is(err, shared.ErrUnavailable) || !strings.Contains(err.Error(), reasonUnsupported) {
		t.Errorf("Start = %v", err)
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	for attribute, spec := range map[string]shared.Spec{
		"home":          {Home: "relative"},
		"workdir":       {Table: []shared.Entry{{Source: "/Users/me/p", Path: "/workspace", Why: "workdir", Access: shared.ReadOnly}}},
		"tmp":           {Table: []shared.Entry{{Path: "/scratch", Access: shared.Private, Why: "tmp"}}},
		"ws":            {Table: []shared.Entry{{Source: "/a", Path: "/a", Access: shared.Overlay, Why: "ws"}}},
		"engine":        {Unconfined: true},
		"limits.pids":   {Limits: shared.Limits{PIDs: 1}},
		"config.x":      {Options: []byte(`{"x":1}`)},
		"bind_paths[0]": {Table: []shared.Entry{mount("/usr/bin", shared.ReadWrite, "bind_paths[0]")}},
	} {
		_, err := elsewhere().Open(t.Context(), spec)
		if x, ok := errors.AsType[*shared.Error](err); !ok || x.Attribute != attribute {
			t.Errorf("%s: %v", attribute, err)
		}
	}
}

func TestEnvironment(t *testing.T) {
	t.Parallel()
	p := modelled(t, project(), shared.Command{}).policy
	env, err := environment(p, []string{"HOME=/Users/me", "TMPDIR=/private/tmp", "A=HOME=/Users/me"}, private)
	if want := []string{"HOME=" + private.home, "TMPDIR=" + private.temp, "A=HOME=/Users/me"}; err != nil || !slices.Equal(env, want) {
		t.Errorf("%q, %v", env, err)
	}
	// What the definition says itself stays, where it can be used.
	env, err = environment(p, []string{"HOME=/Users/me/p/h", "TMPDIR=/Users/me/p/tmp/"}, private)
	if want := []string{"HOME=/Users/me/p/h", "TMPDIR=/Users/me/p/tmp/"}; err != nil || !slices.Equal(env, want) {
		t.Errorf("%q, %v", env, err)
	}
	for _, entry := range []string{"DYLD_LIBRARY_PATH=secret", "MallocLogFile=secret", "__XPC_DYLD_X=secret"} {
		if _, err := environment(p, []string{entry}, private); !errors.Is(err, shared.ErrUnsupported) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", entry, err)
		}
	}
}

func TestDiagnose(t *testing.T) {
	t.Parallel()
	for stderr, want := range map[string]string{
		"sandbox-exec: sandbox_apply: Operation not permitted\n":                     "does not nest",
		"sandbox-exec: unbound variable: file-x\n":                                   "unbound variable: file-x",
		"sandbox-exec: pattern serialization length 66460 exceeds maximum (65535)\n": "more paths and patterns than macOS accepts",
		"a\x1b[31m\n": `\x1b`,
		"":            "exit status 1",
	} {
		err := diagnose(stderr, errors.New("exit status 1"))
		if !errors.Is(err, shared.ErrUnavailable) && !strings.Contains(stderr, "exceeds") || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", stderr, err)
		}
		if errors.Is(err, shared.ErrUnusable) != strings.Contains(want, "nest") {
			t.Errorf("%q is of kind %v", stderr, err)
		}
	}
	// A path that says so is none of the machine's doing.
	if err := diagnose("sandbox-exec: /w/sandbox_apply: Operation not permitted\n", errors.New("x")); errors.Is(err, shared.ErrUnusable) {
		t.Error(err)
	}
}

func TestInfo(t *testing.T) {
	t.Parallel()
	info, err := New().Info(t.Context())
	if err != nil || info.Name != "seatbelt" || info.Doc == "" {
		t.Fatalf("%+v, %v", info, err)
	}
	for _, f := range []shared.Feature{shared.FeatureRemap, shared.FeatureTmpfs, shared.FeatureOverlay, shared.FeatureUnconfined, shared.FeatureSourceFD, shared.FeatureLimitMemory} {
		if info.Features.Has(f) {
			t.Errorf("claims %s", f)
		}
	}
	if probe, err := New().Probe(t.Context()); err != nil || probe.Ready && runtime.GOOS != "darwin" {
		t.Errorf("%+v, %v", probe, err)
	}
}
