//go:build unix

package facts

import (
	"crypto/rand"
	"encoding/gob"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/host/view"
	"github.com/sbxhost/sbxhost/hostpath"
	"github.com/sbxhost/sbxhost/workspace"
)

// A killed host tells nothing of what its commands have made, and what they have made is then
// there before the next command. So each command has a mark: a file in the directory untold of
// the user's state, named by its workspace, and locked while its host lives. Where nobody has one
// locked, the next command in that workspace tells what changed since.

// A mark says that something may be made that was not told, and what it takes to look for that.
type mark struct {
	Began       time.Time
	Tops        []string // where the command could write
	Own         []string // the user's repositories
	Open        []string // those of which it could change what git acts on
	Unprotected []string // and what else could be changed that was to be protected
	Lost        []string // where recorded worktrees were not
	HeadLogSize int64    // none is math.MaxInt64

	name string
	file *os.File // locked
}

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

// newMark makes a mark from now on; nil where nothing is remembered.
func (m *Machine) newMark(out *Resolved) (*mark, error) {
	dir := m.markDir()
	if dir == "" {
		return nil, nil
	}
	if err := hostpath.MakePrivate(dir, 0o700); err != nil {
		return nil, err
	}
	b := &out.before
	k := &mark{Began: time.Now().Add(-tick), Tops: out.Tops(), Own: out.own(), Open: b.open, Lost: b.lost, HeadLogSize: b.headLogSize, name: filepath.Join(dir, m.markPrefix()+rand.Text())}
	if out.headLog == "" {
		k.HeadLogSize = math.MaxInt64
	}
	if out.allOpen {
		k.Open = b.repositories
	}
	for _, u := range b.unprotected {
		if !u.free { // those are searched for
			k.Unprotected = append(k.Unprotected, u.path)
		}
	}
	if err := k.write(); err != nil {
		return nil, err
	}
	return k, nil
}

// write puts the mark in its place, locked and whole: who finds one that nobody has locked takes it
// for a dead host's.
func (k *mark) write() error {
	f, err := os.CreateTemp(filepath.Dir(k.name), ".new-")
	if err != nil {
		return err
	}
	if err = gob.NewEncoder(f).Encode(k); err == nil {
		err = hostpath.TryLock(int(f.Fd()), unix.LOCK_EX)
	}
	if err == nil {
		err = os.Rename(f.Name(), k.name)
	}
	if err != nil {
		os.Remove(f.Name())
		f.Close()
		return err
	}
	k.file = f
	return nil
}

// end removes the mark if all was told; else the next command tells it.
func (k *mark) end(told bool) {
	if k == nil {
		return
	}
	if told {
		os.Remove(k.name)
	}
	// A child that this process has just forked has it open, too, until it executes.
	_ = unix.Flock(int(k.file.Fd()), unix.LOCK_UN)
	k.file.Close()
}

// Begin marks that a command may make something from now on.
func (m *Machine) Begin(out *Resolved) {
	if out.Spec.Unconfined {
		return
	}
	var err error
	if out.mark, err = m.newMark(out); err != nil {
		out.Notes = append(slices.Clip(out.Notes), "what this command makes is not told if its host is killed: "+err.Error())
	}
}

