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

// A Host that lives long takes other values, for sets that its definitions can have.
func TestRenew(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	npm := func(value shared.Secret, hosts ...string) map[string]Credential {
		return map[string]Credential{"npm": {Hosts: hosts, Env: map[string]shared.Secret{"T": value}, Placeholder: view.Placeholder("T"), Value: value}}
	}
	h, err := New(t.Context(), Options{Workspace: WorkspaceOptions{Root: root}, Dir: root, Environ: []string{"GH_TOKEN=old", "GITHUB_TOKEN=stays"},
		Sandboxes:   map[string]Definition{"s": {Network: Network{Names: []string{"a.example"}}, InjectCredentials: []string{"npm"}}},
		Credentials: npm("first", "a.example"), Inject: map[string]shared.Engine{"noop": noop.New()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	tokens := func() (values []string) {
		vars, notes := h.machine.Credentials(t.Context(), []string{view.CredentialGitHub}, false)
		if len(notes) > 0 {
			t.Error(notes)
		}
		for _, v := range vars[:2] {
			values = append(values, v.Name+"="+v.Value)
		}
		return append(values, string(h.machine.Sets()["npm"].Value))
	}
	for _, c := range []struct {
		sets    map[string]Credential
		environ []string
		refused string
		want    []string
	}{
		{npm("second", "a.example"), []string{"GH_TOKEN=new"}, "", []string{"GH_TOKEN=new", "GITHUB_TOKEN=stays", "second"}},
		{npm("third", "b.example"), nil, "inject_credentials[0]", []string{"GH_TOKEN=new", "GITHUB_TOKEN=stays", "second"}},
		{npm("a\nb", "a.example"), nil, `Options.Credentials: "npm": value`, []string{"GH_TOKEN=new", "GITHUB_TOKEN=stays", "second"}},
		{nil, nil, "inject_credentials[0]", []string{"GH_TOKEN=new", "GITHUB_TOKEN=stays", "second"}},
		{npm("fourth", "a.example"), nil, "", []string{"GH_TOKEN=old", "GITHUB_TOKEN=stays", "fourth"}},
	} {
		err := h.Renew(c.sets, c.environ)
		if c.refused == "" && err != nil || c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)) {
			t.Errorf("%v, want one about %q", err, c.refused)
		}
		if got := tokens(); !slices.Equal(got, c.want) {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
