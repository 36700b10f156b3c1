package view

import (
	"fmt"
	"math/rand/v2"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/workspace"
)

// linkTargets are where a link can lead, with what else there is. What they name "T" the link
// leads to.
var linkTargets = map[string][]string{
	"a directory":                      {"/w/d T"},
	"a file":                           {"/w/f file"},
	"another root":                     {"-> /s", "/s"},
	"the workspace":                    {"-> /w"},
	"the workspace, from within":       {"-> ."},
	"all":                              {"-> /"},
	"a bind":                           {"-> /b"},
	"in a bind":                        {"-> /b/x", "/b/x"},
	"a bind, missing":                  {"-> /b/x/y"},
	"above a bind":                     {"-> /"},
	"nowhere":                          {"-> /w/none"},
	"nowhere, relative":                {"-> none"},
	"nowhere, deep":                    {"-> /w/none/of/these"},
	"nowhere, in another root":         {"-> /s/none"},
	"nowhere, out of reach":            {"-> /o/none"},
	"out of reach":                     {"-> /o/x", "/o/x file"},
	"beneath a file":                   {"-> /w/f/x/y", "/w/f file"},
	"a chain":                          {"-> /w/l1", "/w/l1 -> l2", "/w/l2 -> d", "/w/d"},
	"a chain to nowhere":               {"-> /w/l1", "/w/l1 -> /w/l2", "/w/l2 -> none"},
	"a chain to a root":                {"-> /w/l1", "/w/l1 -> /s"},
	"a chain out of reach":             {"-> /w/l1", "/w/l1 -> /o/x", "/o/x"},
	"a chain by what is out of reach":  {"-> /o/l", "/o/l -> /w/none"},
	"through a directory":              {"-> /w/l1/x", "/w/l1 -> d", "/w/d/x"},
	"through a directory, missing":     {"-> /w/l1/x", "/w/l1 -> d", "/w/d"},
	"through a directory to nowhere":   {"-> /w/l1/x", "/w/l1 -> none"},
	"itself":                           {"-> /w/l1", "/w/l1 -> l1"},
	"a circle":                         {"-> /w/l1", "/w/l1 -> l2", "/w/l2 -> l1"},
	"left by ..":                       {"-> /w/d/../e", "/w/d", "/w/e"},
	"left by .., missing":              {"-> /w/d/../e", "/w/d"},
	"back from nowhere":                {"-> none/../d", "/w/d"},
	"back from nowhere, to a file":     {"-> /w/none/x/../../f", "/w/f file"},
	"back from nowhere, to a link":     {"-> /w/none/../l1", "/w/l1 -> d", "/w/d"},
	"back from nowhere, to nowhere":    {"-> /w/none/../l1", "/w/l1 -> gone"},
	"what is protected":                {"-> /w/.vscode"},
	"in what is protected":             {"-> /w/.vscode/x", "/w/.vscode/x file"},
	"in what is protected, missing":    {"-> /w/.vscode/x/y", "/w/.vscode"},
	"in a directory that is shut":      {"-> /w/shut/x", "/w/shut shut", "/w/shut/x file"},
	"through a directory that is shut": {"-> /w/shut/x/../../d", "/w/shut shut", "/w/d"},
	"a chain to what is shut":          {"-> /w/l1", "/w/l1 -> shut/x/y", "/w/shut shut"},
	"in the git directory":             {"-> /w/.git/x"},
	"the git directory":                {"-> /w/.git"},
}

// linkPlaces are where the link lies, and what must be held there.
var linkPlaces = []string{
	"/w/.claude", "/w/.envrc", "/w/.bashrc", "/w/x.lock", "/w/sub/y.lock", "/w/.git/hooks", "/w/.git/config", "/w/hk", "/w/n/.git/hooks", "/w/n/hk",
	"/w/.cursor/rules", "/w/.cursor/a/b", "/home/u/.bashrc", "/home/u/.config", "/home/u/.config/git", "/home/u/.ssh/rc", "/s/.claude", "/b/.claude", "/w/ci/a", "/w/ci/b/c",
}

