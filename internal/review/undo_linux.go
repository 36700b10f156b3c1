package review

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/sessiondir"
)

// Undo undoes the last apply of a workspace's reviews, and returns the review's name. An apply that
// was killed is the last one.
func (s *Store) Undo(ctx context.Context) (string, []string, error) {
	list, err := s.List()
	if err != nil {
		return "", nil, err
	}
	none := fmt.Errorf("%w: no review of this workspace was applied, or it was undone or changed since", ErrUndo)
	list = slices.DeleteFunc(list, func(i Info) bool { return !i.Applied })
	if len(list) == 0 {
		return "", nil, none
	}
	last := slices.MaxFunc(list, func(a, b Info) int { return a.Used.Compare(b.Used) })
	if i := slices.IndexFunc(list, func(i Info) bool { return has(filepath.Join(s.dir, i.Name), journalFile) }); i >= 0 {
		last = list[i]
	}
	r, err := s.Open(ctx, last.Name)
	if err != nil {
		return last.Name, nil, err
	}
	defer r.Close()
	if len(r.Recovered) > 0 {
		return last.Name, r.Recovered[1:], nil
	}
	if !has(r.dir, appliedIn(r.dir)) { // another process has undone it meanwhile
		return "", nil, none
	}
	lock, err := lockFileAt(ctx, filepath.Join(s.dir, applyLock))
	if err != nil {
		return last.Name, nil, err
	}
	defer hostpath.Unlock(lock)
	changed, j, err := r.changedSince()
	if err != nil || len(changed) > 0 {
		return last.Name, changed, errors.Join(err, fmt.Errorf("%w: the workspace was changed since", ErrUndo))
	}
	j.Steps = slices.DeleteFunc(j.Steps, func(s Step) bool { return s.Object })
	if changed, err = r.rewritten(j); err != nil || len(changed) > 0 {
		return last.Name, changed, errors.Join(err, fmt.Errorf("%w: something else is in its place by now", ErrUndo))
	}
	file := appliedIn(r.dir)
	if err = s.write(r.dir, file, j); err == nil {
		err = os.Rename(filepath.Join(r.dir, file), filepath.Join(r.dir, journalFile))
	}
	if err != nil {
		return last.Name, nil, err
	}
	report, err := r.recover(ctx)
	if err != nil {
		return last.Name, report, err
	}
	return last.Name, report[1:], nil
}

// changedSince lists what differs from the end of the last apply, and returns the apply's journal
// for the current files.
func (r *Review) changedSince() (list []string, j *journal, err error) {
	j = &journal{}
	if err := r.store.read(r.dir, appliedIn(r.dir), j); err != nil {
		return nil, nil, err
	}
	if err := r.openTrees(); err != nil {
		return nil, nil, err
	}
	ours := map[Place]bool{}
	for _, one := range j.Applied {
		ours[Place{Host, one.Layer, one.Path}] = true
	}
	for i := range j.Applied {
		one := &j.Applied[i]
		t := r.trees[one.Layer].lower
		n, err := t.Look(string(one.Path))
		if err != nil {
			return nil, nil, err
		}
		left := n.Kind == one.Kind && (one.Object || n.Kind == Absent || n.Kind == Directory || n.ctime == one.CTime && n.ino == one.Ino)
		var inside []string
		switch {
		case left && n.Kind == Directory && one.New && !one.Object:
			inside, err = t.Names(string(one.Path))
		case !left && n.Kind == File && one.Index != nil:
			left, err = j.follow(t, one, &n)
		}
		if err != nil {
			return nil, nil, err
		}
		for _, entry := range inside {
			if at := path.Join(string(one.Path), entry); !ours[Place{Host, one.Layer, name(at)}] {
				list = append(list, r.shown(one.Layer, at))
			}
		}
		if !left {
			list = append(list, r.shown(one.Layer, string(one.Path)))
		}
	}
	return list, j, nil
}

