package review

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/sessiondir"
)

// storm is what TestMain applies in a process that is killed.
const storm = "SBXHOST_TEST_APPLY"

// stormUndo has it take the apply back.
const stormUndo = "SBXHOST_TEST_UNDO"

func TestMain(m *testing.M) {
	if root := os.Getenv(storm); root != "" {
		os.Stdout.WriteString("begun\n")
		if os.Getenv(stormUndo) != "" {
			if _, told, err := StoreOf(root, root+".state").Undo(context.Background()); err != nil {
				fmt.Println(err, told)
			}
			os.Exit(0)
		}
		r, err := StoreOf(root, root+".state").Open(context.Background(), "r")
		if err == nil {
			var set *Set
			if set, err = r.Changes(context.Background(), anything); err == nil {
				_, err = r.Apply(context.Background(), set, Choice{})
			}
		}
		if err != nil {
			fmt.Println(err)
		}
		os.Exit(0)
	}
	unix.Umask(0o022)
	os.Exit(m.Run())
}

// workspace is a directory with a review "r", whose upper layer the test writes by hand, as the kernel would.
type workspace struct {
	*testing.T
	root, upper string
	shelf       *Store
}

func newWorkspace(t *testing.T, files ...string) *workspace {
	w := newRoot(t, files...)
	w.begin()
	return w
}

func newRoot(t *testing.T, files ...string) *workspace {
	root := filepath.Join(t.TempDir(), "w")
	w := &workspace{T: t, root: root, shelf: StoreOf(root, root+".state")}
	w.check(os.Mkdir(root, 0o755))
	for _, line := range files {
		w.write(root, line)
	}
	return w
}

// begin begins the review.
func (w *workspace) begin() {
	w.Helper()
	use, err := w.shelf.Join(context.Background(), "r", "s", "")
	w.check(err)
	w.upper = filepath.Join(use.Dir(), "kept", "upper")
	w.check(os.MkdirAll(w.upper, 0o755))
	w.check(use.Add(context.Background(), w.root, w.upper, filepath.Join(use.Dir(), "lock")))
	use.Close()
}

func (w *workspace) check(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// write makes what a line says: "d/", "f text", "l -> target", "gone -", and the directories above it.
func (w *workspace) write(dir, line string) {
	w.Helper()
	p, what, _ := strings.Cut(line, " ")
	at := filepath.Join(dir, p)
	w.check(os.MkdirAll(filepath.Dir(at), 0o755))
	target, link := strings.CutPrefix(what, "-> ")
	switch {
	case strings.HasSuffix(p, "/"):
		w.check(os.MkdirAll(at, 0o755))
		if what == "opaque" {
			w.check(unix.Setxattr(at, opaqueMark, []byte("y"), 0))
		}
	case link:
		w.check(os.Symlink(target, at))
	case what == "-":
		w.check(unix.Mknod(at, unix.S_IFCHR, 0))
	case what == "fifo":
		w.check(unix.Mkfifo(at, 0o644))
	default:
		w.check(os.WriteFile(at, []byte(what), 0o644))
	}
}

func (w *workspace) open() *Review {
	w.Helper()
	r, err := w.shelf.Open(context.Background(), "r")
	w.check(err)
	return r
}

func (w *workspace) apply(choice Choice) (*Outcome, error) {
	w.Helper()
	r := w.open()
	defer r.Close()
	set, err := r.Changes(context.Background(), anything)
	w.check(err)
	return r.Apply(context.Background(), set, choice)
}

// state is what there is in a directory: names, kinds, permissions and contents.
func (w *workspace) state(dir string) string {
	w.Helper()
	var b strings.Builder
	w.check(filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%q %v", strings.TrimPrefix(p, dir), info.Mode())
		switch {
		case info.Mode().IsRegular():
			text, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, " %x", sha256.Sum256(text))
		case info.Mode()&fs.ModeSymlink != 0:
			target, _ := os.Readlink(p)
			fmt.Fprintf(&b, " %q", target)
		}
		b.WriteByte('\n')
		return nil
	}))
	return b.String()
}

// list returns the paths of a state, with contents where they are short.
func (w *workspace) list(dir string) string {
	w.Helper()
	var list []string
	w.check(filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		name := strings.TrimPrefix(p, dir+"/")
		if d.IsDir() {
			name += "/"
		} else if d.Type().IsRegular() {
			text, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			name += "=" + string(text)
		}
		list = append(list, name)
		return nil
	}))
	return strings.Join(list, " ")
}

