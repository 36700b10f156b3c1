package workspace

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// obeyed asks for the repository at base/proj, with the home base/home.
func obeyed(t *testing.T, base string, env map[string]string) (*Workspace, func() GitControls) {
	t.Helper()
	if env == nil {
		env = map[string]string{}
	}
	env["PATH"] = os.Getenv("PATH")
	if _, ok := env["GIT_CONFIG_SYSTEM"]; !ok {
		env["GIT_CONFIG_NOSYSTEM"] = "1"
	}
	w := mustNew(t, Options{Root: base + "/proj", Home: base + "/home", LookupEnv: lookupIn(env)})
	return w, func() GitControls {
		l, err := GitDirs(base + "/proj")
		if err != nil {
			t.Fatal(err)
		}
		return w.GitControls(t.Context(), base+"/proj", l, nil)
	}
}

// has reports whether a path is in the answer, as that.
func (o *GitControls) has(what, path string) bool {
	return slices.ContainsFunc(o.Files, func(c GitControl) bool { return c.Path == path && c.Description == what })
}

// What git obeys is found however its configuration leads there. BASE stands for
// the directory in which all lies.
func TestObeyed(t *testing.T) {
	t.Parallel()
	need(t, "git")
	for _, tt := range []struct {
		name                 string
		files                map[string]string
		config               []string // of the repository: key, value
		env                  map[string]string
		inConfig, hooks, not []string
		other                []string
	}{
		{name: "nothing special",
			inConfig: []string{"proj/.git/config", "proj/.git/config.worktree", "home/.gitconfig", "home/.config/git/config"},
			hooks:    []string{"proj/.git/hooks"}, not: []string{"proj"}},
		{name: "a relative hooksPath", config: []string{"core.hooksPath", "tools/hooks"}, hooks: []string{"proj/tools/hooks", "proj/.git/tools/hooks"}},
		{name: "hooksPath in the home", config: []string{"core.hooksPath", "~/hooks"}, hooks: []string{"home/hooks"}},
		{name: "hooksPath relative to another work tree", config: []string{"core.hooksPath", "h", "core.worktree", "../sub"}, hooks: []string{"proj/sub/h"}},
		{name: "from an included file", config: []string{"include.path", "../inc"}, files: map[string]string{"proj/inc": "[core]\nhooksPath = one\n"},
			inConfig: []string{"proj/inc"}, hooks: []string{"proj/one"}},
		{name: "from a second include", config: []string{"include.path", "../inc"},
			files:    map[string]string{"proj/inc": "[include]\npath = deep/inc2\n", "proj/deep/inc2": "[core]\nhooksPath = two\n"},
			inConfig: []string{"proj/inc", "proj/deep/inc2"}, hooks: []string{"proj/two"}},
		{name: "an include that is missing", config: []string{"include.path", "../later"}, inConfig: []string{"proj/later"}},
		{name: "an include that is empty", config: []string{"include.path", "../empty"}, files: map[string]string{"proj/empty": ""}, inConfig: []string{"proj/empty"}},
		{name: "an include of another branch", config: []string{"includeIf.onbranch:other.path", "../inc"},
			files:    map[string]string{"proj/inc": "[includeIf \"gitdir:/nowhere\"]\npath = inc2\n", "proj/inc2": "[core]\nhooksPath = three\n"},
			inConfig: []string{"proj/inc", "proj/inc2"}, hooks: []string{"proj/three"}},
		{name: "an include by a symlink", config: []string{"include.path", "../link"}, files: map[string]string{"proj/link": "-> real", "proj/real": "[core]\nhooksPath = four\n"},
			inConfig: []string{"proj/link"}, hooks: []string{"proj/four"}},
		{name: "a parent of a symlink is not lexical", config: []string{"include.path", "../dir/../inc"},
			files:    map[string]string{"proj/dir": "-> ../elsewhere/deep", "elsewhere/deep": "dir", "elsewhere/inc": "[core]\nhooksPath = five\n"},
			inConfig: []string{"proj/.git/../dir/../inc"}, hooks: []string{"proj/five"}},
		{name: "the worktree's own config", config: []string{"extensions.worktreeConfig", "true"}, files: map[string]string{"proj/.git/config.worktree": "[core]\nhooksPath = own\n"},
			hooks: []string{"proj/own"}},
		{name: "an include of a file that git itself would not read", config: []string{"include.path", "config.worktree"}, files: map[string]string{"proj/.git/config.worktree": "[core]\nhooksPath = own\n"},
			hooks: []string{"proj/own"}},
		{name: "the home's", files: map[string]string{"home/.gitconfig": "[include]\npath = more\n", "home/more": "[core]\nhooksPath = six\n"},
			inConfig: []string{"home/more"}, hooks: []string{"proj/six"}},
		{name: "XDG's", env: map[string]string{"XDG_CONFIG_HOME": "BASE/xdg"}, files: map[string]string{"xdg/git/config": "[core]\nhooksPath = seven\n"},
			inConfig: []string{"xdg/git/config"}, hooks: []string{"proj/seven"}, other: []string{"xdg/git/attributes"}},
		{name: "the system's", env: map[string]string{"GIT_CONFIG_SYSTEM": "BASE/sys"}, files: map[string]string{"sys": "[core]\nhooksPath = eight\n"},
			inConfig: []string{"sys"}, hooks: []string{"proj/eight"}},
		{name: "the caller's global", env: map[string]string{"GIT_CONFIG_GLOBAL": "BASE/glob"}, files: map[string]string{"glob": "[core]\nhooksPath = nine\n"},
			inConfig: []string{"glob"}, hooks: []string{"proj/nine"}, not: []string{"home/.gitconfig"}},
		{name: "no global", env: map[string]string{"GIT_CONFIG_GLOBAL": "/dev/null"}, hooks: []string{"proj/.git/hooks"}},
		{name: "the caller's variables", env: map[string]string{"GIT_CONFIG_COUNT": "2", "GIT_CONFIG_KEY_0": "core.hooksPath", "GIT_CONFIG_VALUE_0": "ten",
			"GIT_CONFIG_KEY_1": "include.path", "GIT_CONFIG_VALUE_1": "BASE/inc"}, files: map[string]string{"inc": "[core]\nhooksPath = eleven\n"},
			inConfig: []string{"inc"}, hooks: []string{"proj/ten", "proj/eleven"}},
		{name: "a hook that is a symlink", files: map[string]string{"proj/.git/hooks/pre-commit": "-> ../../scripts/check", "proj/.git/hooks/x.sample": "-> x", "proj/.git/hooks/plain": "x"},
			hooks: []string{"proj/.git/hooks/pre-commit"}, not: []string{"proj/.git/hooks/x.sample", "proj/.git/hooks/plain"}},
		{name: "hooks that are a symlink", files: map[string]string{"proj/.git/hooks": "-> ../shared", "proj/shared/pre-push": "-> ../bin/push"},
			hooks: []string{"proj/.git/hooks", "proj/.git/hooks/pre-push"}},
		{name: "hooksPath that is a symlink", config: []string{"core.hooksPath", "hl"}, files: map[string]string{"proj/hl": "-> real", "proj/real/pre-push": "-> ../bin/push"},
			hooks: []string{"proj/hl", "proj/hl/pre-push"}},
		{name: "programs", config: []string{"core.fsmonitor", ".git/hooks/watch", "core.sshCommand", "ssh -F BASE/proj/ssh.conf", "alias.x", "!sh proj/x tools/y",
			"alias.log", "log origin/main", "alias.lg", "!git log origin/main", "filter.f.clean", "python tools/y", "credential.helper", "~/cred", "diff.d.textconv", "X=1 ./conv",
			"merge.m.driver", "sh merge.sh %A", "core.attributesFile", "attrs", "init.templateDir", "~/template", "hook.lint.command", "tools/lint --all", "gc.recentObjectsHook", "./recent", "lfs.extension.x.clean", "ext/clean %f"},
			files: map[string]string{"proj/tools/y": "x", "proj/ssh.conf": "x", "proj/conv": "x", "proj/merge.sh": "x", "home/template/hooks/pre-push": "-> ../../push"},
			hooks: []string{"home/template/hooks", "home/template/hooks/pre-push"},
			other: []string{"proj/.git/hooks/watch", "proj/ssh.conf", "proj/tools/y", "home/cred", "proj/conv", "proj/attrs", "home/template", "proj/tools/lint", "proj/recent", "proj/ext/clean", "proj/merge.sh"},
			not:   []string{"proj/origin/main", "proj/proj/x"}},
		{name: "programs in odd places", config: []string{"gpg.program", "BASE/proj/my place/sign", "core.editor", "BASE/proj/a,b/{v}=1/edit -n",
			"core.fsmonitor", "$(git rev-parse --show-toplevel)/tools/watch", "core.pager", "$HOME\"/my page\"", "alias.x", "!`pwd`/tools/x $PWD/tools/y",
			"diff.d.textconv", "\"$(git rev-parse --show-toplevel)\"/tools/conv"},
			files: map[string]string{"proj/my place/sign": "x", "proj/a,b/{v}=1/edit": "x", "proj/tools/watch": "x", "proj/tools/x": "x", "proj/tools/y": "x", "proj/tools/conv": "x"},
			other: []string{"proj/my place/sign", "proj/a,b/{v}=1/edit", "proj/tools/watch", "home/my page", "proj/tools/x", "proj/tools/y", "proj/tools/conv"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			base := tempDir(t)
			expand := func(s string) string { return strings.ReplaceAll(s, "BASE", base) }
			git(t, base, "init", "-q", "--template=", "proj")
			for i := 0; i < len(tt.config); i += 2 {
				git(t, base+"/proj", "config", tt.config[i], expand(tt.config[i+1]))
			}
			tree(t, base, tt.files)
			env := map[string]string{}
			for k, v := range tt.env {
				env[k] = expand(v)
			}
			_, ask := obeyed(t, base, env)
			got := ask()
			if got.Failed != nil {
				t.Fatal(got.Failed)
			}
			for what, wants := range map[string][]string{controlConfig: tt.inConfig, controlHooks: tt.hooks, controlProgram: tt.other} {
				for _, want := range wants {
					if !got.has(what, base+"/"+want) {
						t.Errorf("%s is not among %v", want, got.Files)
					}
				}
				for _, not := range tt.not {
					if got.has(what, base+"/"+not) {
						t.Errorf("%s is among %v", not, got.Files)
					}
				}
			}
			if again := ask(); fmt.Sprint(again) != fmt.Sprint(got) {
				t.Errorf("then %+v", again)
			}
		})
	}
}

