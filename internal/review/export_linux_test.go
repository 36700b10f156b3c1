package review

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// addLayer has the review be of one more directory of the host.
func (w *workspace) addLayer(source string) (upper string) {
	w.Helper()
	use, err := w.shelf.Join(context.Background(), "r", "s", "")
	w.check(err)
	defer use.Close()
	upper = filepath.Join(use.Dir(), "kept", filepath.Base(source))
	w.check(os.MkdirAll(upper, 0o755))
	w.check(use.Add(context.Background(), source, upper, filepath.Join(use.Dir(), "lock")))
	return upper
}

// export gives what there is in the directories that a diff is made of, and what is left out.
func (w *workspace) export() (dirs []string, left []string) {
	w.Helper()
	r := w.open()
	set, err := r.Changes(context.Background(), anything)
	w.check(err)
	found, out, done, err := r.Export(context.Background(), set, nil)
	w.check(err)
	for _, dir := range found {
		dirs = append(dirs, w.list(dir))
	}
	for i := range out {
		left = append(left, out[i].Shown)
	}
	done()
	if entries, err := filepath.Glob(filepath.Join(r.dir, diffPrefix+"*")); err != nil || len(entries) > 0 {
		w.Errorf("left behind: %q, %v", entries, err)
	}
	r.Close()
	return dirs, left
}

// What a command makes in one directory is never on the way of what is exported of another one, whichever
// comes first: not a link to somewhere else, nor a file where a directory is needed.
func TestExportFollowsNothing(t *testing.T) {
	t.Parallel()
	for _, first := range []string{"workspace", "other"} {
		// Of each line, "@" is the other directory's path, as it would be in the workspace.
		for _, planted := range []string{"@ -> $outside", "@/ssh -> $outside", "@ -> .", "@ file", "@/ssh/ ", "@/ssh/key planted", "@/ssh file", "@/ssh fifo", "@ -> @"} {
			t.Run(first+"/"+planted, func(t *testing.T) {
				w := newRoot(t, "f old")
				outside, other := filepath.Join(filepath.Dir(w.root), "outside"), filepath.Join(filepath.Dir(w.root), "other")
				w.write(outside, "keep k")
				w.write(other, "ssh/old 1")
				var upper string
				if first == "workspace" {
					w.begin()
				}
				upper = w.addLayer(other)
				if first == "other" {
					w.begin()
				}
				line := strings.NewReplacer("@", other[1:], "$outside", outside).Replace(planted)
				w.write(w.upper, line)
				w.write(w.upper, "f new")
				w.write(upper, "ssh/key k")
				w.write(upper, "ssh/old 2")
				w.write(upper, "link -> "+outside)
				w.write(upper, "link2/f through")
				dirs, left := w.export()
				if got := w.list(outside); got != "keep=k" {
					t.Errorf("outside there is %q", got)
				}
				if len(dirs) != 2 {
					t.Fatalf("%q, left %q", dirs, left)
				}
				if first == "other" {
					slices.Reverse(dirs)
				}
				if !strings.Contains(dirs[0], "a/f=old") || !strings.Contains(dirs[0], "b/f=new") {
					t.Errorf("the workspace: %q", dirs[0])
				}
				for _, want := range []string{"a@/ssh/old=1", "b@/ssh/old=2", "b@/ssh/key=k", "b@/link ", "b@/link2/f=through"} {
					if !strings.Contains(dirs[1], strings.Replace(want, "@", other, 1)) {
						t.Errorf("%s is missing: %q", want, dirs[1])
					}
				}
				for _, one := range left {
					if !strings.HasSuffix(planted, "fifo") && !strings.HasSuffix(planted, "/ ") { // an empty directory
						t.Errorf("left: %q", one)
					}
				}
			})
		}
	}
}

