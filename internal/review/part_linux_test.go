package review

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestApplyPart(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, both...)
	w.fill()
	out, err := w.apply(Choice{Paths: []string{"made", "fresh/deep", "gone"}})
	w.check(err)
	if out.Complete {
		t.Error("nothing is left, it says")
	}
	want := "edit=old file=5 fresh/ fresh/deep/ fresh/deep/z=9 link made/ made/new=6 same=s tree/ tree/a=1 tree/b/ tree/b/c=2 type/ type/x=4"
	if got := w.list(w.root); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	// What was applied is none of the host's changes; the rest is what it was.
	out, err = w.apply(Choice{})
	if err != nil || !out.Complete || w.list(w.root) != applied {
		t.Errorf("the rest: %+v, %v\n%q", out, err, w.list(w.root))
	}
}

// A link that stays in the workspace by what else is in the review leads out where only a part is applied.
func TestApplyPartOfLinks(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		choice Choice
		ok     bool
	}{
		{Choice{}, true},
		{Choice{Paths: []string{"l", "d"}}, true},
		{Choice{Paths: []string{"l"}}, false},
		{Choice{Ours: []string{"d"}}, false},
		{Choice{Paths: []string{"gone"}}, true},
		{Choice{Paths: []string{"m"}}, true},
		{Choice{Paths: []string{"m"}, Ours: []string{"e"}}, true},
	} {
		w := newWorkspace(t, "d -> /etc", "e/x 1", "gone/x 1")
		for _, line := range []string{"d/secret x", "l -> d/secret", "e -", "gone -", "m -> e/x"} {
			w.write(w.upper, line)
		}
		out, err := w.apply(tt.choice)
		if (err == nil) != tt.ok {
			t.Errorf("%+v: %v", tt.choice, err)
		}
		if _, err := os.Lstat(filepath.Join(w.root, "l")); !tt.ok && (err == nil || len(out.Refused) != 1 || !strings.HasPrefix(out.Refused[0].Refused, "leads out of")) {
			t.Errorf("%+v: %+v", tt.choice, out)
		}
	}
}

// Where a link may not lead, it may not lead by a part of the review either.
func TestApplyPartBehind(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		choice Choice
		ok     bool
	}{{Choice{}, true}, {Choice{Paths: []string{"l", "d"}}, true}, {Choice{Paths: []string{"l"}}, false}, {Choice{Paths: []string{"d"}}, true}} {
		w := newWorkspace(t, "d -> e", "e/x 1", "o/x 1")
		for _, line := range []string{"d -> o", "l -> d/x"} {
			w.write(w.upper, line)
		}
		r := w.open()
		rules := anything
		rules.Behind = func(link, end string) string {
			if link == w.root+"/l" && end == w.root+"/e/x" {
				return "behind"
			}
			return ""
		}
		set, err := r.Changes(context.Background(), rules)
		w.check(err)
		out, err := r.Apply(context.Background(), set, tt.choice)
		r.Close()
		if (err == nil) != tt.ok || !tt.ok && (len(out.Refused) != 1 || out.Refused[0].Refused != "behind") {
			t.Errorf("%+v: %+v, %v", tt.choice, out, err)
		}
	}
}

// What a list of changes calls a path names it, also if that is no text. A name with quotes of its own
// is not mistaken for it.
func TestApplyQuoted(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	for _, line := range []string{"a\xff 1", "b\xff/c\" 1", `"d" 1`, `"e" 1`, "e 1", "f 1", `"" 1`} {
		w.write(w.upper, line)
	}
	for _, tt := range []struct {
		choice Choice
		want   string
		err    string
	}{
		{Choice{Paths: []string{`"a\xff"`, `"d"`}}, "\"d\"=1 a\xff=1", ""},
		{Choice{Paths: []string{`"e"`}}, "\"d\"=1 a\xff=1", `"\"e\"": it can mean two paths of the review; ./ before it means the one with the quotes`},
		{Choice{Paths: []string{`./"e"`, `""`}}, "\"\"=1 \"d\"=1 \"e\"=1 a\xff=1", ""},
		{Choice{Ours: []string{`"b\xff/c\""`, `"f"`}}, "\"\"=1 \"d\"=1 \"e\"=1 a\xff=1 b\xff/ e=1", ""},
	} {
		_, err := w.apply(tt.choice)
		if got := w.list(w.root); got != tt.want || (err == nil) != (tt.err == "") || err != nil && err.Error() != tt.err {
			t.Errorf("%q: %v\ngot  %q\nwant %q", tt.choice, err, got, tt.want)
		}
	}
}

