package sessiondir

import (
	"bufio"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// A named session is one workspace's.
func TestClaim(t *testing.T) {
	t.Parallel()
	base := tempDir(t) + "/sessions"
	for _, tt := range []struct {
		root    string
		refused bool
	}{{"/p/b\n\"", false}, {"/p/a", true}, {"/p/b\n\"", false}} {
		u := mustDir(t, base, "shared")
		if err := u.Claim(tt.root); errors.Is(err, ErrWorkspace) != tt.refused || err != nil && !tt.refused {
			t.Errorf("%s: %v", tt.root, err)
		}
		u.Close()
	}
	list, err := List(base)
	if err != nil || len(list) != 1 || list[0].Workspace != "/p/b\n\"" {
		t.Errorf("sessions: %+v, %v", list, err)
	}
	if left := visible(t, base+"/n-shared"); len(left) != 2 {
		t.Errorf("left in the session directory: %q", left)
	}
	for range 2 { // an unnamed one is nobody else's
		if err := mustDir(t, base, "").Claim("/p/c"); err != nil {
			t.Error(err)
		}
	}
	if _, err := mustDir(t, base, "shared").Sub(recordFile); !errors.Is(err, ErrName) {
		t.Errorf("the record as a directory: %v", err)
	}
}

// Where nothing can be written a session cannot be begun, and leaves no half of
// a record; one that was begun goes on.
func TestClaimOnAFullDisk(t *testing.T) {
	t.Parallel()
	base := tempDir(t) + "/sessions"
	if out, err := quietJob(t, "full:"+base+":mine"); err == nil || !strings.Contains(out, "file too large") {
		t.Errorf("%v: %s", err, out)
	}
	if list, err := List(base); len(list) > 0 || err != nil {
		t.Errorf("listed: %+v, %v", list, err)
	}
	u := mustDir(t, base, "mine")
	if err := errors.Join(u.Claim("/p/a"), u.Close()); err != nil {
		t.Fatal(err)
	}
	if out, err := quietJob(t, "full:"+base+":mine"); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

func quietJob(t *testing.T, spec string) (string, error) {
	cmd := job(t, spec)
	cmd.Stderr = nil
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestSessionUsersAndSize(t *testing.T) {
	t.Parallel()
	base := tempDir(t) + "/sessions"
	cmd := job(t, "hold:"+base+":busy")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	dir, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	dir = strings.TrimSpace(dir)
	if err := os.WriteFile(dir+"/big", make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Link(dir+"/big", dir+"/again"), os.Mkdir(dir+"/shut", 0)); err != nil {
		t.Fatal(err)
	}
	list, err := List(base)
	if err != nil || len(list) != 1 || !list[0].InUse {
		t.Fatalf("%+v, %v", list, err)
	}
	if want := []int{cmd.Process.Pid}; runtime.GOOS == "linux" && !reflect.DeepEqual(list[0].Users, want) {
		t.Errorf("users %v, want %v", list[0].Users, want)
	}
	if size, err := list[0].Size(t.Context()); err != nil || size < 1<<20 || size > 3<<19 {
		t.Errorf("size %d, %v, want that of one file of a MiB", size, err)
	}
	stdin.Close()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	list, err = List(base)
	if err != nil || len(list) != 1 || list[0].InUse || list[0].Users != nil {
		t.Errorf("after its end: %+v, %v", list, err)
	}
	if err := Remove(base, "busy"); err != nil || exists(dir) {
		t.Error(err)
	}
}

// What root makes for a user is the user's to use, and its frame root's.
func TestDirOfAnotherUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		u, err := New(tempDir(t)+"/s", "", &User{UID: 4242, GID: 4242})
		if err != nil {
			t.Fatal(err)
		}
		defer u.Close()
		if dir, err := u.Path(); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("an ordinary user made one for another: %q, %v", dir, err)
		}
		return
	}
	base := tempDir(t) + "/sessions"
	u, err := New(base, "x", &User{UID: 4242, GID: 4343})
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	dir := mustPath(t, u)
	sub, err := u.Sub("tmp")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := u.Sub("tmp"); err != nil || again != sub {
		t.Errorf("%q, %v", again, err)
	}
	if err := u.Claim("/p"); err != nil {
		t.Error(err)
	}
	for path, want := range map[string]struct {
		uid  uint32
		mode fs.FileMode
	}{
		base: {0, 0o711}, base + "/n-x": {0, 0o711}, base + "/n-x/lock": {0, 0o600}, base + "/n-x/" + recordFile: {0, 0o600},
		dir: {4242, 0o700}, sub: {4242, 0o700},
	} {
		fi, err := os.Lstat(path)
		if err != nil || fi.Mode().Perm() != want.mode || fi.Sys().(*syscall.Stat_t).Uid != want.uid {
			t.Errorf("%s: %v %v, want %+v", path, fi, err, want)
		}
	}
	// What the user puts there does not lead root's removal astray.
	outside := tempDir(t)
	tree(t, outside, map[string]string{"keep": "x"})
	tree(t, dir, map[string]string{"link": "-> " + outside, "d/link": "-> " + outside})
	if err := errors.Join(os.Lchown(dir+"/d", 4242, 4242), os.Chmod(dir+"/d", 0)); err != nil {
		t.Fatal(err)
	}
	u.Close()
	if err := Remove(base, "x"); err != nil || exists(dir) || !exists(outside+"/keep") {
		t.Error(err)
	}
}

func TestSweepOfNothing(t *testing.T) {
	t.Parallel()
	base := tempDir(t) + "/sessions"
	if removed, err := Sweep(t.Context(), base); len(removed) != 0 || err != nil || exists(base) {
		t.Errorf("%q, %v", removed, err)
	}
}

// Nobody knows whose commands have written what is in it.
func TestEmptyRecord(t *testing.T) {
	t.Parallel()
	base := tempDir(t) + "/sessions"
	d, err := New(base, "x", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	path, err := d.Path()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(path, recordFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := d.Claim("/w"); !errors.Is(err, ErrWorkspace) || !strings.Contains(err.Error(), "its record is empty; remove the session first") {
		t.Error(err)
	}
}

// endedContext ends after some looks at it.
type endedContext struct {
	context.Context
	looks int
}

func (c *endedContext) Err() error {
	if c.looks--; c.looks < 0 {
		return context.Canceled
	}
	return nil
}

// The end of a program does not wait until its sweep has removed a large directory.
func TestSweepEndsWithinADirectory(t *testing.T) {
	t.Parallel()
	base := filepath.Join(t.TempDir(), "base")
	dir := filepath.Join(base, "u-dead")
	for _, d := range []string{base, dir} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if removed, err := Sweep(&endedContext{t.Context(), 1}, base); !errors.Is(err, context.Canceled) || len(removed) > 0 {
		t.Errorf("removed %q, %v", removed, err)
	}
	if removed, err := Sweep(t.Context(), base); err != nil || len(removed) != 1 {
		t.Errorf("the next one removed %q, %v", removed, err)
	}
}
