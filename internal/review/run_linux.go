package review

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/hostpath"
)

// openSlots opens the directory for files that an apply makes or puts aside.
func (r *Review) openSlots() error {
	dir := filepath.Join(r.dir, slotsDir)
	err := os.Mkdir(dir, 0o700)
	if err == nil || errors.Is(err, fs.ErrExist) {
		r.slots.close()
		r.slots, err = openTree(dir, false)
	}
	return err
}

func (r *Review) tree(at Place) *tree {
	switch at.Side {
	case Slot:
		return r.slots
	case Upper:
		return r.trees[at.Layer].upper
	}
	return r.trees[at.Layer].lower
}

// look describes what is at a place.
func (r *Review) look(at Place) (Node, error) { return r.tree(at).Look(string(at.Path)) }

// fill makes a copy of a file of the upper layer, or a directory like one there; see the type.
func (r *Review) fill(ctx context.Context, slot string, c *Change) (uint64, error) {
	of, mode, err := r.trees[c.layer].upper, c.New.Mode, context.Cause(ctx)
	switch {
	case err != nil:
		return 0, err
	case c.New.Kind == Directory:
		mode |= 0o700
		err = r.slots.error("mkdir", slot, unix.Mkdirat(r.slots.root, slot, 0o700))
	default:
		err = r.slots.copyFile(slot, of, c.path, c.New.Size, 0o600)
	}
	if err == nil {
		err = r.slots.copyAttributes(slot, of, c.path)
	}
	if err != nil {
		return 0, err
	}
	if err := unix.Fchownat(r.slots.root, slot, int(c.New.uid), int(c.New.gid), unix.AT_SYMLINK_NOFOLLOW); err != nil && mode&0o2000 != 0 { // the bit must not be for another group
		return 0, r.slots.error("chown", slot, err)
	}
	err = r.slots.chmod(slot, mode)
	if err == nil && c.New.Kind != Directory {
		times := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, unix.NsecToTimespec(c.New.mtime)}
		err = r.slots.error("utimensat", slot, unix.UtimesNanoAt(r.slots.root, slot, times, unix.AT_SYMLINK_NOFOLLOW))
	}
	if err != nil {
		return 0, err
	}
	n, err := r.slots.Look(slot)
	return n.ino, err
}

// copyAttributes copies the extended attributes and access control lists from p of another tree.
func (t *tree) copyAttributes(to string, of *tree, p string) error {
	at, names, err := of.attributes(p)
	if err != nil {
		return of.error("listxattr", p, err)
	}
	for _, attr := range names {
		if ofSystem(attr) {
			continue
		}
		value, err := getAttribute(at, attr)
		if errors.Is(err, unix.EACCES) {
			continue // its owner may not read it, and it is shown without its value
		} else if err != nil {
			return of.error("getxattr", p, err)
		}
		if err := unix.Lsetxattr(fdPath(t.root)+"/"+to, attr, []byte(value), 0); err != nil {
			return t.error("setxattr", to, err)
		}
	}
	return nil
}

// chmod sets the permissions of a file that is no symlink.
func (t *tree) chmod(p string, mode uint32) error {
	fd, err := t.open(p, unix.O_PATH)
	if err == nil {
		err = unix.Chmod(fdPath(fd), mode)
		unix.Close(fd)
	}
	return t.error("chmod", p, err)
}

// errMoved is the error for a file that has changed.
func (r *Review) errMoved(at Place) error {
	return fmt.Errorf("%s has just been changed in the workspace", hostpath.Quote(path.Join(r.tree(at).path, string(at.Path))))
}

