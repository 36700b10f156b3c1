package review

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
)

// anything are Rules that forbid nothing.
var anything = Rules{
	Denied:          func(string, bool) string { return "" },
	Behind:          func(string, string) string { return "" },
	IsGitControlled: func(string) bool { return false },
	Hidden:          func(string) bool { return false },
}

// layer is a tree in memory: what lies at each path.
type layer map[string]Node

func (l layer) Names(dir string) (names []string, err error) {
	for p := range l {
		if path.Dir(p) == dir && p != "." {
			names = append(names, path.Base(p))
		}
	}
	return names, nil
}

func (l layer) Look(p string) (Node, error) {
	if l[path.Dir(p)].Mode == 0o400 {
		return Node{}, &fs.PathError{Op: "stat", Path: p, Err: fs.ErrPermission}
	}
	return l[p], nil
}

func (l layer) Attributes(string) (map[string]string, error) { return nil, nil }

// parse makes a layer of lines such as "d/", "f 644 text", "l -> target", "gone -" and "o/ opaque". A text that begins
// with ! is of a file that has changed lately.
func parse(lines ...string) layer {
	l := layer{".": {Kind: Directory}}
	for i, line := range lines {
		p, what, _ := strings.Cut(line, " ")
		n := Node{Kind: File, Mode: 0o644, ino: uint64(i + 1), links: 1, ctime: 1, Size: int64(len(what)), Target: ""}
		target, link := strings.CutPrefix(what, "-> ")
		switch {
		case strings.HasSuffix(p, "/"):
			p = strings.TrimSuffix(p, "/")
			n.Kind, n.Mode, n.opaque = Directory, 0o755, what == "opaque"
			if what == "shut" {
				n.Mode = 0o400
			}
			if what == "!" {
				n.ctime = 9
			}
		case link:
			n.Kind, n.Target = Symlink, target
		case what == "-":
			n.Kind = Whiteout
		case what == "socket":
			n.Kind = Socket
		case what == "device":
			n.Kind = Device
		case what == "fifo":
			n.Kind = Fifo
		default:
			fmt.Sscanf(what, "%o", &n.Mode)
			if strings.Contains(what, "!") {
				n.ctime = 9
			}
		}
		l[p] = n
	}
	return l
}

func compare(t *testing.T, upper, lower layer) []Change {
	t.Helper()
	lower["."] = Node{Kind: Directory, ctime: 9}
	c := &Comparison{Root: "/w", Upper: upper, Lower: lower, Begun: 5, Known: map[string]appliedPath{"known": {Kind: File, CTime: 9, Ino: lower["known"].ino}},
		Same:   func(p string, _ *int64) (bool, error) { return upper[p].Size == lower[p].Size, nil },
		Denied: func(p string, _ bool) string { return map[string]string{"/w/hooks": "protected"}[p] },
	}
	changes, err := c.Changes()
	if err != nil {
		t.Fatal(err)
	}
	return judgeLinks(c, changes)
}

func judgeLinks(c *Comparison, changes []Change) []Change {
	for i := range changes {
		if one := &changes[i]; one.New.Kind == Symlink {
			one.Refused = refusedLink(c.Root, path.Join(c.Root, one.path), one.New.Target, func(full string) (Node, error) {
				return c.merged(strings.TrimPrefix(strings.TrimPrefix(full, c.Root), "/"))
			}, &anything)
		}
	}
	return changes
}