// A reader that may see no more than commands gets no contents that modes keep from them, also if
// root looks: of a file, and of one beneath a directory that they cannot search.
func TestExportOfVisible(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, "open 1", "secret old", "tree/sub/beneath old")
	for _, line := range []string{"open 2", "secret -", "moved new", "tree/sub/beneath new"} {
		w.write(w.upper, line)
	}
	w.check(errors.Join(os.Chmod(w.root+"/secret", 0), os.Chmod(w.upper+"/moved", 0)))
	r := w.open()
	defer r.Close()
	set, err := r.Changes(t.Context(), anything)
	w.check(err)
	for _, tree := range []*tree{r.trees[0].lower, r.trees[0].upper} { // which keep the directory open
		_, err := tree.Look("tree/sub/beneath")
		w.check(err)
	}
	for _, dir := range []string{w.root, w.upper} { // after the look, so that a user's sees it too
		w.check(os.Chmod(dir+"/tree", 0))
		t.Cleanup(func() { os.Chmod(dir+"/tree", 0o755) })
	}
	seen, _ := set.Visible()
	for _, tt := range [][2][]string{
		{{"tree"}, {"tree/sub/beneath"}}, // at first, while that directory is open
		{nil, {"moved", "secret", "tree/sub/beneath"}},
	} {
		only, want := tt[0], tt[1]
		dirs, left, done, err := r.Export(t.Context(), seen, only)
		w.check(err)
		var names []string
		for i := range left {
			names = append(names, left[i].Shown)
		}
		exported := w.list(dirs[0])
		done()
		if !slices.Equal(names, want) {
			t.Errorf("%q: left %q", only, names)
		}
		if strings.Contains(exported, "b/open=2") != (only == nil) || strings.Contains(exported, "old") || strings.Contains(exported, "new") {
			t.Errorf("%q: exported %q", only, exported)
		}
	}
}

// What takes the place of something else is in the diff; and what that does not say of permissions
// and of empty directories is named.
func TestExportOfKinds(t *testing.T) {
	t.Parallel()
	w := newRoot(t, "od/x 1", "ed/", "ld/", "g hi", "empty ", "mode 1", "exec 1", "dir/", "away/in/", "full/x 1", "emptied/x 1", "outer/kept/")
	w.begin()
	for _, line := range []string{"od evil", "ed evil", "ld -> od", "g/in 2", "empty/", "mode 1", "exec 1", "dir/", "new 1", "both/", "shut/", "away -", "full -", "emptied/x -", "made/in/", "made/with/x 1", "outer/kept/"} {
		w.write(w.upper, line)
	}
	for name, mode := range map[string]os.FileMode{"mode": 0o666, "exec": 0o755, "dir": 0o777, "new": 0o666, "both": 0o777, "shut": 0o700} {
		w.check(os.Chmod(filepath.Join(w.upper, name), mode))
	}
	dirs, left := w.export()
	want := "a/ a/emptied/ a/emptied/x=1 a/empty= a/exec=1 a/full/ a/full/x=1 a/g=hi a/mode=1 a/od/ a/od/x=1 b/ b/ed=evil b/exec=1 b/g/ b/g/in=2 b/ld b/made/ b/made/with/ b/made/with/x=1 b/mode=1 b/new=1 b/od=evil"
	if got := strings.Join(strings.Fields(strings.Join(dirs, "\n")), " "); got != want || !slices.Equal(left, []string{"away/in", "both", "dir", "empty", "made/in", "mode", "new", "shut"}) {
		t.Errorf("%s, left %q", got, left)
	}
}

// What git would compare for minutes is left out: by the lines of one file, or of all.
func TestExportOfManyLines(t *testing.T) {
	t.Parallel()
	ends := func(n int) string { return strings.Repeat("\n", n) }
	most := int(math.Pow(maxCost, 1/1.5))
	w := newWorkspace(t, "few 1", "gone "+ends(most+1), "many "+ends(most/2), "mode "+ends(most))
	for _, line := range []string{"few 2", "gone -", "many " + ends(most/2+3), "mode " + ends(most), "new " + ends(most+1)} {
		w.write(w.upper, line)
	}
	w.check(os.Chmod(filepath.Join(w.upper, "mode"), 0o755))
	dirs, left := w.export()
	got := strings.Join(strings.Fields(regexp.MustCompile(`=\n+`).ReplaceAllString(strings.Join(dirs, ""), "=")), " ")
	if want := "a/ a/few=1 a/gone= a/mode= b/ b/few=2 b/mode= b/new="; got != want || !slices.Equal(left, []string{"many"}) {
		t.Errorf("%s, left %q; want %s", got, left, want)
	}

	w = newWorkspace(t)
	const each = 200_000
	n := int(maxCost/math.Pow(2*each, 1.5)) + 2
	for i := range n {
		w.write(w.root, fmt.Sprintf("f%02d %s", i, ends(each)))
		w.write(w.upper, fmt.Sprintf("f%02d %sx", i, ends(each)))
	}
	if _, left := w.export(); len(left) != 2 {
		t.Errorf("of %d files %q are left", n, left)
	}
}