// What a command makes of permissions keeps nothing else from being applied.
func TestApplyPartBesideShut(t *testing.T) {
	t.Parallel()
	for _, mode := range []os.FileMode{0o500, 0o400, 0o300, 0} {
		w := newWorkspace(t, "d/x 1", "f 1")
		for _, line := range []string{"f 2", "d/ opaque"} {
			w.write(w.upper, line)
		}
		shut := filepath.Join(w.upper, "d")
		w.write(shut, "y 1")
		w.check(os.Chmod(shut, mode))
		t.Cleanup(func() { os.Chmod(shut, 0o700) })
		if _, err := w.apply(Choice{Paths: []string{"f"}}); err != nil {
			t.Errorf("%o: %v", mode, err)
		}
		if info, err := os.Stat(shut); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%o: %v, %v", mode, info, err)
		}
	}
}

// What a directory made anew hides stays hidden when a part of it is applied, also in the new directories below it.
func TestApplyPartOfMadeAnew(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, "d/e/e/old 1", "d/e/shut/old 2", "d/old 3")
	for _, line := range []string{"d/ opaque", "d/x 4", "d/e/e/y 5", "d/e/shut/"} {
		w.write(w.upper, line)
	}
	shut := filepath.Join(w.upper, "d/e/shut")
	for _, part := range []string{"d/x", "d/e/e/y"} {
		w.check(os.Chmod(shut, 0)) // only root can tell what it hides
		_, err := w.apply(Choice{Paths: []string{part}})
		w.check(err)
		w.check(os.Chmod(shut, 0o700))
		r := w.open()
		_, err = r.Changes(context.Background(), anything)
		w.check(err)
		of := &Comparison{Upper: r.trees[0].upper, Lower: r.trees[0].lower}
		for _, old := range []string{"d/e/e/old", "d/e/shut/old", "d/old"} {
			if n, err := of.merged(old); n.Kind != Absent || err != nil {
				t.Errorf("after %s: the review has %s again: %v, %v", part, old, n.Kind, err)
			}
		}
		if n, err := of.merged(part); n.Kind != File || err != nil {
			t.Errorf("the review has no %s: %v", part, err)
		}
		r.Close()
	}
	_, err := w.apply(Choice{Ours: []string{"d/e/shut"}})
	w.check(err)
	if got, want := w.list(w.root), "d/ d/e/ d/e/e/ d/e/e/y=5 d/e/shut/ d/e/shut/old=2 d/x=4"; got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// A whiteout of what the host has removed, too, with its directory, is not carried over.
func TestApplyLeavesWhiteouts(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, "d/e/f 1", "d/e/g 1")
	for _, line := range []string{"d/e/f -", "d/e/g 2"} {
		w.write(w.upper, line)
	}
	w.check(os.RemoveAll(filepath.Join(w.root, "d")))
	out, err := w.apply(Choice{Theirs: []string{"d"}})
	if err != nil || w.list(w.root) != "d/ d/e/ d/e/g=2" {
		t.Errorf("%+v, %v: %s", out, err, w.list(w.root))
	}
}

// A part of what removes a repository leaves the objects, and what makes it one, where it leaves anything of it.
func TestApplyPartOfRepository(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		choice Choice
		ok     bool
	}{
		{Choice{}, true},
		{Choice{Paths: []string{"sub/.git"}}, true},
		{Choice{Paths: []string{"sub/.git/HEAD"}}, false},
		{Choice{Ours: []string{"sub/f"}}, true},
		{Choice{Paths: []string{"sub/.git/objects"}}, false},
		{Choice{Paths: []string{"sub/.git/objects/ab/cd"}}, false},
		{Choice{Ours: []string{"sub/.git/HEAD"}}, false},
		{Choice{Ours: []string{"sub/.git/refs/x"}}, false},
	} {
		w := newWorkspace(t, "sub/f 1", "sub/.git/HEAD x", "sub/.git/refs/x 1", "sub/.git/objects/ab/cd 1")
		w.write(w.upper, "sub -")
		out, err := w.apply(tt.choice)
		if (err == nil) != tt.ok {
			t.Errorf("%+v: %v", tt.choice, err)
		}
		_, err = os.Stat(filepath.Join(w.root, "sub/.git/objects/ab/cd"))
		why := func(c Change) bool {
			return c.Refused == passesOver || strings.HasPrefix(c.Refused, "without the other changes it takes objects")
		}
		if !tt.ok && (err != nil || !slices.ContainsFunc(out.Refused, why)) {
			t.Errorf("%+v: %+v, %v", tt.choice, out, err)
		}
	}
}