func TestChanges(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name         string
		upper, lower layer
		want         string
	}{
		{"nothing", parse("d/"), parse("d/", "d/f 644"), ""},
		{"a new file", parse("d/", "d/n 755"), parse("d/"), "added    d/n (executable)"},
		{"copied, not changed", parse("f 644 a"), parse("f 644 b"), ""},
		{"changed", parse("f 644 ab"), parse("f 644 b"), "modified f"},
		{"permissions", parse("f 600 a"), parse("f 644 b"), "mode     f (mode 0644 -> 0600)"},
		{"removed", parse("f -"), parse("f 644"), "deleted  f"},
		{"a mark of nothing", parse("f -"), parse(), ""},
		{"a tree removed", parse("d -"), parse("d/", "d/f 644", "d/e/", "d/e/g 644"), "deleted  d (directory)|deleted  d/e (directory)|deleted  d/e/g|deleted  d/f"},
		{"a directory made anew", parse("d/ opaque", "d/n 644"), parse("d/", "d/f 644"), "deleted  d/f|added    d/n"},
		{"a directory made anew, with one in it", parse("d/ opaque", "d/e/", "d/e/n 644"), parse("d/", "d/e/", "d/e/f 644", "d/g 644"), "deleted  d/e/f|added    d/e/n|deleted  d/g"},
		{"and one in that", parse("d/ opaque", "d/e/", "d/e/e/"), parse("d/", "d/e/", "d/e/e/", "d/e/e/f 644"), "deleted  d/e/e/f"},
		{"a file in it for a directory", parse("d/ opaque", "d/e/", "d/e/x 644"), parse("d/", "d/e/", "d/e/x/", "d/e/x/f 644"), "modified d/e/x (directory -> file)|deleted  d/e/x/f"},
		{"one in it that both made", parse("d/ opaque", "d/e/", "d/e/n 644"), parse("d/", "d/e/ !", "d/e/f 644 !"), "added    d/e/n"},
		{"a directory made by both", parse("d/ opaque", "d/n 644"), parse("d/ !", "d/f 644 !"), "added    d/n"},
		{"a file for a directory", parse("d 644"), parse("d/", "d/f 644"), "modified d (directory -> file)|deleted  d/f"},
		{"a directory for a file", parse("d/", "d/f 644"), parse("d 644"), "modified d (file -> directory)|added    d/f"},
		{"a link that stays", parse("a/", "a/l -> ../b"), parse("b 644"), "added    a (directory)|added    a/l (symlink to \"../b\")"},
		{"absolute, and inside", parse("l -> /w/b"), parse("b 644"), "added    l (symlink to \"/w/b\")"},
		{"a link that leads out", parse("l -> ../b"), parse(), "added    l (symlink to \"../b\")!leads out"},
		{"by another one", parse("a/", "a/l -> ../up/x"), parse("up -> /etc"), "added    a (directory)|added    a/l (symlink to \"../up/x\")!leads out"},
		{"by one that the review has", parse("up -> .", "l -> up/../../x"), parse(), "added    l (symlink to \"up/../../x\")!leads out|added    up (symlink to \".\")"},
		{"out and back in", parse("p/", "p/s -> ..", "l -> /usr/../w/p/s/../b", "m -> ../v/../w/b"), parse("b 644"),
			`added    l (symlink to "/usr/../w/p/s/../b")!leads out|added    m (symlink to "../v/../w/b")!leads out|added    p (directory)|added    p/s (symlink to "..")`},
		{"from above", parse("a/", "a/l -> ../../w/b", "m -> /w/./b"), parse("b 644"), `added    a (directory)|added    a/l (symlink to "../../w/b")|added    m (symlink to "/w/./b")`},
		{"out once what is missing is a link", parse("l -> none/../p/b"), parse("p/"), `added    l (symlink to "none/../p/b")!has a ".." behind a name`},
		{"out once a directory is a link", parse("p/", "p/l -> .././.../d/../../b"), parse(".../", ".../d/", "b 644"), `added    p (directory)|added    p/l (symlink to ".././.../d/../../b")!has a ".." behind a name`},
		{"what is no file", parse("d device", "f fifo", "s socket"), parse(), "added    d (device)!a device|added    f (fifo)|added    s (socket)!a socket"},
		{"rights of others", parse("f 4755"), parse("f 755 a"), "modified f (mode 0755 -> 4755)!set-user-ID"},
		{"the rights that it had, for other contents", parse("g 2755 ab"), parse("g 2755 b"), "modified g!set-group-ID"},
		{"the rights that it had", parse("f 4700 b"), parse("f 4755 b"), "mode     f (mode 4755 -> 4700)"},
		{"a program for a directory", parse("d 755"), parse("d/"), "modified d (directory -> file, executable)"},
		{"a link for a directory", parse("d -> x"), parse("d/"), "modified d (directory -> symlink, symlink to \"x\")"},
		{"a link for a link", parse("d -> x"), parse("d -> y"), "modified d (symlink to \"x\")"},
		{"writable by others", parse("f 666", "g 777 x"), parse("g 644 xy"), "added    f (mode 0666)|modified g (mode 0644 -> 0777)"},
		{"a program that others write, or with a bit", parse("f 775", "g 1644", "h 700"), parse(), "added    f (executable, mode 0775)|added    g (mode 1644)|added    h (executable)"},
		{"closed to its owner", parse("d 500", "f 400", "g 004"), parse(), "added    d (executable, mode 0500)|added    f (mode 0400)|added    g (mode 0004)"},
		{"shut", parse("d/ shut", "d/f 644", "e/ shut", "e/f 644", "g 644"), parse("d/", "d/f 644"),
			"mode     d (mode 0755 -> 0400)!it cannot be read|added    e (directory, mode 0400)!it cannot be read|added    g"},
		{"shut on the host", parse("d/", "d/f 644", "e -"), parse("d/ shut", "d/f 644", "e/ shut", "e/f 644"),
			"mode     d (mode 0400 -> 0755)!it cannot be read|deleted  e (directory)!it cannot be read"},
		{"protected", parse("hooks/", "hooks/h 755"), parse(), "added    hooks (directory)!protected|added    hooks/h (executable)"},
		{"changed by the host", parse("f 644 ab"), parse("f 644 !"), "modified f?changed"},
		{"made by both", parse("f 644 ab"), parse("f 644 !"), "modified f?changed"},
		{"removed by the host", parse("f 644 ab"), parse(), "added    f"},
		{"in a directory of which the host has changed the names", parse("d/", "d/f 644 ab", "e -"), parse("d/ !", "d/f 644 b", "e/ !", "e/f 644"), "modified d/f|deleted  e (directory)|deleted  e/f"},
		{"a file for a directory that the host has changed", parse("d 644"), parse("d/ !", "d/f 644"), "modified d (directory -> file)?changed|deleted  d/f"},
		{"removed, and changed by the host", parse("d -"), parse("d/", "d/f 644 !"), "deleted  d (directory)|deleted  d/f?changed"},
		{"changed by ourselves", parse("known 644 ab"), parse("known 644 !"), "modified known"},
	} {
		var lines []string
		for _, c := range compare(t, tt.upper, tt.lower) {
			c.Shown = c.path
			line := c.Line()
			if c.Refused != "" {
				line += "!" + c.Refused
			}
			if c.Conflict != "" {
				line += "?" + c.Conflict
			}
			lines = append(lines, line)
		}
		want := strings.Split(tt.want, "|")
		if tt.want == "" {
			want = nil
		}
		ok := len(lines) == len(want)
		for i := range want {
			said, why, _ := strings.Cut(want[i], "!")
			said, conflict, _ := strings.Cut(said, "?")
			ok = ok && strings.HasPrefix(lines[i], said) && strings.Contains(lines[i][len(said):], why) && strings.Contains(lines[i][len(said):], conflict) &&
				(why+conflict == "") == (lines[i] == said)
		}
		if !ok {
			t.Errorf("%s:\ngot  %q\nwant %q", tt.name, lines, want)
		}
	}
}

