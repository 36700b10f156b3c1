package host_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/internal/approvals"
	"github.com/sbxhost/sbxhost/internal/policy"
	"github.com/sbxhost/sbxhost/shared"
)

// An approval is for a command in the environment that it was approved in.
func TestApprovalCoversTheEnvironment(t *testing.T) {
	t.Parallel()
	store := approvals.Open(filepath.Join(t.TempDir(), "state"))
	s := stubs{platform: brokenStub(), noop: noopStub()}
	def := func() host.Definition {
		return host.Definition{Env: map[string]string{"A": "1", "B": "2"}, EnvPassthrough: []string{"GO*", "LC_*"}, Limits: host.Limits{PIDs: 1}}
	}
	with := func(d host.Definition, workspace map[string]string, env []string) *host.Cmd {
		h := s.host(t, d, func(o *host.Options) {
			o.Approvals.Dir, o.Workspace.Env = store.Dir(), workspace
			o.Credentials = map[string]host.Credential{"github": {Pass: true}}
			o.Environ = append(o.Environ, "SET=x")
		})
		cmd := h.Command(t.Context(), "", "make")
		cmd.Env = env
		return cmd
	}
	if _, err := with(def(), nil, []string{"SET"}).Approve(approvals.Always); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		change    func(*host.Definition)
		workspace map[string]string
		env       []string
		approved  bool
	}{
		"the same":                   {env: []string{"SET"}, approved: true},
		"by its value":               {env: []string{"SET=x"}, approved: true},
		"another value":              {env: []string{"SET=y"}},
		"a variable that is not set": {env: []string{"SET", "UNSET"}, approved: true},
		"an empty one":               {env: []string{"SET", "UNSET="}},
		"in another order":           {env: []string{"SET"}, change: func(d *host.Definition) { slices.Reverse(d.EnvPassthrough) }, approved: true},
		"limits":                     {env: []string{"SET"}, change: func(d *host.Definition) { d.Limits.PIDs = 2 }, approved: true},
		"env":                        {env: []string{"SET"}, change: func(d *host.Definition) { d.Env["LD_PRELOAD"] = "x.so" }},
		"env's value":                {env: []string{"SET"}, change: func(d *host.Definition) { d.Env["A"] = "2" }},
		"env_passthrough":            {env: []string{"SET"}, change: func(d *host.Definition) { d.EnvPassthrough = []string{"*"} }},
		"credentials":                {env: []string{"SET"}, change: func(d *host.Definition) { d.Credentials = []string{"github"} }},
		"workspace.env":              {env: []string{"SET"}, workspace: map[string]string{"PATH": "/w"}},
	} {
		d := def()
		if tt.change != nil {
			tt.change(&d)
		}
		err := with(d, tt.workspace, tt.env).Run()
		if (err == nil) != tt.approved {
			t.Errorf("%s: %v", name, err)
		}
		var denied *host.DeniedError
		if err != nil && !errors.As(err, &denied) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Many commands ask at once, and each gets its own answer.
func TestApproverConcurrently(t *testing.T) {
	t.Parallel()
	const count = 50
	var asking sync.WaitGroup
	asking.Add(count)
	s := stubs{platform: brokenStub(), noop: noopStub()}
	store := approvals.Open(filepath.Join(t.TempDir(), "state"))
	h := s.host(t, host.Definition{}, func(o *host.Options) {
		o.Approvals.Dir = store.Dir()
		o.Approver = func(_ context.Context, r host.ApprovalRequest) (policy.Approval, error) {
			asking.Done()
			asking.Wait() // all of them are in here at once
			if strings.HasPrefix(r.Args[0], "yes") {
				return policy.ApprovedAlways, nil
			}
			return policy.Refused, nil
		}
	})
	var all sync.WaitGroup
	for i := range count {
		all.Go(func() {
			name := fmt.Sprint([]string{"yes", "no"}[i%2], i)
			if err := h.Command(t.Context(), "", name).Run(); (err == nil) != (i%2 == 0) {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	all.Wait()
	if list, err := host.StoredApprovals(store.Dir()); err != nil || len(list) != count/2 || len(s.noop.runs) != count/2 {
		t.Errorf("%d remembered, %d ran, %v", len(list), len(s.noop.runs), err)
	}
}

// A yes that comes after the command was given up is none.
func TestApproverTooLate(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	s := stubs{platform: brokenStub(), noop: noopStub()}
	store := approvals.Open(filepath.Join(t.TempDir(), "state"))
	h := s.host(t, host.Definition{}, func(o *host.Options) {
		o.Approvals.Dir = store.Dir()
		o.Approver = func(ctx context.Context, _ host.ApprovalRequest) (policy.Approval, error) {
			cancel()
			<-ctx.Done()
			return policy.ApprovedAlways, nil
		}
	})
	if err := h.Command(ctx, "", "true").Run(); !errors.Is(err, context.Canceled) || len(s.noop.runs) > 0 {
		t.Errorf("%v, ran %q", err, s.noop.runs)
	}
	if list, err := store.List(); err != nil || len(list) > 0 {
		t.Errorf("it is remembered: %v, %v", list, err)
	}
}

// An Approver that panics, or ends its goroutine as t.FailNow does, has not approved, and
// leaves nothing that Close would wait for. The same happens to the caller of Run.
func TestApproverPanics(t *testing.T) {
	t.Parallel()
	for want, end := range map[any]func(){"out of order": func() { panic("out of order") }, nil: runtime.Goexit} {
		s := stubs{platform: brokenStub(), noop: noopStub()}
		h := s.host(t, host.Definition{}, func(o *host.Options) {
			o.Approver = func(context.Context, host.ApprovalRequest) (policy.Approval, error) { end(); return "", nil }
		})
		recovered := make(chan any, 1)
		go func() {
			defer func() { recovered <- recover() }()
			h.Command(t.Context(), "", "true").Run()
			t.Error("Run returned")
		}()
		if r := <-recovered; r != want {
			t.Errorf("recovered %v, not %v", r, want)
		}
		if err := h.Close(); err != nil || len(s.noop.runs) > 0 {
			t.Errorf("%v, ran %q", err, s.noop.runs)
		}
	}
}

// Where a command runs is what was shown: a command that runs while the question
// stands there, and later ones, may put a symlink in the place of a directory.
func TestApprovalIsForTheDirectoryShown(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		dir  string // given with the command
		swap func(t *testing.T, root, elsewhere string)
	}{
		"a symlink led elsewhere": {"link", func(t *testing.T, root, _ string) {
			os.Remove(filepath.Join(root, "link"))
			symlink(t, ".", filepath.Join(root, "link"))
		}},
		"a symlink in its place": {"real", func(t *testing.T, root, _ string) {
			os.Rename(filepath.Join(root, "real"), filepath.Join(root, "old"))
			symlink(t, ".", filepath.Join(root, "real"))
		}},
		"in the place of the current one": {"", func(t *testing.T, root, elsewhere string) {
			os.Rename(filepath.Join(root, "real"), filepath.Join(root, "old"))
			symlink(t, elsewhere, filepath.Join(root, "real"))
		}},
	} {
		for _, swaps := range []bool{false, true} {
			s := stubs{platform: brokenStub(), noop: noopStub()}
			root, err := filepath.EvalSymlinks(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Mkdir(filepath.Join(root, "real"), 0o755); err != nil {
				t.Fatal(err)
			}
			symlink(t, "real", filepath.Join(root, "link"))
			s.root = root
			shown := ""
			h := s.host(t, host.Definition{}, func(o *host.Options) {
				o.Dir = filepath.Join(root, "real")
				o.Approver = func(_ context.Context, r host.ApprovalRequest) (policy.Approval, error) {
					if shown = r.Dir; swaps {
						tt.swap(t, root, t.TempDir())
					}
					return policy.ApprovedOnce, nil
				}
			})
			cmd := h.Command(t.Context(), "", "make")
			cmd.Dir = tt.dir
			err = cmd.Run()
			if shown != filepath.Join(root, "real") {
				t.Errorf("%s: shown as %s", name, shown)
			}
			if swaps && (!errors.Is(err, shared.ErrDenied) || !strings.Contains(err.Error(), "when it was approved") || len(s.noop.runs) > 0) {
				t.Errorf("%s: %v, ran %q", name, err, s.noop.runs)
			}
			if !swaps && (err != nil || len(s.noop.dirs) != 1 || s.noop.dirs[0] != shown) {
				t.Errorf("%s, as it was: %v, ran in %q", name, err, s.noop.dirs)
			}
		}
	}
}

func symlink(t *testing.T, to, at string) {
	t.Helper()
	if err := os.Symlink(to, at); err != nil {
		t.Fatal(err)
	}
}
