package workspace

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// What is passed is what git reads it back as, and nothing that runs something, or is about one repository or host.
func TestSettings(t *testing.T) {
	t.Parallel()
	need(t, "git")
	base := tempDir(t)
	tree(t, base, map[string]string{"home/x": "x", "home/excludes": "*.bak\n"})
	repo(t, base+"/top")
	env := append(os.Environ(), "HOME="+base+"/home", "GIT_CONFIG_NOSYSTEM=1", "XDG_CONFIG_HOME=")
	want := []string{}
	for _, s := range []struct {
		key, value string
		passed     bool
	}{
		{"user.name", "Some Body", true},
		{"author.email", "some@example.com", true},
		{"init.defaultBranch", "trunk", true},
		{"pull.rebase", "merges", true},
		{"color.branch.current", "yellow \"bold\"", true},
		{"format.pretty", "a\\b\tc\nd \"e\" #f; ", true},
		{"alias.st", "status --short", true},
		{"alias.bang", "!rm -rf ~", false},
		{"alias.spaced", " !rm -rf ~", false},
		{"core.pager", "sh -c evil", false},
		{"core.hooksPath", "/x", false},
		{"http.extraHeader", "Authorization: secret", false},
		{"url.https://token@example.com/.insteadOf", "e:", false},
		{"credential.helper", "store", false},
		{"core.excludesFile", "~/excludes", false},
		{"commit.gpgSign", "true", false},
		{"init.templateDir", "/x", false},
		{"branch.main.merge", "refs/heads/x", false},
	} {
		cmd := exec.Command("git", "config", "--global", s.key, s.value)
		cmd.Env = env
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", s.key, err, out)
		}
		if s.passed {
			want = append(want, strings.ToLower(s.key)+"\n"+s.value)
		}
	}
	git(t, base+"/top", "config", "push.default", "nothing")
	git(t, base+"/top", "config", "user.email", "own@example.com")
	w := mustNew(t, Options{Root: base + "/top", Home: base + "/home", LookupEnv: lookupIn(map[string]string{"PATH": os.Getenv("PATH"), "GIT_CONFIG_NOSYSTEM": "1"})})
	layout, err := GitDirs(base + "/top")
	if err != nil {
		t.Fatal(err)
	}
	of := func() Settings { return w.GitControls(context.Background(), base+"/top", layout, nil).Settings }
	got := of()
	if got.Excludes != base+"/home/excludes" || !got.Signs {
		t.Errorf("%+v", got)
	}
	cmd := exec.Command("git", "config", "-f", "-", "--list", "-z")
	cmd.Stdin = strings.NewReader(got.Config)
	out, err := cmd.Output()
	if list := strings.Join(want, "\x00") + "\x00"; err != nil || string(out) != list {
		t.Errorf("%v: got %q, want %q", err, out, list)
	}
	git(t, base+"/top", "config", "commit.gpgSign", "true")
	if of().Signs {
		t.Error("the repository's own setting is the user's")
	}
}