// A review with too many changes, or with too long names, is an error that names the bound, and the directory that
// has most of them.
func TestBounds(t *testing.T) {
	t.Parallel()
	few := layer{"d": {Kind: Directory, Mode: 0o755}, "d/f": {Kind: File}, "d/l": {Kind: Symlink, Target: "f"}}
	for _, tt := range []struct {
		upper, lower layer
		used         usage
		want         string
	}{
		{few, layer{}, usage{changes: maxChanges - 3, text: maxText - 11}, ""},
		{few, layer{}, usage{changes: maxChanges - 2, text: 0}, "more than 200000 paths; remove some"},
		{few, layer{}, usage{changes: 0, text: maxText - 10}, `more than 64 MiB, most of them in "d"; remove some`},
		{parse("a 644", "m/", "m/d/", "m/d/a 644", "m/d/b 644", "m/d/c/", "m/d/c/d 644", "m/d/e 644", "z 644"), layer{}, usage{changes: maxChanges - 8, text: 0}, `more than 200000 paths, most of them in "m/d"; remove some`},
		{layer{"d": {Kind: Whiteout}}, maps.Clone(few), usage{changes: maxChanges - 2, text: 0}, "more than 200000 paths"},
		{layer{"d": {Kind: Whiteout}}, maps.Clone(few), usage{changes: 0, text: maxText - 10}, "more than 64 MiB"},
	} {
		tt.lower["."] = Node{Kind: Directory, Mode: 0o755}
		tt.upper["."] = tt.lower["."]
		c := &Comparison{Root: "/w", Upper: tt.upper, Lower: tt.lower, used: tt.used, Denied: anything.Denied}
		changes, err := c.Changes()
		if (tt.want == "") != (err == nil) || err != nil && (!strings.Contains(err.Error(), tt.want) || changes != nil) || err == nil && len(changes) != 3 {
			t.Errorf("%+v: %d changes, %v; want %q", tt.used, len(changes), err, tt.want)
		}
	}
}