var both = []string{"same s", "edit old", "gone x", "tree/a 1", "tree/b/c 2", "made/old 3", "link -> same", "type/x 4", "file 5"}

// fill writes a change of each kind.
func (w *workspace) fill() {
	for _, line := range []string{"edit new", "gone -", "tree -", "made/ opaque", "made/new 6", "type 7", "file/y 8", "fresh/deep/z 9", "fresh/l -> deep/z", "pipe fifo", "n\xff\n\"e 10"} {
		w.write(w.upper, line)
	}
}

const applied = "edit=new file/ file/y=8 fresh/ fresh/deep/ fresh/deep/z=9 fresh/l link made/ made/new=6 n\xff\n\"e=10 pipe same=s type=7"

func TestApply(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, both...)
	w.fill()
	before, upper := w.state(w.root), w.list(w.upper)
	out, err := w.apply(Choice{})
	w.check(err)
	if got := w.list(w.root); got != applied || !out.Complete || len(out.Applied) != 18 {
		t.Errorf("%v, %d changes\ngot  %q\nwant %q", out.Complete, len(out.Applied), got, applied)
	}
	r, err := w.shelf.Open(context.Background(), "r")
	w.check(err)
	if _, err := r.Changes(context.Background(), anything); err == nil || !strings.Contains(err.Error(), "was applied") {
		t.Errorf("a review that was applied: %v", err)
	}
	r.Close()
	name, told, err := w.shelf.Undo(context.Background())
	if err != nil || name != "r" || len(told) > 0 {
		t.Fatalf("%q %q %v", name, told, err)
	}
	if got := w.state(w.root); got != before {
		t.Errorf("undo left\n%s\nfor\n%s", got, before)
	}
	if got := w.list(w.upper); got != upper {
		t.Errorf("undo left in the review\n%q\nfor\n%q", got, upper)
	}
	if _, err := w.apply(Choice{}); err != nil || w.list(w.root) != applied {
		t.Errorf("once more: %v, %q", err, w.list(w.root))
	}
}

func TestConflicts(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, both...)
	w.fill()
	w.write(w.root, "edit host")
	w.write(w.root, "tree/new host")
	before := w.state(w.root)
	out, err := w.apply(Choice{})
	if !errors.Is(err, ErrBlocked) || len(out.Conflicts) != 2 {
		t.Fatalf("%v, %+v", err, out)
	}
	if out, err = w.apply(Choice{Ours: []string{"edit"}}); !errors.Is(err, ErrBlocked) || len(out.Conflicts) != 1 || out.Conflicts[0].path != "tree/new" {
		t.Fatalf("%v, %+v", err, out)
	}
	if w.state(w.root) != before {
		t.Error("something was applied")
	}
	if out, err = w.apply(Choice{Ours: []string{"edit"}, Theirs: []string{"tree"}}); err != nil || !out.Complete {
		t.Fatalf("%v, %+v", err, out)
	}
	if got, want := w.list(w.root), strings.Replace(applied, "edit=new", "edit=host", 1); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// What was applied and changed since is not taken back.
func TestUndoChanged(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, both...)
	w.fill()
	_, err := w.apply(Choice{})
	w.check(err)
	w.write(w.root, "edit by hand")
	w.write(w.root, "fresh/more by hand")
	before := w.state(w.root)
	if _, changed, err := w.shelf.Undo(context.Background()); !errors.Is(err, ErrUndo) || strings.Join(changed, " ") != "edit fresh/more" {
		t.Errorf("%q, %v", changed, err)
	}
	if w.state(w.root) != before {
		t.Error("something was undone")
	}
}

// A file that came to the place of a shown one with its directory is another file.
func TestDigestOfMovedDirectory(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"d/f new", "d/f -"} {
		w := newWorkspace(t, "d/f old", "mine/f host")
		w.write(w.upper, line)
		r := w.open()
		set, err := r.Changes(context.Background(), anything)
		w.check(err)
		r.Close()
		w.check(os.Rename(filepath.Join(w.root, "d"), w.root+".d"))
		w.check(os.Rename(filepath.Join(w.root, "mine"), filepath.Join(w.root, "d")))
		if _, err := w.apply(Choice{Digest: set.Digest}); !errors.Is(err, ErrChanged) {
			t.Errorf("%s: %v", line, err)
		}
		if got := w.list(w.root); got != "d/ d/f=host" {
			t.Errorf("%s: %s", line, got)
		}
	}
}

