//go:build unix

package facts

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/approvals"
	"github.com/sbxhost/sbxhost/host/view"
	"github.com/sbxhost/sbxhost/hostpath"
)

const (
	toldRepository   = "a git repository, in which a git outside of a sandbox would act on what a command made"
	toldInstructions = "what tools outside of a sandbox take for instructions"
)

// Told are what of made acts outside, for the list of what a person is to see.
func (made *Made) Told() (list []approvals.Told) {
	now := time.Now().UTC()
	for _, r := range made.Repositories {
		if r.Executes() {
			list = append(list, approvals.Told{Path: r.Path, What: toldRepository, At: now})
		}
	}
	for _, p := range made.Instructions {
		list = append(list, approvals.Told{Path: p, What: toldInstructions, At: now})
	}
	for i := range list {
		list[i].Sum = sumOf(&list[i])
	}
	return slices.DeleteFunc(list, func(t approvals.Told) bool { return t.Sum == "" }) // it is gone already
}

// StillTold reports whether what was told is there as it was.
func StillTold(t *approvals.Told) bool { return sumOf(t) == t.Sum }

// sumOf is a sum of what acts at a path, whatever its times; "" where there is nothing.
func sumOf(t *approvals.Told) string {
	names := []string{""}
	if t.What == toldRepository {
		names = names[:0]
		for _, dir := range []string{"", ".git"} { // a bare one, too
			for _, name := range append(view.ObeyedNames(), "HEAD") {
				names = append(names, filepath.Join(dir, name))
			}
		}
		names = append(names, ".git")
	}
	sum, left := sha256.New(), maxSummed
	found := false
	for _, name := range names {
		found = addTo(sum, filepath.Join(t.Path, name), name != ".git", &left) || found
	}
	if !found {
		return ""
	}
	return hex.EncodeToString(sum.Sum(nil))
}

const (
	maxSummed     = 1000     // files and directories
	maxSummedFile = 64 << 10 // bytes of each
)

// addTo adds what lies at a path to a sum, and follows no link. It reports whether anything does.
func addTo(sum io.Writer, p string, within bool, left *int) bool {
	fi, err := os.Lstat(p)
	if err != nil || *left == 0 {
		return false
	}
	*left--
	fmt.Fprintf(sum, "%q %v", filepath.Base(p), fi.Mode())
	switch {
	case fi.Mode()&os.ModeSymlink != 0:
		target, _ := os.Readlink(p)
		fmt.Fprintf(sum, " %q", target)
	case fi.IsDir() && within:
		entries, _ := os.ReadDir(p) // sorted
		for _, e := range entries {
			addTo(sum, filepath.Join(p, e.Name()), true, left)
		}
	case fi.Mode().IsRegular():
		fd, err := hostpath.OpenNoSymlinks(p, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err != nil {
			break
		}
		f := os.NewFile(uintptr(fd), p)
		io.Copy(sum, io.LimitReader(f, maxSummedFile)) // what cannot be read says nothing
		f.Close()
	}
	return true
}