// countedLayer counts the looks at it.
type countedLayer struct {
	layer
	looks int
}

func (l *countedLayer) Look(p string) (Node, error) {
	l.looks++
	return l.layer.Look(p)
}

// What is asked for in deep directories costs one look for each that the last question had not in common with it.
func TestMergedInDeepDirectories(t *testing.T) {
	t.Parallel()
	const depth = 300
	upper, lower := &countedLayer{layer: layer{}}, layer{"b": {Kind: Directory}, "b/x": {Kind: File}, "gone/x": {Kind: File}, "gone": {Kind: Directory}}
	upper.layer["gone"] = Node{Kind: Whiteout}
	at := "a"
	c := &Comparison{Root: "/w", Upper: upper, Lower: lower, Denied: anything.Denied}
	for range depth {
		upper.layer[at], upper.layer[at+"/HEAD"] = Node{Kind: Directory}, Node{Kind: File}
		at += "/a"
	}
	for dir := at; dir != "."; dir = path.Dir(dir) {
		for range 2 {
			if n, err := c.merged(dir + "/HEAD"); err != nil || (n.Kind == File) != (dir != at) {
				t.Fatalf("%s: %v, %v", dir, n, err)
			}
		}
		if n, err := c.merged(dir + "/objects"); err != nil || n.Kind != Absent {
			t.Fatalf("%s: %v, %v", dir, n, err)
		}
	}
	if upper.looks > 6*depth {
		t.Errorf("%d looks at %d directories", upper.looks, depth)
	}
	for p, want := range map[string]Kind{"b/x": File, "b/y": Absent, "gone/x": Absent, "a/HEAD": File, "none/b/x": Absent, "b": Directory} {
		if n, err := c.merged(p); err != nil || n.Kind != want {
			t.Errorf("%s: %v, %v", p, n, err)
		}
	}
}

// Symlinks that lead through too many names are refused, and keep nothing else from being applied.
func TestManySteps(t *testing.T) {
	t.Parallel()
	upper, lower := parse("far -> d/d/d/d/f", "f 644 x", "near -> f"), parse("d/", "d/d/", "d/d/d/", "d/d/d/d/", "d/d/d/d/f 644")
	lower["."] = Node{Kind: Directory}
	for _, left := range []walked{100, 3} {
		c := &Comparison{Root: "/w", Upper: upper, Lower: lower, walked: maxWalked - left*(stepCost+1), Denied: anything.Denied}
		changes, err := c.Changes()
		if err != nil || len(changes) != 3 {
			t.Fatal(changes, err)
		}
		changes = judgeLinks(c, changes)
		if far := changes[1]; (far.Refused == "") != (left == 100) || left == 3 && far.Refused != errManySteps.Error() {
			t.Errorf("%d: %q", left, far.Refused)
		}
		if f := changes[0]; f.Refused != "" {
			t.Errorf("%d: %q", left, f.Refused)
		}
	}
}