func TestDigestOfReview(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, both...)
	w.fill()
	r := w.open()
	set, err := r.Changes(context.Background(), anything)
	w.check(err)
	r.Close()
	w.write(w.upper, "edit later")
	if _, err := w.apply(Choice{Digest: set.Digest}); !errors.Is(err, ErrChanged) {
		t.Errorf("what was not looked at: %v", err)
	}
	r = w.open()
	defer r.Close()
	if set, err = r.Changes(context.Background(), anything); err == nil {
		_, err = r.Apply(context.Background(), set, Choice{Digest: set.Digest})
	}
	w.check(err)
}

// A file of which a name stays in the review would let its commands write to the workspace.
func TestHardLinks(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	w.write(w.upper, "a text")
	w.check(os.Link(filepath.Join(w.upper, "a"), filepath.Join(w.upper, "b")))
	inode := func(p string) uint64 {
		var st unix.Stat_t
		w.check(unix.Lstat(p, &st))
		return st.Ino
	}
	for _, choice := range []Choice{{Paths: []string{""}}, {Ours: []string{""}}} {
		if _, err := w.apply(choice); err == nil || !strings.Contains(err.Error(), "an empty path") {
			t.Errorf("%+v: %v", choice, err)
		}
	}
	_, err := w.apply(Choice{Paths: []string{"a"}})
	w.check(err)
	if inode(filepath.Join(w.root, "a")) == inode(filepath.Join(w.upper, "b")) {
		t.Error("the workspace and the review share a file")
	}
	w.write(w.upper, "c text")
	w.check(os.Link(filepath.Join(w.upper, "c"), filepath.Join(w.upper, "d")))
	_, err = w.apply(Choice{Paths: []string{"c", "d"}})
	w.check(err)
	if inode(filepath.Join(w.root, "c")) != inode(filepath.Join(w.root, "d")) {
		t.Error("two names of one file are two files")
	}
}

// What is chosen and not moved leaves a name in the review: a change of the mode or of attributes, and an object of
// git's, which is copied.
func TestHardLinksOfCopies(t *testing.T) {
	t.Parallel()
	for stays, change := range map[string]func(w *workspace, at string){
		"mode":                     func(w *workspace, at string) { w.check(os.Chmod(at, 0o755)) },
		"attribute":                func(w *workspace, at string) { w.check(unix.Setxattr(at, "user.x", []byte("1"), 0)) },
		"r/.git/objects/ab/object": func(*workspace, string) {},
	} {
		for _, goes := range []string{"b", "new/b"} { // also with its directory
			w := newWorkspace(t, "mode text", "attribute text", "r/.git/HEAD ref: refs/heads/main", "r/.git/refs/", "r/.git/objects/")
			w.write(w.upper, stays+" text")
			change(w, filepath.Join(w.upper, stays))
			w.check(os.MkdirAll(filepath.Join(w.upper, "new"), 0o755))
			w.check(os.Link(filepath.Join(w.upper, stays), filepath.Join(w.upper, goes)))
			_, err := w.apply(Choice{})
			w.check(err)
			if f, err := os.OpenFile(filepath.Join(w.upper, stays), os.O_WRONLY, 0); err == nil {
				f.WriteString("EVIL")
				f.Close()
			}
			if b, err := os.ReadFile(filepath.Join(w.root, goes)); err != nil || string(b) != "text" {
				t.Errorf("%s and %s: %q, %v", stays, goes, b, err)
			}
		}
	}
}