// linked makes a machine with those links, and the table for a definition that shows it all.
func linked(lines ...string) (*machine, *View, error) {
	m := newMachine(append([]string{"/w/src/main.go file", "/w/.git/objects", "/w/n/.git/objects", "/s/file file", "/b/file file", "/o/file file", "/home/u/file file"}, lines...)...)
	m.workTrees = []string{"/w/n"}
	m.obeyed = map[string][]workspace.GitControl{"/w": {control("/w/hk", "hooks", false)}, "/w/n": {control("/w/n/hk", "hooks", false)}}
	in := input(Definition{ProtectPaths: []string{"**/*.lock", "ci/"}, BindPaths: []Bind{{Host: "/b", Writable: true}, {Host: "/home/u", Container: "/h", Writable: true}}})
	in.Roots = append(in.Roots, workspace.RootDir{Path: "/s", Declared: "/s", Field: "writable[0]", Writable: true})
	v, err := m.table(in)
	return m, v, err
}

var quoted = regexp.MustCompile(`"(/[^"]*)"`)

// heldLinks checks that a table holds what the notes on it say, and that the notes say what it
// does not hold.
func heldLinks(t *testing.T, lines []string) {
	t.Helper()
	m, v, err := linked(lines...)
	if err != nil {
		if e := err.(*shared.Error); e.Attribute == "" || !quoted.MatchString(e.Message) {
			t.Errorf("%q: refused without a name: %v", lines, err)
		}
		return
	}
	spec := &shared.Spec{Table: v.Table()}
	writable := func(p string) bool { // by the finished table alone
		return slices.ContainsFunc(spec.Table, func(e shared.Entry) bool {
			if !e.Access.Shows() || !paths.Inside(e.Source, p) {
				return false
			}
			cover, shown := shared.Cover(spec.Table, paths.Move(p, e.Source, e.Path))
			return shown == p && cover.Access == shared.ReadWrite
		})
	}
	var open, led []string
	for _, note := range v.Notes {
		var named []string
		for _, found := range quoted.FindAllStringSubmatch(note, -1) {
			named = append(named, found[1])
		}
		if n := len(named); n != len(slices.Compact(slices.Sorted(slices.Values(named)))) {
			t.Errorf("%q: a path is named twice: %s", lines, note)
		}
		for _, p := range named {
			way := m.Follow(p)
			links := slices.Concat(way.Links, way.DotDots)
			switch {
			case strings.Contains(note, "is read-only inside"):
				if writable(p) {
					t.Errorf("%q: %q can be written: %s\n%s", lines, p, note, text(v))
				}
			case strings.Contains(note, "these are not protected") || strings.HasSuffix(note, "can be written by a command"):
				open = append(open, p)
				if way.Err == nil && !writable(way.End) && !slices.ContainsFunc(links, writable) {
					t.Errorf("%q: %q cannot be written: %s\n%s", lines, p, note, text(v))
				}
			case strings.Contains(note, "protected"):
				led = append(led, p)
				if way.Err != nil || writable(way.End) {
					t.Errorf("%q: %q can be written: %s\n%s", lines, way.End, note, text(v))
				}
			default:
				t.Errorf("%q: a note of another kind: %s", lines, note)
			}
		}
	}
	for _, p := range linkPlaces {
		what, there := m.at[p]
		if !there && path.Base(path.Dir(p)) != ".git" || what == "" && p == "/home/u/.config" || len(m.Follow(path.Dir(p)).Links) > 0 {
			continue
		}
		if p == "/home/u/.config" { // of which some is protected
			p += "/git"
		}
		way := m.Follow(p)
		if way.Err == nil && writable(way.End) && !slices.Contains(open, p) {
			t.Errorf("%q: %q can be written, to which %q leads, and no note says so\n%s", lines, way.End, p, text(v))
		}
		for _, link := range way.Links {
			told := slices.Contains(open, p) || slices.Contains(led, p)
			if top := p == "/w/hk" || strings.HasPrefix(p, "/w/.git/"); writable(link) && (top || !told) {
				t.Errorf("%q: %q can be replaced, by which %q leads to %q\n%s", lines, link, p, way.End, text(v))
			}
		}
	}
	for _, h := range v.Holds {
		if dir := m.Follow(path.Dir(h.Path)); dir.Kind == File {
			t.Errorf("%q: nothing can be held at %q", lines, h.Path)
		} else if dir.Kind == Directory && path.Base(h.Path) == ".gitignore" && !h.InStub {
			t.Errorf("%q: %q is in somebody's directory", lines, h.Path)
		}
	}
	if err := (&shared.Spec{Sandbox: "s", Session: shared.Session{ID: "1"}, Table: spec.Table}).Validate(); err != nil {
		t.Errorf("%q: %v", lines, err)
	}
	// An engine that protects nothing within what is writable makes none of it true.
	if _, err := v.LeaveUnprotected(spec.Table); err != nil {
		t.Errorf("%q: %v", lines, err)
	}
	for _, note := range v.Notes {
		if strings.Contains(note, "is protected") || strings.Contains(note, "is read-only inside") {
			t.Errorf("%q: not with each engine: %s", lines, note)
		}
	}
}

