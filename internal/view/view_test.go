package view

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/sbxhost/sbxhost/internal/glob"
	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/internal/scan"
	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/workspace"
)

var update = flag.Bool("update", false, "write the golden files anew")

// machine is a fabricated one: what lies at a path. "" is a directory, "file",
// "socket" and "device" are what they say, "shut" is a directory that its owner cannot search, "file=2" has two names, and "-> x" is a symlink.
type machine struct {
	at        map[string]string
	closed    []string // directories that the commands' user cannot search
	obeyed    map[string][]workspace.GitControl
	failed    map[string]error
	unlisted  bool
	hint      string   // about a shortage
	workTrees []string // that belong to a repository
	around    []string
}

func newMachine(lines ...string) *machine {
	m := &machine{at: map[string]string{"/": ""}}
	for _, line := range lines {
		p, what, _ := strings.Cut(line, " ")
		for dir := range paths.Up(path.Dir(p)) {
			if _, there := m.at[dir]; !there {
				m.at[dir] = ""
			}
		}
		m.at[p] = what
	}
	return m
}

func (m *machine) Follow(p string) Way {
	var way Way
	end, _, err := paths.Follow("/", p, func(at string, _ bool) (paths.Step, error) {
		if m.at[path.Dir(at)] == "shut" {
			return paths.Step{}, ErrUnsearchable
		}
		what, there := m.at[at]
		target, link := strings.CutPrefix(what, "-> ")
		if link {
			way.Links = append(way.Links, at)
		}
		if !link {
			target = ""
		}
		return paths.Step{Missing: !there, Target: target}, nil
	}, func(dir string) { way.DotDots = append(way.DotDots, dir) })
	way.End, way.Err, way.UID = end, err, 1000
	if err != nil {
		way.End = ""
	}
	what, there := m.at[end]
	if err != nil || !there {
		return way
	}
	switch {
	case what == "" || what == "shut":
		way.Kind = Directory
	case what == "socket":
		way.Kind = Socket
	case what == "device":
		way.Kind = CharDevice
	default:
		way.Kind, way.Names = File, 1
		if what == "file=2" {
			way.Names = 2
		}
	}
	return way
}

func (m *machine) Unsearchable(p string) string {
	for _, dir := range m.closed {
		if dir != p && paths.Inside(dir, p) {
			return dir
		}
	}
	return ""
}

func (m *machine) Empty(dir string) bool {
	for p := range m.at {
		if path.Dir(p) == dir && p != "/" && path.Base(p) != ".git" {
			return false
		}
	}
	return true
}

func (m *machine) LinksIn(dir string) Links {
	links := Links{All: true}
	for _, p := range slices.SortedFunc(maps.Keys(m.at), paths.Compare) {
		if strings.HasPrefix(m.at[p], "-> ") && paths.Inside(dir, p) {
			links.Symlinks = append(links.Symlinks, p)
		}
	}
	return links
}

func (m *machine) Repository(dir string) (r Repository) {
	git := path.Join(dir, ".git")
	if what, there := m.at[git]; !there || what != "" {
		return r
	}
	r.Layout = workspace.GitLayout{GitDir: git, CommonDir: git, Writable: []string{git},
		Protected: []string{git + "/config", git + "/hooks", git + "/commondir"}}
	r.Files, r.Failed = m.obeyed[dir], m.failed[dir]
	r.Unlisted, r.Hint = m.unlisted && r.Failed != nil, m.hint
	return r
}

func (m *machine) Around(string) []string { return m.around }

func (m *machine) UserControls() []workspace.GitControl { return nil }

func (m *machine) WorkTrees(string) workspace.WorkTrees {
	return workspace.WorkTrees{Worktrees: m.workTrees, All: true}
}