// Git writes a message to its file in place, and by a second name to what a person has read.
func TestHardLinksOfGit(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{"r/.git/", "new/.git/"} {
		w := newWorkspace(t, "r/.git/HEAD ref: refs/heads/main", "r/.git/refs/", "r/.git/objects/", "r/.git/COMMIT_EDITMSG old")
		for _, line := range []string{"HEAD ref: refs/heads/main", "refs/", "objects/", "COMMIT_EDITMSG text"} {
			w.write(w.upper, dir+line)
		}
		w.check(os.Link(filepath.Join(w.upper, dir, "COMMIT_EDITMSG"), filepath.Join(w.upper, "build.sh")))
		_, err := w.apply(Choice{})
		w.check(err)
		w.check(os.WriteFile(filepath.Join(w.root, dir, "COMMIT_EDITMSG"), []byte("message"), 0o600))
		if b, err := os.ReadFile(filepath.Join(w.root, "build.sh")); err != nil || string(b) != "text" {
			t.Errorf("%s: %q, %v", dir, b, err)
		}
		var st unix.Stat_t
		if w.check(unix.Lstat(filepath.Join(w.root, "build.sh"), &st)); st.Nlink != 1 {
			t.Errorf("%s: the script has %d names", dir, st.Nlink)
		}
	}
}

// Permissions are those of one name: others, also outside of the workspace, keep their own.
func TestModeOfHardLink(t *testing.T) {
	t.Parallel()
	w := newRoot(t, "f text")
	store := filepath.Join(filepath.Dir(w.root), "store")
	w.check(os.Link(filepath.Join(w.root, "f"), store))
	w.begin()
	w.write(w.upper, "f text")
	w.check(os.Chmod(filepath.Join(w.upper, "f"), 0o777))
	out, err := w.apply(Choice{})
	w.check(err)
	if got := out.Applied[0].Line(); got != "modified f (mode 0644 -> 0777)" {
		t.Error(got)
	}
	for p, mode := range map[string]os.FileMode{store: 0o644, w.root + "/f": 0o777} {
		if info, err := os.Stat(p); err != nil || info.Mode() != mode {
			t.Errorf("%s: %v, %v", p, info.Mode(), err)
		}
	}
	_, _, err = w.shelf.Undo(context.Background())
	w.check(err)
	if info, err := os.Stat(w.root + "/f"); err != nil || info.Mode() != 0o644 {
		t.Errorf("undo left %v, %v", info.Mode(), err)
	}
}

// Permissions of a directory that were applied and taken back are no change of the host's.
func TestDirectoryMode(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, "d/f old")
	w.write(w.upper, "d/f new")
	w.check(os.Chmod(filepath.Join(w.upper, "d"), 0o700))
	before := w.state(w.root)
	for range 2 {
		_, err := w.apply(Choice{})
		w.check(err)
		if info, err := os.Stat(filepath.Join(w.root, "d")); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%v, %v", info, err)
		}
		_, _, err = w.shelf.Undo(context.Background())
		w.check(err)
		if got := w.state(w.root); got != before {
			t.Errorf("undo left\n%s\nfor\n%s", got, before)
		}
	}
}

// Directories without the right to write, on both sides, are as they are.
func TestUnwritable(t *testing.T) {
	t.Parallel()
	w := newRoot(t, "ro/a old", "ro/b old", "away/x 1", "becomes/x 1")
	w.check(os.Chmod(w.root+"/becomes", 0o555))
	w.begin()
	for _, line := range []string{"ro/a new", "ro/b -", "made/ro/f 1", "away -", "becomes file"} {
		w.write(w.upper, line)
	}
	for _, dir := range []string{w.root + "/ro", w.root + "/away", w.upper + "/ro", w.upper + "/made/ro"} {
		w.check(os.Chmod(dir, 0o555))
	}
	t.Cleanup(func() {
		filepath.WalkDir(filepath.Dir(w.root), func(p string, d fs.DirEntry, err error) error {
			if d != nil && d.IsDir() {
				os.Chmod(p, 0o755)
			}
			return nil
		})
	})
	before := w.state(w.root)
	_, err := w.apply(Choice{})
	w.check(err)
	if got, want := w.list(w.root), "becomes=file made/ made/ro/ made/ro/f=1 ro/ ro/a=new"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, dir := range []string{"ro", "made/ro"} {
		if info, err := os.Stat(filepath.Join(w.root, dir)); err != nil || info.Mode().Perm() != 0o555 {
			t.Errorf("%s: %v, %v", dir, info.Mode(), err)
		}
	}
	_, _, err = w.shelf.Undo(context.Background())
	w.check(err)
	if got := w.state(w.root); got != before {
		t.Errorf("undo left\n%s\nfor\n%s", got, before)
	}
}

