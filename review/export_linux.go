package review

import (
	"context"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/sessiondir"
)

// maxExported is the size of the largest file that Export copies: of a larger one nobody reads the
// difference.
const maxExported = 16 << 20

// diffPrefix begins the names of directories that a diff is made in.
const diffPrefix = "diff-"

// Export copies what changes into two directories, a as it is in the workspace and b as it is in the
// review, in a directory that done removes. Left out are those of left: large files, git's
// objects and indexes, which nobody reads, and what is no file and no symlink.
func (r *Review) Export(ctx context.Context, set *Set, only []string) (dir string, left []Change, done func(), err error) {
	if dir, err = os.MkdirTemp(r.dir, diffPrefix); err != nil {
		return "", nil, nil, err
	}
	done = func() { _ = sessiondir.RemoveTree(context.WithoutCancel(ctx), r.dir, filepath.Base(dir)) }
	for _, side := range [...]string{"a", "b"} {
		err = errors.Join(err, os.Mkdir(filepath.Join(dir, side), 0o700))
	}
	for i := range set.Changes {
		c := &set.Changes[i]
		if err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			done()
			return "", nil, nil, err
		}
		if !set.Within(only, c) {
			continue
		}
		full := path.Join(r.trees[c.Layer].source, c.Path)
		if !exported(&c.Old) || !exported(&c.New) || objects(full) || isIndex(full) {
			if c.Old.Kind != Directory && c.New.Kind != Directory || c.Refused != "" {
				left = append(left, *c)
			}
			continue
		}
		at := strings.TrimPrefix(set.Shown(c), "/")
		err = errors.Join(export(r.trees[c.Layer].lower, c.Path, &c.Old, filepath.Join(dir, "a", at), nil),
			export(r.trees[c.Layer].upper, c.Path, &c.New, filepath.Join(dir, "b", at), c.Content))
	}
	return dir, left, done, err
}

func exported(n *Node) bool {
	return n.Kind == Absent || n.Kind == Symlink || n.Kind == File && n.Size <= maxExported
}

func export(t *tree, p string, n *Node, to string, content []byte) error {
	if n.Kind == Absent {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	if n.Kind == Symlink {
		return os.Symlink(n.Target, to)
	}
	f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if content != nil {
		_, err = f.Write(content)
	} else {
		var from *os.File
		if from, err = t.file(p); errors.Is(err, os.ErrPermission) {
			return nil // as it looks to everybody
		} else if err != nil {
			return err
		}
		defer from.Close()
		_, err = io.Copy(f, from)
	}
	if err == nil && n.Mode&0o111 != 0 {
		err = unix.Fchmod(int(f.Fd()), 0o700)
	}
	return err
}
