package review

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/hostpath"
)

// listAfter is how long a command has run before all names of the workspace are listed. That takes some 50 ms
// for 100,000 files, which short commands do not have to wait for: of these, what they have changed is listed.
const listAfter = time.Second

// A lister notes directories of a source as they were when the review began: those that have not changed
// since. It can be done at any time, again, and in part. What is not noted is told by change times alone.
type lister struct {
	dir    string // of the review
	index  int    // of the layer
	layer  *layerRecord
	listed map[string]listing
	upper  *tree // nil where there is none yet
	lower  *tree
	all    func() bool // whether to look into what no command has touched
	paths  []string    // beneath the source, which are looked into as well
	part   bool        // not all was looked into
	late   bool        // a directory that was looked into has changed since the review began
	to     *bufio.Writer
	record strings.Builder
}

// readListings gives what is noted of a layer.
func readListings(dir string, layer int) (map[string]listing, error) {
	b, err := os.ReadFile(listedFile(dir, layer))
	if errors.Is(err, fs.ErrNotExist) {
		b, err = os.ReadFile(listedFile(dir, layer) + partSuffix)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	list, _ := parseListings(string(b))
	return list, nil
}

func listedFile(dir string, layer int) string {
	return filepath.Join(dir, fmt.Sprint(listedPrefix, layer))
}

// list notes directories of a layer: those in which commands have changed something, those of paths, and all as
// long as all says so. It is late if one of them is not as it was any more.
func list(dir string, index int, layer *layerRecord, all func() bool, paths ...string) (late bool, err error) {
	lock, err := lockFileAt(hostpath.NoWait(), filepath.Join(dir, listingFile), unix.LOCK_EX)
	if errors.Is(err, ErrInUse) {
		return false, nil // somebody else does it
	} else if err != nil {
		return false, err
	}
	defer lock.release()
	whole := listedFile(dir, index)
	if _, err := os.Lstat(whole); err == nil {
		return false, nil
	}
	b, err := os.ReadFile(whole + partSuffix)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	l := lister{dir: dir, index: index, layer: layer, all: all, paths: paths}
	var length int
	l.listed, length = parseListings(string(b))
	if l.upper, err = openTree(filepath.Join(dir, string(layer.Upper)), true); err == nil {
		defer l.upper.close()
	} else if !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	if l.lower, err = openTree(string(layer.Source), false); err != nil {
		return false, err
	}
	defer l.lower.close()
	f, err := os.OpenFile(whole+partSuffix, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return false, err
	}
	defer f.Close()
	if err = f.Truncate(int64(length)); err == nil {
		_, err = f.Seek(0, 2)
	}
	if err != nil {
		return false, err
	}
	l.to = bufio.NewWriterSize(f, 1<<16)
	if err := errors.Join(l.walk(l.lower.root, ".", false), l.to.Flush()); err != nil || l.part {
		return l.late, err
	}
	return l.late, os.Rename(whole+partSuffix, whole)
}

// walk looks into what a directory has as name. touched says that commands of the review have taken all of it
// away.
func (l *lister) walk(at int, dir string, touched bool) error {
	fd, err := openBeneath(at, path.Base(dir), unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil // no command looks into it either, or it is gone
	}
	d := os.NewFile(uintptr(fd), dir)
	defer d.Close()
	entries, err := d.ReadDir(-1)
	var st unix.Stat_t
	if err = errors.Join(err, unix.Fstat(fd, &st)); err != nil {
		return err
	}
	known, listed := l.listed[dir]
	still := st.Ctim.Nano() <= l.layer.Begun
	same := still || listed && known.ino == st.Ino
	if dir == "." {
		same = l.layer.Ino == st.Ino
	}
	l.late = l.late || !still
	if !same {
		return nil // it may be another than it was, with all that lies in it
	}
	if still {
		if err := l.note(dir, &st, entries, listed); err != nil {
			return err
		}
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		p := path.Join(dir, e.Name())
		if enter, all := l.enters(p, touched); enter {
			if err := l.walk(fd, p, all); err != nil {
				return err
			}
		}
	}
	return nil
}

// note notes what a directory has that has not changed since: its names, if they are not listed, and git's index.
func (l *lister) note(dir string, st *unix.Stat_t, entries []fs.DirEntry, listed bool) error {
	names := make([]byte, 1, 1<<10)
	for _, e := range entries {
		names = append(append(names, e.Name()...), 0)
		if p := path.Join(dir, e.Name()); e.Name() == "index" && l.lower.begins(p, "DIRC") {
			if err := l.lower.copyIndex(l.dir, l.index, p, l.layer.Begun); err != nil {
				return err
			}
		}
	}
	if !listed {
		(&listing{st.Ino, st.Mode & 0o7777, string(names)}).write(&l.record, dir)
		l.to.WriteString(l.record.String())
		l.record.Reset()
	}
	return nil
}

// enters reports whether a directory is to be looked into, and whether commands have taken all of it away, as
// they have with touched of the one that it is in.
func (l *lister) enters(p string, touched bool) (some, all bool) {
	if touched || l.all() {
		return true, touched
	}
	l.part = true
	var n Node
	if l.upper != nil {
		n, _ = l.upper.Look(p) // a path that is too long keeps the rest from nobody
	}
	some = n.Kind != Absent || slices.ContainsFunc(l.paths, func(one string) bool { return under(p, one) })
	return some, n.Kind != Absent && (n.Kind != Directory || n.Opaque)
}

// list notes a layer as long as the review is used: see listAfter.
func (u *Use) list(index int, layer *layerRecord) {
	select {
	case <-time.After(listAfter):
	case <-u.ending.Done():
	}
	// Without it there are more conflicts, and the command is not to fail for that.
	_, _ = list(u.Dir, index, layer, func() bool { return u.ending.Err() == nil })
}

// Close ends the use, once what its commands have changed is noted.
func (u *Use) Close() {
	u.mu.Lock()
	u.end()
	u.mu.Unlock()
	u.listing.Wait()
	u.lock.release()
}

var never = func() bool { return false }

// newUse is a use with a review's lock.
func newUse(s *Shelf, name, dir string, lock lock) *Use {
	u := &Use{shelf: s, Name: name, Dir: dir, lock: lock, noted: map[int]bool{}}
	u.ending, u.end = context.WithCancel(context.Background())
	return u
}