// End is for when nothing is made any more by the command: whether it ran, and whether what was
// made by it, and by those before it, was told.
func (out *Resolved) End(ran, told bool) {
	if told {
		for _, k := range out.untold {
			if len(k.Tops) == 0 {
				os.Remove(k.name)
			} else if k.write() == nil {
				k.end(false)
			}
		}
		out.untold = nil
	}
	out.mark.end(!ran || told)
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

// readMarks finds the marks of commands in this workspace of which nothing was told. Where those
// could write, this one's look is to look, too, whatever its definition shows. A mark stays of what
// is no directory now: it can come back.
func (m *Machine) readMarks(out *Resolved) {
	dir, prefix := m.markDir(), m.markPrefix()
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		name := filepath.Join(dir, e.Name())
		if !strings.HasPrefix(e.Name(), prefix) {
			continue
		}
		f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
		if err != nil {
			continue // its command has ended just now
		}
		k := &mark{name: name}
		var st unix.Stat_t // one that was removed by its own host meanwhile is no mark
		if hostpath.TryLock(int(f.Fd()), unix.LOCK_SH) == nil && unix.Fstat(int(f.Fd()), &st) == nil && st.Nlink > 0 && gob.NewDecoder(f).Decode(k) == nil {
			away := slices.DeleteFunc(slices.Clone(k.Tops), func(p string) bool {
				way := Follow(p)
				return way.Kind == view.Directory && way.End == p
			})
			if len(away) < len(k.Tops) {
				for _, p := range k.Tops {
					if !slices.Contains(away, p) && !slices.Contains(out.ToldTops(), p) {
						out.Earlier = append(out.Earlier, p)
					}
				}
				k.Tops = away
				out.untold = append(out.untold, k)
			}
		}
		_ = unix.Flock(int(f.Fd()), unix.LOCK_UN)
		f.Close()
	}
}

// since is when the first command began of which nothing was told; zero where all was.
func (out *Resolved) since() (at time.Time) {
	for _, k := range out.untold {
		if at.IsZero() || k.Began.Before(at) {
			at = k.Began
		}
	}
	return at
}

// own are the user's repositories, also where this definition shows none.
func (out *Resolved) own() []string { return slices.Concat(out.Guarded, out.owned) }

// wereOwn notes repositories that were the user's. Those that are no more, but are there, a command
// can have made so.
func (out *Resolved) wereOwn(now view.Facts, list []string) {
	lost := out.Dropped(now, list)
	for _, p := range list {
		switch {
		case slices.Contains(out.own(), p):
		case !slices.Contains(lost, p):
			out.owned = append(out.owned, p)
		case !slices.Contains(out.lost, p):
			out.lost = append(out.lost, p)
		}
	}
}

// leaveUntold takes out of what was there before what may have changed since a command of which
// nothing was told, so that it is told with the next one. Of git, nothing counts as known: it acts
// on more than has a time, and what is the user's own now may be so by that command. Nor does what
// cannot be listed, and has no time that can be seen.
func (out *Resolved) leaveUntold() {
	b, since := &out.before, out.since()
	if since.IsZero() {
		return
	}
	b.began = since
	b.instructions = slices.DeleteFunc(slices.Clone(b.instructions), func(p string) bool { return out.changedSince(p, since) })
	b.repositories = slices.DeleteFunc(slices.Clone(b.repositories), func(top string) bool { return out.obeyedChangedSince(top, since) })
	b.submodules, b.pending, b.odd, b.acting, b.unread = nil, workspace.Pending{}, nil, nil, nil
	b.unprotected = slices.Clone(b.unprotected)
	for i := range b.unprotected {
		if u := &b.unprotected[i]; out.changedSince(u.path, since) {
			u.looked = looksUnknown
		}
	}
	for _, k := range out.untold {
		b.headLogSize = min(b.headLogSize, k.HeadLogSize)
		b.lost = slices.DeleteFunc(slices.Clone(b.lost), func(p string) bool { return !slices.Contains(k.Lost, p) })
		for _, p := range k.Open {
			if !slices.Contains(b.open, p) {
				b.open = append(slices.Clip(b.open), p)
			}
		}
		for _, p := range k.Unprotected {
			known := slices.ContainsFunc(b.unprotected, func(u unprotected) bool { return u.path == p })
			if !known && out.changedSince(p, since) {
				b.unprotected = append(b.unprotected, unprotected{path: p, looked: looksUnknown, free: true})
			}
		}
	}
	if note := fmt.Sprintf("what an earlier command made was not told: what has changed since %s is told after this command", since.Format(time.DateTime)); !slices.Contains(out.Notes, note) {
		out.Notes = append(out.Notes, note)
	}
}

// looksUnknown is how nothing looks.
const looksUnknown = "unknown"

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
	for dir := filepath.Dir(p); !slices.Contains(out.ToldTops(), dir) && dir != "/"; dir = filepath.Dir(dir) {
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
