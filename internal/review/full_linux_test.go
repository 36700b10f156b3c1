package review

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// fullDisk is where TestFullDisk mounts, in namespaces of its own.
const fullDisk = "SBXHOST_TEST_FULL"

// On a disk that is full nothing is applied, and nothing is lost.
func TestFullDisk(t *testing.T) {
	if dir := os.Getenv(fullDisk); dir != "" {
		onFullDisk(t, dir)
		return
	}
	t.Parallel()
	cmd := exec.Command(os.Args[0], "-test.run=^TestFullDisk$", "-test.v")
	cmd.Env = append(os.Environ(), fullDisk+"="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}, GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

func onFullDisk(t *testing.T, dir string) {
	mine, err := os.Readlink("/proc/self/ns/mnt")
	if parents, err2 := os.Readlink(fmt.Sprintf("/proc/%d/ns/mnt", os.Getppid())); err != nil || err2 == nil && parents == mine {
		t.Fatal("not in a mount namespace of its own")
	}
	if err := unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=2m"); err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(dir, "w")
	w := &workspace{T: t, root: root, shelf: StoreOf(root, root+".state")}
	w.check(os.Mkdir(root, 0o755))
	for _, line := range both {
		w.write(root, line)
	}
	w.begin()
	for _, line := range []string{"edit new", "gone -", "tree -", "fresh/deep/z 9", "linked text"} {
		w.write(w.upper, line)
	}
	// Of this one a copy has to be made.
	w.check(os.Link(filepath.Join(w.upper, "linked"), filepath.Join(dir, "elsewhere")))
	before, upper := w.state(root), w.list(w.upper)
	full, err := os.Create(filepath.Join(dir, "full"))
	w.check(err)
	defer full.Close()
	blocked, last := 0, error(nil)
	for room := int64(0); room <= 1<<20; room += 4096 {
		for err = nil; err == nil; {
			_, err = full.Write(make([]byte, 4096))
		}
		info, err := full.Stat()
		w.check(err)
		w.check(full.Truncate(max(info.Size()&^4095-room, 0)))
		_, err = full.Seek(0, 2)
		w.check(err)
		if _, err = w.apply(Choice{}); err == nil {
			break
		}
		last = err
		blocked++
		w.check(full.Truncate(0))
		w.open().Close() // which makes good what is left to be
		if got := w.state(root); got != before {
			t.Fatalf("with %d bytes left: %v\n%s\nfor\n%s", room, err, got, before)
		}
		if got := w.list(w.upper); got != upper {
			t.Fatalf("with %d bytes left the review has\n%q\nfor\n%q", room, got, upper)
		}
	}
	if got, want := w.list(root), "edit=new file=5 fresh/ fresh/deep/ fresh/deep/z=9 link linked=text made/ made/old=3 same=s type/ type/x=4"; got != want || blocked == 0 {
		t.Errorf("refused %d times, at last by %v; then\n%q\nfor\n%q", blocked, last, got, want)
	}
	if _, _, err := w.shelf.Undo(context.Background()); err != nil || w.state(root) != before {
		t.Errorf("undo: %v\n%s", err, w.state(root))
	}
}
