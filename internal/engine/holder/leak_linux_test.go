package holder

import (
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/proc"
)

// A holder lives for a session, so a directory that cannot be made must leave no descriptor.
func TestMakeDirsFails(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if _, failed := makeDirs(fd, "first", strings.Repeat("long", 100)); !errors.Is(failed, unix.ENAMETOOLONG) {
		t.Errorf("%v", failed)
	}
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if to, _ := os.Readlink("/proc/self/fd/" + e.Name()); to == dir+"/first" {
			t.Errorf("descriptor %s is open", e.Name())
		}
	}
}

// A group keeps the trees that its sandboxes used last.
func TestGroupFollowsTheLastTrees(t *testing.T) {
	t.Parallel()
	s, g := &server{}, &group{}
	follow := func(trees ...*tree) {
		t.Helper()
		for _, one := range trees {
			if failed := g.follow(s, one); failed != nil {
				t.Fatal(failed)
			}
		}
	}
	var trees []*tree
	for range maxFollowed + 1 {
		one := &tree{thread: proc.NewThread(), covers: &covers{groups: map[*group]bool{}}}
		defer one.thread.End()
		trees = append(trees, one)
	}
	follow(trees[:maxFollowed]...)
	follow(trees[0], trees[maxFollowed])
	if !trees[0].covers.groups[g] || trees[1].covers.groups[g] {
		t.Error("the group has left a tree that it used later than another")
	}
}

// What fails for a path of a sandbox says nothing about the machine.
func TestOfMachine(t *testing.T) {
	t.Parallel()
	for call, want := range map[string]bool{"fsconfig tmpfs": true, "fsopen proc": true, "creating a file": false, "writing a file": false, "open": false} {
		if got := (&MountError{Index: 3, Call: call}).OfMachine(); got != want {
			t.Errorf("%s: %v", call, got)
		}
	}
}
