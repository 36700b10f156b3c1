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

// A mark has the state before unreported changes. A killed host cannot report what its commands have
// made, which then exists before the next command. So each command has a mark: a file in the
// directory untold of the user's state, named by its workspace, which its host locks while it lives.
// If nobody has locked the mark, the next command in that workspace reports the changes since.
type mark struct {
	baseline
	away []string // those of Tops that are not directories now

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

// newMark makes a mark of a state; nil if there is no state directory.
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

// write puts the mark into its directory, locked and complete: an unlocked one belongs to a dead
// host.
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

// end removes the mark if everything was reported; else the next command reports it.
func (k *mark) end(told bool) {
	if k == nil {
		return
	}
	if told {
		os.Remove(k.name)
	}
	// A child that this process has just forked also has it open, until it executes.
	_ = unix.Flock(int(k.file.Fd()), unix.LOCK_UN)
	k.file.Close()
}

// Begin records that a command may make changes from now on.
func (m *Machine) Begin(out *Resolved) {
	if out.Spec.Unconfined {
		return
	}
	var err error
	if out.mark, err = m.newMark(&out.baseline); err != nil {
		out.Notes = append(slices.Clip(out.Notes), "if its host is killed, nothing reports what this command makes: "+err.Error())
	}
}

// End is called when the command can make no more changes. ran says whether it ran; told, whether
// its changes, and those of earlier commands, were reported.
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

// HasLastLook reports whether there is a look from the end of the command to continue from. out may
// be nil.
func (out *Resolved) HasLastLook() bool { return out != nil && out.lastLook != nil }

// EndAfter is End for processes that the command left running. out may be nil.
func (out *Resolved) EndAfter(told bool) {
	if out != nil {
		out.afterMark.end(told)
		out.afterMark = nil
	}
}

// readMarks finds the marks of this workspace's commands without a report. This command looks also
// where those could write, whatever its definition shows. A mark of a missing directory stays: the
// directory can come back.
func (m *Machine) readMarks(out *Resolved) {
	dir, prefix := m.markDir(), m.markPrefix()
	unreadable := func(err error) {
		if !errors.Is(err, fs.ErrNotExist) { // its command has just ended
			out.Notes = append(slices.Clip(out.Notes), fmt.Sprintf("nothing reports what an earlier command made: the record of the state before it cannot be read (%v); look for it yourself, and remove the record", err))
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

// readMark takes over a mark, unless the host of its command lives or has just removed it.
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

// leaveAway keeps only the missing directories of a mark.
func (k *mark) leaveAway() {
	k.Tops, k.HeadLogSize = k.away, math.MaxInt64
	k.Unprotected = slices.DeleteFunc(k.Unprotected, func(u unprotected) bool { return !paths.InsideAny(k.away, u.Path) })
}

// userRepositories are the user's repositories, also those that this definition does not show.
func (out *Resolved) userRepositories() []string {
	return slices.Concat(out.GuardedRepositories, out.owned)
}

// wereOwn records repositories that were the user's. If they exist but are not the user's any more,
// a command may have caused it.
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

// leaveUntold removes from the baseline what has changed since a command without a report, so that
// this command reports it.
func (out *Resolved) leaveUntold() {
	if len(out.unreported) == 0 {
		return
	}
	slices.SortFunc(out.unreported, func(a, b *mark) int { return b.Began.Compare(a.Began) })
	for _, k := range out.unreported { // the oldest counts
		out.baseline.since(&k.baseline)
	}
	if note := fmt.Sprintf("an earlier command ended without a report: changes since %s are reported after this command", out.baseline.Began.Format(time.DateTime)); !slices.Contains(out.Notes, note) {
		out.Notes = append(out.Notes, note)
	}
}