// What git pack-refs moved stays where the file it moved it to is not applied.
func TestApplyPartOfPackedRefs(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{".git/", "deep/r.git/", ""} {
		for _, tt := range []struct {
			paths, ours []string
			ok          bool
		}{
			{nil, nil, true},
			{nil, []string{"packed-refs"}, false},
			{nil, []string{"packed-refs", "refs/heads"}, true},
			{[]string{"refs/heads"}, nil, false},
			{[]string{"refs/heads/main"}, nil, false},
			{[]string{"refs/heads/was"}, nil, false},
			{[]string{"refs/heads/main", "packed-refs"}, nil, true},
			{[]string{"refs/heads/new"}, nil, true},
		} {
			w := newWorkspace(t, dir+"HEAD ref: refs/heads/main", dir+"objects/", dir+"refs/heads/main 1", dir+"refs/heads/was 1", dir+"refs/heads/new 1")
			for _, line := range []string{"refs/heads/main -", "refs/heads/was/in 2", "refs/heads/new 2", "packed-refs main was"} {
				w.write(w.upper, dir+line)
			}
			var choice Choice
			for _, p := range tt.paths {
				choice.Paths = append(choice.Paths, dir+p)
			}
			for _, p := range tt.ours {
				choice.Ours = append(choice.Ours, dir+p)
			}
			out, err := w.apply(choice)
			if (err == nil) != tt.ok {
				t.Errorf("%+v: %v", choice, err)
			}
			why := func(c Change) bool { return strings.HasPrefix(c.Refused, "without the change of packed-refs") }
			if _, err := os.Stat(filepath.Join(w.root, dir, "refs/heads/main")); !tt.ok && (err != nil || !slices.ContainsFunc(out.Refused, why)) {
				t.Errorf("%+v: %+v, %v", choice, out, err)
			}
		}
	}
}

// A directory that goes away as a whole makes no repository of what is beside it.
func TestApplyPartOfNoRepository(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, "p/objects/x 1", "p/refs/x 1")
	for _, line := range []string{"p/objects -", "p/refs -", "p/HEAD ref: refs/heads/main"} {
		w.write(w.upper, line)
	}
	if out, err := w.apply(Choice{Ours: []string{"p/refs", "p/objects"}}); !errors.Is(err, ErrBlocked) {
		t.Errorf("a part makes a repository: %+v, %v", out, err)
	}
	if out, err := w.apply(Choice{}); err != nil {
		t.Errorf("%+v, %v", out, err)
	}
}

// Commands that go on in a review write to what was applied of it. An undo is refused as a whole then, and the review
// stays one that can be used.
func TestUndoAfterPartWrittenAgain(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		again string
		ok    bool
	}{
		{"made/new 7", false}, {"edit 7", false}, {"edit -", false}, {"fresh/deep/more 7", false},
		{"fresh -", false}, {"fresh 7", false},
		{"fresh/more 7", true}, {"made/more 7", true}, {"gone 7", true},
	} {
		t.Run(tt.again, func(t *testing.T) {
			t.Parallel()
			w := newWorkspace(t, both...)
			w.fill()
			before := w.list(w.root)
			_, err := w.apply(Choice{Paths: []string{"edit", "made", "fresh/deep", "gone"}})
			w.check(err)
			after := w.list(w.root)
			w.check(os.RemoveAll(filepath.Join(w.upper, strings.Fields(tt.again)[0])))
			w.write(w.upper, tt.again)
			_, changed, err := w.shelf.Undo(context.Background())
			switch got := w.list(w.root); {
			case tt.ok && (err != nil || got != before):
				t.Errorf("%v: %q\nwant %q", err, got, before)
			case !tt.ok && (!errors.Is(err, ErrUndo) || len(changed) == 0 || got != after):
				t.Errorf("%v, %q: %q\nwant %q", err, changed, got, after)
			}
			r := w.open()
			defer r.Close()
			w.check(r.Discard(context.Background()))
		})
	}
}