// A relative path in a variable is another file in each directory.
func TestRelativeVariables(t *testing.T) {
	t.Parallel()
	need(t, "git")
	for _, name := range []string{"GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "XDG_CONFIG_HOME"} {
		base := tempDir(t)
		git(t, base, "init", "-q", "proj")
		_, ask := obeyed(t, base, map[string]string{name: "cfg"})
		if got := ask(); got.Failed == nil || !got.Unlisted || !strings.Contains(got.Failed.Error(), name) {
			t.Errorf("%s: %v, %v", name, got.Failed, got.Unlisted)
		}
	}
}

// Another user's home is where the account says.
func TestHomeOfAnother(t *testing.T) {
	t.Parallel()
	need(t, "git")
	account, err := user.LookupId("0")
	if err != nil {
		t.Fatal(err)
	}
	base := tempDir(t)
	git(t, base, "init", "-q", "proj")
	git(t, base+"/proj", "config", "core.hooksPath", "~"+account.Username+"/none/hooks")
	_, ask := obeyed(t, base, nil)
	if got := ask(); got.Failed != nil || !got.has(controlHooks, account.HomeDir+"/none/hooks") {
		t.Errorf("%v, %v", got.Files, got.Failed)
	}
}

// Each worktree has a configuration of its own.
func TestObeyedInAWorktree(t *testing.T) {
	t.Parallel()
	need(t, "git")
	base := tempDir(t)
	main := repo(t, base+"/proj")
	git(t, main, "worktree", "add", "-q", "--detach", base+"/wt")
	git(t, main, "config", "extensions.worktreeConfig", "true")
	git(t, base+"/wt", "config", "--worktree", "core.hooksPath", "mine")
	w, ask := obeyed(t, base, nil)
	l, err := GitDirs(base + "/wt")
	if err != nil {
		t.Fatal(err)
	}
	o := w.GitControls(t.Context(), base+"/wt", l, nil)
	if o.Failed != nil || !o.has(controlHooks, base+"/wt/mine") || !o.has(controlHooks, main+"/.git/hooks") ||
		!o.has(controlConfig, main+"/.git/worktrees/wt/config.worktree") || !o.has(controlConfig, main+"/.git/config") {
		t.Errorf("%+v", o)
	}
	if o := ask(); o.Failed != nil || o.has(controlHooks, main+"/mine") {
		t.Errorf("of the other worktree: %+v", o)
	}
}

