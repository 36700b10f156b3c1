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

func FuzzListings(f *testing.F) {
	f.Add("", uint64(1), "a\x00b", 3)
	f.Add("d/e\n", uint64(1<<63), "\xff", 1)
	f.Fuzz(func(t *testing.T, dir string, ino uint64, names string, cut int) {
		parseListings(dir + names) // of whatever there is, it ends
		dir = "./" + strings.ReplaceAll(dir, "\x00", "")
		var b strings.Builder
		one := listing{ino, 0o750, "\x00"}
		for name := range strings.SplitSeq(names, "\x00") {
			if name != "" {
				one.names += name + "\x00"
			}
		}
		one.write(&b, dir)
		(&listing{7, 0, "\x00last\x00"}).write(&b, "last")
		text := b.String()
		list, n := parseListings(text)
		if n != len(text) || len(list) != 2 || list[dir] != one || list["last"].names != "\x00last\x00" {
			t.Fatalf("%q: %v, %d", text, list, n)
		}
		// Whoever wrote it was killed.
		if list, n = parseListings(text[:len(text)-1-min(max(cut, 0), 5)]); n != len(text)-len("last\x007 0\x00last\x00\x00") || len(list) != 1 {
			t.Fatalf("%q: %v, %d", text, list, n)
		}
	})
}

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

