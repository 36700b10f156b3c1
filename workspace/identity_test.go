package workspace

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func lookupIn(env map[string]string) func(string) (string, bool) {
	return func(k string) (string, bool) { v, ok := env[k]; return v, ok }
}

// controls are those of the workspace's root.
func controls(t *testing.T, w *Workspace, as *User) GitControls {
	t.Helper()
	l, err := GitDirs(w.Root())
	if err != nil {
		t.Fatal(err)
	}
	return w.GitControls(t.Context(), w.Root(), l, as)
}

// The workspace's config names a program in every key that could run one while
// its settings are looked up. None runs, and a git of its own is not used.
func TestAskingRunsNothingOfTheWorkspace(t *testing.T) {
	t.Parallel()
	need(t, "git")
	base := tempDir(t)
	root := repo(t, base+"/proj")
	ran := base + "/ran"
	evil := root + "/bin/git"
	tree(t, root, map[string]string{"bin/git": "#!/bin/sh\n: >" + ran + "\necho evil\n", "home": "dir"})
	if err := os.Chmod(evil, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"core.fsmonitor", "core.pager", "pager.config", "core.editor", "core.sshCommand", "credential.helper",
		"alias.config", "core.askPass", "core.alternateRefsCommand", "diff.external", "gpg.program", "trace2.normalTarget"} {
		value := evil
		if strings.HasPrefix(key, "alias.") {
			value = "!" + evil
		}
		git(t, root, "config", key, value)
	}
	git(t, root, "config", "core.hooksPath", root+"/bin")
	git(t, root, "config", "user.name", "Work Space")
	// The control: the program does run when something asks for it.
	if err := os.Symlink(evil, base+"/link"); err != nil {
		t.Fatal(err)
	}
	git(t, root, "status", "--short")
	if !exists(ran) {
		t.Fatal("control: fsmonitor did not run")
	}
	if err := os.Remove(ran); err != nil {
		t.Fatal(err)
	}
	tree(t, base, map[string]string{"bin/git": "-> ../proj/bin/git"})
	w := mustNew(t, Options{Root: root, LookupEnv: lookupIn(map[string]string{
		"PATH": root + "/bin:" + base + "/bin:bin:" + os.Getenv("PATH"), "GIT_CONFIG_NOSYSTEM": "1",
		"GIT_TRACE": base + "/trace", "GIT_TRACE2": base + "/trace", "GIT_EXEC_PATH": root + "/bin", "GIT_PAGER": evil,
	})})
	if got := controls(t, w, nil); got.Failed != nil || !got.has(controlProgram, evil) {
		t.Errorf("%+v", got)
	}
	tree(t, root, map[string]string{".gitignore": "x\n"})
	if l, err := GitDirs(root); err != nil || len(w.Ignored(t.Context(), root, l, nil, []string{root + "/x"}, time.Now().Add(time.Hour))) != 1 {
		t.Error("control: no rule was found", err)
	}
	if exists(ran) || exists(base+"/trace") {
		t.Error("a program of the workspace ran, or git traced")
	}
}