// What a command makes of the workspace's own directory is a change; what the host makes of it is none.
func TestTop(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	w.check(unix.Setxattr(w.root, "user.host", []byte("1"), 0))
	show := func() string {
		r := w.open()
		defer r.Close()
		set, err := r.Changes(context.Background(), anything)
		w.check(err)
		var lines []string
		for _, c := range set.Changes {
			lines = append(lines, c.Text())
		}
		return strings.Join(lines, "\n")
	}
	for _, tt := range []struct {
		change func() error
		want   string
	}{
		{func() error { return os.Chmod(w.root, 0o711) }, ""},
		{func() error { return unix.Setxattr(w.upper, "user.x", []byte("2"), 0) }, `mode     . (directory, not applied: attribute "user.x"="2")`},
		{func() error { return unix.Removexattr(w.upper, "user.x") }, ""},
		{func() error { return os.Chmod(w.upper, 0o500) }, "mode     . (mode 0711 -> 0500); conflict: its permissions or names were changed in the workspace after the review began"},
		{func() error { return os.Chmod(w.root, 0o755) }, "mode     . (mode 0755 -> 0500)"},
		{func() error { return os.Chmod(w.upper, 0o755|os.ModeSetgid) }, "mode     . (mode 0755 -> 2755); refused: has the set-user-ID or set-group-ID bit"},
	} {
		w.check(tt.change())
		if got := show(); got != tt.want {
			t.Errorf("got  %q\nwant %q", got, tt.want)
		}
	}
}

// Something else that comes to be in the way while it is applied undoes it all.
func TestMovedMeanwhile(t *testing.T) {
	t.Parallel()
	for _, meddle := range []func(*workspace){
		func(w *workspace) { w.write(w.root, "edit host") },
		func(w *workspace) { w.write(w.root, "fresh host") },
		func(w *workspace) { w.write(w.root, "tree/b/new host") },
		func(w *workspace) { w.check(os.Remove(filepath.Join(w.root, "gone"))) },
		func(w *workspace) {
			w.check(os.Rename(filepath.Join(w.root, "made"), filepath.Join(w.root, "moved")))
			w.check(os.Symlink("/", filepath.Join(w.root, "made")))
		},
	} {
		w := newWorkspace(t, both...)
		w.fill()
		r := w.open()
		set, err := r.Changes(context.Background(), anything)
		w.check(err)
		meddle(w)
		before := w.state(w.root)
		if _, err := r.Apply(context.Background(), set, Choice{}); !errors.Is(err, ErrBlocked) && err == nil {
			t.Error("it was applied")
		}
		r.Close()
		if got := w.state(w.root); got != before {
			t.Errorf("it left\n%s\nfor\n%s", got, before)
		}
		w.open().Close()
	}
}

// What the host has made where an apply that was killed took something away stays, and what was
// there is kept beside the review's files.
func TestTakenBackMeanwhile(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, both...)
	w.fill()
	_, err := w.apply(Choice{Paths: []string{"edit", "gone", "tree"}})
	w.check(err)
	dir := filepath.Join(w.shelf.dir, "r")
	w.check(os.Rename(filepath.Join(dir, appliedFile), filepath.Join(dir, journalFile))) // as if it was killed then
	w.write(w.root, "gone host")
	r := w.open()
	defer r.Close()
	if len(r.Recovered) != 3 || !strings.Contains(r.Recovered[1], `"gone" was made again`) {
		t.Fatalf("told %q", r.Recovered)
	}
	_, kept, _ := strings.Cut(r.Recovered[2], "lies in ")
	kept = strings.Trim(kept, `"`)
	if list := w.list(kept); !strings.HasSuffix(list, "=x") || strings.Contains(list, " ") {
		t.Errorf("kept %q", list)
	}
	if got, want := w.list(w.root), "edit=old file=5 gone=host link made/ made/old=3 same=s tree/ tree/a=1 tree/b/ tree/b/c=2 type/ type/x=4"; got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// What was edited since an apply was killed stays as it is, and so does what was there before.
