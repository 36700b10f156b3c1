package review

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/proc"
	"github.com/sbxhost/sbxhost/internal/sessiondir"
)

// maxExported is the size of the largest file that Export copies, in bytes: nobody reads the diff
// of a larger one.
const maxExported = 16 << 20

// maxExportedInAll is the size of all files that it copies, in bytes, with their holes, which git
// would read too.
const maxExportedInAll = 256 << 20

// maxCost bounds the sum, over all files, of the lines of both sides to the power of 1.5, which is how
// git's time grows: a million lines, if one file has them all. A command can make a file in which
// every second byte ends a line, and git needs minutes and a GiB for 16 MiB of these.
const maxCost = 1e9

// diffPrefix begins the names of directories for diffs.
const diffPrefix = "diff-"

// maxShownPath is the length of the longest path that git compares, in bytes: the kernel opens no
// path of 4096.
const maxShownPath = 4000

// Export copies the changes into directories, one for each changed layer: a has the workspace's
// files, and b the review's. A symlink of one layer can have the path that shows a file of another
// one, so it never mixes layers.
//
// done removes the directories. left are the changes that are not in them: large files, those beyond
// maxExportedInAll or maxCost, git's objects and indexes, which nobody reads, files of other kinds
// than regular files and symlinks, empty directories, files that have just changed, and paths that
// are too long. left also has changes of attributes, owners, or permissions, that git does not show.
func (r *Review) Export(ctx context.Context, set *Set, only []string) (dirs []string, left []Change, done func(), err error) {
	top, err := os.MkdirTemp(r.dir, diffPrefix)
	if err != nil {
		return nil, nil, nil, err
	}
	remove := func() { _ = sessiondir.RemoveTree(context.WithoutCancel(ctx), r.dir, filepath.Base(top)) }
	copies := make([]*tree, len(r.trees))
	defer func() {
		for _, t := range copies {
			t.close()
		}
		if err != nil {
			remove()
		}
	}()
	read := func(fn func()) { fn() }
	if set.visible {
		// Root's commands have no capabilities: modes restrict them.
		t := proc.NewThread()
		defer t.End()
		t.Do(func() { err = proc.SetCapabilities(0) })
		if err != nil {
			return nil, nil, nil, err
		}
		for _, p := range r.trees {
			p.lower.forget() // directories beneath others that commands cannot search
			p.upper.forget()
		}
		read = t.Do
	}
	total, cost := int64(0), 0.0
	for i := range set.Changes {
		c := &set.Changes[i]
		if err := ctx.Err(); err != nil {
			return nil, nil, nil, context.Cause(ctx)
		}
		if !c.Concerns(only) {
			continue
		}
		at := strings.TrimPrefix(c.Shown, "/")
		directory := (c.Old.Kind == Absent || c.Old.Kind == Directory) && (c.New.Kind == Absent || c.New.Kind == Directory)
		// git shows no directories, only their contents.
		bare := c.Op != Mode && (directory || c.New.Kind == Directory) && endOf(set.Changes[:min(i+2, len(set.Changes))], i) == i+1
		whole := !directory && exported(&c.Old) && exported(&c.New) && !objects(c.git) && !isIndex(c.git) && len(at) <= maxShownPath
		size := c.Old.Size + c.New.Size
		if whole = whole && total+size <= maxExportedInAll; whole {
			total += size
		}
		if whole && copies[c.layer] == nil {
			dir := filepath.Join(top, strconv.Itoa(c.layer))
			if err := errors.Join(os.MkdirAll(filepath.Join(dir, "a"), 0o700), os.Mkdir(filepath.Join(dir, "b"), 0o700)); err != nil {
				return nil, nil, nil, err
			}
			if copies[c.layer], err = openTree(dir, false); err != nil {
				return nil, nil, nil, err
			}
			dirs = append(dirs, dir)
		}
		if whole {
			read(func() { err = r.export(copies[c.layer], at, c, &cost) })
			if isShortage(err) {
				return nil, nil, nil, err
			}
			whole = err == nil // else it concerns only this change, and the rest can be compared
		}
		if bare || !whole && (!directory || c.Refused != "") || c.Attributes+c.owners() != "" || c.unsaid() {
			left = append(left, *c)
		}
	}
	return dirs, left, remove, nil
}

// exported reports whether one side of a change can be exported. A directory's contents have their
// own changes.
func exported(n *Node) bool {
	return n.Kind == Absent || n.Kind == Directory || n.Kind == Symlink || n.Kind == File && n.Size <= maxExported
}

// export copies both sides of a change, or none, and adds to cost what git takes to compare them.
func (r *Review) export(to *tree, at string, c *Change, cost *float64) error {
	p := r.trees[c.layer]
	if c.Op == Modified && c.Old.Kind == File && c.New.Kind == File {
		before, err := p.lower.lines(c.path)
		after, newErr := p.upper.lines(c.path)
		more := math.Pow(float64(before+after), 1.5)
		if err = errors.Join(err, newErr); err == nil && *cost+more > maxCost {
			err = errors.New("too many lines to be compared")
		}
		if err != nil {
			return err
		}
		*cost += more
	}
	err := to.copy("a/"+at, p.lower, c.path, &c.Old)
	if err != nil {
		return err
	}
	if err = to.copy("b/"+at, p.upper, c.path, &c.New); err != nil && c.Old.Kind != Absent {
		if dir, name, missing := to.in("a/" + at); missing == nil {
			unix.Unlinkat(dir, name, 0)
		}
	}
	return err
}

// lines counts the line ends of a file, which has at most maxExported bytes.
func (t *tree) lines(p string) (n int, err error) {
	f, err := t.file(p, maxExported)
	if err != nil {
		return 0, err
	}
	defer f.File.Close()
	text, err := io.ReadAll(f)
	return bytes.Count(text, []byte("\n")), err
}

// copy copies a file or a symlink of a tree to to.
func (t *tree) copy(to string, of *tree, p string, n *Node) error {
	if n.Kind == Absent || n.Kind == Directory {
		return nil
	}
	dir, name, err := t.makeIn(to)
	if err != nil {
		return t.error("mkdir", to, err)
	}
	if n.Kind == Symlink {
		return t.error("symlink", to, unix.Symlinkat(n.Target, dir, name))
	}
	mode := uint32(0o600)
	if n.Mode&0o111 != 0 {
		mode = 0o700
	}
	return t.copyFile(to, of, p, n.Size, mode)
}

// makeIn is in, but makes missing directories.
func (t *tree) makeIn(p string) (int, string, error) {
	fd, name, err := t.in(p)
	if err != unix.ENOENT {
		return fd, name, err
	}
	above, dir, err := t.makeIn(path.Dir(p))
	if err == nil {
		err = unix.Mkdirat(above, dir, 0o700)
	}
	if err != nil {
		return -1, "", err
	}
	return t.in(p)
}
