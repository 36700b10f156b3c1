//go:build unix

package facts

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/internal/view"
	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/workspace"
)

// A record that cannot be read is named each time, and stays.
func TestUnreadableMarks(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(dir, mark string) error{
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

// The next command tells once that nobody knows what a command made whose host was killed; of a
// record that was cut, for all of the workspace.
func TestUntold(t *testing.T) {
	t.Parallel()
	base := newRepositories(t)
	top, other := base+"/super", base+"/other"
	if err := os.Mkdir(other, 0o755); err != nil {
		t.Fatal(err)
	}
	m := tree{base: base, project: top}.machine(t)
	m.Caller.Environ = NewEnvironment([]string{"XDG_STATE_HOME=" + base + "/state"})
	wide := view.Definition{BindPaths: []view.Bind{{Host: other, Writable: true}}}
	resolve := func(d view.Definition) *Resolution {
		t.Helper()
		out, err := m.resolve(t.Context(), "fast", d)
		if err != nil {
			t.Fatal(err)
		}
		m.Begin(out)
		return out
	}
	tell := func(name string, want ...string) {
		t.Helper()
		next := resolve(view.Definition{})
		notes := strings.Count(strings.Join(next.Notes, "\n"), "ended without a report")
		var got []string
		for _, r := range m.Changes(next).Repositories {
			if r.Executes() {
				got = append(got, r.Path)
			}
		}
		if !slices.Equal(got, want) || notes != min(len(want), 1) {
			t.Errorf("%s: told of %q, want %q; noted %d times", name, got, want, notes)
		}
		next.End(true, true)
	}
	tell("nothing was killed")
	resolve(wide).End(true, false)
	looked := resolve(view.Definition{}) // as sbxhost explain does, and a command that does not start
	looked.End(false, false)
	tell("killed", top, other)
	tell("it was told")
	for range 3 {
		resolve(wide).End(true, false)
	}
	tell("three were killed", top, other)
	tell("they were told")
	resolve(view.Definition{ReadOnly: true}).End(true, false)
	tell("one that could write nothing was killed")
	resolve(view.Definition{ReadOnly: true, BindPaths: wide.BindPaths}).End(true, false)
	tell("one that could write only elsewhere was killed", other)
	for _, size := range []int64{0, 20} {
		resolve(wide).End(true, false)
		marks, err := filepath.Glob(m.markDir() + "/" + m.markPrefix() + "*")
		if err != nil || len(marks) != 1 {
			t.Fatal(marks, err)
		}
		if err := os.Truncate(marks[0], size); err != nil {
			t.Fatal(err)
		}
		if next := resolve(view.Definition{}); len(next.unreported) != 1 || len(m.Changes(next).Repositories) != 1 {
			t.Errorf("cut to %d: %+v", size, m.Changes(next).Repositories)
		} else {
			next.End(true, true)
		}
	}
	last := resolve(view.Definition{})
	last.Spec.Session.Processes = true
	m.Changes(last)
	last.End(true, true) // but for what it has left running
	if entries, err := os.ReadDir(m.markDir()); err != nil || len(entries) != 1 {
		t.Errorf("with processes: %v, %v", entries, err)
	}
	last.EndAfter(true)
	m.Close()
	if entries, err := os.ReadDir(m.markDir()); err != nil || len(entries) != 0 {
		t.Errorf("after them: %v, %v", entries, err)
	}
}

// A Machine keeps a mark for its next command: it tells of that one, and of none before it.
func TestKeptMark(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	machine := func() *Machine {
		m := tr.machine(t)
		m.Caller.Environ = NewEnvironment([]string{"XDG_STATE_HOME=" + tr.base + "/state"})
		return m
	}
	resolve := func(m *Machine, want int) *Resolution {
		t.Helper()
		out, err := m.resolve(t.Context(), "fast", view.Definition{})
		if err != nil {
			t.Fatal(err)
		}
		if len(out.unknown) != want {
			t.Errorf("unknown: %q, want %d", out.unknown, want)
		}
		return out
	}
	files := func(want int) {
		t.Helper()
		if list, err := os.ReadDir(machine().markDir()); err != nil || len(list) != want {
			t.Errorf("%d marks, want %d: %v", len(list), want, err)
		}
	}
	run := func(m *Machine, unknown int) {
		t.Helper()
		out := resolve(m, unknown)
		m.Begin(out)
		out.End(true, true)
	}
	killed := func(k *mark) { k.end(false) }
	m, other := machine(), machine()
	run(m, 0)
	first := m.mark.Load()
	files(1)
	run(m, 0)
	run(other, 0)
	if files(2); m.mark.Load() != first {
		t.Error("another mark was made")
	}
	one, two := resolve(m, 0), resolve(m, 0)
	m.Begin(one)
	m.Begin(two)
	if files(3); one.mark != first || two.mark == nil || two.mark == first {
		t.Errorf("two at once have %p and %p", one.mark, two.mark)
	}
	resolve(other, 0)
	one.End(true, false)
	run(other, 1)
	two.End(true, true)
	run(other, 0)
	files(2)

	killed(m.mark.Load()) // between two commands
	run(other, 0)
	files(1)
	m = machine()
	run(m, 0)
	last := resolve(m, 0)
	m.Begin(last)
	killed(last.mark) // while one runs
	run(other, 1)
	files(1)

	m = machine()
	run(m, 0)
	for spoil := range 2 { // a person has removed the state, or moved it away
		if err := os.Rename(m.markDir(), fmt.Sprint(m.markDir(), spoil)); err != nil {
			t.Fatal(err)
		}
		if spoil == 1 {
			if err := os.RemoveAll(m.markDir() + "1"); err != nil {
				t.Fatal(err)
			}
		}
		last := resolve(m, 0)
		m.Begin(last)
		files(1)
		last.End(true, true)
	}
	last = resolve(m, 0)
	last.Spec.Table = nil // it can write elsewhere
	m.Begin(last)
	if last.mark != nil {
		t.Error("a mark of a command that can write nothing")
	}
	m.Begin(resolve(m, 0))
	last = resolve(m, 0)
	m.Begin(last)
	m.Close()
	m.Close()
	last.End(true, true)
	files(1) // of the one that still runs
}

// What goes on between two commands of a session is told with the second.
func TestBetweenCommands(t *testing.T) {
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
	resolve := func() *Resolution {
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
	last := resolve()
	last.Spec.Session.Processes = true
	m.Changes(last)
	runGit(t, top, "rm", "-q", "--cached", "own") // by what the command has left running
	runGit(t, top, "worktree", "add", "-q", base+"/lost", "-b", "lost")
	if err := os.RemoveAll(base + "/lost"); err != nil {
		t.Fatal(err)
	}
	runGit(t, top, "commit", "-q", "--allow-empty", "-m", "unsigned")
	runGit(t, top, "init", "-q", "users") // by the user
	next := resolve()
	next.ContinueFrom(last)
	runGit(t, top+"/own", "config", "core.fsmonitor", "touch "+base+"/ran; false")
	runGit(t, top, "init", "-q", "users/a/b/c/d")
	runGit(t, top+"/users/a/b/c/d", "commit", "-q", "--allow-empty", "-m", "one")
	runGit(t, top+"/users/a/b/c/d", "config", "core.fsmonitor", "touch "+base+"/ran; false")
	runGit(t, top+"/users", "add", "a/b/c/d")
	made := m.Changes(next)
	if !tells(made, top+"/own") || !tells(made, top+"/users/a/b/c/d") {
		t.Errorf("%+v", made.Repositories)
	}
	if len(made.LostWorktrees) != 1 || !strings.HasPrefix(made.LostWorktrees[0], base+"/lost") || !made.Unsigned {
		t.Errorf("lost %q, unsigned %t", made.LostWorktrees, made.Unsigned)
	}
}

// The user's own git renames a file over .git/config. Processes of the session may have written there, or not: that is
// what is said, and kept, and not that the command did.
func TestReplacedBetweenCommands(t *testing.T) {
	t.Parallel()
	top := newRepositories(t) + "/super"
	m := tree{base: filepath.Dir(top), project: top}.machine(t)
	resolve := func() *Resolution {
		t.Helper()
		out, err := m.resolve(t.Context(), "fast", view.Definition{})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	last := resolve()
	last.Spec.Session.Processes = true
	last.WatchedPaths = last.Watch(shared.Features{shared.FeatureNested})
	m.Changes(last)
	runGit(t, top, "config", "user.nick", "1")
	next := resolve()
	next.ContinueFrom(last)
	made := m.Changes(next)
	said := fmt.Sprintf("%v", made.Findings())
	if len(made.Instructions) > 0 || strings.Count(said, "replaced from outside") != 1 || !strings.Contains(said, strconv.Quote(top+"/.git/config")) {
		t.Errorf("instructions %q; kept: %s", made.Instructions, said)
	}
	if err := errors.Join(os.Rename(top, top+".moved"), os.Mkdir(top, 0o700)); err != nil {
		t.Fatal(err)
	}
	made = m.ChangesSince(last)
	if said = fmt.Sprintf("%v", made.Findings()); !strings.Contains(said, "since: "+strconv.Quote(top)) {
		t.Errorf("the directory is another one: %s", said)
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
				out := &Resolution{View: living.View}
				if m.readMarks(out); len(out.unreported) > 0 {
					failed <- errors.New("the mark of a living one counts as unreported")
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

// Root with the HOME of a user, who leads the host's directories to root's: it writes nothing there.
func TestRootWithTheHomeOfAUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can give files to another user")
	}
	tr := newTree(t)
	write(t, tr.base, "roots/unreported/mine")
	home := tr.base + "/theirs"
	state, copies := home+"/.local/state/sbxhost", home+"/.cache/sbxhost/git"
	err := errors.Join(os.MkdirAll(filepath.Dir(state), 0o755), os.MkdirAll(filepath.Dir(copies), 0o755), os.Symlink(tr.base+"/roots", state), os.Symlink(tr.base+"/roots/unreported", copies))
	for _, p := range []string{home, state, copies} {
		err = errors.Join(err, os.Lchown(p, 4242, 4242))
	}
	if err != nil {
		t.Fatal(err)
	}
	m := tr.machine(t)
	m.Caller.Home, m.Caller.Environ = home, NewEnvironment([]string{"HOME=" + home})
	out, err := m.resolve(t.Context(), "fast", view.Definition{})
	if err != nil {
		t.Fatal(err)
	}
	m.Begin(out)
	if file := m.copyOf(out, []byte("their text")); out.mark != nil || file != "" {
		t.Errorf("a mark %v, a copy %q", out.mark, file)
	}
	if list, err := os.ReadDir(tr.base + "/roots/unreported"); err != nil || len(list) != 1 {
		t.Errorf("it has left %v, %v", list, err)
	}
}
