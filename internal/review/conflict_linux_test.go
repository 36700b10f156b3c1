package review

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A seen is all that lies in a workspace.
type seen map[string]unix.Stat_t

func (w *workspace) see() seen {
	w.Helper()
	s := seen{}
	w.check(filepath.WalkDir(w.root, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == w.root {
			return err
		}
		var st unix.Stat_t
		err = unix.Lstat(p, &st)
		s[strings.TrimPrefix(p, w.root+"/")] = st
		return err
	}))
	return s
}

func isDir(st *unix.Stat_t) bool { return st.Mode&unix.S_IFMT == unix.S_IFDIR }

// changed reports whether the host has changed a file, or put one there, since a time. One in a directory that was moved
// here keeps its times.
func (s seen) changed(now seen, p string, begun int64) bool {
	was := s[p]
	is, has := now[p]
	return has && !isDir(&is) && (is.Ino != was.Ino || is.Ctim != was.Ctim) && is.Ctim.Nano() > begun
}

// A chance makes a workspace, a review of it and edits of the host at random, each time the same for the same
// seed.
type chance struct {
	*rand.Rand
	*workspace
	n int
}

func (c *chance) of(list ...string) string { return list[c.IntN(len(list))] }

func (c *chance) text() string { c.n++; return fmt.Sprintf("%06d", c.n) }

// name returns one of few names, so that both sides meet.
func (c *chance) name() string { return c.of("a", "b", "c", "d", "e") }

// tree fills a directory of the workspace.
func (c *chance) tree(dir string, depth int) {
	for range 2 + c.IntN(3) {
		at := path.Join(dir, c.name())
		if _, err := os.Lstat(at); err == nil {
			continue
		}
		switch k := c.IntN(8); {
		case k < 4 && depth < 3:
			c.check(os.Mkdir(at, 0o755))
			c.tree(at, depth+1)
		case k == 7:
			c.check(os.Symlink("target", at))
		default:
			c.check(os.WriteFile(at, []byte(c.text()), 0o644))
		}
	}
}

// review writes to an upper directory what commands would have made of what lies in a lower one, if there is
// one.
func (c *chance) review(upper, lower string) {
	names := map[string]bool{}
	entries, _ := os.ReadDir(lower)
	for _, e := range entries {
		names[e.Name()] = e.IsDir()
	}
	names[c.name()+c.of("", "x")] = false // maybe a new one
	for _, one := range slices.Sorted(maps.Keys(names)) {
		at, below := path.Join(upper, one), path.Join(lower, one)
		_, err := os.Lstat(below)
		there := err == nil
		switch k := c.IntN(9); {
		case k < 3 && names[one]: // something in it changes
			c.check(os.Mkdir(at, os.FileMode(0o700+0o055*c.IntN(2))))
			c.review(at, below)
		case k < 3: // or nothing
		case k == 3 && there:
			c.check(unix.Mknod(at, unix.S_IFCHR, 0))
		case k == 4 || k == 5: // a directory, made anew
			c.check(os.Mkdir(at, 0o755))
			if there {
				c.check(unix.Setxattr(at, opaqueMark, []byte("y"), 0))
			}
			for range c.IntN(3) {
				in := path.Join(at, c.name())
				if k == 5 {
					in = path.Join(in, c.name()) // the kernel does not mark this one
					c.check(os.MkdirAll(path.Dir(in), 0o755))
				}
				c.check(os.WriteFile(in, []byte(c.text()), 0o644))
			}
		default:
			c.check(os.WriteFile(at, []byte(c.text()), 0o644))
		}
	}
}