func TestEditedMeanwhile(t *testing.T) {
	t.Parallel()
	more := func(w *workspace, p string) {
		f, err := os.OpenFile(filepath.Join(w.root, p), os.O_WRONLY|os.O_APPEND, 0)
		w.check(err)
		_, err = f.WriteString("!")
		w.check(errors.Join(err, f.Close()))
	}
	for name, tt := range map[string]struct {
		meddle func(w *workspace)
		told   string
		saved  bool   // what was there before
		differ string // the entry of the workspace that stays
	}{
		"a changed file in place":      {func(w *workspace) { more(w, "edit") }, `"edit" was changed since`, true, "edit=new!"},
		"a changed file by a new one":  {func(w *workspace) { w.write(w.root, "new mine"); w.check(os.Rename(w.root+"/new", w.root+"/edit")) }, `"edit" was changed since`, true, "edit=mine"},
		"a changed file removed":       {func(w *workspace) { w.check(os.Remove(filepath.Join(w.root, "edit"))) }, `"edit" was changed since`, true, ""},
		"a new file":                   {func(w *workspace) { more(w, "fresh") }, `"fresh" was changed since`, false, "fresh=f!"},
		"a file in a new directory":    {func(w *workspace) { more(w, "dir/in/file") }, `"dir" was changed since`, false, "dir/in/file=d!"},
		"another in a new directory":   {func(w *workspace) { w.write(w.root, "dir/in/mine x") }, `"dir" was changed since`, false, "dir/in/mine=x"},
		"one in a directory made anew": {func(w *workspace) { w.write(w.root, "links/mine x") }, `"links" was changed since`, false, "links/mine=x"},
		"a directory on the way": {func(w *workspace) {
			w.check(errors.Join(os.Rename(w.root+"/kept", w.root+"/away"), os.Symlink("away", w.root+"/kept")))
		}, `"kept/in" was gone, or somewhere else, and was not taken back`, false, "away/in=i"},
		"a new file removed": {func(w *workspace) { w.check(os.Remove(filepath.Join(w.root, "kept/in"))) }, `"kept/in" was gone`, false, ""},
		"permissions": {func(w *workspace) {
			w.check(errors.Join(os.Rename(w.root+"/mode", w.root+"/away"), os.Symlink("away", w.root+"/mode")))
		}, `"mode/sub" was gone`, false, ""},
		"nothing": {func(*workspace) {}, "", false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorkspace(t, "edit old", "other o", "kept/x 1", "mode/sub/")
			for _, line := range []string{"edit new", "other changed", "fresh f", "kept/in i", "mode/sub/", "dir/in/file d", "links/a l"} {
				w.write(w.upper, line)
			}
			w.check(os.Chmod(filepath.Join(w.upper, "mode/sub"), 0o700))
			w.check(os.Link(filepath.Join(w.upper, "links/a"), filepath.Join(w.shelf.dir, "r", "elsewhere"))) // so that the directory cannot be moved
			before := w.list(w.root)
			if _, err := w.apply(Choice{}); err != nil {
				t.Fatal(err)
			}
			dir := filepath.Join(w.shelf.dir, "r")
			w.check(os.Rename(filepath.Join(dir, completeFile), filepath.Join(dir, journalFile)))
			tt.meddle(w)
			edited := w.list(w.root)
			reviewed, told, err := w.shelf.Undo(t.Context())
			if err != nil || reviewed != "r" {
				t.Fatalf("%q, %v", reviewed, err)
			}
			all := strings.Join(told, "\n")
			if !strings.Contains(all, tt.told) || (tt.told == "") != (len(told) == 0) || strings.Contains(all, "what was there before lies in") != tt.saved {
				t.Errorf("told %q", told)
			}
			got := w.list(w.root)
			if tt.told == "" && got != before {
				t.Errorf("it left %q for %q", got, before)
			}
			if !strings.Contains(got, tt.differ) || !strings.Contains(edited, tt.differ) || !strings.Contains(got, "other=o") {
				t.Errorf("it left %q of %q", got, edited)
			}
			if _, kept, ok := strings.Cut(all, "lies in "); ok {
				if list := w.list(strings.Trim(kept, `"`)); !strings.Contains(list, "=old") {
					t.Errorf("kept %q", list)
				}
			}
		})
	}
}

// inTheWay calls a function when somebody waits for its end.
type inTheWay struct {
	context.Context
	leave func()
}

func (c inTheWay) Done() <-chan struct{} {
	c.leave()
	return c.Context.Done()
}

