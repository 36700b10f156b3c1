package review

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/sessiondir"
)

// A journal is a plan during or after its execution.
type journal struct {
	Known   int // the number of known paths before the apply; see Review.known
	Steps   []Step
	Applied []appliedPath `json:",omitempty"`
}

// Changes compares the review with the workspace.
func (r *Review) Changes(ctx context.Context, rules Rules) (*Set, error) {
	if has(r.dir, completeFile) {
		return nil, fmt.Errorf("review %q was applied, and nothing else is in it; an undo takes it back", r.Name)
	}
	if err := r.openTrees(); err != nil {
		return nil, err
	}
	list, err := r.known()
	if err != nil {
		return nil, err
	}
	set := &Set{Changes: []Change{}}
	layers := make([]*Comparison, len(r.trees))
	var used usage
	for i, l := range r.rec.Layers {
		p := r.trees[i]
		if p.upper == nil {
			continue
		}
		known := map[string]appliedPath{}
		for _, one := range list {
			if one.Layer == i {
				known[string(one.Path)] = one
			}
		}
		c := &Comparison{Layer: i, Root: p.source, Upper: p.upper, Lower: p.lower, Begun: l.Begun, Known: known, used: used,
			Denied: func(p string, directory bool) string {
				if layer, _ := r.at(p); layer != i { // it would be judged by what lies in that one
					return "for another command of the review it lay in a directory of its own"
				}
				return rules.Denied(p, directory)
			},
			Same: func(p string, used *int64) (bool, error) {
				if err := ctx.Err(); err != nil {
					return false, context.Cause(ctx)
				}
				return same(r.trees[i].upper, r.trees[i].lower, p, used)
			},
		}
		changes, err := c.Changes()
		if err != nil {
			return nil, err
		}
		for j := range changes {
			c := &changes[j]
			full := path.Join(p.source, c.path)
			c.Shown, c.hidden = r.shown(i, c.path), rules.Hidden(full)
			if c.Op != Deleted && rules.IsGitControlled(full) {
				c.Note = obeys
			}
		}
		set.Changes = append(set.Changes, changes...)
		set.opaque, used, layers[i] = append(set.opaque, c.opaque...), c.used, c
	}
	lower := func(layer int, p string) (Node, error) { return r.trees[layer].lower.Look(p) }
	r.git = &picture{review: r, before: r.sight(lower), rules: &rules, links: slices.Clone(rules.Submodules), known: map[string][]gitDir{}, linked: map[string]bool{}, noted: map[string]bool{}}
	r.git.after = r.sight(func(layer int, p string) (Node, error) {
		if c := layers[layer]; c != nil {
			return c.merged(p)
		}
		return lower(layer, p)
	})
	if set.Changes, err = r.ofGit(set.Changes); err != nil {
		return nil, err
	}
	set.Digest = Digest(set.Changes)
	return set, nil
}

// Apply applies all chosen changes to the workspace, or none.
func (r *Review) Apply(ctx context.Context, set *Set, choice Choice) (*Outcome, error) {
	if choice.Digest != "" && choice.Digest != set.Digest {
		return nil, fmt.Errorf("%w: its digest is %s now, not %s", ErrChanged, set.Digest, choice.Digest)
	}
	lock, err := lockFileAt(ctx, filepath.Join(r.store.dir, applyLock))
	if err != nil {
		return nil, err
	}
	defer hostpath.Unlock(lock)
	chosen, whole, err := set.choose(choice)
	if err != nil {
		return nil, err
	}
	out := &Outcome{Applied: []Change{}, Complete: whole}
	part := r.part(set, chosen)
	for i, c := range set.Changes {
		if chosen[i] && c.Refused == "" {
			c.Refused = part(&c)
		}
		switch {
		case !chosen[i]:
		case c.Refused != "":
			out.Refused = append(out.Refused, c)
		case c.Conflict != "" && !listed(choice.Theirs, c.Shown):
			out.Conflicts = append(out.Conflicts, c)
		default:
			out.Applied = append(out.Applied, c)
		}
	}
	if len(out.Conflicts)+len(out.Refused) > 0 {
		return out, ErrBlocked
	}
	if len(out.Applied) == 0 { // the last apply can still be undone
		return out, nil
	}
	if !whole {
		if err := r.plain(set); err != nil {
			return nil, err
		}
	}
	plan := func(fill fill) ([]Step, error) {
		return NewPlan(set.Changes, chosen, os.Geteuid() == 0, r.look, fill)
	}
	// What cannot be planned does not cost the undo of the last apply.
	if _, err := plan(func(string, *Change) (uint64, error) { return 0, nil }); err != nil {
		return nil, err
	}
	if err := r.forget(ctx); err != nil {
		return nil, err
	}
	if err := r.carryOut(ctx, plan, out, whole); err != nil {
		return nil, err
	}
	r.store.forgetOthers(ctx, r)
	return out, nil
}

