package workspace

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func layoutOf(dir string) (GitLayout, error) { return GitDirs(dir) }

// Where git may use one of two repositories, a change of either counts; where commands cannot read
// them, without its name.
func TestActionsOfTwoRepositories(t *testing.T) {
	t.Parallel()
	need(t, "git")
	base := tempDir(t)
	top := base + "/proj"
	tree(t, top, map[string]string{"HEAD": "ref: refs/heads/x", "refs/heads/x": "", "objects/info/packs": "", ".git/HEAD": "x"})
	w, _ := obeyed(t, base, nil)
	hooks := []string{top + "/hooks/pre-commit", top + "/.git/hooks/pre-commit"}
	for _, readable := range []bool{true, false} {
		acts := func() GitActions {
			return w.GitActions(t.Context(), layoutOf, func(string) bool { return readable }, []string{top}, nil, NewBudget())
		}
		for _, hook := range slices.Concat(hooks, hooks) {
			before := acts()
			tree(t, "", map[string]string{hook: hook + before[top].On["hook pre-commit"]})
			if err := os.Chmod(hook, 0o700); err != nil {
				t.Fatal(err)
			}
			since := acts().Since(before, false)[top]
			if named := slices.Contains(since.ActsOn, "hook pre-commit"); named != readable || !named && len(since.Unclear) == 0 {
				t.Errorf("%s, readable: %v: %+v", hook, readable, since)
			}
		}
	}
}

// Git is asked about so many that are not understood, and no more.
func TestActionsOfMany(t *testing.T) {
	t.Parallel()
	base := tempDir(t)
	w := mustNew(t, Options{Root: base, Home: "/nonexistent", LookupEnv: lookupIn(nil)})
	var dirs []string
	for i := range MaxGitActions + 2 {
		dirs = append(dirs, fmt.Sprintf("%s/%d", base, i))
		tree(t, dirs[i], map[string]string{".git/HEAD": "x"})
	}
	if found := w.GitActions(t.Context(), layoutOf, func(string) bool { return true }, dirs, nil, NewBudget()); len(found) != MaxGitActions {
		t.Errorf("git was asked about %d", len(found))
	}
}

// A command can remove the work tree of a submodule: its git directory stays, with what the command changed
// there, and is not a new one.
func TestActionsOfASubmoduleWithoutItsWorkTree(t *testing.T) {
	t.Parallel()
	need(t, "git")
	base := tempDir(t)
	top := repo(t, base+"/proj")
	git(t, top, "submodule", "--quiet", "add", repo(t, base+"/lib"), "lib")
	config := top + "/.git/modules/lib/config"
	git(t, top, "config", "--file", config, "core.fsmonitor", "./watch")
	w, _ := obeyed(t, base, nil)
	acts := func() GitActions {
		return w.GitActions(t.Context(), layoutOf, func(string) bool { return true }, []string{top, top + "/lib"}, nil, NewBudget())
	}
	before := acts()
	if err := os.RemoveAll(top + "/lib"); err != nil {
		t.Fatal(err)
	}
	if since := acts().Since(before, false); len(since) > 0 {
		t.Errorf("nothing was changed: %q", since)
	}
	git(t, top, "config", "--file", config, "remote.origin.url", "ext::x")
	if since := acts().Since(before, false)[top+"/.git/modules/lib"]; !slices.Equal(since.ActsOn, []string{"setting remote.origin.url"}) {
		t.Errorf("another address: %q", since)
	}
}

// Git would wait for a HEAD that is a pipe, and each command for git.
func TestActionsWithAPipe(t *testing.T) {
	t.Parallel()
	need(t, "git")
	base := tempDir(t)
	top := base + "/proj"
	tree(t, top, map[string]string{".git/refs/heads/x": "", ".git/objects/info/packs": ""})
	if err := unix.Mkfifo(top+"/.git/HEAD", 0o600); err != nil {
		t.Fatal(err)
	}
	w, _ := obeyed(t, base, nil)
	found := w.GitActions(t.Context(), layoutOf, func(string) bool { return true }, []string{top}, nil, NewBudget())
	for what := range found[top].On {
		if strings.Contains(what, "no answer") {
			t.Error(what)
		}
	}
	if i := found.Since(nil, false)[top]; len(i.Unclear) == 0 {
		t.Error("it is not reported")
	}
}