// A file with several names is written by any of them.
func TestObeyedHardLinks(t *testing.T) {
	t.Parallel()
	need(t, "git")
	base := tempDir(t)
	root := repo(t, base+"/proj")
	tree(t, root, map[string]string{".git/hooks/pre-commit": "x", ".git/hooks/free": "x", "inc": "[a]\nb = c\n"})
	git(t, root, "config", "include.path", "../inc")
	for _, p := range []string{".git/hooks/pre-commit", "inc"} {
		if err := os.Link(root+"/"+p, root+"/"+filepath.Base(p)+"-too"); err != nil {
			t.Fatal(err)
		}
	}
	_, ask := obeyed(t, base, nil)
	if o := ask(); o.Failed != nil || !o.has(controlHooks, root+"/.git/hooks/pre-commit") || o.has(controlHooks, root+"/.git/hooks/free") {
		t.Errorf("%v, %v", o.Files, o.Failed)
	}
}

// What git does not answer, or answers too much, is a failure that is known at
// once, and says nothing of what the files hold.
func TestObeyedFails(t *testing.T) {
	t.Parallel()
	need(t, "git")
	const secret = "hunter2"
	many := func(n int, format string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	settings := "[a]\n" + many(40000, "b%d\n")
	for name, files := range map[string]map[string]string{
		"an include is a fifo":      {"proj/.git/config": "[include]\npath = ../fifo\n"},
		"an include's is":           {"proj/.git/config": "[include]\npath = ../inc\n", "proj/inc": "[includeIf \"onbranch:x\"]\npath = fifo\n"},
		"a link to one":             {"proj/.git/config": "[include]\npath = ../link\n", "proj/link": "-> fifo"},
		"an include is a directory": {"proj/.git/config": "[include]\npath = ..\n"},
		"the user's is a fifo":      {"home/.gitconfig": "-> ../proj/fifo"},
		"not a configuration":       {"proj/.git/config": "[include]\npath = ../inc\n", "proj/inc": "root:" + secret + ":\n"},
		"a value git refuses":       {"proj/.git/config": "[core]\nrepositoryformatversion = " + secret + "\n"},
		"an unknown user's home":    {"proj/.git/config": "[core]\nhooksPath = ~nobody-here/" + secret + "\n"},
		"too long":                  {"proj/.git/config": "[core]\n" + strings.Repeat("#\n", maxGitConfig/2)},
		"an include is too long":    {"proj/.git/config": "[include]\npath = ../inc\n", "proj/inc": strings.Repeat("\n", maxGitConfig+1)},
		"many includes":             {"proj/.git/config": "[include]\n" + many(30000, "path = x%d\n")},
		"many hooks":                {"proj/.git/config": "[core]\n" + many(30000, "hooksPath = x%d\n")},
		"many programs":             {"proj/.git/config": "[alias]\n" + many(30000, "x%d = !a/b\n")},
		"many settings":             {"proj/.git/config": "[a]\n" + many(200000, "b%d\n")},
		"many settings in includes": {"proj/.git/config": "[include]\n" + many(8, "path = ../inc%d\n"), "proj/inc0": settings, "proj/inc1": settings, "proj/inc2": settings,
			"proj/inc3": settings, "proj/inc4": settings, "proj/inc5": settings, "proj/inc6": settings, "proj/inc7": settings},
		"many includes that are there": {"proj/.git/config": "[include]\n" + many(maxIncludes+1, "path = x%d\n"), "proj/.git/x": "many"},
		"many in the hooks":            {"proj/.git/config": "[core]\nhooksPath = ..\n", "proj/.git/x": "many"},
		"deep":                         {"proj/.git/config": "[include]\npath = x0\n", "proj/.git/x": "deep"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			base := tempDir(t)
			git(t, base, "init", "-q", "proj")
			if err := unix.Mkfifo(base+"/proj/fifo", 0o644); err != nil {
				t.Fatal(err)
			}
			if n, ok := map[string]int{"many": maxHookEntries, "deep": maxIncludes + 1}[files["proj/.git/x"]]; ok {
				for i := range n {
					tree(t, base, map[string]string{fmt.Sprintf("proj/.git/x%d", i): fmt.Sprintf("[include]\npath = x%d\n", i+1), fmt.Sprintf("proj/y%d", i): ""})
				}
			}
			tree(t, base, files)
			_, ask := obeyed(t, base, nil)
			o := ask() // which must not wait for a fifo
			if o.Failed == nil || len(o.Failed.Error()) > 1500 || strings.ContainsAny(o.Failed.Error(), "\n\x00") {
				t.Fatalf("%d files, %v", len(o.Files), o.Failed)
			}
			if strings.Contains(o.Failed.Error(), secret) {
				t.Errorf("tells what a file holds: %v", o.Failed)
			}
			if !o.has(controlConfig, base+"/proj/.git/config") {
				t.Errorf("the static list is %v", o.Files)
			}
		})
	}
}