// Directories that somebody shuts after a part was applied: an undo is refused as a whole, but for who may write anyway.
func TestUndoAfterPartIntoShut(t *testing.T) {
	t.Parallel()
	for _, in := range []string{"upper", "root"} {
		w := newWorkspace(t, "a/x 1", "b/y 1", "c/z 1")
		for _, line := range []string{"a/x 2", "b/y 2", "c/z 2"} {
			w.write(w.upper, line)
		}
		before := w.list(w.root)
		_, err := w.apply(Choice{Paths: []string{"a", "b"}})
		w.check(err)
		after := w.list(w.root)
		dir := filepath.Join(map[string]string{"upper": w.upper, "root": w.root}[in], "a")
		w.check(os.Chmod(dir, 0o555))
		t.Cleanup(func() { os.Chmod(dir, 0o755) })
		_, changed, err := w.shelf.Undo(context.Background())
		switch got := w.list(w.root); {
		case os.Geteuid() == 0 && (err != nil || got != before):
			t.Errorf("%s: %v: %q", in, err, got)
		case os.Geteuid() != 0 && (!errors.Is(err, ErrUndo) || !slices.Equal(slices.Compact(changed), []string{"a/x"}) || got != after):
			t.Errorf("%s: %v, %q: %q", in, err, changed, got)
		}
		w.open().Close()
	}
}

// What cannot be moved as it is, and is made anew, has the attributes that were shown.
func TestApplyPartWithAttributes(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	for _, line := range []string{"d/x 1", "d/y 1", "f text"} {
		w.write(w.upper, line)
	}
	w.check(os.Link(filepath.Join(w.upper, "f"), filepath.Join(w.upper, "g")))
	for _, p := range []string{"d", "f"} {
		w.check(unix.Setxattr(filepath.Join(w.upper, p), "user.one", []byte("1"), 0))
		w.check(unix.Setxattr(filepath.Join(w.upper, p), "user.overlay.x", []byte("1"), 0))
	}
	_, err := w.apply(Choice{Paths: []string{"d/x", "f"}})
	w.check(err)
	if got, want := w.list(w.root), "d/ d/x=1 f=text"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	r, err := openTree(w.root, false)
	w.check(err)
	defer r.close()
	for _, p := range []string{"d", "f"} {
		if got, err := r.Attributes(p); err != nil || len(got) != 1 || got["user.one"] != "1" {
			t.Errorf("%s has %q, %v", p, got, err)
		}
		if n, err := unix.Lgetxattr(filepath.Join(w.root, p), "user.overlay.x", nil); err == nil {
			t.Errorf("%s has the overlay's attribute of %d bytes", p, n)
		}
	}
}

// What an apply of a part does to the directories around it is no conflict later, and is nothing that the host has put there.
// What changes its kind can be applied in part, but for a file in the place of what stays.
func TestApplyPartAfterPart(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name        string
		upper, then []string // what commands write before and after the first apply
		first       string
		half, whole string
	}{
		{"a directory becomes a file", []string{"d/new 2", "f 2"}, []string{"d 3"}, "d/new", "d/ d/in/ d/in/x=1 d/new=2 d/y=1 f=1", "d=3 f=2"},
		{"a directory is made anew", []string{"d -"}, []string{"d/ opaque", "d/z 3"}, "d/in/x", "d/ d/in/ d/y=1 f=1", "d/ d/z=3 f=1"},
		{"a part of a directory that becomes a file", []string{"d 2"}, nil, "d/in/x", "d/ d/in/ d/y=1 f=1", "d=2 f=1"},
		{"a part of a file that becomes a directory", []string{"f/ opaque", "f/a 2", "f/b/c 2"}, nil, "f/b", "d/ d/in/ d/in/x=1 d/y=1 f/ f/b/ f/b/c=2", "d/ d/in/ d/in/x=1 d/y=1 f/ f/a=2 f/b/ f/b/c=2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorkspace(t, "d/in/x 1", "d/y 1", "f 1")
			before := w.list(w.root)
			for _, line := range tt.upper {
				w.write(w.upper, line)
			}
			for range 2 {
				_, err := w.apply(Choice{Paths: []string{tt.first}})
				if got := w.list(w.root); err != nil || got != tt.half {
					t.Fatalf("%v\ngot  %q\nwant %q", err, got, tt.half)
				}
				if tt.then == nil { // commands have not written there again
					_, changed, err := w.shelf.Undo(context.Background())
					if got := w.list(w.root); err != nil || len(changed) > 0 || got != before {
						t.Fatalf("undo: %v, %q\ngot  %q\nwant %q", err, changed, got, before)
					}
					continue
				}
				w.check(os.RemoveAll(filepath.Join(w.upper, "d")))
				for _, line := range tt.then {
					w.write(w.upper, line)
				}
				break
			}
			if out, err := w.apply(Choice{}); err != nil || !out.Complete || w.list(w.root) != tt.whole {
				t.Errorf("the rest: %v, %+v\ngot  %q\nwant %q", err, out, w.list(w.root), tt.whole)
			}
		})
	}
}