// search finds in the machine what the host's search finds.
func (m *machine) search(v *View) (found *SearchResult, err error) {
	found = &SearchResult{}
	if err := v.Rules(); err != nil {
		return nil, err
	}
	trees := v.Trees()
	for _, p := range slices.SortedFunc(maps.Keys(m.at), paths.Compare) {
		if !paths.InsideAny(trees, p) || m.at[path.Dir(p)] == "shut" {
			continue
		}
		what, name := m.at[p], path.Base(p)
		one := scan.Found{Path: p, Dir: what == "", Symlink: strings.HasPrefix(what, "-> ")}
		add := func(r *[]scan.Found, w scan.Reason, pattern int) {
			one.Reason, one.Pattern = w, pattern
			*r = append(*r, one)
		}
		switch {
		case what == "socket":
			add(&found.Trees, scan.Socket, -1)
		case what == "shut":
			one.UID = 1000
			add(&found.Trees, scan.Unsearched, -1)
		case name == ".git":
			one.Path = path.Dir(p)
			add(&found.Trees, scan.Repository, -1)
			one.Path = p
		case MayBeInstruction(name):
			add(&found.Trees, scan.NameMatch, -1)
		case what != "" && Sensitive(name):
			add(&found.Trees, scan.SensitiveName, -1)
		}
		for i, rules := range [][]Rule{v.Deny, v.Protect} {
			for n, rule := range rules {
				if rule.Literal == "" && matches(rule.Pattern, p) {
					add([]*[]scan.Found{&found.Trees, &found.Protected}[i], scan.Matched, n)
				}
			}
		}
	}
	err = v.HardLinkRules(found.Trees)
	return found, err
}

// table makes the table of a definition, or the error.
func (m *machine) table(in *Input) (*View, error) {
	v, err := Show(in, m)
	if err != nil {
		return nil, err
	}
	v.ShowGit()
	found, err := m.search(v)
	if err != nil {
		return nil, err
	}
	return v, v.Restrict(found)
}

// text shows a table as people compare it.
func text(v *View) string {
	var b strings.Builder
	for _, e := range v.Table() {
		fmt.Fprintf(&b, "%-10s %s", e.Access, e.Path)
		if e.Source != "" && e.Source != e.Path {
			fmt.Fprintf(&b, " <- %s", e.Source)
		}
		if e.Missing == shared.MissingHold {
			b.WriteString(" (held)")
		}
		fmt.Fprintf(&b, ": %s\n", e.Why)
	}
	for _, h := range v.Holds {
		fmt.Fprintf(&b, "holds      %s %v %q\n", h.Path, h.File, h.Content)
	}
	for _, note := range v.Notes {
		fmt.Fprintf(&b, "note       %s\n", note)
	}
	return b.String()
}

// input is what a definition in the workspace /w is made for.
func input(d Definition) *Input {
	return &Input{Definition: d, Roots: []workspace.RootDir{{Path: "/w", Declared: "/w", Field: "root", Writable: true}},
		UID: 1000, Home: "/home/u", CallerHome: "/home/u", HideSensitive: true,
		Homes: []string{"/root", "/home/u"}}
}

func control(path, what string, file bool) workspace.GitControl {
	return workspace.GitControl{Path: path, Description: what, File: file}
}

