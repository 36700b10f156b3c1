package noop

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/shared"
)

func TestOpen(t *testing.T) {
	t.Parallel()
	mount := func(m shared.Entry) shared.Spec {
		m.Why = "bind_paths[2]"
		return shared.Spec{Unconfined: true, Table: []shared.Entry{m}}
	}
	for name, test := range map[string]struct {
		spec             shared.Spec
		attribute, words string // "" accepts
	}{
		"isolation":     {shared.Spec{}, "engine", "allow commands without isolation"},
		"none":          {shared.Spec{Unconfined: true}, "", ""},
		"same path":     {mount(shared.Entry{Source: "/a", Path: "/a", Access: shared.ReadOnly}), "", ""},
		"writable":      {mount(shared.Entry{Source: "/a", Path: "/a", Access: shared.ReadWrite}), "", ""},
		"remap":         {mount(shared.Entry{Source: "/a", Path: "/b", Access: shared.ReadOnly}), "bind_paths[2]", `cannot enforce "/a" as "/b"`},
		"tmpfs":         {mount(shared.Entry{Path: "/b", Access: shared.Private}), "bind_paths[2]", "fresh memory"},
		"overlay":       {mount(shared.Entry{Source: "/a", Path: "/a", Access: shared.Overlay}), "bind_paths[2]", "cannot enforce an overlay"},
		"maybe overlay": {mount(shared.Entry{Source: "/a", Path: "/a", Access: shared.Overlay, Degradable: true}), "", ""},
		"limit":         {shared.Spec{Unconfined: true, Limits: shared.Limits{PIDs: 3}}, "limits.pids", "best_effort"},
		"options":       {shared.Spec{Unconfined: true, Options: []byte(`{"a":1}`)}, "config.a", "no option"},
	} {
		sb, err := New().Open(t.Context(), test.spec)
		if test.attribute == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if err := sb.Close(t.Context()); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		kind := shared.ErrUnsupported
		if name == "options" {
			kind = shared.ErrInvalidSpec
		}
		var e *shared.Error
		if !errors.As(err, &e) || e.Kind != kind || e.Attribute != test.attribute || !strings.Contains(err.Error(), test.words) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRunsAsItIs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	sb, err := New().Open(t.Context(), shared.Spec{
		Unconfined: true,
		Table:      []shared.Entry{{Path: "/x", Access: shared.Hidden, Missing: shared.MissingIgnore}},
		Limits:     shared.Limits{Memory: 1 << 30, OpenFiles: 3, BestEffort: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer sb.Close(t.Context())
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd := shared.Command{
		Args: []string{"sh", "-c", `pwd -P; echo "$A"; echo >made; exit 5`},
		Env:  []string{"PATH=/usr/bin:/bin", "A=b c"},
		Dir:  dir,
	}
	plan, err := sb.Plan(t.Context(), cmd)
	if err != nil || len(plan.Argv) != 3 || len(plan.Notes) != 1 {
		t.Errorf("plan %+v, %v", plan, err)
	}
	if _, err := os.Stat(dir + "/made"); err == nil {
		t.Error("the plan was carried out")
	}
	p, err := sb.Start(t.Context(), cmd, shared.Stdio{Stdout: w})
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	out, _ := io.ReadAll(r)
	result, err := p.Wait(t.Context())
	if err != nil || result.Status.Code != 5 || !strings.HasSuffix(string(out), dir+"\nb c\n") {
		t.Errorf("%q, %+v, %v", out, result, err)
	}
	if _, err := os.Stat(dir + "/made"); err != nil {
		t.Error(err)
	}
}
