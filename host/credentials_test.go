package host

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/internal/env"
	"github.com/sbxhost/sbxhost/internal/facts"
	"github.com/sbxhost/sbxhost/internal/testing/programs"
	"github.com/sbxhost/sbxhost/internal/view"
	"github.com/sbxhost/sbxhost/plugins/noop"
	"github.com/sbxhost/sbxhost/shared"
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
	h, err := New(t.Context(), Options{Workspace: WorkspaceOptions{Root: root}, Dir: root, Environ: environ, Credentials: passes,
		Inject: map[string]shared.Engine{"noop": noop.New()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	return h
}

// passes has the built-in sets, passed on to commands.
var passes = map[string]Credential{view.CredentialGitHub: {Pass: true}, view.CredentialGitHubCLI: {Pass: true}}

// passed returns the variables that commands get of a set in passes, and the notes about it.
func passed(t *testing.T, h *Host, name string, planning bool) ([]env.Secret, []string) {
	t.Helper()
	d := Definition{Credentials: []string{name}}
	out, err := h.machine.Resolve(t.Context(), facts.Request{Name: "x", Definition: d, Unisolated: true, Planning: planning})
	if err != nil {
		t.Fatal(err)
	}
	in, notes := h.machine.EnvInput(t.Context(), out, &d, nil, planning)
	return in.Credentials, notes
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
		vars, notes := passed(t, h, view.CredentialGitHubCLI, planning)
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
	h.machine.Caller.Environ = facts.NewEnvironment(append(slices.Clone(h.options.Environ), "GITHUB_TOKEN=set"))
	if got := value(false, "GITHUB_TOKEN"); got != "set" {
		t.Errorf("GITHUB_TOKEN is %q", got)
	}
}

// Wherever a command of any definition can write, no program comes from that runs outside of sandboxes.
func TestNoProgramFromWhereCommandsWrite(t *testing.T) {
	t.Parallel()
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	root := top + "/outer/project"
	dirs := map[string]string{
		"the workspace": root + "/.venv/bin", "another root": top + "/second/bin", "a bind of another definition": top + "/bound/bin", "a relative one": top + "/outer/beside/bin",
		"one of nobody here": top + "/elsewhere/bin", "a session": top + "/cache/sbxhost/sessions/n-1/home/bin", "a review": top + "/outer/.sbxhost-reviews/x/r/upper/bin", "the repository around it": top + "/outer/node_modules/.bin",
	}
	ran := map[string]string{}
	path := []string{"", ".", ".venv/bin"}
	for what, dir := range dirs {
		ran[what] = gh(t, dir, "echo evil")
		path = append(path, dir)
	}
	if err := os.Mkdir(top+"/links", 0o755); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{top + "/outer/.git", root + "/.git"} {
		if err := os.MkdirAll(dir+"/objects", 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for at, to := range map[string]string{top + "/links/gh": dirs["the workspace"] + "/gh", top + "/led": dirs["another root"]} {
		if err := os.Symlink(to, at); err != nil {
			t.Fatal(err)
		}
	}
	good := gh(t, top+"/good", "echo gho_good")
	h, err := New(t.Context(), Options{
		Dir: root, Environ: []string{"XDG_CACHE_HOME=" + top + "/cache", "PATH=" + strings.Join(append(path, top+"/links", top+"/led", top+"/good"), ":")},
		Workspace: WorkspaceOptions{Writable: []string{top + "/second"}}, DefaultSandbox: "plain",
		Sandboxes:  map[string]Definition{"plain": {}, "other": {BindPaths: []Bind{{Host: top + "/bound", Writable: true}, {Host: "../beside", Writable: true}, {Host: top + "/good"}}}},
		OtherBinds: []Bind{{Host: top + "/elsewhere", Writable: true}}, Credentials: passes,
		Inject: map[string]shared.Engine{"noop": noop.New()},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	vars, notes := passed(t, h, view.CredentialGitHubCLI, false)
	if !slices.ContainsFunc(vars, func(v env.Secret) bool { return v.Name == "GH_TOKEN" && v.Value == "gho_good" }) {
		t.Errorf("%v, %q", vars, notes)
	}
	for what, file := range ran {
		if _, err := os.Stat(file); err == nil {
			t.Errorf("a program of %s ran", what)
		}
	}
	if _, err := os.Stat(good); err != nil {
		t.Error("control: the user's own did not run")
	}
	// Each by itself is refused, and named.
	for what, dir := range dirs {
		if _, _, err := h.machine.Programs().Find(dir + "/gh"); err == nil || !strings.Contains(err.Error(), "where a command could have put it") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestCredentialsWithoutToken(t *testing.T) {
	t.Parallel()
	failing := t.TempDir()
	gh(t, failing, "echo gho_leak; exit 1")
	for _, c := range []struct{ name, path, want string }{
		{view.CredentialGitHub, failing, "neither GH_TOKEN nor GITHUB_TOKEN is set"},
		{view.CredentialGitHubCLI, "/nonexistent", "there is no gh to ask"},
		{view.CredentialGitHubCLI, failing + ":/usr/bin:/bin", "log in with gh auth login"},
	} {
		h := hostAt(t, t.TempDir(), "PATH="+c.path)
		vars, notes := passed(t, h, c.name, false)
		if len(vars) > 0 || len(notes) != 1 || !strings.Contains(notes[0], c.want) || strings.Contains(notes[0], "gho_leak") {
			t.Errorf("%s: %v, notes %q", c.name, vars, notes)
		}
	}
}

// A Host that lives long takes other values. Sets that a definition cannot have refuse its commands alone.
func TestRenew(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	npm := func(value shared.Secret, hosts ...string) map[string]Credential {
		sets := maps.Clone(passes)
		sets["npm"] = Credential{Hosts: hosts, Env: map[string]shared.Secret{"T": value}, Placeholder: view.Placeholder("T"), Value: value}
		return sets
	}
	h, err := New(t.Context(), Options{Workspace: WorkspaceOptions{Root: root}, Dir: root, Environ: []string{"GH_TOKEN=old", "GITHUB_TOKEN=stays"},
		Sandboxes:   map[string]Definition{"plain": {}, "s": {Network: Network{Names: []string{"a.example"}}, Credentials: []string{"npm"}}},
		Credentials: npm("first", "a.example"), Inject: map[string]shared.Engine{"noop": noop.New()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	tokens := func() (values []string) {
		vars, notes := passed(t, h, view.CredentialGitHub, false)
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
		refused string // by Renew
		start   string // the error of a later command
		want    []string
	}{
		{npm("second", "a.example"), []string{"GH_TOKEN=new"}, "", "", []string{"GH_TOKEN=new", "GITHUB_TOKEN=stays", "second"}},
		{npm("third", "b.example"), []string{"GH_TOKEN=new"}, "", "credentials[0]", []string{"GH_TOKEN=new", "GITHUB_TOKEN=stays", "third"}},
		{npm("a\nb", "a.example"), nil, `Options.Credentials: "npm": value`, "credentials[0]", []string{"GH_TOKEN=new", "GITHUB_TOKEN=stays", "third"}},
		{passes, []string{"GH_TOKEN=new"}, "", "credentials[0]", []string{"GH_TOKEN=new", "GITHUB_TOKEN=stays", ""}},
		{npm("fourth", "a.example"), nil, "", "", []string{"GH_TOKEN=old", "GITHUB_TOKEN=stays", "fourth"}},
	} {
		err := h.Renew(c.sets, c.environ)
		if c.refused == "" && err != nil || c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)) {
			t.Errorf("%v, want one about %q", err, c.refused)
		}
		if got := tokens(); !slices.Equal(got, c.want) {
			t.Errorf("%q, want %q", got, c.want)
		}
		if _, err := h.Command(t.Context(), "s", "true").target(); c.start == "" && err != nil || c.start != "" && (err == nil || !strings.Contains(err.Error(), c.start)) {
			t.Errorf("%v, want one about %q", err, c.start)
		}
		if _, err := h.Command(t.Context(), "plain", "true").target(); err != nil {
			t.Error(err)
		}
	}
}

// A Host that runs commands of several callers gives each what is its own, and nobody what is another's.
func TestCallersOfOneHost(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	h, err := New(t.Context(), Options{Workspace: WorkspaceOptions{Root: root}, Dir: root, Environ: []string{"PATH=/usr/bin:/bin", "GH_TOKEN=first", "TERM=one"},
		Inject: map[string]shared.Engine{"noop": noop.New()}, Credentials: map[string]Credential{"github": {Pass: true}},
		Sandboxes: map[string]Definition{"plain": {Engine: "noop", Network: Network{Host: true}}, "token": {Engine: "noop", Network: Network{Host: true}, Credentials: []string{"github"}}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	run := func(sandbox string, environ ...string) (string, error) {
		cmd := h.Command(t.Context(), sandbox, "/bin/sh", "-c", `echo "$TERM $GH_TOKEN ${PWD##*/}"`)
		cmd.Caller = &Caller{Environ: append(environ, "PATH=/usr/bin:/bin"), Dir: filepath.Join(root, "sub")}
		out, err := cmd.Output()
		return strings.TrimSpace(string(out)), err
	}
	for _, c := range []struct {
		sandbox string
		environ []string
		want    string
		other   bool
	}{
		{"plain", []string{"GH_TOKEN=second", "TERM=two", "STEP=1"}, "two  sub", false},
		{"token", []string{"GH_TOKEN=second", "TERM=two"}, "", true}, // which is read for this command
		{"token", []string{"GH_TOKEN=first", "TERM=two", "STEP=2"}, "two first sub", false},
		{"token", []string{"TERM=two"}, "", true},
		{"plain", []string{"GH_TOKEN=first", "TERM=three"}, "three  sub", false},
	} {
		got, err := run(c.sandbox, c.environ...)
		if got != c.want || errors.Is(err, facts.ErrOtherCaller) != c.other || err != nil && !c.other {
			t.Errorf("%s, %q: %q, %v", c.sandbox, c.environ, got, err)
		}
	}
	if name := h.OtherCaller([]string{"PATH=/usr/bin:/bin", "GH_TOKEN=second"}); name != "GH_TOKEN" {
		t.Errorf("it differs in %q", name)
	}
}

// A person decides before a program runs: gh may open a keyring, and its token may be old after a long wait.
func TestApprovalComesBeforeGH(t *testing.T) {
	t.Parallel()
	root, dir := t.TempDir(), t.TempDir()
	ran := gh(t, dir, "echo gho_late")
	answer := Refuse
	h, err := New(t.Context(), Options{Workspace: WorkspaceOptions{Root: root}, Dir: root, Environ: []string{"PATH=" + dir + ":/usr/bin:/bin"},
		Inject: map[string]shared.Engine{"noop": noop.New()}, Credentials: passes, Approvals: ApprovalOptions{AllowBypass: true},
		Sandboxes: map[string]Definition{"s": {Engine: "noop", Credentials: []string{view.CredentialGitHubCLI}}},
		Approver: func(context.Context, ApprovalRequest) (Approval, error) {
			if _, err := os.Stat(ran); err == nil {
				t.Error("gh ran before the approval")
			}
			return answer, nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	for _, want := range []string{"", "gho_late\n"} {
		cmd := h.Command(t.Context(), "s", "/bin/sh", "-c", "echo $GH_TOKEN")
		cmd.NoSandbox = true
		if out, err := cmd.Output(); string(out) != want || (err == nil) != (want != "") {
			t.Errorf("%v: %q, %v", answer, out, err)
		}
		answer = ApproveOnce
	}
}
