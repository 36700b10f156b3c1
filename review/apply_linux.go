package review

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/hostpath"
	"github.com/sbxhost/sbxhost/sessiondir"
)

// A journal is a plan that is being carried out, or was.
type journal struct {
	Whole   bool // nothing is left in the review
	Steps   []Step
	Applied []appliedPath `json:",omitempty"`
}

// appliedPath is something that an apply has put into the workspace, or taken away.
type appliedPath struct {
	Layer int    `json:"l,omitempty"`
	Path  name   `json:"p"`
	Kind  Kind   `json:"k"`           // Absent: taken away
	CTime int64  `json:"c,omitempty"` // as the apply has left it
	Ino   uint64 `json:"i,omitempty"`
	New   bool   `json:"n,omitempty"` // nothing was there
	// Index is what an index of git's says; one that git status has written since says the same.
	Index []byte `json:"x,omitempty"`
}

// Changes compares the review with the workspace.
func (r *Review) Changes(ctx context.Context, rules Rules) (*Set, error) {
	if err := r.openTrees(); err != nil {
		return nil, err
	}
	known := map[string]int64{}
	var list []appliedPath
	if err := readJSON(filepath.Join(r.dir, knownFile), &list); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	set := &Set{shown: r.shown}
	for i, l := range r.rec.Layers {
		p := r.trees[i]
		if p.upper == nil {
			continue
		}
		clear(known)
		for _, one := range list {
			if one.Layer == i {
				known[string(one.Path)] = one.CTime
			}
		}
		var had map[string]bool
		c := &Comparison{Layer: i, Root: p.source, Upper: p.upper, Lower: p.lower, Begun: l.Begun, Known: known,
			Same: func(p string) (bool, error) {
				if err := ctx.Err(); err != nil {
					return false, context.Cause(ctx)
				}
				return same(r.trees[i].upper, r.trees[i].lower, p)
			},
			Had: func(p string) (_ bool, err error) {
				if had == nil {
					if had, err = readNames(filepath.Join(r.dir, fmt.Sprint(namesPrefix, i))); err != nil {
						return false, err
					}
				}
				return had[p], nil
			},
		}
		if rules.Denied != nil {
			c.Denied = func(at string) string { return rules.Denied(path.Join(p.source, at)) }
		}
		changes, err := c.Changes()
		if err != nil {
			return nil, err
		}
		if changes, err = r.ofGit(i, changes, rules.Configurations); err != nil {
			return nil, err
		}
		set.Changes = append(set.Changes, changes...)
	}
	set.Digest = Digest(set.Changes)
	return set, nil
}

// Apply carries changes over to the workspace: all that are chosen, or none.
func (r *Review) Apply(ctx context.Context, set *Set, choice Choice) (*Outcome, error) {
	if choice.Digest != "" && choice.Digest != set.Digest {
		return nil, fmt.Errorf("%w: its digest is %s now, not %s", ErrChanged, set.Digest, choice.Digest)
	}
	lock, err := lockFileAt(ctx, filepath.Join(r.shelf.dir, applyLock), unix.LOCK_EX)
	if err != nil {
		return nil, err
	}
	defer lock.release()
	chosen, whole, err := set.choose(choice)
	if err != nil {
		return nil, err
	}
	out := &Outcome{Whole: whole}
	for i, c := range set.Changes {
		switch {
		case !chosen[i]:
		case c.Refused != "":
			out.Refused = append(out.Refused, c)
		case c.Conflict != "" && !listed(choice.Theirs, set.Shown(&c)):
			out.Conflicts = append(out.Conflicts, c)
		default:
			out.Applied = append(out.Applied, c)
		}
	}
	if len(out.Conflicts)+len(out.Refused) > 0 {
		return out, ErrBlocked
	}
	if !whole {
		if err := r.plain(set); err != nil {
			return nil, err
		}
	}
	plan, err := NewPlan(set.Changes, chosen, os.Geteuid() == 0, func(at Place) (Node, error) {
		n, err := r.tree(at).Look(string(at.Path))
		return n, err
	})
	if err != nil {
		return nil, err
	}
	if err := r.forget(ctx); err != nil {
		return nil, err
	}
	if err := r.carryOut(ctx, plan, out, whole); err != nil {
		return nil, err
	}
	r.shelf.forgetOthers(ctx, r)
	return out, nil
}