// By links a command could have any number of directories made before the next one.
func TestFarFromWhatIsThere(t *testing.T) {
	t.Parallel()
	var lines []string
	for i := range 40 {
		lines = append(lines, fmt.Sprintf("/w/%d.lock -> x%d%s", i, i, strings.Repeat("/d", 30)))
	}
	if _, v, err := linked(lines...); err != nil || !slices.ContainsFunc(v.Holds, func(h Hold) bool { return h.Path == "/w/x7"+strings.Repeat("/d", 30) }) {
		t.Errorf("the control: %v", err)
	}
	for i := range lines {
		lines[i] += strings.Repeat("/d", 30)
	}
	_, _, err := linked(lines...)
	if e, ok := err.(*shared.Error); !ok || !strings.Contains(e.Message, `lie in "/w"`) || e.Hint == "" {
		t.Errorf("%v", err)
	}
}

// A note says that something is protected of what the table protects where it leads in the
// end, and what the table does not protect a note names: for each layout of links.
func TestNotesOnLinksAreTrue(t *testing.T) {
	t.Parallel()
	for _, at := range linkPlaces {
		for name, lines := range linkTargets {
			first, what, _ := strings.Cut(lines[0], " ")
			if first != "->" {
				lines = append([]string{"-> " + first}, strings.TrimSuffix(first+" "+strings.TrimPrefix(what, "T"), " "))
			}
			lines = append([]string{at + " " + lines[0]}, lines[1:]...)
			if slices.ContainsFunc(lines[1:], func(line string) bool { p, _, _ := strings.Cut(line, " "); return paths.Inside(at, p) }) {
				continue // it would lie in itself
			}
			t.Run(at+" leads to "+name, func(t *testing.T) { heldLinks(t, lines) })
		}
	}
}

// Likewise for links at random, that lead to one another.
func TestNotesOnManyLinksAreTrue(t *testing.T) {
	t.Parallel()
	names := append([]string{"/w/a", "/w/b", "/w/d", "/w/d/e", "/s/a", "/b/a", "/o/a", "/w/sub/c", "/w/.vscode", "/w/.vscode/z"}, linkPlaces...)
	seeds := uint64(20_000)
	if testing.Short() {
		seeds = 1000
	}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 0))
		at := map[string]string{}
		for range 1 + r.IntN(6) {
			p := names[r.IntN(len(names))]
			to := names[r.IntN(len(names))]
			switch r.IntN(6) {
			case 0:
				to = path.Base(to)
			case 1:
				to += "/none"
			case 2:
				to = path.Dir(to) + "/../" + strings.TrimPrefix(to, "/")
			}
			at[p] = "-> " + to
			if r.IntN(5) == 0 {
				at[p] = []string{"", "file"}[r.IntN(2)]
			}
		}
		var lines []string
		for p, what := range at {
			inside := func(dir string) bool { return dir != p && paths.Inside(dir, p) && at[dir] != "" }
			if !slices.ContainsFunc(slices.Collect(paths.Up(p)), inside) {
				lines = append(lines, strings.TrimSuffix(p+" "+what, " "))
			}
		}
		slices.Sort(lines)
		heldLinks(t, lines)
		if t.Failed() {
			t.Fatal(fmt.Sprint("seed ", seed))
		}
	}
}