// A caller that is root looks the owner's identity up, with the owner's rights
// and configuration.
func TestIdentityAsOwner(t *testing.T) {
	t.Parallel()
	need(t, "git")
	if os.Geteuid() != 0 {
		t.Log("only root can be somebody else")
		return
	}
	const uid = 12345
	base := tempDir(t)
	for dir := base; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil { // t.TempDir is its user's alone
			t.Fatal(err)
		}
	}
	root := repo(t, base+"/proj")
	tree(t, base, map[string]string{
		"home/.gitconfig": "[user]\n\tname = Owner\n\temail = owner@example.com\n",
		"root/.gitconfig": "[user]\n\tname = Root\n\temail = root@example.com\n",
		"secret":          "[user]\n\tname = Secret\n",
	})
	if err := os.Chmod(base+"/secret", 0o600); err != nil {
		t.Fatal(err)
	}
	w := mustNew(t, Options{Root: root, Home: base + "/root", LookupEnv: lookupIn(map[string]string{
		"PATH": os.Getenv("PATH"), "GIT_CONFIG_NOSYSTEM": "1",
		"EMAIL": "root@example.com", "GIT_CONFIG_GLOBAL": base + "/root/.gitconfig", "XDG_CONFIG_HOME": base + "/root",
	})})
	owner := &User{UID: uid, GID: uid, Home: base + "/home"}
	for _, tt := range []struct {
		as   *User
		want string
	}{
		{nil, "Root"}, {owner, "Owner"}, {&User{UID: uid, GID: uid}, ""},
	} {
		got := controls(t, w, tt.as).Settings.Config
		if name := "name = \"" + tt.want + "\"\n"; (tt.want != "" || got != "") && !strings.Contains(got, name) {
			t.Errorf("as %+v: %q", tt.as, got)
		}
	}
	// What the user's configuration includes is read with the owner's rights.
	// Root's run is the control.
	tree(t, base, map[string]string{
		"owners": "[include]\n\tpath = " + base + "/secret\n",
		"roots":  "[include]\n\tpath = " + base + "/secret\n",
	})
	for from, to := range map[string]string{"owners": "home", "roots": "root"} {
		if err := os.Rename(base+"/"+from, base+"/"+to+"/.gitconfig"); err != nil {
			t.Fatal(err)
		}
	}
	if got := controls(t, w, nil).Settings.Config; !strings.Contains(got, "Secret") {
		t.Errorf("control: %q", got)
	}
	if got := controls(t, w, owner).Settings.Config; strings.Contains(got, "Secret") {
		t.Errorf("a file of root's was read: %q", got)
	}
}

// The command that gets the identity can write a repository's configuration. No
// value of a file that only the user can read gets into it that way.
func TestIdentityIsNoWayToReadAFile(t *testing.T) {
	t.Parallel()
	need(t, "git")
	base := tempDir(t)
	tree(t, base, map[string]string{
		"secret": "[user]\n\tname = hunter2\n\temail = hunter2\n",
		"home":   "dir", "other/.gitconfig": "[include]\n\tpath = ../secret\n",
	})
	for name, change := range map[string]func(root string){
		"an include": func(root string) { git(t, root, "config", "include.path", base+"/secret") },
		"one of the worktree's": func(root string) {
			git(t, root, "config", "extensions.worktreeConfig", "true")
			git(t, root, "config", "--worktree", "include.path", base+"/secret")
		},
		"one of its work tree": func(root string) {
			tree(t, root, map[string]string{"inc": "-> " + base + "/secret"})
			git(t, root, "config", "include.path", "../inc")
		},
		"a link": func(root string) {
			if err := replace(root+"/.git/config", func(p string) error { return os.Symlink(base+"/secret", p) }); err != nil {
				t.Fatal(err)
			}
		},
		"a broken file": func(root string) {
			tree(t, base, map[string]string{"broken": "hunter2\n"})
			git(t, root, "config", "include.path", base+"/broken")
		},
	} {
		root := repo(t, base+"/"+strings.ReplaceAll(name, " ", "-"))
		change(root)
		w := mustNew(t, Options{Root: root, Home: base + "/home", LookupEnv: lookupIn(map[string]string{"PATH": os.Getenv("PATH"), "GIT_CONFIG_NOSYSTEM": "1"})})
		if got := controls(t, w, nil); got.Settings.Config != "" || got.Failed != nil && strings.Contains(got.Failed.Error(), "hunter2") {
			t.Errorf("%s: %+v", name, got)
		}
	}
	// The control: it is the identity where the user's own configuration says so.
	root := repo(t, base+"/control")
	w := mustNew(t, Options{Root: root, Home: base + "/other", LookupEnv: lookupIn(map[string]string{"PATH": os.Getenv("PATH"), "GIT_CONFIG_NOSYSTEM": "1"})})
	if got := controls(t, w, nil); !strings.Contains(got.Settings.Config, "hunter2") || got.Failed != nil {
		t.Errorf("control: %+v", got)
	}
}

func TestOutputIsBounded(t *testing.T) {
	t.Parallel()
	c := cappedBuffer{left: 4}
	for _, s := range []string{"ab", "cde", "f"} {
		if _, err := c.Write([]byte(s)); (err == nil) != (s == "ab") {
			t.Error(s, err)
		}
	}
	if c.buf.String() != "ab" || c.left >= 0 {
		t.Errorf("%q, %d", c.buf.String(), c.left)
	}
}