func (r *Review) tree(at Place) *tree {
	if at.Side == Upper {
		return r.trees[at.Layer].upper
	}
	return r.trees[at.Layer].lower
}

// plain replaces what an opaque directory hides by what says so of each name: a part of it can
// be applied, and the rest stays what it is. Done in part, it changes nothing.
func (r *Review) plain(set *Set) error {
	gone := map[Place][]string{} // names, by the directory of the review that hides them
	for i := range set.Changes {
		if c := &set.Changes[i]; c.Op == Deleted {
			dir := Place{Upper, c.Layer, name(path.Dir(c.Path))}
			gone[dir] = append(gone[dir], path.Base(c.Path))
		}
	}
	for layer, p := range r.trees {
		if p.upper == nil {
			continue
		}
		var walk func(dir string) error
		walk = func(dir string) error {
			names, err := p.upper.Names(dir)
			if err != nil {
				return nil // it was refused
			}
			n, err := p.upper.Look(dir)
			if err == nil && n.Opaque {
				err = p.upper.makePlain(dir, gone[Place{Upper, layer, name(dir)}])
			}
			if err != nil {
				return err
			}
			for _, one := range names {
				at := path.Join(dir, one)
				if n, err := p.upper.Look(at); err != nil {
					return err
				} else if n.Kind == Directory {
					if err := walk(at); err != nil {
						return err
					}
				}
			}
			return nil
		}
		if err := walk("."); err != nil {
			return err
		}
	}
	return nil
}

// makePlain has a directory of an upper layer hide only some names of the lower one.
func (t *tree) makePlain(dir string, gone []string) error {
	fd, err := openBeneath(t.root, dir, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return t.error("open", dir, err)
	}
	defer unix.Close(fd)
	for _, one := range gone {
		// A whiteout, which everybody may make.
		if err := unix.Mknodat(fd, one, unix.S_IFCHR, 0); err != nil && err != unix.EEXIST {
			return t.error("mknod", path.Join(dir, one), err)
		}
	}
	if err := unix.Fremovexattr(fd, opaqueMark); err != nil && err != unix.ENODATA {
		return t.error("removexattr", dir, err)
	}
	return nil
}

// carryOut makes what is to be made, writes the journal, and goes through the steps.
func (r *Review) carryOut(ctx context.Context, plan *Plan, out *Outcome, whole bool) error {
	if err := os.Mkdir(filepath.Join(r.dir, slotsDir), 0o700); err != nil {
		return err
	}
	run, err := newRun(r.dir, r.trees)
	if err != nil {
		return err
	}
	defer run.close()
	if err = run.makeAll(ctx, plan); err == nil {
		err = syncJSON(r.dir, journalFile, &journal{Whole: whole, Steps: plan.Steps})
	}
	if err != nil {
		return errors.Join(fmt.Errorf("%w: %w", ErrBlocked, err), r.dropSlots())
	}
	for i := range plan.Steps {
		if err = ctx.Err(); err == nil {
			err = run.do(&plan.Steps[i])
		}
		if err != nil {
			break
		}
	}
	var applied []appliedPath
	if err == nil {
		applied, err = r.look(out)
	}
	if err == nil {
		// A journal with what was applied, then that it is no journal any more.
		err = writeJSON(r.dir, journalFile, &journal{Whole: whole, Steps: plan.Steps, Applied: applied})
	}
	if err == nil {
		err = r.addKnown(applied)
	}
	if err == nil {
		err = os.Rename(filepath.Join(r.dir, journalFile), filepath.Join(r.dir, appliedFile))
	}
	if err != nil {
		_, back := r.shelf.recover(context.WithoutCancel(ctx), r.dir, &r.rec)
		return errors.Join(fmt.Errorf("%w: %w", ErrBlocked, err), back)
	}
	if whole {
		r.closeTrees()
		return r.shelf.end(context.WithoutCancel(ctx), r)
	}
	return nil
}