// changed reports whether the host has changed what lies at a path. A directory is the same as long as it is
// that: what lies in it is asked for by itself.
func (s seen) changed(now seen, p string, mode bool) bool {
	was, had := s[p]
	is, has := now[p]
	if !had || !has {
		return had != has
	}
	if isDir(&is) && isDir(&was) {
		return is.Ino != was.Ino || mode && is.Mode != was.Mode
	}
	return is.Ino != was.Ino || is.Ctim != was.Ctim
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

// names are few, so that both sides meet.
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
				c.check(os.WriteFile(path.Join(at, c.name()), []byte(c.text()), 0o644))
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
// after says, for whatever the host does, before the names were noted and after: no change of the host's is
// taken for none, and where the names are noted none is said that is none.
func TestConflictsAtRandom(t *testing.T) {
	t.Parallel()
	runs := 1500
	if testing.Short() {
		runs = 150
	}
	var total struct{ changes, conflicts, doubts, applied int }
	for seed := range runs {
		c := &chance{Rand: rand.New(rand.NewPCG(uint64(seed), 0)), workspace: newRoot(t)}
		c.tree(c.root, 0)
		c.begin()
		was := c.see()
		r := c.open()
		layer := r.rec.Layers[0]
		r.Close()
		noted := func(all func() bool) {
			_, err := list(r.dir, 0, &layer, all)
			c.check(err)
		}
		how := seed % 4
		sure := true
		switch how {
		case 0: // all names, before anything happens
			noted(func() bool { return true })
			c.review(c.upper, c.root)
		case 1: // those of what the command has changed
			c.review(c.upper, c.root)
			noted(never)
		case 2: // not before the host did something
			c.review(c.upper, c.root)
			c.edit()
			noted(func() bool { return c.IntN(2) == 0 })
			sure = false
		case 3: // whoever ran the command was killed
			c.review(c.upper, c.root)
			sure = false
		}
		for range 3 {
			for range c.IntN(4) {
				c.edit()
			}
			now := c.see()
			r, err := c.shelf.Open(context.Background(), "r")
			if errors.Is(err, fs.ErrNotExist) {
				break // applied as a whole
			}
			c.check(err)
			set, err := r.Changes(context.Background(), Rules{})
			c.check(err)
			total.changes += len(set.Changes)
			var blocked []string
			for _, one := range set.Changes {
				if one.Conflict != "" || one.Refused != "" {
					total.conflicts++
					blocked = append(blocked, one.Path)
				}
				above := path.Dir(one.Path)
				if st, is := now[above]; above != "." && (!is || !isDir(&st)) {
					continue // what is above it says so
				}
				changed := was.changed(now, one.Path, one.Op == Mode)
				if changed && one.Conflict == "" {
					t.Errorf("seed %d: %s is no conflict, and the host has changed it: %+v, now %+v", seed, one.Line(one.Path), was[one.Path], now[one.Path])
				}
				if !changed && one.Conflict != "" {
					total.doubts++
					moved := !sure
					for dir := above; dir != "."; dir = path.Dir(dir) {
						then, is := was[dir], now[dir]
						moved = moved || then.Ino != is.Ino || isDir(&then) != isDir(&is)
					}
					if !moved {
						t.Errorf("seed %d: %s: %s, which is not so", seed, one.Line(one.Path), one.Conflict)
					}
				}
			}
			// Part of the rest, and what the host did stays.
			choice := Choice{Ours: blocked}
			for _, one := range set.Changes {
				if c.IntN(2) == 0 {
					choice.Paths = append(choice.Paths, one.Path)
				}
			}
			out, err := r.Apply(context.Background(), set, choice)
			r.Close()
			after := c.see()
			if err != nil {
				if !errors.Is(err, ErrPart) && !errors.Is(err, ErrBlocked) {
					t.Errorf("seed %d: %v", seed, err)
				}
				if why := was.lost(now, after); why != "" {
					t.Errorf("seed %d: not applied (%v), and %s", seed, err, why)
				}
				was.follow(now, after)
				continue
			}
			total.applied += len(out.Applied)
			if why := was.lost(now, after); why != "" {
				t.Errorf("seed %d: %s", seed, why)
			}
			if c.IntN(3) == 0 {
				if _, told, err := c.shelf.Undo(context.Background()); err != nil || len(told) > 0 {
					t.Errorf("seed %d: undo: %v %q", seed, err, told)
				}
				was.follow(now, c.see())
				continue
			}
			was.follow(now, after)
			for _, one := range out.Applied {
				if st, is := after[one.Path]; is {
					was[one.Path] = st
				} else {
					delete(was, one.Path)
				}
			}
		}
		if t.Failed() {
			break
		}
	}
	t.Logf("%+v", total)
	if total.conflicts == 0 || total.doubts == 0 || total.applied == 0 {
		t.Error("nothing was tried")
	}
}

// follow has what the host did not change be as an apply has left it, which gives other times.
func (s seen) follow(now, after seen) {
	for p := range s {
		if is, ok := after[p]; ok && !s.changed(now, p, true) {
			s[p] = is
		}
	}
}

// lost says what of the host's changes an apply has taken back.
func (s seen) lost(now, after seen) string {
	for p, st := range now {
		if s.changed(now, p, false) && after[p].Ino != st.Ino {
			return p + " is another than the host has made it"
		}
	}
	for p := range s {
		if _, is := now[p]; is {
			continue
		}
		if _, is := after[p]; is {
			return p + " is there again, which the host had removed"
		}
	}
	return ""
}

// Names that come and go while commands run, as the places of missing paths do, are no change.
func TestBusyDirectories(t *testing.T) {
	t.Parallel()
	w := newRoot(t, "a/b/f 1", "a/c/f 1")
	use, err := w.shelf.Join(context.Background(), "r", "s", "")
	w.check(err)
	w.upper = filepath.Join(use.Dir, "upper")
	w.check(os.Mkdir(w.upper, 0o755))
	w.check(use.Add(context.Background(), w.root, w.upper, filepath.Join(use.Dir, "lock"), filepath.Join(w.root, "a/b"), w.root))
	for _, dir := range []string{"a/b", "."} {
		at := filepath.Join(w.root, dir, "place")
		w.check(os.Mkdir(at, 0o755))
		w.check(os.Remove(at))
	}
	for _, line := range []string{"a/b/new 1", "a/c/new 1", "new 1", "a/b/f -"} {
		w.write(w.upper, line)
	}
	use.Close()
	w.write(w.root, "a/c/more 1")
	if out, err := w.apply(Choice{}); err != nil || !out.Whole {
		t.Errorf("%v, %+v", err, out)
	}
}

// All names are listed once a command has run for a while; what it has not touched as well.
func TestListAll(t *testing.T) {
	t.Parallel()
	w := newRoot(t, "a/b/f 1", "c/f 1")
	use, err := w.shelf.Join(context.Background(), "r", "s", "")
	w.check(err)
	w.check(use.Add(context.Background(), w.root, filepath.Join(use.Dir, "upper"), filepath.Join(use.Dir, "lock")))
	for end := time.Now().Add(time.Minute); ; {
		if _, err := os.Lstat(listedFile(use.Dir, 0)); err == nil {
			break
		} else if time.Now().After(end) {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	use.Close()
	listed, err := readListings(use.Dir, 0)
	if a, c := listed["a/b"], listed["c"]; err != nil || len(listed) != 4 || a.names != "\x00f\x00" || !c.has("f") || c.has("") {
		t.Errorf("%v, %v", listed, err)
	}
}

// A layer begins when nobody changes the directories that are noted at once: whoever else runs commands in the
// workspace makes and removes files there, and each would be a doubt.
func TestListedLate(t *testing.T) {
	t.Parallel()
	w := newRoot(t)
	w.begin()
	r := w.open()
	layer := r.rec.Layers[0]
	r.Close()
	for _, again := range []bool{false, true} {
		w.check(os.Remove(listedFile(r.dir, 0)))
		w.write(w.root, fmt.Sprintf("another-%v text", again))
		if late, err := list(r.dir, 0, &layer, never); err != nil || !late {
			t.Errorf("changed since: %v, %v", late, err)
		}
		w.check(os.Remove(listedFile(r.dir, 0)))
		begun, err := tick(t.Context(), r.dir)
		w.check(err)
		layer.Begun = begun
		if late, err := list(r.dir, 0, &layer, never); err != nil || late {
			t.Errorf("begun after it: %v, %v", late, err)
		}
	}
}
