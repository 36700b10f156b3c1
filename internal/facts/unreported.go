//go:build unix

package facts

import (
	"bytes"
	"crypto/rand"
	"encoding/gob"
	"errors"
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

	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/internal/view"
)

// A killed host tells nothing of what its commands have made, and what they have made is then
// there before the next command. So each command has a mark: a file in the directory untold of
// the user's state, named by its workspace, and locked while its host lives. Where nobody has one
// locked, the next command in that workspace tells what changed since.
//
// A mark says that something may be made that was not told, and what was there before.
type mark struct {
	baseline
	away []string // of Tops, those that are no directories now

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

// newMark makes a mark of what was there; nil where nothing is remembered.
func (m *Machine) newMark(b *baseline) (*mark, error) {
	dir := m.markDir()
	if dir == "" {
		return nil, nil
	}
	if err := hostpath.MakePrivate(dir, 0o700); err != nil {
		return nil, err
	}
	k := &mark{baseline: *b, name: filepath.Join(dir, m.markPrefix()+rand.Text())}
	if err := k.write(); err != nil {
		return nil, err
	}
	return k, nil
}

// write puts the mark in its place, locked and whole: who finds one that nobody has locked takes it
// for a dead host's.
func (k *mark) write() error {
	var text bytes.Buffer
	if err := gob.NewEncoder(&text).Encode(k.baseline); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(k.name), ".new-")
	if err != nil {
		return err
	}
	if _, err = f.Write(text.Bytes()); err == nil {
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
	if out.mark, err = m.newMark(&out.baseline); err != nil {
		out.Notes = append(slices.Clip(out.Notes), "what this command makes is not told if its host is killed: "+err.Error())
	}
}

// End is for when nothing is made any more by the command: whether it ran, and whether what was
// made by it, and by those before it, was told.
func (out *Resolved) End(ran, told bool) {
	if told {
		for _, k := range out.unreported {
			if len(k.away) == 0 {
				os.Remove(k.name)
			} else if k.leaveAway(); k.write() == nil {
				k.end(false)
			}
		}
		out.unreported = nil
	}
	out.mark.end(!ran || told)
	out.mark = nil
}

// HasLastLook reports whether there was a look at the end of the command, which can go on. Nil is none.
func (out *Resolved) HasLastLook() bool { return out != nil && out.lastLook != nil }

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
	unreadable := func(err error) {
		if !errors.Is(err, fs.ErrNotExist) { // its command has ended just now
			out.Notes = append(slices.Clip(out.Notes), fmt.Sprintf("what an earlier command made is not told: the record of what was there before cannot be read (%v); look for it, and remove the record", err))
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		unreadable(err)
		return
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) {
			if err := out.readMark(filepath.Join(dir, e.Name())); err != nil {
				unreadable(err)
			}
		}
	}
}

// readMark takes up a mark, unless the host of its command lives or has just removed it.
func (out *Resolved) readMark(name string) error {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	var st unix.Stat_t
	if hostpath.TryLock(int(f.Fd()), unix.LOCK_SH) != nil || unix.Fstat(int(f.Fd()), &st) != nil || st.Nlink == 0 {
		return nil
	}
	defer unix.Flock(int(f.Fd()), unix.LOCK_UN)
	k := &mark{name: name}
	if err := gob.NewDecoder(f).Decode(&k.baseline); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	for _, p := range k.Tops {
		if way := Follow(p); way.Kind != view.Directory || way.End != p {
			k.away = append(k.away, p)
		} else if !slices.Contains(out.ReportTops(), p) {
			out.UnreportedDirs = append(out.UnreportedDirs, p)
		}
	}
	if len(k.away) < len(k.Tops) {
		out.unreported = append(out.unreported, k)
	}
	return nil
}

// leaveAway leaves of a mark what is away: what else it says does not count any more.
func (k *mark) leaveAway() {
	k.Tops, k.HeadLogSize = k.away, math.MaxInt64
	k.Unprotected = slices.DeleteFunc(k.Unprotected, func(u unprotected) bool { return !paths.InsideAny(k.away, u.Path) })
}

// userRepositories are the user's repositories, also where this definition shows none.
func (out *Resolved) userRepositories() []string {
	return slices.Concat(out.GuardedRepositories, out.owned)
}

// wereOwn notes repositories that were the user's. Those that are no more, but are there, a command
// can have made so.
func (out *Resolved) wereOwn(now view.Facts, list []string) {
	lost := out.Dropped(now, list)
	for _, p := range list {
		switch {
		case slices.Contains(out.userRepositories(), p):
		case !slices.Contains(lost, p):
			out.owned = append(out.owned, p)
		case !slices.Contains(out.lost, p):
			out.lost = append(out.lost, p)
		}
	}
}

// leaveUntold takes out of what was there before what has changed since a command of which
// nothing was told, so that it is told with the next one.
func (out *Resolved) leaveUntold() {
	if len(out.unreported) == 0 {
		return
	}
	slices.SortFunc(out.unreported, func(a, b *mark) int { return b.Began.Compare(a.Began) })
	for _, k := range out.unreported { // the oldest counts
		out.baseline.since(&k.baseline)
	}
	if note := fmt.Sprintf("what an earlier command made was not told: what has changed since %s is told after this command", out.baseline.Began.Format(time.DateTime)); !slices.Contains(out.Notes, note) {
		out.Notes = append(out.Notes, note)
	}
}