// look takes the marks of an overlay from what was applied, and notes what it is like.
func (r *Review) look(out *Outcome) ([]appliedPath, error) {
	applied := make([]appliedPath, 0, len(out.Applied))
	for i := range r.trees {
		r.trees[i].lower.forget()
	}
	for _, c := range out.Applied {
		one := appliedPath{Layer: c.Layer, Path: name(c.Path), Kind: c.New.Kind, New: c.Old.Kind == Absent}
		t := r.trees[c.Layer].lower
		if c.New.Kind == File || c.New.Kind == Directory {
			if err := t.unmark(c.Path); err != nil {
				return nil, err
			}
		}
		n, err := t.Look(c.Path)
		if err != nil {
			return nil, err
		}
		one.CTime, one.Ino = n.CTime, n.Ino
		if one.Kind == File && isIndex(path.Join(t.path, c.Path)) {
			if one.Index, err = t.index(c.Path); err != nil {
				return nil, err
			}
		}
		applied = append(applied, one)
	}
	return applied, nil
}

// unmark removes the attributes by which an overlay knows what it has copied.
func (t *tree) unmark(p string) error {
	fd, name, err := t.in(p)
	if err != nil {
		return t.error("open", p, err)
	}
	at := fdPath(fd) + "/" + name
	buf := make([]byte, 4096)
	n, err := unix.Llistxattr(at, buf)
	if err != nil {
		return nil // none that we can see
	}
	for attr := range strings.SplitSeq(string(buf[:n]), "\x00") {
		if strings.HasPrefix(attr, "user.overlay.") {
			unix.Lremovexattr(at, attr)
		}
	}
	return nil
}

func (r *Review) addKnown(applied []appliedPath) error {
	if len(applied) == 0 {
		return nil
	}
	var list []appliedPath
	if err := readJSON(filepath.Join(r.dir, knownFile), &list); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return writeJSON(r.dir, knownFile, append(list, applied...))
}

func (r *Review) dropSlots() error {
	return sessiondir.RemoveTree(context.Background(), r.dir, slotsDir)
}

