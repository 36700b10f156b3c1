package host

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/host/env"
	"github.com/sbxhost/sbxhost/host/view"
	"github.com/sbxhost/sbxhost/plugins/noop"
	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/test/programs"
)

// gh writes a program of that name which notes that it ran.
func gh(t *testing.T, dir, body string) (ran string) {
	t.Helper()
	ran = filepath.Join(t.TempDir(), "ran")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := programs.Write(filepath.Join(dir, "gh"), []byte("#!/bin/sh\necho \"$*\" >>"+ran+"\n"+body+"\n")); err != nil {
		t.Fatal(err)
	}
	return ran
}

func hostAt(t *testing.T, root string, environ ...string) *Host {
	t.Helper()
	h, err := New(t.Context(), Options{Workspace: WorkspaceOptions{Root: root}, Dir: root, Environ: environ,
		Inject: map[string]shared.Engine{"noop": noop.New()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	return h
}

func TestCredentialsFromGH(t *testing.T) {
	t.Parallel()
	const token = "gho_planted"
	root, outside := t.TempDir(), t.TempDir()
	evil := gh(t, filepath.Join(root, "bin"), "echo evil")
	good := gh(t, outside, "echo "+token)
	open := t.TempDir()
	anybodys := gh(t, filepath.Join(open, "bin"), "echo evil")
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	h := hostAt(t, root,
		"PATH="+strings.Join([]string{"relative", filepath.Join(root, "bin"), filepath.Join(open, "bin"), outside, "/usr/bin", "/bin"}, ":"))
	value := func(planning bool, name string) string {
		t.Helper()
		vars, notes := h.machine.Credentials(context.Background(), []string{view.CredentialGitHubCLI}, planning)
		if len(notes) > 0 {
			t.Fatal(notes)
		}
		i := slices.IndexFunc(vars, func(v env.Secret) bool { return v.Name == name })
		if i < 0 {
			t.Fatalf("no %s in %v", name, vars)
		}
		return vars[i].Value
	}
	if got := value(true, "GH_TOKEN"); got != "" {
		t.Errorf("to plan gives %q", got)
	}
	if _, err := os.Stat(good); err == nil {
		t.Error("gh ran for a plan")
	}
	for range 2 {
		if got := value(false, "GH_TOKEN"); got != token {
			t.Errorf("GH_TOKEN is %q", got)
		}
	}
	if calls, err := os.ReadFile(good); err != nil || string(calls) != "auth token --hostname github.com\n" {
		t.Errorf("gh was called with %q, error %v", calls, err)
	}
	if _, err := os.Stat(evil); err == nil {
		t.Error("a gh that lies in the workspace ran outside of sandboxes")
	}
	if _, err := os.Stat(anybodys); err == nil {
		t.Error("a gh that anybody could have put there ran")
	}
	h.machine.Caller.Environ = append(h.machine.Caller.Environ, "GITHUB_TOKEN=set")
	if got := value(false, "GITHUB_TOKEN"); got != "set" {
		t.Errorf("GITHUB_TOKEN is %q", got)
	}
}

func TestCredentialsWithoutToken(t *testing.T) {
	t.Parallel()
	failing := t.TempDir()
	gh(t, failing, "echo gho_leak; exit 1")
	for _, c := range []struct{ name, path, want string }{
		{view.CredentialGitHub, failing, "neither GH_TOKEN nor GITHUB_TOKEN is set"},
		{view.CredentialGitHubCLI, "/nonexistent", "gh is not installed"},
		{view.CredentialGitHubCLI, failing + ":/usr/bin:/bin", "log in with gh auth login"},
	} {
		h := hostAt(t, t.TempDir(), "PATH="+c.path)
		vars, notes := h.machine.Credentials(context.Background(), []string{c.name}, false)
		if len(vars) > 0 || len(notes) != 1 || !strings.Contains(notes[0], c.want) || strings.Contains(notes[0], "gho_leak") {
			t.Errorf("%s: %v, notes %q", c.name, vars, notes)
		}
	}
}