// A path that nothing can open is no reason to show nothing.
func TestExportOfLongPaths(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, "f old")
	w.write(w.upper, "f new")
	dir, err := os.Open(w.upper)
	w.check(err)
	name := strings.Repeat("d", 250)
	for range 20 {
		w.check(unix.Mkdirat(int(dir.Fd()), name, 0o755))
		fd, err := unix.Openat(int(dir.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		w.check(err)
		dir.Close()
		dir = os.NewFile(uintptr(fd), name)
		file, err := unix.Openat(fd, "file", unix.O_WRONLY|unix.O_CREAT, 0o600)
		w.check(err)
		unix.Close(file)
	}
	dir.Close()
	dirs, left := w.export()
	if len(dirs) != 1 || !strings.Contains(dirs[0], "b/f=new") || !strings.Contains(dirs[0], name+"/file=") || len(left) == 0 {
		t.Errorf("%.300q, left %.300q", dirs, left)
	}
	if _, err := w.apply(Choice{Paths: []string{"f"}}); err != nil {
		t.Error(err)
	}
	w.check(func() error { r := w.open(); defer r.Close(); return r.Discard(context.Background()) }())
}

// What a review gives a file besides contents and permissions is shown, and what was looked at is applied.
func TestAttributes(t *testing.T) {
	t.Parallel()
	acl := func(user byte) string {
		var b []byte
		for _, e := range [][8]byte{{1, 0, 7}, {2, 0, 7, 0, user, 4}, {4, 0, 5}, {16, 0, 7}, {32, 0, 0}} {
			if e[0] != 2 {
				copy(e[4:], "\xff\xff\xff\xff")
			}
			b = append(b, e[:]...)
		}
		return "\x02\x00\x00\x00" + string(b)
	}
	w := newRoot(t, "file old", "edit old", "had old", "d/in 1")
	set := func(p, name, value string) {
		t.Helper()
		if err := unix.Lsetxattr(p, name, []byte(value), 0); err == unix.EOPNOTSUPP {
			need(t, "acl", err)
		} else {
			w.check(err)
		}
	}
	set(filepath.Join(w.root, "had"), "user.one", "1")
	w.begin()
	for _, line := range []string{"file old", "edit new", "had old", "d/", "new/", "made 1", "same/f x"} {
		w.write(w.upper, line)
	}
	up := func(p string) string { return filepath.Join(w.upper, p) }
	set(up("file"), "user.mark", "a\nb")
	set(up("edit"), "system.posix_acl_access", acl(1))
	set(up("d"), "system.posix_acl_default", acl(2))
	set(up("new"), "system.posix_acl_default", acl(3))
	set(up("made"), "user.\xff", "")
	lines := func() string {
		r := w.open()
		defer r.Close()
		changes, err := r.Changes(context.Background(), anything)
		w.check(err)
		var list []string
		for i := range changes.Changes {
			list = append(list, changes.Changes[i].Line())
		}
		return strings.Join(append(list, ""), "\n") + changes.Digest
	}
	const entries = "user::rwx,user:%d:rwx,group::r-x,mask::rwx,other::---"
	got := lines()
	for _, want := range []string{
		`mode     file (not applied: attribute "user.mark"="a\nb")`,
		"modified edit (mode 0644 -> 0770, ACL " + fmt.Sprintf(entries, 1025),
		"mode     d (directory, not applied: default ACL " + fmt.Sprintf(entries, 1026),
		"added    new (directory, default ACL " + fmt.Sprintf(entries, 1027),
		`added    made (attribute "user.\xff"="")`,
		`mode     had (not applied: without attribute "user.one")`,
		"added    same/f\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is missing in\n%s", want, got)
		}
	}
	set(up("new"), "system.posix_acl_default", acl(4))
	if later := lines(); later == got {
		t.Error("another list has the same digest")
	}
	long, last := strings.Repeat("x", 64), map[string]bool{}
	for _, value := range []string{long, long + "y", long + "z"} {
		set(up("made"), "user.\xff", value)
		line := lines()
		if line = line[:strings.LastIndex(line, "\n")]; last[line] || strings.Contains(line, "bytes, sha256 ") != (value != long) {
			t.Errorf("of %q:\n%s", value, line)
		}
		last[line] = true
	}
	dirs, left := w.export()
	if len(dirs) != 1 || !slices.Equal(left, []string{"d", "edit", "file", "had", "made", "new"}) {
		t.Errorf("exported %q, left %q", dirs, left)
	}
	_, err := w.apply(Choice{})
	w.check(err)
	r, err := openTree(w.root, false)
	w.check(err)
	defer r.close()
	for p, want := range map[string]int{"new": 1, "edit": 1, "made": 1, "d": 0, "file": 0, "had": 1, "same/f": 0} {
		if got, err := r.Attributes(p); len(got) != want || err != nil {
			t.Errorf("%s has %q, %v", p, got, err)
		}
	}
}

