//go:build unix

package facts

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/view"
	"github.com/sbxhost/sbxhost/workspace"
)

// outlast returns when the clock by which the file system stamps what is made in dir has gone on for so long.
func outlast(t *testing.T, dir string, d time.Duration) {
	t.Helper()
	stamp := func() int64 {
		t.Helper()
		var st unix.Stat_t
		name := dir + "/stamp"
		writeFile(t, name, "")
		if err := unix.Lstat(name, &st); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
		return st.Ctim.Nano()
	}
	for began := stamp(); stamp() < began+int64(d); {
	}
}

// A record that cannot be read is named each time, and stays.
func TestUnreadableMarks(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(dir, mark string) error{
		"cut":     func(_, mark string) error { return os.Truncate(mark, 20) },
		"empty":   func(_, mark string) error { return os.Truncate(mark, 0) },
		"another": func(_, mark string) error { return errors.Join(os.Remove(mark), os.Symlink("/nowhere", mark)) },
		"no list": func(dir, _ string) error { return errors.Join(os.RemoveAll(dir), os.WriteFile(dir, nil, 0o600)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := newTree(t)
			m := tr.machine(t)
			m.Caller.Environ = NewEnvironment([]string{"XDG_STATE_HOME=" + tr.base + "/state"})
			out, err := m.resolve(t.Context(), "fast", view.Definition{})
			if err != nil {
				t.Fatal(err)
			}
			m.Begin(out)
			out.End(true, false)
			marks, err := filepath.Glob(m.markDir() + "/" + m.markPrefix() + "*")
			if err != nil || len(marks) != 1 {
				t.Fatal(marks, err)
			}
			if err := spoil(m.markDir(), marks[0]); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if out, err = m.resolve(t.Context(), "fast", view.Definition{}); err != nil {
					t.Fatal(err)
				}
				said := strings.Join(out.Notes, "\n")
				if !strings.Contains(said, "nothing reports what an earlier command made") || !strings.Contains(said, m.markDir()) {
					t.Errorf("%q", said)
				}
				out.End(true, true)
			}
		})
	}
}