func TestDigest(t *testing.T) {
	t.Parallel()
	one := compare(t, parse("a 644 x", "b -"), parse("b 644"))
	if Digest(one) != Digest(slices.Clone(one)) || len(Digest(one)) != 32 {
		t.Errorf("%q, %q", Digest(one), Digest(one))
	}
	for i, change := range []func([]Change){
		func(c []Change) { c[0].New.ctime++ }, func(c []Change) { c[0].New.Mode = 0o755 }, func(c []Change) { c[0].path = "c" },
		func(c []Change) { c[0].Op = Modified }, func(c []Change) { c[1].Old.ino++ },
	} {
		other := slices.Clone(one)
		if change(other); Digest(other) == Digest(one) {
			t.Errorf("change %d has the same digest", i)
		}
	}
}

func TestPlan(t *testing.T) {
	t.Parallel()
	plan := func(changes []Change, chosen func(Change) bool) (string, error) {
		which := make([]bool, len(changes))
		for i, c := range changes {
			which[i] = chosen(c)
		}
		steps, err := NewPlan(changes, which, false, func(at Place) (Node, error) { return Node{Kind: Directory, Mode: 0o755}, nil },
			func(string, *Change) (uint64, error) { return 1, nil })
		if err != nil {
			return "", err
		}
		var b strings.Builder
		side := []string{"upper", "host", "slot"}
		for _, s := range steps {
			fmt.Fprintf(&b, "%s %s:%s %s:%s\n", s.Do, side[s.From.Side], s.From.Path, side[s.To.Side], s.To.Path)
		}
		return b.String(), nil
	}
	all := func(Change) bool { return true }
	inGit := func(changes []Change) []Change {
		for i := range changes {
			_, changes[i].git, _ = strings.Cut(changes[i].path, ".git/")
		}
		return changes
	}
	tree := compare(t, parse("n/", "n/a 644", "n/e/", "n/e/b 644"), parse())
	for _, tt := range []struct {
		name    string
		changes []Change
		chosen  func(Change) bool
		want    string
	}{
		{"a new tree is one rename", tree, all, "move upper:n host:n\n"},
		{"a part of it", tree, func(c Change) bool { return c.path != "n/a" }, "move slot:0 host:n\nmove upper:n/e host:n/e\n"},
		{"a file is exchanged", compare(t, parse("f 644 ab"), parse("f 644 b")), all, "move upper:f slot:0\nswap slot:0 host:f\n"},
		{"a tree that goes is one rename", compare(t, parse("d -"), parse("d/", "d/f 644")), all, "move host:d slot:0\n"},
		{"a part of it that goes", compare(t, parse("d -"), parse("d/", "d/f 644", "d/g 644")), func(c Change) bool { return c.path != "d/g" }, "move host:d/f slot:0\n"},
		{"git's objects first, its index last", inGit(compare(t, parse(".git/", ".git/HEAD 644 ab", ".git/index 644 ab", ".git/refs/", ".git/refs/x 644", ".git/objects/", ".git/objects/o 444", "w 644"),
			parse(".git/", ".git/HEAD 644", ".git/index 644", ".git/refs/", ".git/objects/"))), all,
			"move upper:.git/objects/o host:.git/objects/o\nmove upper:w host:w\nmove upper:.git/refs/x host:.git/refs/x\nmove upper:.git/HEAD slot:0\nswap slot:0 host:.git/HEAD\nmove upper:.git/index slot:1\nswap slot:1 host:.git/index\n"},
	} {
		if got, err := plan(tt.changes, tt.chosen); err != nil || got != tt.want {
			t.Errorf("%s: %v\ngot:\n%swant:\n%s", tt.name, err, got, tt.want)
		}
	}
	if _, err := plan(compare(t, parse("d 644"), parse("d/", "d/f 644")), func(c Change) bool { return c.path == "d" }); err == nil {
		t.Error("a directory became a file, with what lies in it")
	}
}

// The workspace's own directory has nothing of other roots.
func TestUnder(t *testing.T) {
	t.Parallel()
	for p, want := range map[string]bool{"a": true, "a/b": true, ".": true, "/root2/b": false} {
		if got := under(".", p); got != want {
			t.Errorf("%s: %v", p, got)
		}
	}
}