// No program with capabilities arrives: a command can rename root's, and write to it through a mapping.
func TestCapabilities(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, "edit old", "same x")
	for _, line := range []string{"edit new", "new 1", "same x"} {
		w.write(w.upper, line)
		err := unix.Setxattr(filepath.Join(w.upper, strings.Fields(line)[0]), capabilities, []byte("\x01\x00\x00\x02\x00\x20"+strings.Repeat("\x00", 14)), 0)
		if err == unix.EPERM && os.Geteuid() != 0 {
			t.Skip("only root can give capabilities, and its run of CI does")
		}
		w.check(err)
	}
	out, err := w.apply(Choice{})
	var refused []string
	for _, c := range out.Refused {
		refused = append(refused, c.path)
	}
	if !errors.Is(err, ErrBlocked) || !slices.Equal(refused, []string{"edit", "new"}) || len(out.Applied) > 0 {
		t.Errorf("refused %q, applied %d, %v", refused, len(out.Applied), err)
	}
}

// On a file system that keeps more attributes than the kernel lists, they would arrive unseen.
func TestMoreAttributesThanAreListed(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("/dev/shm", "review")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	open := func(name string, upper bool) *tree {
		err := os.Mkdir(filepath.Join(dir, name), 0o700)
		if err != nil {
			t.Fatal(err)
		}
		opened, err := openTree(filepath.Join(dir, name), upper)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(opened.close)
		return opened
	}
	upper, lower := open("upper", true), open("lower", false)
	for _, name := range []string{"new", "edit", "few"} {
		if err := os.WriteFile(filepath.Join(upper.path, name), []byte("new"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(lower.path, "edit"), []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"new", "edit"} {
		for i := range 400 {
			attribute := fmt.Sprintf("user.%s%d", strings.Repeat("m", 230), i)
			if err := unix.Setxattr(filepath.Join(upper.path, name), attribute, nil, 0); err == unix.EOPNOTSUPP {
				need(t, "acl", err) // before Linux 6.6
			} else if err != nil {
				t.Fatal(err)
			}
		}
	}
	c := &Comparison{Root: "/w", Upper: upper, Lower: lower, Denied: anything.Denied, Same: func(string, *int64) (bool, error) { return false, nil }}
	changes, err := c.Changes()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range changes {
		refused := strings.Contains(c.Refused, "its extended attributes cannot be listed")
		if refused != (c.path != "few") {
			t.Errorf("%s: %q", c.path, c.Refused)
		}
	}
	if len(changes) != 3 {
		t.Errorf("%d changes", len(changes))
	}
	if err := upper.unmark("new"); err == nil {
		t.Error("the overlay's marks count as gone")
	}
}

// need skips, or fails where CI says that a part must be there.
func need(t *testing.T, part string, why error) {
	t.Helper()
	if slices.Contains(strings.Split(os.Getenv("SBXHOST_REQUIRE"), ","), part) {
		t.Fatal(why)
	}
	t.Skip(why)
}

// A file whose directory can be opened, but not its whole path, is compared, shown and applied as any other.
func TestLongPathOnBothSides(t *testing.T) {
	t.Parallel()
	w := newRoot(t, "f old")
	w.begin()
	w.write(w.upper, "f new")
	long := strings.Repeat("f", 200)
	up := map[string]string{"same": "one", "edit": "two", "mode": "one", "linked": "two"}
	var deep []int // the last directory of each side
	for _, root := range []string{w.root, w.upper} {
		at, err := unix.Open(root, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		w.check(err)
		for range 20 {
			w.check(unix.Mkdirat(at, long, 0o755))
			next, err := unix.Openat(at, long, unix.O_RDONLY|unix.O_DIRECTORY, 0)
			w.check(err)
			unix.Close(at)
			at = next
		}
		defer unix.Close(at)
		deep = append(deep, at)
		for name, text := range up {
			if root == w.root {
				text = "one"
			}
			fd, err := unix.Openat(at, name+long, unix.O_WRONLY|unix.O_CREAT, 0o644)
			w.check(err)
			_, err = unix.Write(fd, []byte(text))
			w.check(errors.Join(err, unix.Close(fd)))
		}
	}
	w.check(unix.Fchmodat(deep[1], "mode"+long, 0o600, 0))
	w.check(unix.Linkat(deep[1], "linked"+long, deep[1], "other"+long, 0))
	r := w.open()
	set, err := r.Changes(context.Background(), anything)
	w.check(err)
	r.Close()
	var got []string
	for _, c := range set.Changes {
		got = append(got, fmt.Sprintf("%v %.2s", c.Op, c.path[strings.LastIndex(c.path, "/")+1:]))
	}
	// What the host made since is a conflict; what is the same is not there.
	if want := "modified f modified ed modified li mode mo added ot"; strings.Join(got, " ") != want {
		t.Errorf("%q, want %q", got, want)
	}
	dirs, left := w.export()
	if len(dirs) != 1 || !strings.Contains(dirs[0], "b/f=new") || len(left) != 4 {
		t.Errorf("%.300q, left %d", dirs, len(left))
	}
	if _, err := w.apply(Choice{Paths: []string{"f"}}); err != nil {
		t.Error(err)
	}
	if _, err := w.apply(Choice{Theirs: []string{long}, Ours: []string{set.Changes[4].path}}); err != nil {
		t.Error(err)
	}
	for name, want := range up {
		fd, err := unix.Openat(deep[0], name+long, unix.O_RDONLY, 0)
		w.check(err)
		text := make([]byte, 9)
		n, err := unix.Read(fd, text)
		w.check(errors.Join(err, unix.Close(fd)))
		if string(text[:n]) != want {
			t.Errorf("%s is %q, want %q", name, text[:n], want)
		}
	}
	var st unix.Stat_t
	if err := unix.Fstatat(deep[0], "mode"+long, &st, 0); err != nil || st.Mode&0o777 != 0o600 {
		t.Errorf("mode %o, %v", st.Mode, err)
	}
}

// A diff that is given up leaves nothing.
func TestExportGivenUp(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	w.write(w.upper, "a 1")
	r := w.open()
	defer r.Close()
	set, err := r.Changes(t.Context(), anything)
	w.check(err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, done, err := r.Export(ctx, set, nil); !errors.Is(err, context.Canceled) || done != nil {
		t.Errorf("%v", err)
	}
	if entries, err := filepath.Glob(filepath.Join(r.dir, diffPrefix+"*")); err != nil || len(entries) > 0 {
		t.Errorf("it left %q, %v", entries, err)
	}
}
