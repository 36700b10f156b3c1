package workspace

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const hostileConfig = `[core]
	repositoryformatversion = 0
	hooksPath = "tools/hooks" ; here
	FSMONITOR = ./evil
[core] pager = less
[alias]
	st = status
[filter "x]y"]
	clean = ./evil
[remote "origin"]
	url = https://example.com/
	uploadpack = evil
[include]
	path = ../inc
[includeIf "gitdir:~/"]
	path = ~/inc2
[diff "old"]
	textconv = \
evil
[lfs "customtransfer.x"]
	path = evil
[extensions]
	worktreeConfig = true
[rebase]
	instructionFormat = "%s%nexec evil"
[user]
	name = x
`

func inspector(t *testing.T, base string) *Workspace {
	return mustNew(t, Options{Root: base, LookupEnv: lookupIn(map[string]string{"PATH": os.Getenv("PATH"), "GIT_CONFIG_NOSYSTEM": "1"})})
}

func TestInspect(t *testing.T) {
	t.Parallel()
	need(t, "git")
	base := tempDir(t)
	w := inspector(t, base)
	root := repo(t, base+"/proj")
	if i := w.inspect(t, root); len(i.ActsOn)+len(i.Unclear) != 0 {
		t.Errorf("a plain one: %+v", i)
	}
	tree(t, root, map[string]string{
		".git/config": hostileConfig, ".git/config.worktree": "[core]\nsshCommand=x\n",
		".git/hooks/pre-commit": "x", ".git/hooks/not-executable": "x", ".git/hooks/pre-push": "-> pre-commit", ".git/hooks/a\nb": "x",
	})
	for _, name := range []string{"pre-commit", "a\nb"} {
		if err := os.Chmod(root+"/.git/hooks/"+name, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	i := w.inspect(t, root)
	want := []string{"hook a\nb", "hook pre-commit", "hook pre-push"}
	for _, key := range []string{"alias.st", "core.fsmonitor", "core.hookspath", "core.pager", "core.sshcommand", "diff.old.textconv", "extensions.worktreeconfig", "filter.x]y.clean",
		"include.path", "includeif.gitdir:~/.path", "lfs.customtransfer.x.path", "rebase.instructionformat", "remote.origin.uploadpack"} {
		want = append(want, "setting "+key)
	}
	if !slices.Equal(i.ActsOn, want) || len(i.Unclear) > 0 {
		t.Errorf("%+v", i)
	}
	l, err := GitDirs(root)
	if files := l.configurations(); err != nil || len(files) != 2 { // git runs for each
		t.Errorf("configurations %q, %v", files, err)
	}
}

// A command names a directory that it cannot list as that of the hooks.
func TestInspectHooksElsewhere(t *testing.T) {
	t.Parallel()
	need(t, "git")
	base := tempDir(t)
	w := inspector(t, base)
	root := repo(t, base+"/proj")
	acts := func() GitActions {
		return w.GitActions(t.Context(), layoutOf, func(string) bool { return true }, []string{root}, nil, NewBudget())
	}
	tree(t, base, map[string]string{"other/hunter2": "-> ../target", "target": "x"})
	before := acts()
	git(t, root, "config", "core.hooksPath", base+"/other")
	named := acts()
	dir := "file " + base + "/other"
	if now := named.Since(before, false)[root]; !slices.Equal(now.ActsOn, []string{dir, "setting core.hookspath"}) {
		t.Errorf("%+v", now)
	}
	tree(t, base, map[string]string{"target": "y"})
	if now := acts().Since(named, false)[root]; !slices.Equal(now.ActsOn, []string{dir}) {
		t.Errorf("after a change of what a hook leads to: %+v", now)
	}
}

// A tool such as git-new-workdir makes a symlink of the configuration, which can also lead to a hidden file.
func TestInspectALinkedConfiguration(t *testing.T) {
	t.Parallel()
	need(t, "git")
	base := tempDir(t)
	w := inspector(t, base)
	root := repo(t, base+"/proj")
	tree(t, base, map[string]string{"config": "[core]\nhooksPath = hooks\n[include]\npath = ../../inc\n[credential \"https://hunter2@host\"]\nhelper = x\n", "inc": "", "proj/hooks/pre-commit": "x"})
	if err := errors.Join(os.Remove(root+"/.git/config"), os.Symlink("../../config", root+"/.git/config")); err != nil {
		t.Fatal(err)
	}
	acts := func() GitActions {
		return w.GitActions(t.Context(), layoutOf, func(string) bool { return true }, []string{root}, nil, NewBudget())
	}
	before := acts()
	tree(t, base, map[string]string{"inc": "[core]\nfsmonitor = x\n", "proj/hooks/pre-commit": "y"})
	now := acts()
	want := []string{"file " + root + "/hooks", "setting " + base + "/inc"}
	if got := now.Since(before, true)[root]; !slices.Equal(got.ActsOn, want) || len(got.Unclear) > 0 {
		t.Errorf("%+v", got)
	}
	if all := fmt.Sprint(now.Since(nil, true)); strings.Contains(all, "hunter2") || !strings.Contains(all, "setting "+root+"/.git/config") {
		t.Error(all)
	}
}

// A command includes a configuration that it cannot read.
func TestInspectNamesNoUnreadableFile(t *testing.T) {
	t.Parallel()
	need(t, "git")
	base := tempDir(t)
	w := inspector(t, base)
	root := repo(t, base+"/proj")
	tree(t, base, map[string]string{"other/config": "[core]\nsshCommand = ssh -F " + base + "/other/hunter2\n", "other/hunter2": "x"})
	acts := func(readable func(string) bool) GitActions {
		return w.GitActions(t.Context(), layoutOf, readable, []string{root}, nil, NewBudget())
	}
	before := acts(func(string) bool { return true })
	git(t, root, "config", "include.path", base+"/other/config")
	for _, all := range []bool{true, false} {
		now := acts(func(p string) bool { return all || strings.HasPrefix(p, root) }).Since(before, false)[root]
		if strings.Contains(fmt.Sprint(now), "hunter2") != all || !slices.Contains(now.ActsOn, "setting "+base+"/other/config") {
			t.Errorf("all can be read: %v, %+v", all, now)
		}
	}
}

// A tool's name is a path, from git's own directory.
func TestInspectTools(t *testing.T) {
	t.Parallel()
	need(t, "git")
	base := tempDir(t)
	w := inspector(t, base)
	root := repo(t, base+"/proj")
	tree(t, root, map[string]string{".git/config": "[diff]\n\ttool = ../evil\n\tguitool = vimdiff\n[merge]\n\ttool = meld\n\tguitool = ../evil\n" +
		"[instaweb]\n\tmodulepath = x\n\tgitwebdir = x\n\thttpd = x\n[http]\n\tcurloptResolve = x\n" +
		"[remote]\n\tpushDefault = ./cache/x\n[branch \"main\"]\n\tremote = .\n\tpushRemote = ext::evil\n[branch \"x\"]\n\tremote = ../x\n\tpushRemote = origin\n" +
		"[remote \"a\"]\n\turl = git@host:a/b\n\tpushurl = cache/x\n[remote \"b\"]\n\turl = https://[::1]/a=b/c::d\n\tpushurl = file:///x\n[remote \"c\"]\n\turl = bare\n\tpushurl = ssh://host/x\n"})
	want := []string{"setting branch.main.pushremote", "setting branch.x.remote", "setting diff.tool", "setting http.curloptresolve", "setting instaweb.gitwebdir", "setting instaweb.httpd", "setting instaweb.modulepath", "setting merge.guitool",
		"setting remote.a.pushurl", "setting remote.b.pushurl", "setting remote.pushdefault"}
	if i := w.inspect(t, root); !slices.Equal(i.ActsOn, want) || len(i.Unclear) > 0 {
		t.Errorf("%+v", i)
	}
	known := GitActions{root + "/.git": {Path: root, On: Acts{}}}
	now := w.GitActions(t.Context(), layoutOf, func(string) bool { return true }, []string{root}, nil, NewBudget()).Since(known, false)[root]
	if urls := slices.DeleteFunc(now.ActsOn, func(what string) bool { return !strings.HasSuffix(what, ".url") }); !slices.Equal(urls, []string{"setting remote.c.url"}) {
		t.Errorf("in a repository that is not new: %q", urls)
	}
}

// inspect returns what git acts on in a repository that is new.
func (w *Workspace) inspect(t *testing.T, dir string) Change {
	readable := func(p string) bool { return strings.HasPrefix(p, dir) }
	return w.GitActions(t.Context(), layoutOf, readable, []string{dir}, nil, NewBudget()).Since(nil, false)[dir]
}

// What is not understood gets no all-clear.
func TestInspectUnclear(t *testing.T) {
	t.Parallel()
	need(t, "git")
	base := tempDir(t)
	w := inspector(t, base)
	tree(t, base, map[string]string{"secret": "[credential \"hunter2\"]\nhelper = x\n", "dir/hunter2": "x"})
	if err := os.Chmod(base+"/dir/hunter2", 0o755); err != nil {
		t.Fatal(err)
	}
	git(t, base, "init", "-q", "elsewhere")
	n := 0
	for name, change := range map[string]func(gitDir string) error{
		"a commondir elsewhere": func(d string) error {
			return os.WriteFile(d+"/commondir", []byte(base+"/elsewhere/.git\n"), 0o644)
		},
		"a long configuration": func(d string) error {
			return os.WriteFile(d+"/config", []byte(strings.Repeat("#\n", maxGitConfig)+"[core]\nfsmonitor = ./evil\n"), 0o644)
		},
		"a broken configuration": func(d string) error { return os.WriteFile(d+"/config", []byte("[hunter2"), 0o644) },
		"a link to a configuration": func(d string) error {
			return replace(d+"/config", func(p string) error { return os.Symlink(base+"/secret", p) })
		},
		"a fifo": func(d string) error {
			return replace(d+"/config", func(p string) error { return unix.Mkfifo(p, 0o644) })
		},
		"linked hooks": func(d string) error {
			return replace(d+"/hooks", func(p string) error { return os.Symlink(base+"/dir", p) })
		},
		"very many hooks": func(d string) error {
			for i := range maxHookEntries + 1 {
				if err := os.WriteFile(fmt.Sprintf("%s/hooks/%d", d, i), nil, 0o755); err != nil {
					return err
				}
			}
			return nil
		},
		"a HEAD that is none": func(d string) error { return os.WriteFile(d+"/HEAD", nil, 0o644) },
	} {
		dir := fmt.Sprintf("%s/a\nb%d", base, n)
		n++
		git(t, base, "init", "-q", dir)
		if err := change(dir + "/.git"); err != nil {
			t.Fatal(err)
		}
		i := w.inspect(t, dir)
		if len(i.Unclear)+len(i.ActsOn) == 0 {
			t.Errorf("%s is not reported", name)
		}
		if all := fmt.Sprint(i); strings.Contains(all, "hunter2") {
			t.Errorf("%s: names what lies elsewhere: %s", name, all)
		}
	}
}

func replace(p string, with func(string) error) error {
	if err := os.RemoveAll(p); err != nil {
		return err
	}
	return with(p)
}

// A rebase that stops is seen, and one that goes on or whose list is changed.
func TestPending(t *testing.T) {
	t.Parallel()
	need(t, "git")
	base := tempDir(t)
	root := repo(t, base+"/proj")
	git(t, root, "worktree", "add", "-q", "--detach", root+"/near")
	git(t, root, "worktree", "add", "-q", "--detach", base+"/wt")
	tree(t, root, map[string]string{"second": "x"})
	git(t, root, "add", "second")
	git(t, root, "commit", "-qm", "two")
	l, err := GitDirs(root)
	if err != nil {
		t.Fatal(err)
	}
	look := func() Acts {
		p := Acts{}
		p.AddPending(l, NewBudget())
		return p
	}
	since := func(now, before Acts) []string {
		change := now.Since(before, false, NewBudget())
		if len(change.Unclear) > 0 {
			t.Errorf("%q", change.Unclear)
		}
		return change.ActsOn
	}
	none := look()
	git(t, root, "rebase", "-q", "--exec", "touch "+base+"/ran", "HEAD~1")
	if now := look(); len(since(now, none)) != 0 || !exists(base+"/ran") {
		t.Errorf("a rebase that has ended: %q", since(now, none))
	}
	git(t, root, "-c", "sequence.editor=sed -i s/^pick/edit/", "rebase", "-q", "-i", "HEAD~1")
	todo := root + "/.git/rebase-merge/git-rebase-todo"
	stopped := look()
	if got := since(stopped, none); !slices.Equal(got, []string{"state " + root + "/.git/rebase-merge"}) {
		t.Errorf("a rebase that has stopped: %q", got)
	}
	if got := since(look(), stopped); len(got) != 0 {
		t.Errorf("nothing happened: %q", got)
	}
	if err := os.WriteFile(todo, []byte("exec evil\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := since(look(), stopped); len(got) != 1 {
		t.Errorf("its list is another: %q", got)
	}
	git(t, root, "rebase", "--quit")
	for _, name := range []string{"/.git/rebase-apply", "/.git/sequencer", "/.git/worktrees/near/rebase-merge", "/.git/MERGE_AUTOSTASH", "/.git/BISECT_NAMES", "/.git/objects/info/alternates", "/.git/lazygit.yml", "/.git/gitweb", "/.git/pid", "/.git/sl/config", "/.git/rr-cache", "/.git/refs/replace", "/.git/shallow", "/.git/info/grafts"} {
		tree(t, root, map[string]string{name + "/todo": "x"})
		if got := since(look(), none); !slices.Equal(got, []string{"state " + root + name}) {
			t.Errorf("%s: %q", name, got)
		}
		if err := os.RemoveAll(root + name); err != nil {
			t.Fatal(err)
		}
	}
	tree(t, root, map[string]string{".git/worktrees/wt/rebase-merge/todo": "x"})
	if got := since(look(), none); len(got) != 0 {
		t.Errorf("in a worktree that is protected: %q", got)
	}
	wt, err := GitDirs(base + "/wt")
	if err != nil {
		t.Fatal(err)
	}
	p := Acts{}
	if p.AddPending(wt, NewBudget()); len(since(p, Acts{})) != 1 {
		t.Errorf("in a worktree: %v", p)
	}
	git(t, root, "replace", "HEAD", "HEAD~1")
	git(t, root, "pack-refs", "--all")
	if got := since(look(), none); !slices.Contains(got, "state "+root+"/.git/packed-refs") {
		t.Errorf("a packed replacement: %q", got)
	}
	packed, err := os.ReadFile(root + "/.git/packed-refs")
	if err != nil {
		t.Fatal(err)
	}
	replaced := git(t, root, "log", "--oneline")
	tree(t, root, map[string]string{".git/packed-refs": strings.ReplaceAll(string(packed), " refs/", "\trefs/")})
	if got := git(t, root, "log", "--oneline"); got != replaced {
		t.Fatalf("git reads no replacement after a tab: %q", got)
	}
	if got := since(look(), none); !slices.Contains(got, "state "+root+"/.git/packed-refs") {
		t.Errorf("a replacement after a tab: %q", got)
	}
	git(t, root, "replace", "-d", strings.TrimSpace(git(t, root, "--no-replace-objects", "rev-parse", "HEAD")))
	if got := since(look(), none); len(got) != 0 {
		t.Errorf("an empty directory: %q", got)
	}
	tree(t, root, map[string]string{".git/rebase-merge": "-> ../second"})
	if got := since(look(), none); len(got) != 1 {
		t.Errorf("a link: %q", got)
	}
}

func linksOfAll(l GitLayout) Acts {
	found := Acts{}
	found.AddLinks(l, map[string]Acts{})
	return found
}

func TestLinks(t *testing.T) {
	t.Parallel()
	need(t, "git")
	base := tempDir(t)
	root := repo(t, base+"/proj")
	git(t, root, "worktree", "add", "-q", "--detach", root+"/near")
	git(t, root, "worktree", "add", "-q", "--detach", base+"/wt")
	links := func(dir string) (paths []string) {
		l, err := GitDirs(dir)
		if err != nil {
			t.Fatal(err)
		}
		for said := range linksOfAll(l) {
			if strings.Contains(said, "which worktree") {
				continue // so is the link among them
			}
			said = strings.TrimPrefix(said, `unclear git: "`+base)
			path, _, _ := strings.Cut(said, `" is a `)
			paths = append(paths, path)
		}
		return paths
	}
	if got := links(root); len(got) != 0 {
		t.Errorf("without any: %q", got)
	}
	want := []string{"MERGE_MSG", "annex/x", "info/sparse-checkout", "lfs/objects/ab", "objects/17", "objects/info/x", "objects/pack/x", "objects/pack/y/z",
		"reftable", "rr-cache/id/thisimage", "worktrees/near/FETCH_HEAD", "worktrees/near/logs/x", "worktrees/wt/index.lock", "worktrees/x",
		"refs/heads/a/b/c/d", "refs/tags/x", "logs/refs/heads/x"}
	for _, at := range append(want, "hooks/pre-commit", "objects/ab/x", "lfs/objects/cd/x/y") {
		if err := errors.Join(os.MkdirAll(filepath.Dir(root+"/.git/"+at), 0o755), os.Symlink("/nowhere", root+"/.git/"+at)); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{
		"ORIG_HEAD": "ref: commondir", "refs/heads/evil": "ref:\t\nhooks/x\n", "refs/remotes/origin/far": "ref:" + strings.Repeat(" ", 300) + "shallow",
		"worktrees/near/MERGE_HEAD": "ref: shallow\x00" + strings.Repeat("\x00", 1<<20), "worktrees/near/refs/bisect/bad": "ref: main-worktree/x",
		"refs/remotes/origin/HEAD": "ref: refs/remotes/origin/main\n", "COMMIT_EDITMSG": "ref: 12\n", "ORIG-HEAD": "ref: x", "objects/info/ORIG_HEAD": "ref: x",
	} {
		if tree(t, root, map[string]string{".git/" + name: text}); !strings.Contains(text, "refs/") && !strings.HasSuffix(name, "MSG") && text != "ref: x" {
			want = append(want, name)
		}
	}
	linked := []string{"SQUASH_MSG", "logs/heads/y", "worktrees/near/TAG_EDITMSG"}
	for _, at := range append([]string{"objects/pack/z1", "refs/heads/z2", "lfs/objects/z3"}, linked...) {
		tree(t, root, map[string]string{".git/" + at: "text"})
		if err := os.Link(root+"/.git/"+at, root+"/"+filepath.Base(at)); err != nil {
			t.Fatal(err)
		}
	}
	want = below("/proj/.git", append(want, linked...)...)
	slices.Sort(want)
	for _, dir := range []string{root, base + "/wt"} {
		got := links(dir)
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", dir, got, want)
		}
	}
	for i := range maxLinked {
		if err := os.WriteFile(fmt.Sprintf("%s/.git/refs/heads/%d", root, i), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got := links(root); !strings.Contains(strings.Join(got, " "), "more than") || !slices.Contains(got, "/proj/.git/worktrees/x") || !slices.Contains(got, "/proj/.git/logs/refs/heads/x") {
		t.Errorf("too many refs: %q", got)
	}
	l, err := GitDirs(root)
	if err != nil {
		t.Fatal(err)
	}
	if change := linksOfAll(l).Since(linksOfAll(l), false, NewBudget()); len(change.Unclear) != 1 { // a link may be among them by now
		t.Errorf("too many refs, later: %q", change.Unclear)
	}
}

// The git directories of submodules have the same parts.
func TestLinksInSubmodules(t *testing.T) {
	t.Parallel()
	need(t, "git")
	base := tempDir(t)
	root := repo(t, base+"/proj")
	git(t, root, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", repo(t, base+"/lib"), "a/lib")
	modules := root + "/.git/modules/a/lib"
	if err := errors.Join(os.RemoveAll(root+"/a"), os.MkdirAll(modules+"/objects/ab", 0o755), os.Symlink("/nowhere", modules+"/objects/ab/x"), os.Symlink("/nowhere", modules+"/refs/x"), os.Symlink("/nowhere", root+"/.git/modules/a/x")); err != nil {
		t.Fatal(err)
	}
	l, err := GitDirs(root)
	if err != nil {
		t.Fatal(err)
	}
	said := strings.Join(slices.Collect(maps.Keys(linksOfAll(l))), "\n")
	if strings.Count(said, "\n") != 1 || !strings.Contains(said, modules+`/refs/x" is`) || !strings.Contains(said, root+`/.git/modules/a/x" is`) {
		t.Error(said)
	}
}

// Sparse files cost a command nothing, and the host what they would have.
func TestIndexesTogether(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	now := Acts{}
	for i := range 10 {
		path := fmt.Sprintf("%s/index.%d", dir, i)
		if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, maxIndex)); err != nil {
			t.Fatal(err)
		}
		now[actsOnIndex+path] = "new\x00" + dir
	}
	left := NewBudget()
	change := now.Since(nil, false, left)
	unread := slices.DeleteFunc(slices.Clone(change.Unclear), func(s string) bool { return !strings.Contains(s, "all indexes together") })
	if len(change.ActsOn) != 0 || len(change.Unclear) != 10 || len(unread) != 2 {
		t.Errorf("%q", change)
	}
	packed := filepath.Join(dir, "packed-refs")
	if err := errors.Join(os.WriteFile(packed, nil, 0o600), os.Truncate(packed, maxIndex)); err != nil {
		t.Fatal(err)
	}
	now.AddPending(GitLayout{GitDir: dir, CommonDir: dir}, left)
	if now[actsOnState+packed] == "" {
		t.Error("packed refs are read, though nothing is left")
	}
}