// A git that hangs is killed.
func TestObeyedHasADeadline(t *testing.T) {
	t.Parallel()
	base := tempDir(t)
	tree(t, base, map[string]string{"proj": "dir"})
	script := exec.Command("sh", "-c", `cat >"$1" && chmod 755 "$1"`, "sh", base+"/git")
	script.Stdin = strings.NewReader("#!/bin/sh\nexec sleep 1000\n")
	if err := script.Run(); err != nil {
		t.Fatal(err)
	}
	w := mustNew(t, Options{Root: base + "/proj", LookupEnv: lookupIn(map[string]string{"PATH": base})})
	if o := w.GitControls(t.Context(), base+"/proj", GitLayout{}, nil); o.Failed == nil {
		t.Errorf("%+v", o)
	}
	w = mustNew(t, Options{Root: base + "/proj", LookupEnv: lookupIn(map[string]string{"PATH": base + "/none"})})
	if o := w.GitControls(t.Context(), base+"/proj", GitLayout{}, nil); !errors.Is(o.Failed, errNoGit) {
		t.Errorf("without git: %+v", o)
	}
}

// A command can make a file of patterns of any size in no time, and git reads all of it, outside of
// the command's limits.
func TestIgnoredReadsNoLargeFile(t *testing.T) {
	t.Parallel()
	base := tempDir(t)
	root := repo(t, base+"/proj")
	w, _ := obeyed(t, base, nil)
	l, err := GitDirs(root)
	if err != nil {
		t.Fatal(err)
	}
	tree(t, root, map[string]string{".gitignore": "x\n"})
	for _, size := range []int64{2, 64 << 20} {
		if err := os.Truncate(root+"/.gitignore", size); err != nil {
			t.Fatal(err)
		}
		ignored := w.Ignored(t.Context(), root, l, nil, []string{root + "/x"}, time.Now().Add(time.Hour))
		if len(ignored) > 0 != (size == 2) {
			t.Errorf("with a file of %d bytes, git ignores %q", size, ignored)
		}
	}
}

