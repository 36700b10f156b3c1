//go:build unix

package facts

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/shared"
)

// A mark records that nobody has reported yet what a command made. A killed host never does, and for the
// next command these files existed before. So each command has a mark: a file in the directory unreported
// of the user's state, named by the workspace, with the directories in which the command can write. Its
// host locks the file while it lives. If nobody has locked it, the next command in that workspace reports
// that nobody knows what was made in these directories. To make and remove a file costs more than all
// that is in it: a Machine keeps one for the next command, with idle instead of its first character.
type mark struct {
	*os.File
	text string
	kept *atomic.Pointer[mark] // of the Machine
}

const idle = "-"

// noMark is what a closed Machine keeps: no other mark.
var noMark = new(mark)

func (m *Machine) markDir() string {
	if dir := m.Caller.StateDir(); dir != "" {
		return filepath.Join(dir, "unreported")
	}
	return ""
}

func (m *Machine) markPrefix() string {
	return fmt.Sprintf("%.8x-", sha256.Sum256([]byte(m.Workspace.Root())))
}

// takeMark returns a mark of some directories, locked and complete: an unlocked one belongs to a dead
// host. The one that was kept may have been for others, or removed by a person.
func (m *Machine) takeMark(dir string, tops []string) (*mark, error) {
	text := strings.Join(tops, "\x00")
	if k := m.mark.Load(); k != noMark && m.mark.CompareAndSwap(k, nil) && k != nil {
		is, err := k.Stat()
		named, nameErr := os.Lstat(k.Name())
		if err == nil && nameErr == nil && os.SameFile(is, named) && k.text == text {
			if _, err = k.WriteAt([]byte(text[:len(idle)]), 0); err == nil {
				return k, nil
			}
		}
		k.end(true)
	}
	if err := hostpath.MakePrivate(dir, 0o700); err != nil {
		return nil, err
	}
	temp := filepath.Join(dir, hostpath.TempName())
	fd, err := hostpath.LockAt(hostpath.NoWait(), unix.AT_FDCWD, temp, unix.LOCK_EX)
	if err != nil {
		return nil, err
	}
	one := &mark{os.NewFile(uintptr(fd), filepath.Join(dir, m.markPrefix()+rand.Text())), text, &m.mark}
	if _, err = one.WriteString(text); err == nil {
		err = os.Rename(temp, one.Name())
	}
	if err != nil {
		os.Remove(temp)
		one.Close()
		return nil, err
	}
	return one, nil
}

// end is the end of a mark, which stays if it is not removed.
func (k *mark) end(remove bool) {
	if remove {
		os.Remove(k.Name())
	}
	_ = unix.Flock(int(k.Fd()), unix.LOCK_UN) // as in [hostpath.Unlock]
	k.Close()
}

// Begin records that a command may make changes from now on.
func (m *Machine) Begin(out *Resolution) {
	if out.Spec.Unconfined {
		return
	}
	// The others are read-only, or a review has what is written there.
	tops := slices.DeleteFunc(out.Tops(), func(top string) bool {
		return !slices.ContainsFunc(out.Spec.Table, func(e shared.Entry) bool {
			return e.Access == shared.ReadWrite && (paths.Inside(top, e.Source) || paths.Inside(e.Source, top))
		})
	})
	dir := m.markDir()
	if len(tops) == 0 || dir == "" {
		return
	}
	var err error
	if out.mark, err = m.takeMark(dir, tops); err != nil {
		out.Notes = append(out.Notes, "if its host is killed, nothing reports what this command makes: "+err.Error())
	}
}

// End is for when the command can make no more changes, except by processes that go on in its session.
// ran says whether it ran; reported, whether its changes, and those of earlier commands, were reported.
func (out *Resolution) End(ran, reported bool) {
	if reported {
		for _, name := range out.unreported {
			os.Remove(name)
		}
		out.unreported = nil
	}
	if !ran || !reported || out.lastLook == nil {
		out.EndAfter(!ran || reported)
	}
}

// EndAfter is End for processes that the command left running. out may be nil.
func (out *Resolution) EndAfter(reported bool) {
	if out == nil || out.mark == nil {
		return
	}
	k := out.mark
	out.mark = nil
	if reported {
		if _, err := k.WriteAt([]byte(idle), 0); err == nil && k.kept.CompareAndSwap(nil, k) {
			return
		}
	}
	k.end(reported)
}

// readMarks finds the marks of this workspace's commands without a report.
func (m *Machine) readMarks(out *Resolution) {
	dir, prefix := m.markDir(), m.markPrefix()
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) {
			err = errors.Join(err, out.readMark(filepath.Join(dir, e.Name()), m.Workspace.Root()))
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // a mark is gone if its command has just ended
		out.Notes = append(out.Notes, fmt.Sprintf("nothing reports what an earlier command made: the record of it cannot be read (%v); look for it yourself, and remove the record", err))
	}
}

// readMark takes over a mark, unless the host of its command lives or has just removed it.
func (out *Resolution) readMark(name, root string) error {
	f, err := os.OpenFile(name, hostpath.Reading|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	var st unix.Stat_t
	if hostpath.TryLock(int(f.Fd()), unix.LOCK_SH) != nil || unix.Fstat(int(f.Fd()), &st) != nil || st.Nlink == 0 {
		return nil
	}
	defer unix.Flock(int(f.Fd()), unix.LOCK_UN)
	text, err := io.ReadAll(f)
	if err != nil {
		return err
	}
	out.unreported = append(out.unreported, name)
	if strings.HasPrefix(string(text), idle) { // its host ended between two commands
		return nil
	}
	tops := strings.Split(string(text), "\x00")
	if !filepath.IsAbs(tops[0]) { // somebody has emptied the file
		tops = []string{root}
	}
	if tops = slices.DeleteFunc(tops, oneOf(out.unknown)); len(tops) == 0 { // of many killed commands, one is told of
		return nil
	}
	out.unknown = append(out.unknown, tops...)
	out.Notes = append(out.Notes, fmt.Sprintf("an earlier command, which began at %s, ended without a report: nobody knows what it made in %s; look there before you run git or an editor", time.Unix(st.Mtim.Unix()).Format(time.DateTime), hostpath.QuoteList(tops)))
	return nil
}
