package workspace

import (
	"context"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func lookupIn(env map[string]string) func(string) (string, bool) {
	return func(k string) (string, bool) { v, ok := env[k]; return v, ok }
}

func TestIdentity(t *testing.T) {
	t.Parallel()
	need(t, "git")
	base := tempDir(t)
	tree(t, base, map[string]string{
		"home/.gitconfig": "[user]\n\tname = Home Body\n\temail = home@example.com\n[includeIf \"gitdir:" + base + "/work/\"]\n\tpath = work.inc\n",
		"home/work.inc":   "[user]\n\temail = work@example.com\n",
		"none":            "dir", "work": "dir", "nohome": "dir",
	})
	repo(t, base+"/work/proj")
	repo(t, base+"/play")
	git(t, base+"/work/proj", "worktree", "add", "-q", "--detach", base+"/wt")
	tree(t, base, map[string]string{"work/proj/deep/er": "dir"})
	repo(t, base+"/local")
	git(t, base+"/local", "config", "user.name", "Lo=cal \"Q\"")
	git(t, base+"/local", "config", "author.email", "author@example.com")
	repo(t, base+"/broken")
	tree(t, base, map[string]string{"newline/x": "x"})
	repo(t, base+"/newline")
	git(t, base+"/newline", "config", "user.name", "two\nlines")
	if err := os.WriteFile(base+"/broken/.git/config", []byte("[user\nname = x"), 0o644); err != nil {
		t.Fatal(err)
	}
	path := os.Getenv("PATH")
	both := func(name, email string) string {
		return "GIT_AUTHOR_NAME=" + name + " GIT_AUTHOR_EMAIL=" + email + " GIT_COMMITTER_NAME=" + name + " GIT_COMMITTER_EMAIL=" + email
	}
	home := both("Home Body", "home@example.com")
	work := both("Home Body", "work@example.com")
	for _, tt := range []struct {
		name, root, home string
		env              map[string]string
		want             string
		fails            bool
	}{
		{name: "home", root: "play", home: "home", want: home},
		{name: "no repository", root: "none", home: "home", want: home},
		{name: "includeIf", root: "work/proj", home: "home", want: work},
		{name: "includeIf, below the top level", root: "work/proj/deep/er", home: "home", want: work},
		{name: "includeIf, worktree elsewhere", root: "wt", home: "home", want: work},
		{name: "local", root: "local", home: "home", want: "GIT_AUTHOR_NAME=Lo=cal \"Q\" GIT_AUTHOR_EMAIL=author@example.com GIT_COMMITTER_NAME=Lo=cal \"Q\" GIT_COMMITTER_EMAIL=home@example.com"},
		{name: "nothing configured", root: "play", home: "nohome", want: ""},
		{name: "value with a line end", root: "newline", home: "home", want: home},
		{name: "caller's variables", root: "play", home: "home", env: map[string]string{"GIT_AUTHOR_NAME": "Caller", "GIT_COMMITTER_EMAIL": "c@example.com"},
			want: "GIT_AUTHOR_NAME=Caller GIT_AUTHOR_EMAIL=home@example.com GIT_COMMITTER_NAME=Home Body GIT_COMMITTER_EMAIL=c@example.com"},
		{name: "caller's config", root: "play", home: "home", env: map[string]string{"GIT_CONFIG_GLOBAL": "/dev/null"}, want: ""},
		{name: "caller's config variables", root: "play", home: "home",
			env:  map[string]string{"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "user.name", "GIT_CONFIG_VALUE_0": "Counted"},
			want: both("Counted", "home@example.com")},
		{name: "caller's GIT_DIR is another repository", root: "play", home: "home", env: map[string]string{"GIT_DIR": base + "/local/.git"}, want: home},
		{name: "EMAIL", root: "play", home: "nohome", env: map[string]string{"EMAIL": "e@example.com"}, want: "GIT_AUTHOR_EMAIL=e@example.com GIT_COMMITTER_EMAIL=e@example.com"},
		{name: "no git", root: "play", home: "home", env: map[string]string{"PATH": "/nonexistent:relative:"}, want: ""},
		{name: "broken config", root: "broken", home: "home", env: map[string]string{"GIT_AUTHOR_NAME": "Caller"}, want: "GIT_AUTHOR_NAME=Caller", fails: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			env := map[string]string{"PATH": path, "GIT_CONFIG_NOSYSTEM": "1"}
			maps.Copy(env, tt.env)
			w := mustNew(t, Options{Root: base + "/" + tt.root, Home: base + "/" + tt.home, LookupEnv: lookupIn(env)})
			got, err := w.Identity(t.Context(), nil)
			if strings.Join(got, " ") != tt.want || (err != nil) != tt.fails {
				t.Errorf("got %q, %v; want %q", got, err, tt.want)
			}
		})
	}
}

// The workspace's config names a program in every key that could run one while
// its identity is looked up. None runs, and a git of its own is not used.
func TestIdentityRunsNothingOfTheWorkspace(t *testing.T) {
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
	got, err := w.Identity(t.Context(), nil)
	if strings.Join(got, " ") != "GIT_AUTHOR_NAME=Work Space GIT_COMMITTER_NAME=Work Space" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if exists(ran) || exists(base+"/trace") {
		t.Error("a program of the workspace ran, or git traced")
	}
}

// A caller that is root need not declare another user's repository safe.
func TestIdentityOfAnotherUsersRepository(t *testing.T) {
	t.Parallel()
	need(t, "git")
	if os.Geteuid() != 0 {
		t.Log("only root can give a repository away; root's run shows that it is read")
		return
	}
	base := tempDir(t)
	root := repo(t, base+"/proj")
	git(t, root, "config", "user.name", "Owner")
	for _, p := range []string{root, root + "/.git", root + "/.git/config"} {
		if err := os.Chown(p, 12345, 12345); err != nil {
			t.Fatal(err)
		}
	}
	w := mustNew(t, Options{Root: root, LookupEnv: lookupIn(map[string]string{"PATH": os.Getenv("PATH"), "GIT_CONFIG_NOSYSTEM": "1"})})
	if got, err := w.Identity(t.Context(), nil); len(got) != 2 || got[0] != "GIT_AUTHOR_NAME=Owner" || err != nil {
		t.Errorf("got %q, %v", got, err)
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
		got, err := w.Identity(t.Context(), tt.as)
		if tt.want == "" && len(got) == 0 && err == nil {
			continue
		}
		if len(got) != 4 || got[0] != "GIT_AUTHOR_NAME="+tt.want || err != nil {
			t.Errorf("as %+v: %q, %v", tt.as, got, err)
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
	if got, err := w.Identity(t.Context(), nil); len(got) != 4 && got[0] != "GIT_AUTHOR_NAME=Secret" || err != nil {
		t.Errorf("control: %q, %v", got, err)
	}
	if got, err := w.Identity(t.Context(), owner); strings.Contains(strings.Join(got, " "), "Secret") {
		t.Errorf("a file of root's was read: %q, %v", got, err)
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
		if got, err := w.Identity(t.Context(), nil); len(got) != 0 || err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	// The control: it is the identity where the user's own configuration says so.
	root := repo(t, base+"/control")
	w := mustNew(t, Options{Root: root, Home: base + "/other", LookupEnv: lookupIn(map[string]string{"PATH": os.Getenv("PATH"), "GIT_CONFIG_NOSYSTEM": "1"})})
	if got, err := w.Identity(t.Context(), nil); len(got) != 4 || got[0] != "GIT_AUTHOR_NAME=hunter2" || err != nil {
		t.Errorf("control: %q, %v", got, err)
	}
}

func TestIdentityCutShort(t *testing.T) {
	t.Parallel()
	base := tempDir(t)
	tree(t, base, map[string]string{"proj": "dir"})
	// Not written by this process: a child that another test forks meanwhile
	// would hold the file open, and it could not be executed.
	script := exec.Command("sh", "-c", `cat >"$1" && chmod 755 "$1"`, "sh", base+"/git")
	script.Stdin = strings.NewReader("#!/bin/sh\nprintf 'global\\0file:/x\\0user.name\\nFake\\0'\n")
	if err := script.Run(); err != nil {
		t.Fatal(err)
	}
	w := mustNew(t, Options{Root: base + "/proj", LookupEnv: lookupIn(map[string]string{"PATH": base})})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := w.Identity(ctx, nil); !errors.Is(err, context.Canceled) || len(got) != 0 {
		t.Errorf("cancelled: %q, %v", got, err)
	}
	if got, err := w.Identity(t.Context(), nil); len(got) != 2 || err != nil {
		t.Errorf("then: %q, %v", got, err)
	}
}

func TestRepository(t *testing.T) {
	t.Parallel()
	need(t, "git")
	base := tempDir(t)
	repo(t, base+"/proj")
	tree(t, base, map[string]string{"proj/deep/er": "dir", "none": "dir"})
	for root, want := range map[string]string{"proj": base + "/proj", "proj/deep/er": base + "/proj", "none": ""} {
		if got := mustNew(t, Options{Root: base + "/" + root}).Repository(); got != want {
			t.Errorf("%s: %q, want %q", root, got, want)
		}
	}
}

func TestIdentityBoundsOutput(t *testing.T) {
	t.Parallel()
	c := capped{limit: 4}
	for _, s := range []string{"ab", "cde", "f"} {
		if n, err := c.Write([]byte(s)); n != len(s) || err != nil {
			t.Error(n, err)
		}
	}
	if c.buf.String() != "abcd" || !c.over {
		t.Errorf("%q, %v", c.buf.String(), c.over)
	}
	if plausible(strings.Repeat("n", maxIdentity+1)) || !plausible("n") {
		t.Error("a name of any length is one")
	}
}