// part refuses changes that would be something else without the rest of the review: a link that
// leads elsewhere, and parts of a repository.
func (r *Review) part(set *Set, chosen []bool) func(c *Change) (why string) {
	git := *r.git
	git.after, git.known, git.submodules, git.noted = r.after(set, chosen), map[string][]gitDir{}, nil, map[string]bool{} // with the same gitlinks
	unpacked := map[Place]bool{}                                                                                          // packed-refs that stay as they are
	for i, c := range set.Changes {
		if !chosen[i] && c.git == "packed-refs" {
			unpacked[c.host()] = true
		}
	}
	return func(c *Change) string {
		one, full := *c, path.Join(r.trees[c.layer].source, c.path)
		if git.takesObject(c, full) {
			return "without the other changes it takes objects from a repository that stays"
		}
		if c.Old.Kind == File && c.New.Kind != File && strings.HasPrefix(c.git, "refs/") && unpacked[Place{Host, c.layer, name(strings.TrimSuffix(c.path, c.git) + "packed-refs")}] {
			return "without the change of packed-refs the branch or tag would be gone"
		}
		one.Note = ""
		if git.judge(&one, full); !strings.Contains(c.Note, one.Note) {
			return "without the other changes it is something else: " + one.Note
		}
		if path.Base(full) == "commondir" && c.New.Kind == File {
			if _, err := git.readGit(&one, full); err != nil {
				return "it cannot be read"
			}
		}
		return one.Refused
	}
}

// after describes a path of the host after the chosen changes. A deleted directory stays with the rest of its entries.
func (r *Review) after(set *Set, chosen []bool) sight {
	applied := map[Place]Node{}
	for i := range set.Changes {
		c := &set.Changes[i]
		if chosen[i] && !(c.Op == Deleted && slices.Contains(chosen[i+1:endOf(set.Changes, i)], false)) {
			applied[c.host()] = c.New
		}
	}
	var walked walked
	return r.sight(func(layer int, p string) (Node, error) {
		if err := walked.step(p); err != nil {
			return Node{}, err
		}
		if n, ok := applied[Place{Host, layer, name(p)}]; ok {
			return n, nil
		}
		return r.trees[layer].lower.Look(p)
	})
}

// plain replaces an opaque mark by whiteouts for each hidden name, so that a part of the directory
// can be applied. If it is interrupted, nothing has changed, because it marks entries before their
// directory.
func (r *Review) plain(set *Set) error {
	gone := map[Place][]string{} // names, by the directory of the review that hides them
	for i := range set.Changes {
		if c := &set.Changes[i]; c.Op == Deleted {
			dir := Place{Upper, c.layer, name(path.Dir(c.path))}
			gone[dir] = append(gone[dir], path.Base(c.path))
		}
	}
	for _, dir := range slices.Backward(set.opaque) {
		t := r.trees[dir.layer].upper
		if err := t.makePlain(&dir, gone[Place{Upper, dir.layer, name(dir.path)}]); err != nil {
			return t.error("make plain", dir.path, err)
		}
	}
	return nil
}

// makePlain makes a directory of an upper layer hide only some names of the lower one. It marks an
// unread directory opaque, because the directories around it do not hide it any more.
func (t *tree) makePlain(dir *opaqueDir, gone []string) error {
	return t.whileWritable(dir.path, func(fd int) error {
		if dir.unread {
			return unix.Setxattr(fdPath(fd), opaqueMark, []byte("y"), 0)
		}
		for _, one := range gone {
			// A whiteout, which needs no privilege.
			if err := unix.Mknodat(fd, one, unix.S_IFCHR, 0); err != nil && err != unix.EEXIST {
				return err
			}
		}
		if err := unix.Removexattr(fdPath(fd), opaqueMark); err != nil && err != unix.ENODATA {
			return err
		}
		return nil
	})
}

// whileWritable makes a file or directory writable for its owner during do. The descriptor is
// O_PATH.
func (t *tree) whileWritable(p string, do func(fd int) error) error {
	fd, err := t.open(p, unix.O_PATH)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err != nil {
		return err
	}
	mode, needed := st.Mode&0o7777, uint32(0o200)
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		needed = 0o700
	}
	if mode&needed == needed {
		return do(fd)
	}
	if err = unix.Chmod(fdPath(fd), mode|needed); err != nil {
		return err
	}
	return errors.Join(do(fd), unix.Chmod(fdPath(fd), mode))
}