// rewritten lists what an undo could not put back: a command of the review has written to the same path since, or somebody
// has removed or shut the directory. An undo that fails half-way would fail each time that the review is opened.
func (r *Review) rewritten(j *journal) (list []string, err error) {
	opens := map[Place]uint32{} // directories that the undo opens, by the permissions that they have to have
	for i := range j.Steps {
		if s := &j.Steps[i]; s.Do == "mode" {
			opens[s.To] = s.Mode
		}
	}
	for i := range j.Steps {
		s := &j.Steps[i]
		for _, at := range [...]Place{s.From, s.To} {
			t := r.tree(at)
			if s.Do == "mode" || s.Do == "stay" || at.Side == Slot || t == nil {
				continue
			}
			above := at.dir()
			dir, err := r.look(above)
			if err != nil {
				return nil, err
			}
			mode, opened := opens[above]
			blocked := dir.Kind == Directory && dir.Mode&0o300 != 0o300 && os.Geteuid() != 0 && !(opened && mode == dir.Mode)
			if at.Side == Upper && !blocked {
				n, err := r.look(at)
				if err != nil {
					return nil, err
				}
				blocked = dir.Kind != Directory || n.Kind != Absent
			}
			if blocked {
				list = append(list, r.shown(at.Layer, string(at.Path)))
			}
		}
	}
	return list, nil
}

// follow reports whether an index of git has the applied text in a new file, and puts that file
// into the journal: git status writes a new one.
func (j *journal) follow(t *tree, one *appliedPath, n *Node) (bool, error) {
	now, _, err := t.index(string(one.Path), hashSize(string(one.Path), t))
	if err != nil || now.Entries != string(one.Index) {
		return false, err
	}
	at := Place{Host, one.Layer, one.Path}
	for i := range j.Steps {
		s := &j.Steps[i]
		if s.To == at || s.From == (Place{Upper, at.Layer, at.Path}) {
			s.Ino = n.ino
		}
		// It can be in a new directory that was moved as a whole. One that was made is moved back empty.
		moved := s.Do == "swap" || s.Do == "move" && (s.From.Side == Upper || s.To == at)
		if moved && s.To.Side == Host && s.To.Layer == at.Layer && under(string(s.To.Path), string(at.Path)) {
			if s.Sum, err = t.sum(string(s.To.Path), ".", false); err != nil {
				return false, err
			}
		}
	}
	return true, nil
}

// takeBack undoes the steps of a journal, after any interruption.
func (r *Review) takeBack(j *journal) (report []string, err error) {
	defer r.closeTrees()
	if err := r.openTrees(); err != nil {
		return nil, err
	}
	if err := r.openSlots(); err != nil {
		return nil, err
	}
	kept := false
	for _, step := range slices.Backward(j.Steps) {
		switch err := r.undo(&step); {
		case err == nil:
		case err == errEdited, err == errElsewhere:
			kept = kept || step.Do == "swap"
			report = append(report, fmt.Sprintf("%s was %v", r.quoted(step.To), err))
		case step.From.Side != Host:
			return report, err
		case errors.Is(err, unix.EEXIST):
			kept = true
			report = append(report, fmt.Sprintf("%s was made again since, and stays", r.quoted(step.From)))
		case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
			kept = true
			report = append(report, fmt.Sprintf("the directory of %s is gone", r.quoted(step.From)))
		default:
			return report, err
		}
	}
	apart, err := r.separate(j.Steps)
	if err != nil {
		return report, err
	}
	for _, at := range apart {
		kept = true
		report = append(report, fmt.Sprintf("%s has another name now, and was not taken back", r.quoted(at)))
	}
	known, err := r.known() // without what the journal put into the workspace
	if err == nil {
		err = r.writeKnown(known[:min(j.Known, len(known))], j.Steps)
	}
	if err != nil {
		return report, err
	}
	if kept {
		at := filepath.Join(r.store.dir, keptPrefix+rand.Text())
		if err := os.Rename(filepath.Join(r.dir, slotsDir), at); err != nil {
			return report, err
		}
		report = append(report, "what was there before lies in "+hostpath.Quote(at))
	}
	return report, nil
}