// Another process is faster: what it has undone was not changed since.
func TestUndoneMeanwhile(t *testing.T) {
	t.Parallel()
	for _, killed := range []bool{false, true} {
		w := newWorkspace(t, "edit old")
		w.write(w.upper, "edit new")
		_, err := w.apply(Choice{})
		w.check(err)
		dir := filepath.Join(w.shelf.dir, "r")
		if killed {
			w.check(os.Rename(filepath.Join(dir, completeFile), filepath.Join(dir, journalFile)))
		}
		lock, err := lockIn(t.Context(), dir)
		w.check(err)
		_, changed, err := w.shelf.Undo(inTheWay{t.Context(), sync.OnceFunc(func() {
			hostpath.Unlock(lock)
			_, _, err := w.shelf.Undo(t.Context())
			w.check(err)
		})})
		if !errors.Is(err, ErrUndo) || len(changed) > 0 || strings.Contains(err.Error(), "the workspace was changed") || w.list(w.root) != "edit=old" {
			t.Errorf("killed %v: %q, %v; %s", killed, changed, err, w.list(w.root))
		}
	}
}

// A new directory that somebody has shut since an apply was killed stays, and the review can be used.
func TestShutMeanwhile(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, "edit old")
	for _, line := range []string{"edit new", "dir/in/file d"} {
		w.write(w.upper, line)
	}
	_, err := w.apply(Choice{})
	w.check(err)
	dir := filepath.Join(w.shelf.dir, "r")
	w.check(os.Rename(filepath.Join(dir, completeFile), filepath.Join(dir, journalFile)))
	in := filepath.Join(w.root, "dir/in")
	w.check(os.Chmod(in, 0o300))
	t.Cleanup(func() { os.Chmod(in, 0o700) })
	_, told, err := w.shelf.Undo(t.Context())
	w.check(err)
	os.Chmod(in, 0o700)
	want, left := "edit=old", 0
	if os.Geteuid() != 0 { // root can read it
		want, left = "dir/ dir/in/ dir/in/file=d edit=old", 1
	}
	if got := w.list(w.root); got != want || len(told) != left {
		t.Errorf("%q, told %q", got, told)
	}
	w.open().Close()
}