// TestTables compares the tables of ten definitions on fabricated machines with
// testdata/tables.txt; -update writes it.
func TestTables(t *testing.T) {
	t.Parallel()
	project := []string{"/w/src/main.go file", "/w/.env file", "/w/.env.example file", "/w/sub/.vscode/tasks.json file", "/w/.envrc file", "/w/run/s.sock socket",
		"/w/keys/a.pem file", "/w/keys/b.txt file", "/root", "/home/u/data/x file", "/home/u/.ssh/id file"}
	repository := append(slices.Clone(project), "/w/.git/config file", "/w/.git/hooks", "/w/hooks/pre-commit file", "/w/ci.inc file", "/w/nested/.git/config file")
	var all strings.Builder
	for _, tt := range []struct {
		name   string
		m      *machine
		in     *Input
		change func(*Input, *machine)
	}{
		{name: "an empty directory", m: newMachine("/w"), in: input(Definition{})},
		{name: "a project", m: newMachine(project...), in: input(Definition{})},
		{name: "a repository", m: newMachine(repository...), in: input(Definition{}), change: func(_ *Input, m *machine) {
			m.obeyed = map[string][]workspace.GitControl{"/w": {control("/w/.git/../ci.inc", "configuration", true), control("/w/hooks", "hooks", false), control("/w/absent.inc", "configuration", true), control("/etc/gitconfig", "configuration", true)}}
		}},
		{name: "a repository whose git waits", m: newMachine(repository...), in: input(Definition{}), change: func(in *Input, _ *machine) { in.GitWaits = true }},
		{name: "a repository around", m: newMachine("/w", "/.git", "/gc file", "/.git/config -> ../gc"), in: input(Definition{}), change: func(_ *Input, m *machine) {
			m.around, m.obeyed = []string{"/"}, map[string][]workspace.GitControl{"/": {control("/w/hooks", "hooks", false), control("/etc/gitconfig", "configuration", true)}}
		}},
		{name: "a repository with a submodule", m: newMachine(append(repository, "/w/other/.git/config file")...), in: input(Definition{}), change: func(_ *Input, m *machine) { m.workTrees = []string{"/w/nested"} }},
		{name: "a directory of clones", m: newMachine("/w/a/.git/config file", "/w/a/.mcp.json file", "/w/a/.vscode/x file", "/w/a/b/.git/config file", "/w/a/b/c/.git/config file", "/w/d/.mcp.json file"), in: input(Definition{})},
		{name: "a repository of which git cannot be asked", m: newMachine(repository...), in: input(Definition{}), change: func(_ *Input, m *machine) {
			m.failed = map[string]error{"/w": fmt.Errorf("git: no answer")}
		}},
		{name: "a repository whose files for git nobody knows", m: newMachine(repository...), in: input(Definition{}), change: func(_ *Input, m *machine) {
			m.failed, m.unlisted = map[string]error{"/w": fmt.Errorf("git: no answer")}, true
		}},
		{name: "a bound .git whose files for git nobody knows", m: newMachine(repository...), in: input(Definition{ReadOnly: true, BindPaths: []Bind{{Host: ".git", Writable: true}}}), change: func(_ *Input, m *machine) {
			m.failed, m.unlisted = map[string]error{"/w": fmt.Errorf("git: no answer")}, true
		}},
		{name: "a clone whose files for git nobody knows", m: newMachine("/w/a/.git/config file", "/w/b/f file"), in: input(Definition{}), change: func(_ *Input, m *machine) {
			m.failed, m.unlisted = map[string]error{"/w/a": fmt.Errorf("git: no answer")}, true
		}},
		{name: "the host's tree, where root is nobody inside", m: newMachine("/w", "/etc/machine-id file", "/var/lib/dbus/machine-id file", "/etc/ssh/ssh_config.d/a.conf file"), in: input(Definition{Filesystem: FilesystemHost}),
			change: func(in *Input, _ *machine) { in.Unmapped = true }},
		{name: "read-only", m: newMachine(repository...), in: input(Definition{ReadOnly: true})},
		{name: "rules", m: newMachine(project...), in: input(Definition{DenyPaths: []string{"keys/*.pem", "none/yet", "~/data/x"}, ProtectPaths: []string{"**/*.go", "sub/"}})},
		{name: "binds and another place", m: newMachine(project...), in: input(Definition{Workdir: "/workspace", BindPaths: []Bind{{Host: "~/data", Writable: true}, {Host: "/w/src", Container: "/src"}}})},
		{name: "the host's view", m: newMachine(append(project, "/srv/s.sock socket")...), in: input(Definition{Filesystem: "host", UnixSockets: []string{"run/s.sock"}})},
		{name: "binds behind links in the host's view", m: newMachine(append(project, "/data/y/f file", "/home/u/link -> data", "/root/link -> /data", "/tmp/link -> /data", "/srv/link -> /data")...), in: input(Definition{Filesystem: "host",
			BindPaths: []Bind{{Host: "~/link/x"}, {Host: "/root/link/y"}, {Host: "/tmp/link/y"}, {Host: "/srv/link/y"}}})},
		{name: "a home that is bound", m: newMachine(project...), in: input(Definition{BindPaths: []Bind{{Host: "~", Container: "/h", Writable: true}}, ProtectPathsExcept: []string{".ssh", ".zed"}})},
		{name: "an agent's directory that is a link and bound", m: newMachine(append(project, "/home/u/.claude -> dot/c", "/home/u/.codex -> /w/codex", "/home/u/dot/c/settings.json file", "/home/u/.zed -> /w/.zed", "/w/codex/f file")...), in: input(Definition{BindPaths: []Bind{{Host: "~/.claude", Writable: true}}, ProtectPathsExcept: []string{".zed"}})},
		{name: "another user's workspace", m: newMachine(append(repository, "/w/shut/.env file")...), in: input(Definition{}), change: func(in *Input, m *machine) {
			in.UID, in.Home, in.CallerHome, m.closed = 2000, "/home/o", "/root", []string{"/w/shut"}
		}},
		{name: "a rule through a link", m: newMachine(append(project, "/w/link -> keys")...), in: input(Definition{DenyPaths: []string{"link/b.txt"}})},
		{name: "a rule through a link to what cannot be searched", m: newMachine(append(project, "/w/link -> /shut/x", "/shut shut")...), in: input(Definition{DenyPaths: []string{"link/b.txt"}})},
		{name: "a secret that is a link", m: newMachine(append(project, "/w/.env -> keys/b.txt")...), in: input(Definition{})},
		{name: "a way back", m: newMachine(repository...), in: input(Definition{}), change: func(_ *Input, m *machine) {
			m.obeyed = map[string][]workspace.GitControl{"/w": {control("/w/.git/../src/../ci.inc", "configuration", true)}}
		}},
		{name: "a link that cannot be followed", m: newMachine(append(repository, "/w/loop -> loop")...), in: input(Definition{}), change: func(_ *Input, m *machine) {
			m.obeyed = map[string][]workspace.GitControl{"/w": {control("/w/loop", "configuration", true)}}
		}},
		{name: "a way back in the git directory", m: newMachine(append(repository, "/w/.git/x")...), in: input(Definition{}), change: func(_ *Input, m *machine) {
			m.obeyed = map[string][]workspace.GitControl{"/w": {control("/w/.git/x/../../ci.inc", "configuration", true)}}
		}},
		{name: "hooks that are a link", m: newMachine("/w/.git/config file", "/w/hk of/pre-commit file", "/w/.git/hooks -> ../hk of"), in: input(Definition{})},
		{name: "a hook that is a link", m: newMachine("/w/.git/config file", "/w/hk/pc file", "/w/.git/hooks/pre-commit -> ../../hk/pc"), in: input(Definition{}), change: func(_ *Input, m *machine) {
			m.obeyed = map[string][]workspace.GitControl{"/w": {control("/w/.git/hooks/pre-commit", "hooks", true)}}
		}},
		{name: "a hook that is a link where git cannot be asked", m: newMachine("/w/.git/config file", "/w/hk/pc file", "/w/.git/hooks/pre-commit -> ../../hk/pc"), in: input(Definition{}), change: func(_ *Input, m *machine) {
			m.failed = map[string]error{"/w": fmt.Errorf("git: not found")}
		}},
		{name: "a repository around of which git cannot be asked", m: newMachine("/w/ci.inc file", "/.git/config -> ../w/ci.inc"), in: input(Definition{}), change: func(_ *Input, m *machine) {
			m.around, m.failed = []string{"/"}, map[string]error{"/": fmt.Errorf("git: not found")}
		}},
		{name: "hooks behind a way back", m: newMachine("/w/.git/x/config file", "/w/hk/pre-commit file", "/w/.git/hooks -> x/../../hk"), in: input(Definition{})},
	} {
		if tt.change != nil {
			tt.change(tt.in, tt.m)
		}
		fmt.Fprintf(&all, "== %s\n", tt.name)
		if v, err := tt.m.table(tt.in); err != nil {
			fmt.Fprintf(&all, "refused    %v\n", err)
		} else {
			all.WriteString(text(v))
		}
		all.WriteString("\n")
	}
	const file = "testdata/tables.txt"
	if *update {
		if err := os.WriteFile(file, []byte(all.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want = []byte(strings.ReplaceAll(string(want), "\r\n", "\n"))
	if difference := diff.Diff(file, want, "got", []byte(all.String())); difference != nil {
		t.Errorf("the tables differ; -update writes them, and the difference is to be read\n%s", difference)
	}
}

// What a workspace contains is a fault of the definition that makes it writable, and no shortage of the engine.
func TestUnlistedKind(t *testing.T) {
	t.Parallel()
	for hint, kind := range map[string]error{"": shared.ErrInvalidSpec, "free space": shared.ErrUnavailable} {
		m := newMachine("/w/.git/config file")
		m.failed, m.unlisted, m.hint = map[string]error{"/w": fmt.Errorf("git: no answer")}, true, hint
		_, err := m.table(input(Definition{}))
		if e, ok := errors.AsType[*shared.Error](err); !ok || e.Kind != kind || e.Attribute != "workspace" || !strings.Contains(e.Hint, hint) {
			t.Errorf("%q: %+v", hint, err)
		}
	}
}

// matches reports whether a pattern matches a directory at an absolute path.
func matches(p *glob.Pattern, at string) bool {
	set, m := glob.NewSet(p), glob.None
	state := set.Start()
	for name := range strings.SplitSeq(at[1:], "/") {
		m, state = set.Match(state, name), set.Next(state, name)
	}
	return m.Dir >= 0
}

// FuzzRules makes a table of a rule of each kind on a machine of lines such as
// "/w/a -> b": what is refused is refused by an attribute, and what is not holds.
func FuzzRules(f *testing.F) {
	for _, seed := range [][3]string{
		{"/w/real/secret file\n/w/data -> real", "data/secret", "real/secret"},
		{"/w/a/b/c file\n/w/d/e file", "a/*/c", "**/e"},
		{"/w/l -> ../x/../w/a\n/x/f file\n/w/a/f file", "l/f", "~/f"},
		{"/w/loop -> loop\n/w/up -> /..", "loop/x", "up/w/y"},
		{"/home/u/l -> /w/sub/../real\n/w/real/s file", "~/l/s", "/home/u/l"},
		{"/w/.git/hooks/x file\n/w/.env -> a\n/w/a file", "none/yet/../x", "[a-"},
		{"/w/s socket\n/w/n/.git/config file", "n", "n/.git/config"},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	f.Fuzz(func(t *testing.T, files, deny, protect string) {
		var lines []string
		for line := range strings.Lines(files) {
			p, what, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
			if !path.IsAbs(p) || path.Clean(p) != p || p == "/" || what == "-> " || strings.Contains(p, "\x00") || len(lines) > 30 {
				continue
			}
			lines = append(lines, p+" "+what)
		}
		m := newMachine(append(lines, "/w")...)
		for p, what := range m.at { // what has something in it is a directory
			if dir := path.Dir(p); m.at[dir] != "" || p == "/w" && what != "" {
				t.Skip()
			}
		}
		v, err := m.table(input(Definition{DenyPaths: []string{deny}, ProtectPaths: []string{protect}}))
		if err != nil {
			return
		}
		table := v.Table()
		for i, e := range table {
			if i > 0 && paths.Compare(table[i-1].Path, e.Path) >= 0 {
				t.Errorf("%q does not come after %q", e.Path, table[i-1].Path)
			}
		}
		if err := (&shared.Spec{Sandbox: "s", Session: shared.Session{ID: "1"}, Table: table}).Validate(); err != nil {
			t.Error(err)
		}
		cover := shared.Covers(table)
		rules := func(text string) *glob.Pattern {
			list, err := v.rules("x", []string{text})
			if err != nil {
				t.Fatalf("%q was taken: %v", text, err)
			}
			return list[0].Pattern
		}
		denied, protected := rules(deny), rules(protect)
		for p, what := range m.at {
			e, host := cover(p)
			if e == nil || host != p {
				continue // hidden, or not shown
			}
			link := strings.HasPrefix(what, "-> ")
			if !link && matches(denied, p) && (what != "" || !strings.HasSuffix(denied.String(), "/")) {
				t.Errorf("%q is shown, which %q hides\n%s", p, deny, text(v))
			}
			if !link && matches(protected, p) && e.Access == shared.ReadWrite {
				t.Errorf("%q can be written, which %q protects\n%s", p, protect, text(v))
			}
			if what == "socket" {
				t.Errorf("the socket %q is shown\n%s", p, text(v))
			}
		}
	})
}

// A definition may give commands a directory that is the host's by its name, but no program.
func TestBoundHostName(t *testing.T) {
	t.Parallel()
	m := newMachine("/w", "/home/u/.docker/desktop/s.sock socket", "/home/u/.docker/config.json file")
	for _, bound := range []string{"~/.docker", "~/.docker/desktop", "~"} {
		in := input(Definition{BindPaths: []Bind{{Host: bound, Writable: true}}})
		in.HostPaths = []HostPath{{Kind: HostNames, Path: "/home/u", Description: "a configuration of yours", Names: []string{".docker"}}}
		if v, err := m.table(in); err != nil || v.Creatable("/home/u/.docker/desktop/x") != (bound != "~") {
			t.Errorf("%s: %v\n%s", bound, err, text(v))
		}
	}
	in := input(Definition{BindPaths: []Bind{{Host: "/o/engine", Writable: true}}})
	in.HostPaths = []HostPath{{Kind: HostNames, Path: "/o", Description: "a program that runs sandboxes", Names: []string{"engine"}}}
	if _, err := newMachine("/w", "/o/engine file").table(in); err == nil || !strings.Contains(err.Error(), "never writable inside") {
		t.Error(err)
	}
}

// A command could put a program of PATH behind a link that it can replace in a bind.
func TestProgramsBehindLinksInABind(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		dir, link string // in PATH, and what is refused
		lines     []string
	}{
		{"/b/bin", "", []string{"/b/bin/git file"}},
		{"/b/current/bin", "/b/current", []string{"/b/1.2/bin/git file", "/b/current -> 1.2"}},
		{"/b/out", "/b/out", []string{"/o/git file", "/b/out -> /o"}},
		{"/b/x/../bin", "/b/x", []string{"/b/x", "/b/bin"}},
		{"/o/link", "/b/l", []string{"/o/link -> /b/l", "/b/l -> /o/bin", "/o/bin"}},
		{"/o/bin", "", []string{"/o/bin/git -> /b/git", "/b/git file"}},
		{"/o/bin", "", []string{"/o/bin/git -> /b/git", "/b"}},
		{"/o/bin", "/b/l", []string{"/o/bin/git -> /b/l", "/b/l -> /o/git", "/o/git file"}},
		{"/b/bin", "/b/bin/git", []string{"/b/bin/git -> ../git", "/b/git file"}},
		{"/link/bin", "", []string{"/link -> b", "/b/bin"}},
		{"/w/link", "", []string{"/w/link -> node", "/w/node", "/b"}},
	} {
		m := newMachine(append(tt.lines, "/w/src file")...)
		in := input(Definition{BindPaths: []Bind{{Host: "/b", Writable: true}}})
		in.HostPaths = []HostPath{{Kind: HostPathNames, Path: tt.dir, Description: "a program", Names: []string{"git"}}}
		v, err := m.table(in)
		if tt.link != "" {
			if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("commands could replace %q", tt.link)) {
				t.Errorf("%q: %v", tt.lines, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q: %v", tt.lines, err)
			continue
		}
		if git := m.Follow(tt.dir + "/git"); paths.Inside("/b", git.End) && v.Creatable(git.End) {
			t.Errorf("%q: %q can be written\n%s", tt.lines, git.End, text(v))
		}
	}
}