// A command can make git obey too much, and another one change what is not listed then.
func TestActionsOfTooMuch(t *testing.T) {
	t.Parallel()
	need(t, "git")
	base := tempDir(t)
	top := repo(t, base+"/proj")
	config := "[alias]\nx = !"
	for i := range maxWords + 1 {
		config += fmt.Sprintf("a/%d ", i)
	}
	config += "\n"
	tree(t, top, map[string]string{".git/config": config})
	w, _ := obeyed(t, base, nil)
	acts := func() GitActions {
		return w.GitActions(t.Context(), layoutOf, func(string) bool { return true }, []string{top}, nil, NewBudget())
	}
	before := acts()
	if len(before.Since(nil, false)[top].Unclear) == 0 {
		t.Error("it is not too much")
	}
	if since := acts().Since(before, false); len(since) > 0 {
		t.Errorf("without a change: %+v", since)
	}
	tree(t, top, map[string]string{".git/hooks/pre-commit": "x"})
	if err := os.Chmod(top+"/.git/hooks/pre-commit", 0o700); err != nil {
		t.Fatal(err)
	}
	hooked := acts()
	if since := hooked.Since(before, false)[top]; !slices.Equal(since.ActsOn, []string{"hook pre-commit"}) {
		t.Errorf("a hook: %+v", since)
	}
	tree(t, top, map[string]string{".git/config": config + "[include]\npath = evil\n"})
	if since := acts().Since(hooked, false)[top]; len(since.Unclear)+len(since.ActsOn) == 0 {
		t.Errorf("an include: %+v", since)
	}
	tree(t, top, map[string]string{".git/config": "[include]\npath = \"~nobody/x\"\n"})
	hooked = acts()
	tree(t, top, map[string]string{".git/config": "[include]\npath = \"~nobody/x\"\n[core]\npager = ./evil\n"})
	if since := acts().Since(hooked, false)[top]; len(since.Unclear)+len(since.ActsOn) == 0 {
		t.Errorf("a setting: %+v", since)
	}
	many := map[string]string{".git/config": "[core]\nbare = false\n"}
	for i := range maxHookEntries + 1 {
		many[fmt.Sprintf(".git/hooks/x%d", i)] = ""
	}
	tree(t, top, many)
	hooked = acts()
	tree(t, top, map[string]string{".git/hooks/post-commit": "x"})
	if since := acts().Since(hooked, false)[top]; len(since.Unclear) == 0 {
		t.Errorf("a hook among many: %+v", since)
	}
}

// A submodule that leads back to its repository is none: a search of submodules would not end.
func TestSubmodulesThatLeadBack(t *testing.T) {
	t.Parallel()
	need(t, "git")
	top := tempDir(t)
	git(t, top, "init", "-q")
	tree(t, top, map[string]string{"one": "-> .", "two": "-> .", "in/one": "-> ..", "sub/file": "",
		".gitmodules": "[submodule \"a\"]\npath = .\npath = one\npath = two\npath = in/one\npath = sub\npath = none/sub\npath = deep" + strings.Repeat("/x", 128) + "\n"})
	l, err := GitDirs(top)
	if err != nil {
		t.Fatal(err)
	}
	if w := l.WorkTrees(top, NewBudget()); !slices.Equal(w.Submodules, []string{top + "/sub", top + "/none/sub"}) {
		t.Errorf("%q", w.Submodules)
	}
}

// The host walks to each submodule several times, and a command can name thousands in deep directories.
func TestSubmodulesTooDeepTogether(t *testing.T) {
	t.Parallel()
	need(t, "git")
	top := tempDir(t)
	git(t, top, "init", "-q")
	deep := strings.Repeat("x/", 100)
	tree(t, top, map[string]string{".gitmodules": "[submodule \"a\"]\npath = " + deep + "one\npath = " + deep + "two\npath = three\n"})
	l, err := GitDirs(top)
	if err != nil {
		t.Fatal(err)
	}
	if levels := maxIndexes / levelCost; levels != 131072 {
		t.Errorf("docs/security.md does not say %d levels", levels)
	}
	left := NewBudget()
	if w := l.WorkTrees(top, left); len(w.Submodules) != 3 || !w.All || left.indexes == maxIndexes {
		t.Errorf("%d submodules, all: %v, %d bytes are left", len(w.Submodules), w.All, left.indexes)
	}
	left.indexes = 101 * levelCost
	if w := l.WorkTrees(top, left); len(w.Submodules) != 1 || w.All {
		t.Errorf("%d submodules, all: %v", len(w.Submodules), w.All)
	}
}