// carryOut makes new files, writes the journal, and executes the steps.
func (r *Review) carryOut(ctx context.Context, plan func(fill) ([]Step, error), out *Outcome, whole bool) error {
	if err := r.openSlots(); err != nil {
		return err
	}
	known, err := r.known()
	if err == nil {
		known, err = r.withDirectories(known, out.Applied)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrBlocked, err)
	}
	j := &journal{Known: len(known)}
	j.Steps, err = plan(func(slot string, c *Change) (uint64, error) { return r.fill(ctx, slot, c) })
	if err == nil {
		err = r.store.put(r.dir, journalFile, j, true)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("%w: %w", ErrBlocked, err), sessiondir.RemoveTree(context.WithoutCancel(ctx), r.dir, slotsDir))
	}
	for i := range j.Steps {
		if err = ctx.Err(); err == nil {
			err = r.do(&j.Steps[i])
		}
		if err != nil {
			break
		}
	}
	if err == nil {
		j.Applied, err = r.recordApplied(out)
	}
	if err == nil {
		// First a journal with what was applied, then the end of the journal.
		err = r.store.write(r.dir, journalFile, j)
	}
	if err == nil {
		err = r.writeKnown(append(known, j.Applied...), j.Steps)
	}
	end := appliedFile
	if whole {
		end = completeFile
	}
	if err == nil {
		err = os.Rename(filepath.Join(r.dir, journalFile), filepath.Join(r.dir, end))
	}
	if err != nil {
		_, back := r.recover(context.WithoutCancel(ctx))
		return errors.Join(fmt.Errorf("%w: %w", ErrBlocked, err), back)
	}
	return nil
}

// withDirectories adds to what is known the directories around changes that nobody has changed yet:
// the apply changes their names, and so their change time.
func (r *Review) withDirectories(known []appliedPath, applied []Change) ([]appliedPath, error) {
	seen := map[Place]bool{}
	for i := range applied {
		at := applied[i].host().dir()
		if seen[at] {
			continue
		}
		seen[at] = true
		n, err := r.look(at)
		if err != nil {
			return nil, err
		}
		if n.Kind == Directory && n.ctime <= r.rec.Layers[at.Layer].Begun {
			known = append(known, appliedPath{Layer: at.Layer, Path: at.Path, Kind: Directory, Ino: n.ino, Mode: n.Mode})
		}
	}
	return known, r.store.write(r.dir, knownFile, known)
}

// recordApplied removes the overlay's marks from what was applied, and records its state.
func (r *Review) recordApplied(out *Outcome) ([]appliedPath, error) {
	applied := make([]appliedPath, 0, len(out.Applied))
	for i := range r.trees {
		r.trees[i].lower.forget()
		r.trees[i].lower.ofGit = 0 // it will read the same files again
	}
	for _, c := range out.Applied {
		one := appliedPath{Layer: c.layer, Path: name(c.path), Kind: c.New.Kind, Object: c.object, New: c.makesDirectory()}
		t := r.trees[c.layer].lower
		if c.New.Kind == File || c.New.Kind == Directory {
			if err := t.unmark(c.path); err != nil {
				return nil, err
			}
		}
		n, err := t.Look(c.path)
		if err != nil {
			return nil, err
		}
		if c.Op == Deleted && n.ino == c.Old.ino {
			continue // a directory that stays with the rest of its entries
		}
		one.CTime, one.Ino, one.Mode = n.ctime, n.ino, n.Mode
		if one.Kind == File && isIndex(c.git) {
			index, _, err := t.index(c.path, hashSize(c.path, t))
			if err != nil {
				return nil, err
			}
			one.Index = []byte(index.Entries)
		}
		applied = append(applied, one)
	}
	return applied, nil
}

// unmark removes the attributes with which an overlay marks copied files.
func (t *tree) unmark(p string) error {
	_, names, err := t.attributes(p)
	if err != nil {
		return t.error("listxattr", p, err)
	}
	for _, attr := range names {
		if !strings.HasPrefix(attr, "user.overlay.") {
			continue
		}
		if err = t.whileWritable(p, func(fd int) error { return unix.Removexattr(fdPath(fd), attr) }); err != nil {
			return t.error("removexattr", p, err)
		}
	}
	return nil
}

// known lists what the review itself has put into the workspace, removed or restored, and the
// sources; the last entry of a path counts.
func (r *Review) known() (list []appliedPath, err error) {
	if err = r.store.read(r.dir, knownFile, &list); errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return list, err
}