// A command makes a repository whose configuration names rules of the user's.
func TestIgnoredByANewConfiguration(t *testing.T) {
	t.Parallel()
	base := tempDir(t)
	root := repo(t, base+"/proj")
	w, _ := obeyed(t, base, nil)
	tree(t, base, map[string]string{"other/rules": "*\n"})
	git(t, root, "config", "core.excludesFile", base+"/other/rules")
	l, err := GitDirs(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, since := range []time.Duration{time.Hour, -time.Hour} {
		ignored := w.Ignored(t.Context(), root, l, nil, []string{root + "/x"}, time.Now().Add(since))
		if len(ignored) > 0 != (since > 0) {
			t.Errorf("configured before %v: git ignores %q", since, ignored)
		}
	}
}

// What one git has said does not stand for another one that was installed since.
func TestAnotherGitIsAsked(t *testing.T) {
	t.Parallel()
	real := need(t, "git")
	base := tempDir(t)
	root := repo(t, base+"/proj")
	tree(t, base, map[string]string{"home": "dir", "first": "dir", "second/git": "-> " + real})
	w := mustNew(t, Options{Root: root, Home: base + "/home", LookupEnv: lookupIn(map[string]string{"GIT_CONFIG_NOSYSTEM": "1", "PATH": base + "/first:" + base + "/second"})})
	w.now = func() time.Time { return time.Now().Add(gitSettling) } // the file system's has ticked
	l, err := GitDirs(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, first := range []string{"", "#!/bin/sh\nexit 1\n"} {
		if first != "" {
			script := exec.Command("sh", "-c", `cat >"$1" && chmod 755 "$1"`, "sh", base+"/first/git")
			script.Stdin = strings.NewReader(first)
			if err := script.Run(); err != nil {
				t.Fatal(err)
			}
		}
		if o := w.GitControls(t.Context(), root, l, nil); (o.Failed != nil) != (first != "") {
			t.Errorf("with %q before it: %v", first, o.Failed)
		}
	}
}

// Git is asked again when something changed that it told, and only then.
func TestObeyedIsRemembered(t *testing.T) {
	t.Parallel()
	real := need(t, "git")
	base := tempDir(t)
	root := repo(t, base+"/proj")
	tree(t, base, map[string]string{"home": "dir", "proj/inc": "[a]\nb = c\n"})
	git(t, root, "config", "include.path", "../inc")
	git(t, root, "config", "core.pager", "!x tools/pager")
	script := exec.Command("sh", "-c", `cat >"$1" && chmod 755 "$1"`, "sh", base+"/git")
	script.Stdin = strings.NewReader("#!/bin/sh\necho >>" + base + "/asked\nexec " + real + " \"$@\"\n")
	if err := script.Run(); err != nil {
		t.Fatal(err)
	}
	w := mustNew(t, Options{Root: root, Home: base + "/home", LookupEnv: lookupIn(map[string]string{"GIT_CONFIG_NOSYSTEM": "1", "PATH": base})})
	w.now = func() time.Time { return time.Now().Add(gitSettling) } // the file system's has ticked
	l, err := GitDirs(root)
	if err != nil {
		t.Fatal(err)
	}
	asked := func(want bool) {
		t.Helper()
		os.Remove(base + "/asked")
		if o := w.GitControls(t.Context(), root, l, nil); o.Failed != nil {
			t.Error(o.Failed)
		}
		if exists(base+"/asked") != want {
			t.Errorf("asked: %v, want %v", !want, want)
		}
	}
	asked(true)
	asked(false)
	for name, content := range map[string]string{
		"home/.gitconfig": "[a]\nb = d\n", "proj/inc": "[a]\nb = d\n", "proj/.git/hooks/pre-push": "-> x", "proj/tools/pager": "x",
	} {
		tree(t, base, map[string]string{name: content})
		asked(true)
		asked(false)
	}
	git(t, root, "checkout", "-q", "-b", "other")
	asked(false) // the settings of all branches count
	if err := os.Link(root+"/.git/hooks/pre-commit.sample", root+"/.git/hooks/post-merge"); err != nil {
		t.Fatal(err)
	}
	asked(true)
	asked(false)
	// What is there while a command runs to hold a place says nothing.
	tree(t, base, map[string]string{"proj/.git/config.worktree": ""})
	asked(false)
}

// A caller that is root obeys its own configuration, the owner of the repository
// the owner's; both obey the repository's.
func TestObeyedByTwo(t *testing.T) {
	t.Parallel()
	need(t, "git")
	if os.Geteuid() != 0 {
		t.Log("only root can be somebody else")
		return
	}
	const uid = 12345
	base := tempDir(t)
	for dir := base; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	root := repo(t, base+"/proj")
	git(t, root, "config", "core.hooksPath", "both")
	tree(t, base, map[string]string{"home/.gitconfig": "[core]\nhooksPath = root\n", "owner/.gitconfig": "[core]\nhooksPath = owner\n"})
	git(t, root, "config", "include.path", base+"/closed")
	tree(t, base, map[string]string{"closed": "[core]\nhooksPath = closed\n"})
	if err := os.Chmod(base+"/closed", 0o600); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(root, func(p string, _ os.DirEntry, err error) error { return errors.Join(err, os.Lchown(p, uid, uid)) })
	if err != nil {
		t.Fatal(err)
	}
	w, _ := obeyed(t, base, nil)
	l, err := GitDirs(root)
	if err != nil {
		t.Fatal(err)
	}
	o := w.GitControls(t.Context(), root, l, &User{UID: uid, GID: uid, Home: base + "/owner"})
	for _, want := range []string{"both", "root", "owner", "closed"} {
		if o.Failed != nil || !o.has(controlHooks, root+"/"+want) {
			t.Errorf("%s is not among %v, %v", want, o.Files, o.Failed)
		}
	}
}

func TestCommandWords(t *testing.T) {
	t.Parallel()
	for command, want := range map[string][]string{
		"less":                        {""},
		"/usr/bin/less -R":            {"/usr/bin/less", "/usr/bin/less -R"},
		"X=1 ./conv a/b":              {"", "./conv", "a/b", "X=1 ./conv a/b"},
		"'/my place/tool' x":          {"/my place/tool", "/my", "place/tool", "'/my place/tool' x"},
		`/my\ place/tool x`:           {"/my place/tool", "/my", "place/tool", `/my\`, `/my\ place/tool x`},
		"/my place/tool":              {"/my", "place/tool", "/my place/tool"},
		"/a,b/{c}/v=1/tool x":         {"/a,b/{c}/v=1/tool", "/a", "b/", "/v", "1/tool", "/a,b/{c}/v=1/tool x"},
		`sh -c "cd x; ./run y"`:       {"", "cd x; ./run y", "./run", `sh -c "cd x; ./run y"`},
		"!f() { tools/x \"$@\"; }; f": {"", "tools/x", `f() { tools/x "$@"; }; f`},
		"":                            {""},
		`a "b/c`:                      {"", "b/c", `a "b/c`},
		`"/Bob's place/tool" x`:       {"/Bob's place/tool", "/Bob", "place/tool", `"/Bob's place/tool" x`},
		`/Bob\'s\ place/tool`:         {"/Bob's place/tool", "/Bob", "place/tool", `/Bob\`, `/Bob\'s\ place/tool`},
		`'/a\b/"tool"'`:               {`/a\b/"tool"`, `/a\b/`, `'/a\b/"tool"'`},
		`"/a\\b/\$x/tool"`:            {`/a\b/$x/tool`, `/a\b/`, "x/tool", `/a\\b/\`, `"/a\\b/\$x/tool"`},
		`$HOME/tool ${HOME}/conf`:     {"~/tool", "~/conf", "~/tool ~/conf"},
		`"$HOME"/tool $HOME"/a b"`:    {"~/tool", "~/a b", "~/a", `~/tool "~/a b"`},
		"sh clean.sh -x":              {"", "clean.sh", "sh clean.sh -x"},
		"sh tools/\\\nclean":          {"", "tools/clean", "tools/\\", "sh tools/\\\nclean"},
		`"$(git top)"/tools/x`:        {"$(git top)/tools/x", "/tools/x", `"$(git top)"/tools/x`},
		"/my place/x for a.b":         {"/my", "place/x", "a.b", "/my place/x for a.b", "/my place/x"},
		"$(git top)/tools/x":          {"", "/tools/x", "$(git top)/tools/x"},
	} {
		if got := commandWords("core.pager", command); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", command, got, want)
		}
	}
	if got := commandWords("alias.x", "log a/b"); got != nil {
		t.Errorf("of a subcommand: %q", got)
	}
	many := ""
	for i := range 10_000 { // a command can write some 100,000, and each is compared with those before
		many += fmt.Sprintf("/%x ", i)
	}
	if got := commandWords("core.pager", many); len(got) != maxWords+1 {
		t.Errorf("%d words of too many", len(got))
	}
	long := strings.Repeat("a", 1<<19) // each quote that ends in it was a copy of it
	if got := commandWords("core.pager", long+strings.Repeat("''", 1<<18)); !slices.Equal(got, []string{""}) {
		t.Errorf("%d words without a slash", len(got))
	}
}

// A command can write settings whose paths are, together, more than the memory holds, or a path that takes
// minutes to clean.
func TestSettingsMultiplyLittle(t *testing.T) {
	t.Parallel()
	base := tempDir(t)
	w := mustNew(t, Options{Root: base})
	for _, key := range []string{"core.hookspath", "core.editor"} {
		q := question{answer: &answer{stamps: map[string]stamp{}}, git: w.gitAs(nil), top: base, layout: GitLayout{GitDir: base, CommonDir: base}}
		for i := range 400_000 {
			q.settings = append(q.settings, setting{key: "core.worktree", value: fmt.Sprint(i)})
		}
		q.settings = append(q.settings, setting{key: key, value: "./a"})
		if q.obey(); !errors.Is(q.controls.Failed, ErrGitLayout) || len(q.stamps) > maxControls {
			t.Errorf("%s: %d files, %v", key, len(q.stamps), q.controls.Failed)
		}
	}
	if p := strings.Repeat("/..", 300_000); tidy(p, base) != p {
		t.Error("such a long path leads to a file")
	}
}

func FuzzParseSettings(f *testing.F) {
	f.Add([]byte("local\x00file:/x\x00a.b\nc\x00"))
	f.Add([]byte("command\x00file:/x\x00a.b\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		list, _ := parseSettings(data)
		for _, s := range list {
			useOf(s.key, s.value)
			commandWords(s.key, s.value)
			if s.file != "" && !filepath.IsAbs(s.file) {
				t.Fatalf("%+v", s)
			}
		}
	})
}

func TestMayFindAndName(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][2]bool{
		"": {},
		"[core]\n\tbare = false\n\tlogallrefupdates = true\n[remote \"origin\"]\n\turl = https://x/cmd/path\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n": {},
		"[filter \"lfs\"]\n\tclean = git-lfs clean\n": {},
		"[alias]\n\tst = status\n\tx = !x\n":          {},
		"[Core]\nHooksPath = x\n":                     {true, false},
		"[core] hooksPath = x\n":                      {true, false},
		"[core]\nx = \\\nhooksPath = x\n":             {true, false},
		"[includeIf \"x\"]\n\tpath = y\n":             {true, false},
		"\xef\xbb\xbf[core]hooksPath=x\n":             {true, false},
		"[filter \"x\"]\n\tclean = bin/x\n":           {false, true},
		"[filter \"x]y\"] Clean = bin/x\r\n":          {false, true},
		"[filter.x]clean=\\\r\nbin/x\n":               {false, true},
		"[core]\n\tattributesFile = x\n":              {false, true},
		"[alias]\n\tx = !bin/x\n":                     {false, true},
		"[pager]\n\tlog = bin/x\n":                    {false, true},
		"[lfs \"customtransfer.x\"]\npath = bin/x\n":  {false, true},
	} {
		if got := [2]bool{mayFind(text), mayName(text)}; got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// Root's HOME may be another user's, and root's git would write to any file that this user names.
func TestGitWritesNoTraces(t *testing.T) {
	t.Parallel()
	need(t, "git")
	base := tempDir(t)
	top := repo(t, base+"/proj")
	tree(t, base, map[string]string{"traces": "dir", "home/.gitconfig": "[trace2]\nnormalTarget = " + base + "/traces/home\n",
		"home/.config/git/config": "[trace2]\neventTarget = " + base + "/traces/xdg\n", "sys": "[trace2]\nperfTarget = " + base + "/traces/sys\n"})
	env := map[string]string{"GIT_CONFIG_SYSTEM": base + "/sys", "PATH": os.Getenv("PATH")}
	for i, name := range []string{"", "_EVENT", "_PERF"} {
		env["GIT_TRACE"+name], env["GIT_TRACE2"+name] = base+"/traces/env", base+"/traces/env2"
		env[fmt.Sprintf("GIT_CONFIG_KEY_%d", i)] = "trace2." + []string{"normal", "event", "perf"}[i] + "Target"
		env[fmt.Sprintf("GIT_CONFIG_VALUE_%d", i)], env["GIT_CONFIG_COUNT"] = base+"/traces/command", "3"
	}
	w, ask := obeyed(t, base, env)
	if o := ask(); o.Failed != nil || !o.has(controlConfig, base+"/sys") {
		t.Errorf("%v: %v", o.Failed, o.Files)
	}
	l, err := GitDirs(top)
	if err != nil {
		t.Fatal(err)
	}
	w.Ignored(t.Context(), top, l, nil, []string{"x"}, time.Now().Add(time.Hour))
	if list, err := os.ReadDir(base + "/traces"); err != nil || len(list) > 0 {
		t.Errorf("git wrote %v, %v", list, err)
	}
}

// No search finds what a submodule or a worktree obeys whose work tree is away, but git brings it back.
func TestObeyedWithoutAWorkTree(t *testing.T) {
	t.Parallel()
	need(t, "git")
	base := tempDir(t)
	root := repo(t, base+"/proj")
	for _, name := range []string{"plain", "a/hooked", "linked"} {
		git(t, root, "submodule", "--quiet", "add", repo(t, base+"/lib-"+filepath.Base(name)), name)
	}
	modules := root + "/.git/modules/"
	git(t, root, "config", "--file", modules+"a/hooked/config", "core.hooksPath", root+"/own")
	tree(t, "", map[string]string{modules + "linked/hooks/pre-commit": "-> " + root + "/check"})
	git(t, root, "config", "extensions.worktreeConfig", "true")
	git(t, root, "worktree", "add", "-q", "--detach", base+"/wt")
	git(t, base+"/wt", "config", "--worktree", "core.fsmonitor", root+"/watch")
	git(t, root, "submodule", "--quiet", "deinit", "-f", "--all")
	if err := os.RemoveAll(base + "/wt"); err != nil {
		t.Fatal(err)
	}
	_, ask := obeyed(t, base, nil)
	o := ask()
	if o.Failed != nil || !o.has(controlHooks, root+"/own") || !o.has(controlHooks, modules+"linked/hooks/pre-commit") || !o.has(controlProgram, root+"/watch") {
		t.Errorf("%+v", o)
	}
	if o.has(controlConfig, modules+"plain/config") {
		t.Error("git was asked about a submodule that names nothing")
	}
}

// The paths by which git finds a repository are kept as they are spelled, but for what no command can change.
func TestPointers(t *testing.T) {
	t.Parallel()
	need(t, "git")
	base := tempDir(t)
	root := repo(t, base+"/proj")
	git(t, root, "worktree", "add", "-q", "--detach", base+"/wt")
	common, other := root+"/.git", root+"/.git/worktrees/wt"
	tree(t, base, map[string]string{"link": "-> proj", "sep/d": "dir", "sep/.git": "gitdir: d/../r"})
	if l, err := GitDirs(root); err != nil || !slices.Equal(l.Pointers, []string{common, other}) {
		t.Errorf("%q, %v", l.Pointers, err)
	}
	tree(t, base, map[string]string{"wt/.git": "gitdir: ../link/.git/worktrees/wt", "proj/.git/worktrees/wt/commondir": base + "/link/.git"})
	want := []string{base + "/link/.git", base + "/link/.git/worktrees/wt"}
	if l, err := GitDirs(root); err != nil || !slices.Equal(l.Pointers, want) {
		t.Errorf("%q, %v", l.Pointers, err)
	}
	if l, err := GitDirs(base + "/sep"); err == nil || !slices.Equal(l.Pointers, []string{base + "/sep/d/../r"}) {
		t.Errorf("%q, %v", l.Pointers, err)
	}
}
