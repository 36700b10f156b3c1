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
)

// TestMain serves as the other process of the tests: it holds the stubs that
// its arguments name until its standard input ends.
func TestMain(m *testing.M) {
	if os.Getenv("STUBS_TEST_HOLDER") != "" {
		os.Exit(holder(os.Args[1:]))
	}
	os.Exit(m.Run())
}

func holder(paths []string) int {
	r := New()
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
	r.Close()
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
	tree    string
	program string              // of other processes; empty means this one's
	user    *syscall.Credential // nil means this user
}

func newScene(t testing.TB) scene {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := scene{tree: dir + "/tree"}
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

func (s scene) hold(r *Registry, names ...string) *Hold {
	return r.Hold(context.Background(), s.wanted(names...))
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
	r := New()
	defer r.Close()
	if err := os.WriteFile(s.tree+"/there", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(s.tree+"/dir", 0o755); err != nil {
		t.Fatal(err)
	}
	first := s.hold(r, "dir", "there", "dir/x", "deep/a/b", "file:f")
	s.expect(t, "deep", "deep/a", "deep/a/b", "dir", "dir/x", "f", "there")
	second := s.hold(r, "deep/a/c", "dir/x", "file:f")
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
	r, other := New(), New()
	defer other.Close()
	h := s.hold(r, "a/b", "c")
	kept := s.hold(other, "c")
	r.Close()
	s.expect(t, "c")
	h.Release()
	s.expect(t, "c")
	kept.Release()
	s.expect(t)
	r.Close()
}

func TestHoldLeavesWhatWasPutThere(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	r := New()
	defer r.Close()
	h := s.hold(r, "written/in", "file:written.txt", "file:replaced", "swapped", "file:linked")
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
	r := New()
	defer r.Close()
	for _, dir := range []string{"/outside", "/real"} {
		if err := os.Mkdir(s.tree+dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../outside", s.tree+"/real/link"); err != nil {
		t.Fatal(err)
	}
	h := s.hold(r, "real/link/x", "real/y")
	if h.Unheld[s.tree+"/real/link/x"] == nil {
		t.Errorf("%v", h.Unheld)
	}
	// A directory that becomes a link afterwards does not lead us elsewhere: the stub goes where it is.
	if err := errors.Join(os.Rename(s.tree+"/real", s.tree+"/was"), os.Mkdir(s.tree+"/outside/y", 0o755), os.Symlink("outside", s.tree+"/real")); err != nil {
		t.Fatal(err)
	}
	h.Release()
	s.expect(t, "outside", "outside/y", "real", "was", "was/link")
}

func TestHoldReportsWhatItCannotMake(t *testing.T) {
	t.Parallel()
	if os.Getuid() == 0 {
		t.Skip("root can create everywhere")
	}
	s := newScene(t)
	r := New()
	defer r.Close()
	if err := os.Mkdir(s.tree+"/closed", 0o555); err != nil {
		t.Fatal(err)
	}
	h := s.hold(r, "closed/x", "y")
	defer h.Release()
	if err := h.Unheld[s.tree+"/closed/x"]; !errors.Is(err, os.ErrPermission) || len(h.Unheld) != 1 {
		t.Errorf("%v", h.Unheld)
	}
	s.expect(t, "closed", "y")
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
	cmd.Env = append(os.Environ(), "STUBS_TEST_HOLDER=1")
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
	r := New()
	defer r.Close()
	h := s.hold(r, "a/b", "a/c", "file:f")
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

// What a killed process has left the next one takes over that needs the same path.
func TestKilledProcessIsCleanedUpAfter(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	p, err := s.start(t, "a/b", "c", "file:f")
	if err != nil {
		t.Fatal(err)
	}
	p.kill()
	s.expect(t, "a", "a/b", "c", "f")
	r := New()
	defer r.Close()
	s.hold(r, "c", "file:f").Release()
	s.expect(t, "a", "a/b")
	s.hold(r, "a/b").Release()
	s.expect(t)
}

// A process can be killed before a directory has the mode that it is to have in the end: the
// umask and the default ACL have their say until then.
func TestUnfinishedDirectories(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	r := New()
	defer r.Close()
	modes := map[string]uint32{"private": 0o1700, "inherited": 0o3755}
	for name, mode := range modes {
		if err := errors.Join(os.Mkdir(s.tree+"/"+name, 0o755), syscall.Chmod(s.tree+"/"+name, mode)); err != nil {
			t.Fatal(err)
		}
	}
	s.hold(r, "private", "inherited").Release()
	s.expect(t)
}

// Directories of somebody's with the sticky bit stay, with their mode.
func TestStickyDirectories(t *testing.T) {
	t.Parallel()
	for _, mode := range []uint32{0o1777, 0o1770, 0o1775, 0o3775, 0o1700, 0o1755} {
		s := newScene(t)
		r := New()
		dir := s.tree + "/d"
		err := os.Mkdir(dir, 0o755)
		if mode&0o022 == 0 { // an empty one could be a stub
			err = errors.Join(err, os.WriteFile(dir+"/work", nil, 0o644))
		}
		if err = errors.Join(err, syscall.Chmod(dir, mode)); err != nil {
			t.Fatal(err)
		}
		s.hold(r, "d", "d/x", "file:d/y").Release()
		r.Close()
		var st syscall.Stat_t
		if err := syscall.Stat(dir, &st); err != nil || uint32(st.Mode)&0o7777 != mode {
			t.Errorf("%o became %o, %v", mode, st.Mode&0o7777, err)
		}
	}
}

// One process wants a directory where another wants a file.
func TestOtherKind(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	a, b := s.two(t)
	first, second := s.hold(a, "k"), s.hold(b, "file:k")
	first.Release()
	s.expect(t, "k")
	second.Release()
	s.expect(t)
}

// A program that its user has just written can be executed while its place is held.
func TestFreshProgram(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	err := exec.Command("sh", "-c", `printf '#!/bin/sh\n' >"$0" && chmod 755 "$0"`, s.tree+"/hook").Run()
	if err != nil {
		t.Fatal(err)
	}
	r := New()
	defer r.Close()
	defer s.hold(r, "file:hook").Release()
	if err := exec.Command(s.tree + "/hook").Run(); err != nil {
		t.Error(err)
	}
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
	names := []string{"a/b", "c", "file:f"} // of those who were killed
	for i := range 7 {
		names = append(names, fmt.Sprintf("own%d/x", i))
	}
	s.hold(New(), names...).Release()
	s.expect(t)
}

// Many commands of one process, which never stops to hold.
func TestManyHoldsInOneProcess(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	r := New()
	defer r.Close()
	forever := s.hold(r, "always")
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
	forever.Release()
	s.expect(t)
}

// A directory that somebody moves while its stubs are held keeps none.
func TestMovedDirectory(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	if err := os.MkdirAll(s.tree+"/own/d", 0o755); err != nil {
		t.Fatal(err)
	}
	r := New()
	defer r.Close()
	h := s.hold(r, "own/a/b", "file:own/f", "own/d/x", "y")
	if err := os.Rename(s.tree+"/own", s.tree+"/moved"); err != nil {
		t.Fatal(err)
	}
	h.Release()
	s.expect(t, "moved", "moved/d")
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
		r := New()
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

// What makes git ignore a stub lies in each directory that is one, also while another holder is about to
// remove it, and in nobody's own.
func TestOnlyInStubs(t *testing.T) {
	s := newScene(t)
	own, stub := s.tree+"/own", s.tree+"/stub"
	if err := os.Mkdir(own, 0o755); err != nil {
		t.Fatal(err)
	}
	other := New()
	defer other.Hold(t.Context(), wanted(stub)).Release()
	list := wanted(own, stub)
	for _, dir := range []string{own, stub} {
		list = append(list, Stub{Path: dir + "/.gitignore", File: true, Content: "*\n", InStub: true})
	}
	h := New().Hold(t.Context(), list)
	_, inOwn := os.Lstat(own + "/.gitignore")
	text, err := os.ReadFile(stub + "/.gitignore")
	if !os.IsNotExist(inOwn) || string(text) != "*\n" || len(h.Unheld) != 0 {
		t.Errorf("in the user's own: %v; in the stub: %q, %v; not held: %v", inOwn, text, err, h.Unheld)
	}
	h.Release()
	if _, err := os.Lstat(stub + "/.gitignore"); !os.IsNotExist(err) {
		t.Error("it stays")
	}
}