func (r *Review) do(s *Step) error {
	if s.Do == "stay" {
		return nil
	}
	at := s.of()
	n, err := r.look(at)
	switch {
	case err != nil:
		return err
	case s.Do == "mode" && (n.ino != s.Ino || n.Mode != s.Was), s.Do != "mode" && at.Side == Host && !n.same(&s.old):
		return r.errMoved(at)
	case s.Do == "mode":
		return r.tree(at).chmod(string(at.Path), s.Mode)
	}
	slot, flag, moved := s.To, uint(unix.RENAME_NOREPLACE), unix.EEXIST
	if s.Do == "swap" {
		slot, flag, moved = s.From, unix.RENAME_EXCHANGE, unix.ENOENT
	}
	err = r.rename(s.From, s.To, flag)
	switch {
	case errors.Is(err, moved) && s.To.Side == Host:
		return r.errMoved(s.To)
	case err != nil || at.Side != Host:
		return err
	}
	return r.check(s, slot, at)
}

// check compares the file that was taken from the workspace with the one in the plan.
func (r *Review) check(s *Step, slot, host Place) error {
	n, err := r.look(slot)
	if err != nil {
		return err
	}
	if !n.same(&s.old) {
		return r.errMoved(host)
	}
	if n.Kind == Directory {
		if sum, err := r.slots.sum(string(slot.Path), ".", true); err != nil {
			return err
		} else if sum != s.oldSum {
			return r.errMoved(host)
		}
	}
	return nil
}

// rename never replaces anything.
func (r *Review) rename(from, to Place, flag uint) error {
	a, b := r.tree(from), r.tree(to)
	fromDir, fromName, err := a.in(string(from.Path))
	if err != nil {
		return a.error("open", string(from.Path), err)
	}
	if a == b { // both lie in the same directory
		if fromDir, err = unix.FcntlInt(uintptr(fromDir), unix.F_DUPFD_CLOEXEC, 0); err != nil {
			return err
		}
		defer unix.Close(fromDir)
	}
	toDir, toName, err := b.in(string(to.Path))
	if err != nil {
		return b.error("open", string(to.Path), err)
	}
	if err := unix.Renameat2(fromDir, fromName, toDir, toName, flag); err != nil {
		return b.error("rename", string(to.Path), err)
	}
	a.forget()
	b.forget()
	return nil
}

// errEdited is the reason why an undo leaves something in the workspace.
var errEdited = errors.New("changed since, and stays")

// errElsewhere is the reason why an undo does not find what was put into the workspace.
var errElsewhere = errors.New("gone, or somewhere else, and was not taken back")

// undo undoes a step, if the inodes show that it was done. It returns errEdited for what is not any
// more what the step put into the workspace.
func (r *Review) undo(s *Step) error {
	to := r.tree(s.To)
	if s.Do == "stay" || to == nil || r.tree(s.From) == nil {
		return nil
	}
	n, err := r.look(s.To)
	if err != nil {
		return err
	}
	if n.ino != s.Ino || n.Kind == Absent {
		if s.Do != "swap" {
			return r.missing(s)
		}
		if old, err := r.look(s.From); err != nil || old.ino != s.Old {
			return err
		}
		return errEdited
	}
	if s.To.Side == Host && s.Do != "mode" {
		if sum, err := to.sum(string(s.To.Path), ".", false); isShortage(err) {
			return err
		} else if err != nil || sum != s.Sum { // somebody has shut a directory, or mounted something there
			return errEdited
		}
	}
	switch s.Do {
	case "mode":
		if n.Mode != s.Mode {
			return nil
		}
		return to.chmod(string(s.To.Path), s.Was)
	case "move":
		return r.rename(s.To, s.From, unix.RENAME_NOREPLACE)
	}
	if old, err := r.look(s.From); err != nil || old.Kind == Absent {
		return err
	}
	return r.rename(s.From, s.To, unix.RENAME_EXCHANGE)
}

// missing is the error for a step whose inode is not in its place, unless the step was not done, or
// has been undone. A directory on the way to it can be another one now, or a symlink.
func (r *Review) missing(s *Step) error {
	from, err := r.look(s.From)
	changes := s.Do == "mode" && s.Old != 0
	if err == nil && s.To.Side == Host && (changes || s.Do == "move" && from.ino != s.Ino) {
		return errElsewhere
	}
	return err
}

// of is the place that a step removes, or whose permissions it changes.
func (s *Step) of() Place {
	if s.Do == "move" {
		return s.From
	}
	return s.To
}