// edit has the host change something.
func (c *chance) edit() {
	var all, dirs []string
	for p, st := range c.see() {
		if all = append(all, p); isDir(&st) {
			dirs = append(dirs, p)
		}
	}
	slices.Sort(all)
	slices.Sort(dirs)
	if len(dirs) == 0 || len(all) < 2 {
		c.tree(c.root, 0)
		return
	}
	in := func(p string) string { return path.Join(c.root, p) }
	one, other, dir := in(c.of(all...)), in(c.of(all...)), in(c.of(dirs...))
	fresh := path.Join(dir, c.name())
	if c.IntN(3) == 0 {
		fresh = path.Join(c.root, c.name())
	}
	var st unix.Stat_t
	c.check(unix.Lstat(one, &st))
	forge := func(p string) {
		_ = unix.UtimesNanoAt(unix.AT_FDCWD, p, []unix.Timespec{st.Atim, st.Mtim}, unix.AT_SYMLINK_NOFOLLOW)
	}
	// What cannot be done is not done.
	switch c.IntN(10) {
	case 0: // in its place, with the same size and time
		if f, err := os.OpenFile(one, os.O_WRONLY|unix.O_NOFOLLOW, 0); err == nil {
			f.WriteString(c.text())
			f.Close()
		}
		forge(one)
	case 1: // as editors do
		if !isDir(&st) {
			at := in(".new")
			c.check(os.WriteFile(at, []byte(c.text()), 0o644))
			forge(at)
			os.Rename(at, one)
			forge(one)
		}
	case 2:
		os.RemoveAll(one)
	case 3:
		_ = unix.Renameat2(unix.AT_FDCWD, one, unix.AT_FDCWD, fresh, unix.RENAME_NOREPLACE)
		forge(fresh)
	case 4: // with all that lies in it
		_ = unix.Renameat2(unix.AT_FDCWD, dir, unix.AT_FDCWD, in(c.name()), unix.RENAME_NOREPLACE)
	case 5, 6:
		_ = unix.Renameat2(unix.AT_FDCWD, one, unix.AT_FDCWD, other, unix.RENAME_EXCHANGE)
	case 7:
		if os.Mkdir(fresh, 0o755) == nil {
			c.tree(fresh, 2)
		}
	case 8:
		_ = os.Chmod(one, os.FileMode(st.Mode&0o777|0o500|uint32(c.IntN(2))))
	default:
		if f, err := os.OpenFile(fresh, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644); err == nil {
			f.Close()
		}
	}
}

// TestConflictsAtRandom compares what counts as a conflict with what a look at the whole workspace before and
// after says, for whatever the host does: no change of a file of the host's is taken for none, and none is said that
// is none.
func TestConflictsAtRandom(t *testing.T) {
	t.Parallel()
	runs := 1500
	if testing.Short() {
		runs = 150
	}
	var total struct{ changes, conflicts, applied int }
	for seed := range runs {
		c := &chance{Rand: rand.New(rand.NewPCG(uint64(seed), 0)), workspace: newRoot(t)}
		c.tree(c.root, 0)
		c.begin()
		was := c.see()
		r := c.open()
		begun := r.rec.Layers[0].Begun
		r.Close()
		c.review(c.upper, c.root)
		for range 3 {
			for range c.IntN(4) {
				c.edit()
			}
			now := c.see()
			r, err := c.shelf.Open(context.Background(), "r")
			c.check(err)
			if has(r.dir, completeFile) { // applied as a whole
				r.Close()
				break
			}
			set, err := r.Changes(context.Background(), anything)
			c.check(err)
			total.changes += len(set.Changes)
			var blocked []string
			for _, one := range set.Changes {
				if one.Conflict != "" || one.Refused != "" {
					total.conflicts++
					blocked = append(blocked, one.path)
				}
				above := path.Dir(one.path)
				if st, is := now[above]; above != "." && (!is || !isDir(&st)) {
					continue // what is above it says so
				}
				changed := was.changed(now, one.path, begun)
				if changed && one.Conflict == "" {
					t.Errorf("seed %d: %s is no conflict, and the host has changed it: %+v, now %+v", seed, one.Line(), was[one.path], now[one.path])
				}
				_, had := was[one.path]
				if st, has := now[one.path]; !changed && one.Conflict != "" && !isDir(&st) && has == had {
					t.Errorf("seed %d: %s: %s, which is not so", seed, one.Line(), one.Conflict)
				}
			}
			// Part of the rest, and what the host did stays.
			choice := Choice{Ours: blocked}
			for _, one := range set.Changes {
				if c.IntN(2) == 0 {
					choice.Paths = append(choice.Paths, one.path)
				}
			}
			out, err := r.Apply(context.Background(), set, choice)
			r.Close()
			after := c.see()
			if err != nil {
				if !errors.Is(err, ErrPart) && !errors.Is(err, ErrBlocked) {
					t.Errorf("seed %d: %v", seed, err)
				}
				if why := was.lost(now, after, begun); why != "" {
					t.Errorf("seed %d: not applied (%v), and %s", seed, err, why)
				}
				was.follow(now, after, begun)
				continue
			}
			total.applied += len(out.Applied)
			if why := was.lost(now, after, begun); why != "" {
				t.Errorf("seed %d: %s", seed, why)
			}
			if len(out.Applied) > 0 && c.IntN(3) == 0 {
				if _, told, err := c.shelf.Undo(context.Background()); err != nil || len(told) > 0 {
					t.Errorf("seed %d: undo: %v %q", seed, err, told)
				}
				was.follow(now, c.see(), begun)
				continue
			}
			was.follow(now, after, begun)
			for _, one := range out.Applied {
				if st, is := after[one.path]; is {
					was[one.path] = st
				} else {
					delete(was, one.path)
				}
			}
		}
		if t.Failed() {
			break
		}
	}
	t.Logf("%+v", total)
	if total.conflicts == 0 || total.applied == 0 {
		t.Error("nothing was tried")
	}
}