func TestInUse(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	use, err := w.shelf.Join(context.Background(), "r", "s", "")
	w.check(err)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if _, err := w.shelf.Open(ctx, "r"); !errors.Is(err, ErrInUse) {
		t.Errorf("one that a command uses: %v", err)
	}
	if list, err := w.shelf.List(); err != nil || len(list) != 1 || !list[0].InUse {
		t.Errorf("%+v, %v", list, err)
	}
	use.Close()
	r := w.open()
	if _, err := w.shelf.Join(ctx, "r", "s", ""); !errors.Is(err, ErrInUse) {
		t.Errorf("one that is looked at: %v", err)
	}
	w.check(r.Discard(context.Background()))
	r.Close()
	use, err = w.shelf.Join(context.Background(), "r", "s", "ssh")
	w.check(err)
	hostpath.Unlock(use.lock) // its process was killed
	if _, err := w.shelf.Join(context.Background(), "r", "s", ""); !errors.Is(err, ErrCredentials) {
		t.Errorf("with other credentials: %v", err)
	}
	for _, name := range []string{"", "../x", ".applied-r", "a b", strings.Repeat("x", 65)} {
		if _, err := w.shelf.Join(context.Background(), name, "s", ""); !errors.Is(err, sessiondir.ErrName) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// However many attributes a command gives a file, the marks of the overlay go.
func TestUnmarkOfMany(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("/dev/shm", "sbxhost-test-") // ext4 has no room for as many
	if err != nil {
		need(t, "acl", err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	w := &workspace{T: t, root: dir}
	w.write(dir, "f x")
	at := filepath.Join(dir, "f")
	for i := range 30 {
		if err := unix.Setxattr(at, fmt.Sprintf("user.%02d%s", i, strings.Repeat("x", 200)), nil, 0); err != nil {
			need(t, "acl", err)
		}
	}
	w.check(unix.Setxattr(at, "user.overlay.origin", []byte("x"), 0))
	w.check(os.Chmod(at, 0o444)) // so its owner cannot remove them, either
	tree, err := openTree(dir, false)
	w.check(err)
	defer tree.close()
	w.check(tree.unmark("f"))
	if _, err := unix.Getxattr(at, "user.overlay.origin", nil); err != unix.ENODATA {
		t.Errorf("the mark is there: %v", err)
	}
	if all, err := tree.Attributes("f"); len(all) != 30 || err != nil {
		t.Error("others are gone", err)
	}
	if n, err := tree.Look("f"); n.Mode != 0o444 || err != nil {
		t.Errorf("its mode is %o: %v", n.Mode, err)
	}
}

// In a directory with the set-group-ID bit, mkdir makes one with that bit and of its group. It is no reason to
// refuse, and arrives so. Anywhere else the bit is.
func TestSetGroupID(t *testing.T) {
	t.Parallel()
	group := os.Getegid()
	if os.Geteuid() == 0 {
		group = 10
	}
	w := newRoot(t, "d/f old", "plain/f old", "becomes text")
	sets := func(of int, paths ...string) {
		for _, p := range paths {
			w.check(os.Chown(p, -1, of))
			w.check(unix.Chmod(p, 0o2775))
		}
	}
	sets(group, w.root, w.root+"/d")
	w.begin()
	for _, line := range []string{"new/sub/f 1", "new/left 2", "d/in/", "becomes/", "bad/file 3", "plain/bad/", "plain/file 4"} {
		w.write(w.upper, line)
	}
	sets(group, w.upper, w.upper+"/new", w.upper+"/new/sub", w.upper+"/d", w.upper+"/d/in", w.upper+"/becomes", w.upper+"/plain/bad", w.upper+"/plain/file", w.upper+"/bad/file")
	refused := "bad/file plain plain/bad plain/file"
	sets(group, w.upper+"/plain") // one that is there has no such bit
	if group != os.Getegid() {
		w.write(w.upper, "other/")
		sets(os.Getegid(), w.upper+"/other")
		refused = "bad/file other plain plain/bad plain/file"
	}
	out, err := w.apply(Choice{})
	var got []string
	for _, c := range out.Refused {
		got = append(got, c.path)
	}
	if !errors.Is(err, ErrBlocked) || strings.Join(got, " ") != refused {
		t.Errorf("refused %q, %v", got, err)
	}
	// Of new, a part: it is made, not moved.
	_, err = w.apply(Choice{Paths: []string{"new/sub", "d", "becomes"}})
	w.check(err)
	for _, name := range []string{"new", "new/sub", "d/in", "becomes"} {
		var st unix.Stat_t
		w.check(unix.Stat(filepath.Join(w.root, name), &st))
		if st.Mode&0o7777 != 0o2775 || int(st.Gid) != group {
			t.Errorf("%s: mode %o, group %d", name, st.Mode, st.Gid)
		}
	}
	_, _, err = w.shelf.Undo(context.Background())
	w.check(err)
	if got, want := w.list(w.root), "becomes=text d/ d/f=old plain/ plain/f=old"; got != want {
		t.Errorf("undo left %q", got)
	}
}

// What replaces another user's file is the caller's, and a person is told before. What a command wrote into it is not,
// also if the apply copies it.
func TestOwners(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root gives files away")
	}
	w := newRoot(t, "changed 1", "replaced 1", "linked 1")
	give := func(root string, names ...string) {
		for _, name := range names {
			w.check(os.Chown(filepath.Join(root, name), 7, 8))
		}
	}
	give(w.root, "changed", "replaced", "linked")
	w.begin()
	for _, line := range []string{"changed 2", "replaced 2", "linked 2"} {
		w.write(w.upper, line)
	}
	give(w.upper, "changed", "linked")
	w.check(os.Link(filepath.Join(w.upper, "linked"), filepath.Join(w.upper, "stays")))
	if _, left := w.export(); !slices.Equal(left, []string{"replaced"}) {
		t.Errorf("beside the diff: %q", left)
	}
	out, err := w.apply(Choice{Paths: []string{"changed", "replaced", "linked"}})
	w.check(err)
	for _, c := range out.Applied {
		want := "modified " + c.path
		uid, gid := uint32(7), uint32(8)
		if c.path == "replaced" {
			uid, gid, want = 0, 0, want+" (owner 7:8 -> 0:0)"
		}
		var st unix.Stat_t
		w.check(unix.Lstat(filepath.Join(w.root, c.path), &st))
		if c.Line() != want || st.Uid != uid || st.Gid != gid {
			t.Errorf("%q, owner %d:%d", c.Line(), st.Uid, st.Gid)
		}
	}
	text, err := json.Marshal(out.Applied[2])
	w.check(err)
	if !strings.Contains(string(text), `"old":{"type":"file","mode":"0644","uid":7,"gid":8,`) {
		t.Errorf("%s", text)
	}
}