// forget gives up the last apply of the review: it cannot be undone any more.
func (r *Review) forget(ctx context.Context) error {
	if err := os.Remove(filepath.Join(r.dir, appliedFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return sessiondir.RemoveTree(ctx, r.dir, slotsDir)
}

// forgetOthers gives up what was applied before of other reviews. What is in use is left.
func (s *Shelf) forgetOthers(ctx context.Context, but *Review) {
	entries, _ := os.ReadDir(s.dir)
	for _, e := range entries {
		dir := filepath.Join(s.dir, e.Name())
		if e.Name() == but.Name || dir == but.dir || !e.IsDir() {
			continue
		}
		if strings.HasPrefix(e.Name(), gonePrefix) {
			_ = sessiondir.RemoveTree(ctx, s.dir, e.Name())
			continue
		}
		if _, err := os.Lstat(filepath.Join(dir, appliedFile)); err != nil {
			continue
		}
		lock, err := lockIn(ended(), dir, unix.LOCK_EX)
		if err != nil {
			continue
		}
		if strings.HasPrefix(e.Name(), donePrefix) {
			_ = s.remove(ctx, dir)
		} else {
			other := Review{dir: dir}
			_ = other.forget(ctx)
		}
		lock.release()
	}
}

// end takes the name from a review of which nothing is left but how to undo it.
func (s *Shelf) end(ctx context.Context, r *Review) error {
	done := filepath.Join(s.dir, donePrefix+filepath.Base(r.dir))
	if _, err := os.Lstat(done); err == nil {
		if err := s.remove(ctx, done); err != nil {
			return err
		}
	}
	if err := os.Rename(r.dir, done); err != nil {
		return err
	}
	r.dir = done
	return nil
}

// recover makes good what an apply or an undo has left that was killed, and says what it did.
func (s *Shelf) recover(ctx context.Context, dir string, rec *record) (told []string, err error) {
	var j journal
	switch err := readJSON(filepath.Join(dir, journalFile), &j); {
	case err == nil:
		told, err = takeBack(dir, rec, &j)
		if err != nil {
			return told, err
		}
		told = append([]string{"an apply that did not come to its end was taken back"}, told...)
		if err := os.Remove(filepath.Join(dir, journalFile)); err != nil {
			return told, err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	var applied journal
	if err := readJSON(filepath.Join(dir, appliedFile), &applied); err == nil {
		if applied.Whole && !strings.HasPrefix(filepath.Base(dir), donePrefix) {
			r := &Review{dir: dir}
			if err := s.end(ctx, r); err != nil {
				return told, err
			}
			return told, fmt.Errorf("review %q was applied: %w", filepath.Base(dir), fs.ErrNotExist)
		}
		return told, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return told, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return told, err
	}
	for _, e := range entries { // of those that were killed
		if n := e.Name(); n == slotsDir || strings.HasPrefix(n, "new-") || strings.HasPrefix(n, "clock-") || strings.HasPrefix(n, diffPrefix) {
			err := sessiondir.RemoveTree(ctx, dir, n)
			if errors.Is(err, unix.ENOTDIR) {
				err = os.Remove(filepath.Join(dir, n))
			}
			if err != nil {
				return told, err
			}
		}
	}
	return told, nil
}

// diffPrefix begins the names of directories that a diff is made in.
const diffPrefix = "diff-"

// takeBack undoes the steps of a journal, however far they came.
func takeBack(dir string, rec *record, j *journal) (told []string, err error) {
	trees, err := openPairs(dir, rec)
	if err != nil {
		return nil, err
	}
	r := Review{dir: dir, rec: *rec, trees: trees, shelf: &Shelf{root: string(rec.Root)}}
	defer r.closeTrees()
	if err := os.Mkdir(filepath.Join(dir, slotsDir), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	run, err := newRun(dir, trees)
	if err != nil {
		return nil, err
	}
	defer run.close()
	kept := false
	for _, step := range slices.Backward(j.Steps) {
		switch err := run.undo(&step); {
		case err == nil:
		case errors.Is(err, unix.EEXIST) && step.From.Side == Host:
			kept = true
			told = append(told, fmt.Sprintf("%s was made anew meanwhile and stays", hostpath.Quote(r.shown(step.From.Layer, string(step.From.Path)))))
		default:
			return told, err
		}
	}
	// What is back has another change time. Whoever tries once more finds the same.
	var back []appliedPath
	for _, step := range j.Steps {
		at := step.of()
		if !step.Clean || at.Side != Host {
			continue
		}
		n, err := run.tree(at).Look(string(at.Path))
		if err != nil {
			return told, err
		}
		if n.Ino == step.Old && n.MTime == step.Time {
			back = append(back, appliedPath{Layer: at.Layer, Path: at.Path, CTime: n.CTime})
		}
	}
	if err := r.addKnown(back); err != nil {
		return told, err
	}
	if kept {
		name := keptPrefix + strings.TrimPrefix(filepath.Base(dir), donePrefix)
		for i := 0; ; i++ {
			at := filepath.Join(dir, fmt.Sprintf("%s-%d", name, i))
			if _, err := os.Lstat(at); err == nil {
				continue
			}
			if err := os.Rename(filepath.Join(dir, slotsDir), at); err != nil {
				return told, err
			}
			return append(told, "what was there before lies in "+hostpath.Quote(at)), nil
		}
	}
	return told, nil
}

// A run carries steps out.
type run struct {
	trees []pair
	slots *tree
}

func newRun(dir string, trees []pair) (*run, error) {
	slots, err := openTree(filepath.Join(dir, slotsDir), false)
	return &run{trees, slots}, err
}

func (r *run) close() { r.slots.close() }

func (r *run) tree(at Place) *tree {
	switch at.Side {
	case Slot:
		return r.slots
	case Upper:
		return r.trees[at.Layer].upper
	}
	return r.trees[at.Layer].lower
}

// makeAll makes what takes a slot before the first step, and tells the steps its inodes.
func (r *run) makeAll(ctx context.Context, plan *Plan) error {
	inodes := map[string]uint64{}
	for i := range plan.Makes {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		m := &plan.Makes[i]
		if err := r.make(m); err != nil {
			return err
		}
		n, err := r.slots.Look(m.Slot)
		if err != nil {
			return err
		}
		inodes[m.Slot] = n.Ino
	}
	made := map[Place]uint64{}
	for i := range plan.Steps {
		s := &plan.Steps[i]
		if ino, ok := inodes[string(s.From.Path)]; ok && s.From.Side == Slot && s.Do != "mode" {
			s.Ino = ino
			made[s.To] = ino
		} else if s.Do == "mode" && s.Ino == 0 {
			s.Ino = made[s.To]
		}
	}
	return nil
}

func (r *run) make(m *Make) error {
	at := m.Slot
	if m.Of == nil && m.Content == nil {
		if err := unix.Mkdirat(r.slots.root, at, 0o700); err != nil {
			return r.slots.error("mkdir", at, err)
		}
		return r.slots.chmod(at, m.Mode)
	}
	fd, err := unix.Openat(r.slots.root, at, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return r.slots.error("create", at, err)
	}
	f := os.NewFile(uintptr(fd), at)
	defer f.Close()
	if m.Of == nil {
		_, err = f.Write(m.Content)
	} else {
		var from *os.File
		if from, err = r.tree(*m.Of).file(string(m.Of.Path)); err != nil {
			return err
		}
		defer from.Close()
		_, err = io.Copy(f, from)
	}
	if err == nil {
		err = unix.Fchmod(fd, m.Mode)
	}
	if err == nil && m.MTime != 0 {
		err = unix.UtimesNanoAt(unix.AT_FDCWD, fdPath(fd), []unix.Timespec{{Nsec: unix.UTIME_OMIT}, unix.NsecToTimespec(m.MTime)}, 0)
	}
	return err
}

// chmod sets the permissions of what is no symlink.
func (t *tree) chmod(p string, mode uint32) error {
	fd, err := openBeneath(t.root, p, unix.O_PATH)
	if err == nil {
		err = unix.Chmod(fdPath(fd), mode)
		unix.Close(fd)
	}
	return t.error("chmod", p, err)
}

// errMoved is the error for what is not as it was looked at.
func (r *run) errMoved(at Place) error {
	return fmt.Errorf("%s was changed in the workspace meanwhile", hostpath.Quote(path.Join(r.tree(at).path, string(at.Path))))
}

func (r *run) do(s *Step) error {
	switch s.Do {
	case "mode":
		n, err := r.tree(s.To).Look(string(s.To.Path))
		if err == nil && (n.Ino != s.Ino || n.Mode != s.Was) {
			err = r.errMoved(s.To)
		}
		if err != nil {
			return err
		}
		return r.tree(s.To).chmod(string(s.To.Path), s.Mode)
	case "move":
		if s.From.Side == Host {
			if n, err := r.tree(s.From).Look(string(s.From.Path)); err != nil {
				return err
			} else if !n.same(&s.old) {
				return r.errMoved(s.From)
			}
		}
		err := r.rename(s.From, s.To, unix.RENAME_NOREPLACE)
		if errors.Is(err, unix.EEXIST) && s.To.Side == Host {
			return r.errMoved(s.To)
		}
		if err == nil && s.From.Side == Host {
			err = r.check(s, s.To, s.From)
		}
		return err
	}
	if n, err := r.tree(s.To).Look(string(s.To.Path)); err != nil {
		return err
	} else if !n.same(&s.old) {
		return r.errMoved(s.To)
	}
	if err := r.rename(s.From, s.To, unix.RENAME_EXCHANGE); err != nil {
		if errors.Is(err, unix.ENOENT) {
			return r.errMoved(s.To)
		}
		return err
	}
	return r.check(s, s.From, s.To)
}

// check makes sure that what was taken out of the workspace is what was looked at.
func (r *run) check(s *Step, slot, host Place) error {
	n, err := r.slots.Look(string(slot.Path))
	if err != nil {
		return err
	}
	if !n.same(&s.old) {
		return r.errMoved(host)
	}
	if s.in == nil {
		return nil
	}
	count := 0
	var walk func(dir string) error
	walk = func(dir string) error {
		names, err := r.slots.Names(path.Join(string(slot.Path), dir))
		if err != nil {
			return err
		}
		for _, one := range names {
			at := path.Join(dir, one)
			n, err := r.slots.Look(path.Join(string(slot.Path), at))
			if err != nil {
				return err
			}
			was, ok := s.in[at]
			if !ok || !n.same(&was) || n.Kind != Directory && n.CTime != was.CTime {
				return r.errMoved(Place{host.Side, host.Layer, name(path.Join(string(host.Path), at))})
			}
			count++
			if n.Kind == Directory {
				if err := walk(at); err != nil {
					return err
				}
			}
		}
		return nil
	}
	if err := walk("."); err != nil {
		return err
	}
	if count != len(s.in) {
		return r.errMoved(host)
	}
	return nil
}

// rename never replaces anything.
func (r *run) rename(from, to Place, flag uint) error {
	a, b := r.tree(from), r.tree(to)
	fromDir, fromName, err := a.in(string(from.Path))
	if err != nil {
		return a.error("open", string(from.Path), err)
	}
	if a == b { // their last directory is one
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

// undo takes a step back, if it was done: what lies where says so.
func (r *run) undo(s *Step) error {
	to := r.tree(s.To)
	if to == nil || r.tree(s.From) == nil {
		return nil
	}
	n, err := to.Look(string(s.To.Path))
	if err != nil || n.Ino != s.Ino || n.Kind == Absent {
		return err
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
	if old, err := r.slots.Look(string(s.From.Path)); err != nil || old.Kind == Absent {
		return err
	}
	return r.rename(s.From, s.To, unix.RENAME_EXCHANGE)
}

// of is where in the workspace a step takes something away.
func (s *Step) of() Place {
	if s.Do == "move" {
		return s.From
	}
	return s.To
}

// Undo takes back the last apply of a workspace's reviews, and gives the review's name.
func (s *Shelf) Undo(ctx context.Context) (string, []string, error) {
	list, err := s.List()
	if err != nil {
		return "", nil, err
	}
	list = slices.DeleteFunc(list, func(i Info) bool { return !i.Applied })
	if len(list) == 0 {
		return "", nil, fmt.Errorf("%w: no review of this workspace was applied, or something was done since", ErrUndo)
	}
	last := slices.MaxFunc(list, func(a, b Info) int { return a.Used.Compare(b.Used) })
	base := last.Name
	if last.Whole {
		base = donePrefix + last.Name
	}
	r, err := s.open(ctx, last.Name, base)
	if err != nil {
		return last.Name, nil, err
	}
	defer r.Close()
	lock, err := lockFileAt(ctx, filepath.Join(s.dir, applyLock), unix.LOCK_EX)
	if err != nil {
		return last.Name, nil, err
	}
	defer lock.release()
	changed, j, err := r.changedSince()
	if err != nil || len(changed) > 0 {
		return last.Name, changed, errors.Join(err, fmt.Errorf("%w: the workspace was changed since", ErrUndo))
	}
	if last.Whole {
		if _, err := os.Lstat(filepath.Join(s.dir, last.Name)); err == nil {
			return last.Name, nil, fmt.Errorf("%w: there is another review %q by now", ErrUndo, last.Name)
		}
	}
	if err := writeJSON(r.dir, appliedFile, j); err != nil {
		return last.Name, nil, err
	}
	if err := os.Rename(filepath.Join(r.dir, appliedFile), filepath.Join(r.dir, journalFile)); err != nil {
		return last.Name, nil, err
	}
	r.closeTrees()
	told, err := s.recover(ctx, r.dir, &r.rec)
	if err != nil {
		return last.Name, told, err
	}
	if last.Whole {
		err = os.Rename(r.dir, filepath.Join(s.dir, last.Name))
	}
	return last.Name, told[1:], err
}

// changedSince lists what is not any more as the last apply has left it, and gives the apply's journal
// for what there is now.
func (r *Review) changedSince() (list []string, j *journal, err error) {
	j = &journal{}
	if err := readJSON(filepath.Join(r.dir, appliedFile), j); err != nil {
		return nil, nil, err
	}
	if err := r.openTrees(); err != nil {
		return nil, nil, err
	}
	ours := map[Place]bool{}
	for _, one := range j.Applied {
		ours[Place{Host, one.Layer, one.Path}] = true
	}
	for _, one := range j.Applied {
		t := r.trees[one.Layer].lower
		n, err := t.Look(string(one.Path))
		if err != nil {
			return nil, nil, err
		}
		switch {
		case one.Kind == Directory && one.New && n.Kind == Directory:
			names, err := t.Names(string(one.Path))
			if err != nil {
				return nil, nil, err
			}
			for _, entry := range names {
				if at := path.Join(string(one.Path), entry); !ours[Place{Host, one.Layer, name(at)}] {
					list = append(list, r.shown(one.Layer, at))
				}
			}
		case n.Kind == one.Kind && (n.Kind == Absent || n.Kind == Directory || n.CTime == one.CTime && n.Ino == one.Ino):
		case n.Kind == File && one.Index != nil:
			now, err := t.index(string(one.Path))
			if err != nil {
				return nil, nil, err
			}
			if !bytes.Equal(now, one.Index) {
				list = append(list, r.shown(one.Layer, string(one.Path)))
				continue
			}
			for i := range j.Steps { // what it has written takes the place of what was applied
				if s := &j.Steps[i]; s.Ino == one.Ino {
					s.Ino = n.Ino
				}
			}
		default:
			list = append(list, r.shown(one.Layer, string(one.Path)))
		}
	}
	return list, j, nil
}