// What a command made whose host was killed is told with the next one, and what was told is not told again.
func TestUntold(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	m := tr.machine(t)
	m.Caller.Environ = NewEnvironment([]string{"XDG_STATE_HOME=" + tr.base + "/state"})
	tasks := func(name string) string { return tr.project + "/" + name + "/.vscode" }
	add := func(name string) { writeFile(t, tasks(name)+"/tasks.json", "{}") }
	command := func(make func(), told bool) []string {
		t.Helper()
		out, err := m.resolve(t.Context(), "fast", view.Definition{})
		if err != nil {
			t.Fatal(err)
		}
		m.Begin(out)
		make()
		list := m.Changes(out).Instructions
		out.End(true, told)
		return list
	}
	add("old")
	for _, tt := range []struct {
		name string
		make func()
		told bool // else its host was killed
		want []string
	}{
		{"told", func() { add("a") }, true, []string{tasks("a")}},
		{"told, before", func() {}, true, nil},
		{"killed", func() { add("b") }, false, []string{tasks("b")}},
		{"killed once more", func() { add("c") }, false, []string{tasks("b"), tasks("c")}},
		{"after two that were killed", func() {}, true, []string{tasks("b"), tasks("c")}},
		{"after that", func() {}, true, nil},
		{"killed, with a tree moved in", func() {
			if err := os.Rename(tr.project+"/old", tr.project+"/moved"); err != nil {
				t.Fatal(err)
			}
		}, false, []string{tasks("moved")}},
		{"after a tree was moved in", func() {}, true, []string{tasks("moved")}},
	} {
		outlast(t, tr.base, 2*tick) // what was made just before a start counts as made since
		if got := command(tt.make, tt.told); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// What a command does to repositories whose host was killed is told with the next one, whatever became the user's own
// by it; and so is what goes on between two commands of a session.
func TestUntoldRepositories(t *testing.T) {
	t.Parallel()
	base := newRepositories(t)
	top := base + "/super"
	m := tree{base: base, project: top}.machine(t)
	m.Caller.Environ = NewEnvironment([]string{"XDG_STATE_HOME=" + base + "/state"})
	evil := func(dir string) {
		runGit(t, top, "init", "-q", dir)
		runGit(t, top+"/"+dir, "commit", "-q", "--allow-empty", "-m", "one")
		runGit(t, top+"/"+dir, "config", "core.fsmonitor", "touch "+base+"/ran; false")
	}
	resolve := func() *Resolved {
		t.Helper()
		out, err := m.resolve(t.Context(), "fast", view.Definition{})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	tells := func(made Changes, p string) bool {
		return slices.ContainsFunc(made.Repositories, func(r RepositoryReport) bool { return r.Path == p && r.Executes() })
	}
	runGit(t, top, "init", "-q", "own")
	runGit(t, top+"/own", "commit", "-q", "--allow-empty", "-m", "one")
	runGit(t, top, "add", "own")
	runGit(t, top, "commit", "-q", "-m", "own")
	unlistable := "new"
	if os.Geteuid() == 0 { // who lists it
		unlistable = "new/a"
	}
	for _, tt := range []struct {
		name, told string
		command    func()
	}{
		{"a submodule", "new", func() { evil("new"); runGit(t, top, "add", "new") }},
		{"a deep one", "a/b/c/d/e", func() { evil("a/b/c/d/e"); runGit(t, top, "add", "a/b/c/d/e") }},
		{"what git is in the middle of", "", func() { writeFile(t, top+"/.git/rebase-merge/git-rebase-todo", "exec true\n") }},
		{"a link in the place of what git writes", "", func() {
			if err := os.Symlink(base+"/x", top+"/.git/COMMIT_EDITMSG2"); err != nil {
				t.Fatal(err)
			}
		}},
		{"a directory that cannot be listed", unlistable, func() {
			evil("new/a")
			if err := os.Chmod(top+"/new", 0o311); err != nil {
				t.Fatal(err)
			}
		}},
		{"a submodule that is none any more", "own", func() { runGit(t, top, "rm", "-q", "--cached", "own") }},
	} {
		killed := resolve()
		m.Begin(killed)
		tt.command()
		killed.End(true, false)
		looked := resolve() // as sbxhost explain does, and a command that does not start
		m.Begin(looked)
		looked.End(false, false)
		next := resolve()
		m.Begin(next)
		if made := m.Changes(next); !tells(made, filepath.Join(top, tt.told)) {
			t.Errorf("killed, %s: %+v", tt.name, made.Repositories)
		}
		next.End(true, true)
		if after := resolve(); len(after.unreported) > 0 {
			t.Errorf("%s: it is told once more", tt.name)
		}
		runGit(t, top, "reset", "-q")
		if err := os.Chmod(top+"/new", 0o755); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		for _, p := range []string{"/new", "/a", "/.git/rebase-merge", "/.git/COMMIT_EDITMSG2"} {
			if err := os.RemoveAll(top + p); err != nil {
				t.Fatal(err)
			}
		}
	}

	last := resolve()
	last.Spec.Session.Processes = true
	m.Changes(last)
	runGit(t, top, "rm", "-q", "--cached", "own") // by what the command has left running
	runGit(t, top, "init", "-q", "users")         // by the user
	next := resolve()
	next.ContinueFrom(last)
	runGit(t, top+"/own", "config", "core.fsmonitor", "touch "+base+"/ran; false")
	evil("users/a/b/c/d")
	runGit(t, top+"/users", "add", "a/b/c/d")
	if made := m.Changes(next); !tells(made, top+"/own") || !tells(made, top+"/users/a/b/c/d") {
		t.Errorf("between commands: %+v", made.Repositories)
	}
}

// What was set before a command that was killed, and taken back since, is told when it is set again; and what is
// the user's in one of two killed commands' definitions stays so.
func TestUntoldAgain(t *testing.T) {
	t.Parallel()
	base := newRepositories(t)
	top := base + "/super"
	runGit(t, top, "init", "-q", "own")
	runGit(t, top+"/own", "commit", "-q", "--allow-empty", "-m", "one")
	runGit(t, top, "add", "own")
	runGit(t, top, "commit", "-q", "-m", "own")
	runGit(t, top, "init", "-q", "s")
	m := tree{base: base, project: top}.machine(t)
	m.Caller.Environ = NewEnvironment([]string{"XDG_STATE_HOME=" + base + "/state"})
	command := func(change func(), told bool) Changes {
		t.Helper()
		out, err := m.resolve(t.Context(), "fast", view.Definition{})
		if err != nil {
			t.Fatal(err)
		}
		m.Begin(out)
		change()
		made := Changes{}
		if told {
			made = m.Changes(out)
		}
		out.End(true, told)
		return made
	}
	keys := func(made Changes, p string) (keys []string) {
		for _, r := range made.Repositories {
			if r.Path == top+"/"+p {
				keys = append(keys, r.Keys...)
			}
		}
		return keys
	}
	set := func() { runGit(t, top+"/s", "config", "core.fsmonitor", "false") }
	nothing := func() {}
	if got := keys(command(set, true), "s"); !slices.Contains(got, "core.fsmonitor") {
		t.Errorf("at first %q", got)
	}
	command(nothing, false)
	runGit(t, top+"/s", "config", "--unset", "core.fsmonitor")
	if got := keys(command(set, true), "s"); !slices.Contains(got, "core.fsmonitor") {
		t.Errorf("again %q", got)
	}
	if got := keys(command(nothing, true), "s"); got != nil {
		t.Errorf("once more %q", got)
	}

	command(nothing, false)
	command(func() { runGit(t, top, "rm", "-q", "--cached", "own") }, false)
	made := command(nothing, true)
	if !slices.ContainsFunc(made.Repositories, func(r RepositoryReport) bool { return r.Path == top+"/own" && r.Executes() }) {
		t.Errorf("what is no submodule any more: %+v", made.Repositories)
	}
}

// A mark is there and locked, or it is not there: another command's host takes one that nobody has locked for a dead
// one's, and removes it. That it reads one keeps nobody from making his own.
func TestMarksOfTheLiving(t *testing.T) {
	t.Parallel()
	m := newTree(t).machine(t)
	m.Caller.Environ = NewEnvironment([]string{"XDG_STATE_HOME=" + t.TempDir() + "/state"})
	living, err := m.resolve(t.Context(), "fast", view.Definition{})
	if err != nil {
		t.Fatal(err)
	}
	notes := len(living.Notes)
	stop, failed := make(chan struct{}), make(chan error, 2)
	for range 2 {
		go func() {
			for {
				select {
				case <-stop:
					failed <- nil
					return
				default:
				}
				out := &Resolved{View: living.View}
				if m.readMarks(out); len(out.unreported) > 0 {
					failed <- errors.New("the mark of a living one counts as untold")
					return
				}
			}
		}()
	}
	for range 500 {
		if m.Begin(living); living.mark == nil {
			t.Error("no mark was made")
			break
		}
		living.End(true, true)
	}
	close(stop)
	for range 2 {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
	if err := os.WriteFile(m.markDir()+"2", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(m.markDir(), m.markDir()+"3"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(m.markDir()+"2", m.markDir()); err != nil {
		t.Fatal(err)
	}
	if m.Begin(living); living.mark != nil || len(living.Notes) != notes+1 {
		t.Errorf("where no mark can be made: %v, notes %q", living.mark, living.Notes)
	}
}

// What a killed command made where the next one shows nothing is told with the next one, and once. Of what is away then,
// the mark stays.
func TestUntoldOfOtherDefinitions(t *testing.T) {
	t.Parallel()
	base := newRepositories(t)
	top, other := base+"/super", base+"/other"
	m := tree{base: base, project: top}.machine(t)
	m.Caller.Environ = NewEnvironment([]string{"XDG_STATE_HOME=" + base + "/state"})
	evil := func(dir string) {
		runGit(t, base, "init", "-q", dir)
		runGit(t, dir, "config", "core.fsmonitor", "touch "+base+"/ran; false")
	}
	runGit(t, base, "init", "-q", "other/own")
	writeFile(t, other+"/own/.git/hooks/pre-commit", "#!/bin/sh\n")
	if err := os.Chmod(other+"/own/.git/hooks/pre-commit", 0o755); err != nil {
		t.Fatal(err)
	}
	writeFile(t, other+"/old/.vscode/tasks.json", "{}")
	writeFile(t, top+"/hidden/old/.vscode/tasks.json", "{}")
	for _, dir := range []string{"/rep", "/sub"} { // so that hidden is as it was
		if err := os.Mkdir(top+"/hidden"+dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	outlast(t, base, 2*tick)
	resolve := func(d view.Definition) *Resolved {
		t.Helper()
		out, err := m.resolve(t.Context(), "fast", d)
		if err != nil {
			t.Fatal(err)
		}
		m.Begin(out)
		return out
	}
	plain := view.Definition{}
	wide := view.Definition{BindPaths: []view.Bind{{Host: other, Writable: true}}}
	hides := view.Definition{DenyPaths: []string{"hidden/"}}
	tell := func(name string, d view.Definition, want ...string) {
		t.Helper()
		next := resolve(d)
		made := m.Changes(next)
		got := slices.Clone(made.Instructions)
		for _, r := range made.Repositories {
			if r.Executes() && !strings.HasPrefix(r.Path, top+"/l") { // its submodules count as unknown
				got = append(got, r.Path)
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s: told of %q, want %q", name, got, want)
		}
		next.End(true, true)
	}
	for _, tt := range []struct {
		name         string
		killed, next view.Definition
		make         func()
		want         []string
	}{
		{"a bind that the next has not", wide, plain, func() {
			evil(other + "/rep")
			writeFile(t, other+"/sub/.vscode/tasks.json", "{}")
		}, []string{other + "/rep", other + "/sub/.vscode"}},
		{"a directory that the next hides", plain, hides, func() {
			evil(top + "/hidden/rep")
			writeFile(t, top+"/hidden/sub/.vscode/tasks.json", "{}")
		}, []string{top + "/hidden/rep", top + "/hidden/sub/.vscode"}},
	} {
		killed := resolve(tt.killed)
		tt.make()
		killed.End(true, false)
		tell(tt.name, tt.next, tt.want...)
		tell(tt.name+", and then", tt.next)
		tell(tt.name+", by the first", tt.killed)
		outlast(t, base, 2*tick)
	}

	for _, dir := range []string{other + "/rep", top + "/hidden/rep"} {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	killed := resolve(wide)
	writeFile(t, other+"/late/.vscode/tasks.json", "{}")
	killed.End(true, false)
	if err := os.Rename(other, base+"/away"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		tell("it is away", plain)
	}
	if err := os.Rename(base+"/away", other); err != nil {
		t.Fatal(err)
	}
	tell("it is back", plain, other+"/late/.vscode")
	tell("it was told", wide)
}

// So are a worktree that ended with the command, and commits that are not signed.
func TestUntoldWorktrees(t *testing.T) {
	t.Parallel()
	base := newRepositories(t)
	top := base + "/super"
	writeFile(t, base+"/home/.gitconfig", "[commit]\n\tgpgSign = true\n")
	ws, err := workspace.New(workspace.Options{Root: top, Home: base + "/home", LookupEnv: func(name string) (string, bool) {
		if name == "HOME" {
			return base + "/home", true
		}
		return os.LookupEnv(name)
	}})
	if err != nil {
		t.Fatal(err)
	}
	m := &Machine{Config: Config{Workspace: ws, Caller: Caller{UID: 1000, Home: base + "/home", Environ: NewEnvironment([]string{"XDG_STATE_HOME=" + base + "/state"})}}}
	resolve := func() *Resolved {
		t.Helper()
		out, err := m.resolve(t.Context(), "fast", view.Definition{})
		if err != nil {
			t.Fatal(err)
		}
		m.Begin(out)
		return out
	}
	lose := func(name string) {
		runGit(t, top, "worktree", "add", "-q", base+"/"+name, "-b", name)
		if err := os.RemoveAll(base + "/" + name); err != nil {
			t.Fatal(err)
		}
	}
	want := func(what string, out *Resolved, unsigned bool, names ...string) {
		t.Helper()
		made := m.Changes(out)
		if len(made.LostWorktrees) != len(names) || made.Unsigned != unsigned {
			t.Errorf("%s: lost %q, unsigned %t, want %q, %t", what, made.LostWorktrees, made.Unsigned, names, unsigned)
		}
		for i, place := range made.LostWorktrees {
			if !strings.HasPrefix(place, base+"/"+names[i]) {
				t.Errorf("%s: lost %q, want %q", what, made.LostWorktrees, names)
			}
		}
	}
	lose("old")
	killed := resolve()
	lose("new")
	runGit(t, top, "commit", "-q", "--allow-empty", "-m", "unsigned")
	killed.End(true, false)
	killed = resolve()
	lose("newer")
	killed.End(true, false)
	next := resolve()
	want("killed", next, true, "new", "newer")
	next.End(true, true)
	last := resolve()
	last.Spec.Session.Processes = true
	want("told", last, false)
	last.End(true, true)
	lose("other") // by what the command has left running
	next = resolve()
	next.ContinueFrom(last)
	want("between commands", next, false, "other")
	next.End(true, true)
}