// follow has what the host did not change be as an apply has left it, which gives other times.
func (s seen) follow(now, after seen, begun int64) {
	for p, is := range after {
		if _, had := now[p]; had && !s.changed(now, p, begun) {
			s[p] = is
		}
	}
}

// lost says what of the host's changes of files an apply has taken back.
func (s seen) lost(now, after seen, begun int64) string {
	for p, st := range now {
		if s.changed(now, p, begun) && after[p].Ino != st.Ino {
			return p + " is another than the host has made it"
		}
	}
	return ""
}

// What somebody takes away of a directory's permissions while a review has a copy of it stays away.
func TestDirectoryMadePrivate(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		first    Choice
		host     os.FileMode // what the workspace's directory becomes
		review   os.FileMode // what the review's becomes
		conflict bool
	}{
		"made private":                          {Choice{}, 0o700, 0, true},
		"made private, and by the review":       {Choice{}, 0o700, 0o700, false},
		"made public":                           {Choice{}, 0o777, 0, true},
		"by the review alone":                   {Choice{}, 0, 0o700, false},
		"beside what was applied of it":         {Choice{Paths: []string{"d/new"}}, 0o755, 0o700, false},
		"after that":                            {Choice{Paths: []string{"d/new"}}, 0o750, 0o700, true},
		"after that, where it came of a review": {Choice{Paths: []string{"made/new"}}, 0o700, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := "d"
			w := newWorkspace(t, "d/old 1", "other 1")
			for _, line := range []string{"d/new 2", "d/more 2", "made/new 2", "made/more 2", "other 2"} {
				w.write(w.upper, line)
			}
			chmod := func(root string, mode os.FileMode) {
				if mode != 0 {
					w.check(os.Chmod(filepath.Join(root, dir), mode))
				}
			}
			after := tt.first.Paths != nil
			if after {
				dir = filepath.Dir(tt.first.Paths[0])
				chmod(w.upper, tt.review)
				_, err := w.apply(tt.first)
				w.check(err)
			} else {
				chmod(w.upper, tt.review)
			}
			chmod(w.root, tt.host)
			before := w.state(w.root)
			out, err := w.apply(Choice{})
			switch {
			case !tt.conflict && err != nil:
				t.Errorf("%v: %+v", err, out)
			case tt.conflict && (!errors.Is(err, ErrBlocked) || out == nil || len(out.Conflicts) != 1 || out.Conflicts[0].path != dir || w.state(w.root) != before):
				t.Errorf("%v: %+v", err, out)
			}
			if !tt.conflict {
				return
			}
			_, err = w.apply(Choice{Ours: []string{dir}})
			w.check(err)
			if info, err := os.Stat(filepath.Join(w.root, dir)); err != nil || info.Mode().Perm() != tt.host {
				t.Errorf("%v, %v", info, err)
			}
		})
	}
}

// Where contents and permissions are equal, an apply changes nothing, so nothing can be lost by it.
func TestTouchedWithEqualContents(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, "f text", "g text")
	for _, name := range []string{"f text", "g new"} {
		w.write(w.upper, name)
	}
	w.check(unix.Setxattr(filepath.Join(w.upper, "f"), "user.mark", []byte("1"), 0))
	now := time.Now()
	w.check(os.Chtimes(filepath.Join(w.root, "f"), now, now))
	if out, err := w.apply(Choice{}); err != nil || !out.Complete || w.list(w.root) != "f=text g=new" {
		t.Errorf("%+v, %v", out, err)
	}
}
