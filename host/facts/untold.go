//go:build unix

package facts

import (
	"crypto/rand"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/host/view"
	"github.com/sbxhost/sbxhost/hostpath"
)

// A killed host tells nothing of what its commands have made, and what they have made is then
// there before the next command. So each command has a mark: a file in the directory untold of
// the user's state, named by its workspace and its start, and locked while its host lives. Where
// nobody has one locked, the next command in that workspace tells what changed since.

// A mark says that something may be made in a workspace that was not told.
type mark struct{ file *os.File }

func (m *Machine) markDir() string {
	if dir := m.Caller.StateDir(); dir != "" {
		return filepath.Join(dir, "untold")
	}
	return ""
}

func (m *Machine) markPrefix() string {
	hash := fnv.New64a()
	io.WriteString(hash, m.Workspace.Root())
	return fmt.Sprintf("%016x-", hash.Sum64())
}

// newMark makes a mark from now on; nil where nothing can be remembered.
func (m *Machine) newMark() *mark {
	dir := m.markDir()
	if dir == "" || hostpath.MakePrivate(dir, 0o700) != nil {
		return nil
	}
	name := fmt.Sprintf("%s%d-%s", m.markPrefix(), time.Now().Add(-tick).UnixNano(), rand.Text())
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil
	}
	if hostpath.TryLock(int(f.Fd()), unix.LOCK_EX) != nil {
		os.Remove(f.Name())
		f.Close()
		return nil
	}
	return &mark{f}
}

// end removes the mark if all was told; else the next command tells it.
func (k *mark) end(told bool) {
	if k == nil {
		return
	}
	if told {
		os.Remove(k.file.Name())
	}
	// A child that this process has just forked has it open, too, until it executes.
	_ = unix.Flock(int(k.file.Fd()), unix.LOCK_UN)
	k.file.Close()
}

// Begin marks that a command may make something from now on.
func (m *Machine) Begin(out *Resolved) {
	if !out.Spec.Unconfined {
		out.mark = m.newMark()
	}
}

// End is for when nothing is made any more by the command, and told says that what it made is
// told.
func (out *Resolved) End(told bool) {
	if told {
		for _, name := range out.untold {
			os.Remove(name)
		}
	}
	out.mark.end(told)
	out.mark = nil
}

// Looked reports whether there was a look at the end of the command, which can go on. Nil is none.
func (out *Resolved) Looked() bool { return out != nil && out.after != nil }

// EndAfter is End of what the command has left running. Nil is allowed.
func (out *Resolved) EndAfter(told bool) {
	if out != nil {
		out.afterMark.end(told)
		out.afterMark = nil
	}
}

// untoldSince gives when the first command in this workspace began of which nothing was told,
// and the marks of all those.
func (m *Machine) untoldSince() (since time.Time, marks []string) {
	dir, prefix := m.markDir(), m.markPrefix()
	entries, err := os.ReadDir(dir)
	if err != nil {
		return since, nil
	}
	for _, e := range entries {
		var began int64
		rest, ours := strings.CutPrefix(e.Name(), prefix)
		if !ours {
			continue
		}
		if _, err := fmt.Sscanf(rest, "%d-", &began); err != nil {
			continue
		}
		name := filepath.Join(dir, e.Name())
		f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
		if err != nil {
			continue // its command has ended just now
		}
		free := hostpath.TryLock(int(f.Fd()), unix.LOCK_SH) == nil
		_ = unix.Flock(int(f.Fd()), unix.LOCK_UN)
		f.Close()
		if !free {
			continue
		}
		if at := time.Unix(0, began); since.IsZero() || at.Before(since) {
			since = at
		}
		marks = append(marks, name)
	}
	return since, marks
}

// leaveUntold takes out of what was there before what may have changed since a command of which
// nothing was told, so that it is told with the next one.
func (out *Resolved) leaveUntold() {
	b, since := &out.before, out.since
	if since.IsZero() {
		return
	}
	n := len(b.instructions) + len(b.repositories)
	b.began = since
	b.instructions = slices.DeleteFunc(slices.Clone(b.instructions), func(p string) bool { return out.changedSince(p, since) })
	b.repositories = slices.DeleteFunc(slices.Clone(b.repositories), func(top string) bool {
		return !slices.Contains(out.Guarded, top) && out.obeyedChangedSince(top, since)
	})
	if len(b.instructions)+len(b.repositories) < n {
		out.Notes = append(out.Notes, fmt.Sprintf("an earlier sbxhost ended before it told what its command had made: what has changed since %s is told after this command", since.Format(time.DateTime)))
	}
}

// obeyedChangedSince reports whether something has changed of what git obeys in a repository.
func (out *Resolved) obeyedChangedSince(top string, since time.Time) bool {
	gitDir := filepath.Join(top, ".git")
	if info, err := os.Lstat(gitDir); err != nil {
		gitDir = top // it is bare
	} else if !info.IsDir() {
		return out.changedSince(gitDir, since)
	}
	if ctimeAfter(gitDir, since) { // it can have been moved there; mostly git has written there
		return true
	}
	return slices.ContainsFunc(view.ObeyedNames(), func(name string) bool { return out.changedSince(filepath.Join(gitDir, name), since) })
}

// changedSince reports whether a file, or something in a directory, may have changed since then, or
// been moved there with a directory above. A command cannot set the time of change.
func (out *Resolved) changedSince(p string, since time.Time) (changed bool) {
	for dir := filepath.Dir(p); !slices.Contains(out.Tops(), dir) && dir != "/"; dir = filepath.Dir(dir) {
		if ctimeAfter(dir, since) {
			return true
		}
	}
	const most = 1000
	n := 0
	filepath.WalkDir(p, func(at string, _ fs.DirEntry, err error) error {
		if n++; n > most || ctimeAfter(at, since) {
			changed = true
			return fs.SkipAll
		}
		return nil
	})
	return changed
}

func ctimeAfter(p string, since time.Time) bool {
	var st unix.Stat_t
	return unix.Lstat(p, &st) == nil && st.Ctim.Nano() >= since.UnixNano()
}