// separate takes files out of the review that have a name elsewhere by now, such as one that was edited in the
// workspace and stays: commands of the review would write to it.
func (r *Review) separate(steps []Step) (list []Place, err error) {
	names := map[[2]uint64]uint64{}
	for _, count := range [...]bool{true, false} {
		for i := range steps {
			at := steps[i].From
			if at.Side != Upper || r.tree(at) == nil {
				continue
			}
			n, err := r.look(at)
			if err != nil {
				return nil, err
			}
			key := [2]uint64{n.dev, n.ino}
			if n.Kind != File || n.ino != steps[i].Ino {
				continue
			}
			if count {
				names[key]++
			} else if names[key] < n.links {
				err := r.tree(at).whileWritable(string(at.dir().Path), func(int) error {
					return r.rename(at, Place{Slot, 0, name("apart" + strconv.Itoa(i))}, unix.RENAME_NOREPLACE)
				})
				if err != nil {
					return nil, err
				}
				list = append(list, at)
			}
		}
	}
	return list, nil
}

// writeKnown writes what is known, with the workspace's own files that steps left in their places, or put
// back: they have another change time, and the next attempt must find the same changes.
func (r *Review) writeKnown(known []appliedPath, steps []Step) error {
	for _, step := range steps {
		at := step.of()
		if !step.Clean || at.Side != Host {
			continue
		}
		n, err := r.look(at)
		if err != nil {
			return err
		}
		if n.ino == step.Old && (n.mtime == step.Time || n.Kind == Directory) { // a directory's time changes with its names
			known = append(known, appliedPath{Layer: at.Layer, Path: at.Path, Kind: n.Kind, CTime: n.ctime, Ino: n.ino, Mode: n.Mode})
		}
	}
	return r.store.write(r.dir, knownFile, known)
}

// forget gives up the undo of the review's last apply.
func (r *Review) forget(ctx context.Context) error {
	if err := os.Remove(filepath.Join(r.dir, appliedFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return sessiondir.RemoveTree(ctx, r.dir, slotsDir)
}

// forgetOthers gives up the undo of other reviews, except those in use.
func (s *Store) forgetOthers(ctx context.Context, but *Review) {
	entries, _ := os.ReadDir(s.dir)
	for _, e := range entries {
		dir := filepath.Join(s.dir, e.Name())
		if strings.HasPrefix(e.Name(), gonePrefix) {
			_ = sessiondir.RemoveTree(ctx, s.dir, e.Name())
			continue
		}
		if dir == but.dir || !e.IsDir() || !has(dir, appliedIn(dir)) {
			continue
		}
		lock, err := lockIn(hostpath.NoWait(), dir)
		if err != nil {
			continue
		}
		if has(dir, completeFile) {
			_ = s.remove(ctx, dir)
		} else {
			other := Review{dir: dir}
			_ = other.forget(ctx)
		}
		hostpath.Unlock(lock)
	}
}

// recover repairs what a killed apply or undo left, and returns what it did.
func (r *Review) recover(ctx context.Context) (report []string, err error) {
	var j journal
	switch err := r.store.read(r.dir, journalFile, &j); {
	case err == nil:
		if report, err = r.takeBack(&j); err != nil {
			return report, err
		}
		report = slices.Insert(report, 0, "an interrupted apply was undone")
		if err := os.Remove(filepath.Join(r.dir, journalFile)); err != nil {
			return report, err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	if has(r.dir, appliedIn(r.dir)) {
		return report, nil
	}
	entries, err := os.ReadDir(r.dir)
	if err != nil {
		return report, err
	}
	for _, e := range entries { // of killed processes
		if n := e.Name(); n == slotsDir || strings.HasPrefix(n, "new-") || strings.HasPrefix(n, diffPrefix) {
			err := sessiondir.RemoveTree(ctx, r.dir, n)
			if errors.Is(err, unix.ENOTDIR) {
				err = os.Remove(filepath.Join(r.dir, n))
			}
			if err != nil {
				return report, err
			}
		}
	}
	return report, nil
}
