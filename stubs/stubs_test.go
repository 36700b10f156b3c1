package stubs

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/sbxhost/sbxhost/hostpath"
)

// TestMain serves as the other process of the tests: it holds the stubs that
// its arguments name until its standard input ends.
func TestMain(m *testing.M) {
	if ledgers := os.Getenv("STUBS_TEST_LEDGERS"); ledgers != "" {
		os.Exit(holder(ledgers, os.Args[1:]))
	}
	os.Exit(m.Run())
}

func holder(ledgers string, paths []string) int {
	r := New(ledgers)
	h := r.Hold(context.Background(), wanted(paths...))
	for _, p := range paths {
		if _, err := os.Lstat(strings.TrimPrefix(p, "file:")); err != nil {
			fmt.Println(err)
			return 1
		}
	}
	fmt.Println("held")
	bufio.NewReader(os.Stdin).ReadString('\n')
	h.Release()
	if err := r.Close(); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// wanted are directories, and files where the path follows "file:".
func wanted(paths ...string) []Stub {
	var list []Stub
	for _, p := range paths {
		path, file := strings.CutPrefix(p, "file:")
		s := Stub{Path: path, File: file}
		if file {
			s.Content = ".\n"
		}
		list = append(list, s)
	}
	return list
}

type scene struct {
	tree, ledgers string
	program       string              // of other processes; empty means this one's
	user          *syscall.Credential // nil means this user
}

func newScene(t testing.TB) scene {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := scene{tree: dir + "/tree", ledgers: dir + "/state/ledgers"}
	if err := os.Mkdir(s.tree, 0o755); err != nil {
		t.Fatal(err)
	}
	return s
}

// files lists what is in the tree.
func (s scene) files(t testing.TB) (list []string) {
	t.Helper()
	filepath.WalkDir(s.tree, func(p string, _ os.DirEntry, err error) error {
		if err != nil {
			t.Error(err)
		}
		if p != s.tree {
			list = append(list, strings.TrimPrefix(p, s.tree+"/"))
		}
		return nil
	})
	return list
}

func (s scene) expect(t testing.TB, want ...string) {
	t.Helper()
	if got := s.files(t); !slices.Equal(got, want) {
		t.Errorf("there is %q, want %q", got, want)
	}
}

func (s scene) noLedgers(t testing.TB) {
	t.Helper()
	if left, err := filepath.Glob(s.ledgers + "/*" + suffix); err != nil || len(left) > 0 {
		t.Errorf("ledgers are left: %q, %v", left, err)
	}
}

// sweep has r hold something, and give it up: what dead processes have left goes with that.
func (s scene) sweep(t testing.TB, r *Registry) {
	t.Helper()
	s.hold(t, r, "sweep").Release()
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

func (s scene) hold(t testing.TB, r *Registry, names ...string) *Hold {
	t.Helper()
	h := r.Hold(context.Background(), s.wanted(names...))
	if h.Unaccounted != nil {
		t.Fatal(h.Unaccounted)
	}
	return h
}

func (s scene) wanted(names ...string) []Stub {
	var paths []string
	for _, n := range names {
		path, file := strings.CutPrefix(n, "file:")
		path = s.tree + "/" + path
		if file {
			path = "file:" + path
		}
		paths = append(paths, path)
	}
	return wanted(paths...)
}

func TestHold(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	r := New(s.ledgers)
	defer r.Close()
	if err := os.WriteFile(s.tree+"/there", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(s.tree+"/dir", 0o755); err != nil {
		t.Fatal(err)
	}
	first := s.hold(t, r, "dir", "there", "dir/x", "deep/a/b", "file:f")
	s.expect(t, "deep", "deep/a", "deep/a/b", "dir", "dir/x", "f", "there")
	second := s.hold(t, r, "deep/a/c", "dir/x", "file:f")
	first.Release()
	s.expect(t, "deep", "deep/a", "deep/a/c", "dir", "dir/x", "f", "there")
	second.Release()
	second.Release()
	s.expect(t, "dir", "there")
	(*Hold)(nil).Release()
}

func TestClose(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	r, other := New(s.ledgers), New(s.ledgers)
	defer other.Close()
	h := s.hold(t, r, "a/b", "c")
	kept := s.hold(t, other, "c")
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	s.expect(t, "c")
	h.Release()
	s.expect(t, "c")
	kept.Release()
	s.expect(t)
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

func TestHoldLeavesWhatWasPutThere(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	r := New(s.ledgers)
	defer r.Close()
	h := s.hold(t, r, "written/in", "file:written.txt", "file:replaced", "swapped", "file:linked")
	for _, err := range []error{
		os.WriteFile(s.tree+"/written/file", nil, 0o644),
		os.WriteFile(s.tree+"/written.txt", []byte("ab"), 0o644),
		os.WriteFile(s.tree+"/replaced.new", []byte(".\n"), 0o644), // another inode
		os.Rename(s.tree+"/replaced.new", s.tree+"/replaced"),
		os.Rename(s.tree+"/swapped", s.tree+"/elsewhere"),
		os.Mkdir(s.tree+"/swapped", 0o755),
		os.Link(s.tree+"/linked", s.tree+"/other"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	h.Release()
	s.expect(t, "elsewhere", "linked", "other", "replaced", "swapped", "written", "written/file", "written.txt")
}

func TestHoldFollowsNoLink(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	r := New(s.ledgers)
	defer r.Close()
	for _, dir := range []string{"/outside", "/real"} {
		if err := os.Mkdir(s.tree+dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../outside", s.tree+"/real/link"); err != nil {
		t.Fatal(err)
	}
	h := s.hold(t, r, "real/link/x", "real/y")
	if h.Unheld[s.tree+"/real/link/x"] == nil {
		t.Errorf("%v", h.Unheld)
	}
	// A directory that becomes a link afterwards does not lead us elsewhere.
	if err := errors.Join(os.Rename(s.tree+"/real", s.tree+"/was"), os.Mkdir(s.tree+"/outside/y", 0o755), os.Symlink("outside", s.tree+"/real")); err != nil {
		t.Fatal(err)
	}
	h.Release()
	s.expect(t, "outside", "outside/y", "real", "was", "was/link", "was/y")
}

func TestHoldReportsWhatItCannotMake(t *testing.T) {
	t.Parallel()
	if os.Getuid() == 0 {
		t.Skip("root can create everywhere")
	}
	s := newScene(t)
	r := New(s.ledgers)
	defer r.Close()
	if err := os.Mkdir(s.tree+"/closed", 0o555); err != nil {
		t.Fatal(err)
	}
	h := s.hold(t, r, "closed/x", "y")
	defer h.Release()
	if err := h.Unheld[s.tree+"/closed/x"]; !errors.Is(err, os.ErrPermission) || len(h.Unheld) != 1 {
		t.Errorf("%v", h.Unheld)
	}
	s.expect(t, "closed", "y")
}

func TestRegistryRefusesADirectoryThatOthersCanWrite(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	if err := os.MkdirAll(s.ledgers, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(s.ledgers, 0o777); err != nil {
		t.Fatal(err)
	}
	r := New(s.ledgers)
	defer r.Close()
	h := r.Hold(context.Background(), s.wanted("x"))
	if !errors.Is(h.Unaccounted, hostpath.ErrNotPrivate) {
		t.Errorf("%v", h.Unaccounted)
	}
	if entries, err := os.ReadDir(s.ledgers); err != nil || len(entries) > 0 {
		t.Errorf("it has %v, %v", entries, err)
	}
	s.expect(t, "x") // without an account
	h.Release()
	s.expect(t)
}

// process is another process that holds stubs.
type process struct {
	cmd   *exec.Cmd
	stdin interface{ Close() error }
}

func (s scene) start(t testing.TB, names ...string) (*process, error) {
	var args []string
	for _, w := range s.wanted(names...) {
		path := w.Path
		if w.File {
			path = "file:" + path
		}
		args = append(args, path)
	}
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if s.program != "" {
		exe = s.program
	}
	cmd := exec.Command(exe, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.user}
	cmd.Env = append(os.Environ(), "STUBS_TEST_LEDGERS="+s.ledgers)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil || line != "held\n" {
		return nil, fmt.Errorf("the other process says %q: %w", line, errors.Join(err, cmd.Wait()))
	}
	return &process{cmd, stdin}, nil
}

func (p *process) end() error {
	p.stdin.Close()
	return p.cmd.Wait()
}

func (p *process) kill() {
	p.cmd.Process.Kill()
	p.cmd.Wait()
}

func TestSharedBetweenProcesses(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	p, err := s.start(t, "a/b", "file:f")
	if err != nil {
		t.Fatal(err)
	}
	r := New(s.ledgers)
	defer r.Close()
	h := s.hold(t, r, "a/b", "a/c", "file:f")
	if err := p.end(); err != nil {
		t.Fatal(err)
	}
	s.expect(t, "a", "a/b", "a/c", "f")
	p, err = s.start(t, "a/b")
	if err != nil {
		t.Fatal(err)
	}
	h.Release()
	s.expect(t, "a", "a/b")
	if err := p.end(); err != nil {
		t.Fatal(err)
	}
	s.expect(t)
}

func TestKilledProcessIsCleanedUpAfter(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	p, err := s.start(t, "a/b", "c", "file:f")
	if err != nil {
		t.Fatal(err)
	}
	p.kill()
	s.expect(t, "a", "a/b", "c", "f")
	r := New(s.ledgers)
	defer r.Close()
	// What it needs itself it takes over.
	h := s.hold(t, r, "c")
	s.expect(t, "c")
	h.Release()
	s.expect(t)

	if p, err = s.start(t, "d"); err != nil {
		t.Fatal(err)
	}
	p.kill()
	s.sweep(t, r)
	s.expect(t)
}

// A process that was killed between its intention and its deed has made
// something, or nothing.
func TestIntentionsAreSwept(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	if err := os.MkdirAll(s.ledgers, 0o700); err != nil {
		t.Fatal(err)
	}
	var text string
	for _, rec := range []record{{path: s.tree + "/made", dir: true}, {path: s.tree + "/never", dir: true}, {path: s.tree + "/f", content: ".\n"}} {
		text += rec.line()
	}
	for _, err := range []error{
		os.WriteFile(s.ledgers+"/X"+suffix, []byte(text+`d 0 0 "`+s.tree+`/torn"`), 0o600),
		os.Mkdir(s.tree+"/made", 0o755), os.Mkdir(s.tree+"/torn", 0o755), os.WriteFile(s.tree+"/f", nil, 0o644),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	s.sweep(t, New(s.ledgers))
	s.expect(t, "torn")
}

// Fifty processes come and go, some of them by force, and whoever holds a stub
// has it there.
func TestFiftyProcesses(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	var wg sync.WaitGroup
	limit := make(chan struct{}, 10)
	for i := range 50 {
		wg.Go(func() {
			limit <- struct{}{}
			defer func() { <-limit }()
			p, err := s.start(t, "a/b", "c", "file:f", fmt.Sprintf("own%d/x", i%7))
			if err != nil {
				t.Error(err)
				return
			}
			for _, name := range []string{"a/b", "c", "f", fmt.Sprintf("own%d/x", i%7)} {
				if _, err := os.Lstat(s.tree + "/" + name); err != nil {
					t.Error(err)
				}
			}
			if i%5 == 0 {
				p.kill()
			} else if err := p.end(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	s.sweep(t, New(s.ledgers))
	s.expect(t)
	s.noLedgers(t)
}

// Many commands of one process, which never stops to hold.
func TestManyHoldsInOneProcess(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	r := New(s.ledgers)
	defer r.Close()
	forever := s.hold(t, r, "always")
	r.size = maxLedger // as after many
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			h := r.Hold(context.Background(), s.wanted("a/b", fmt.Sprint(i%5)))
			if _, err := os.Lstat(s.tree + "/a/b"); err != nil {
				t.Error(err)
			}
			h.Release()
		})
	}
	wg.Wait()
	s.expect(t, "always")
	if r.size > maxLedger/2 {
		t.Errorf("the ledger has %d bytes", r.size)
	}
	forever.Release()
	s.expect(t)
}

func FuzzParse(f *testing.F) {
	r := record{path: "/a \"b\"\n", content: ".\n", dev: 1, ino: 2}
	f.Add(r.line() + gone("/x"))
	f.Add("d 1 2 \"/x\"\nd 0 0 \"relative\"\nq 1 1 \"/y\"\nf 1 1 \"/z\"\nd 1 2 \"/torn\"")
	f.Fuzz(func(t *testing.T, text string) {
		for path, r := range parse(text) {
			if !filepath.IsAbs(path) || r.path != path {
				t.Fatalf("%q gives %q", text, path)
			}
			if again := parse(r.line()); len(again) != 1 || again[path] != r {
				t.Fatalf("%+v is written as %q and read as %+v", r, r.line(), again)
			}
		}
	})
}

// Where descriptors are short, what was made is removed all the same, at the latest
// when a few of them have become free. Not parallel: the limit is the process's.
func TestFewDescriptors(t *testing.T) {
	// The runtime opens descriptors with its first timer or pipe, and dies without.
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	w.Close()
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	refused := 0
	for spare := range 16 {
		s := newScene(t)
		r := New(s.ledgers)
		free, err := syscall.Dup(0)
		if err != nil {
			t.Fatal(err)
		}
		syscall.Close(free)
		limit := func(n int) {
			t.Helper()
			if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: uint64(free + n), Max: was.Max}); err != nil {
				t.Fatal(err)
			}
		}
		stubs := s.wanted("a", "b", "file:c", "d", "e/f")
		limit(spare)
		h := r.Hold(context.Background(), stubs)
		refused += len(h.Unheld)
		h.Release()
		limit(spare + 3)
		r.Close()
		limit(int(was.Cur) - free)
		if left := s.files(t); len(left) > 0 {
			t.Errorf("with %d descriptors %q is left", spare, left)
		}
	}
	if refused == 0 {
		t.Error("there was no shortage")
	}
}
