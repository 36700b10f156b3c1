package seatbelt

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/shared"
)

var update = flag.Bool("update", false, "write the golden files")

func TestGoldenProfiles(t *testing.T) {
	t.Parallel()
	worktree := project()
	worktree.Table = []shared.Entry{
		mount("/Users/me/wt", shared.ReadWrite, "workspace"),
		mount("/Users/me/main/.git/worktrees/wt", shared.ReadWrite, "git: directory of the worktree"),
		mount("/Users/me/main/.git/objects", shared.ReadWrite, "git: common directory, objects"),
		mount("/Users/me/main/.git/config", shared.ReadOnly, "protected: git config"),
	}
	online := project()
	online.Network.Mode, online.Filesystem = shared.NetworkHost, shared.FilesystemHost
	named := shared.Spec{Table: []shared.Entry{mount("/Users/me/p", shared.ReadOnly, "workspace")}, Network: shared.Network{Mode: shared.NetworkNames, Names: []string{"registry.npmjs.org"}}}
	readOnly := shared.Spec{Table: []shared.Entry{mount("/Users/me/p", shared.ReadOnly, "workspace")}}
	for name, tt := range map[string]struct {
		spec shared.Spec
		cmd  shared.Command
	}{
		"zero": {}, "mac": {spec: project()}, "worktree": {spec: worktree}, "read-only": {spec: readOnly}, "names": {spec: named},
		"online-host-tty": {spec: online, cmd: shared.Command{TTY: true}},
		"hidden": {spec: shared.Spec{Table: append(readOnly.Table, mount("/Users/me/p/deep/shown", shared.ReadWrite, "bind_paths[0]"),
			hidden("/Users/me/p/key"), hidden("/Users/me/p/deep"))}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := newPolicy(&tt.spec, &tt.cmd)
			if err != nil {
				t.Fatal(err)
			}
			profile, err := compile(p, planned(&tt.spec))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := parseSBPL(profile.text, profile.values()); err != nil {
				t.Fatal(err)
			}
			got := profile.text + "\n; Parameters\n" + comment(profile.list())
			file := filepath.Join("testdata", name+".sb")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("%s differs; -update writes it anew:\n%s", file, got)
			}
		})
	}
}

func hidden(path string) shared.Entry {
	return shared.Entry{Path: path, Access: shared.Hidden, Missing: shared.MissingIgnore, Why: `deny_paths "key"`}
}

func comment(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString("; " + line)
	}
	return b.String()
}

// No path of a user is text of the profile, whatever it holds.
func TestPathsAreParameters(t *testing.T) {
	t.Parallel()
	for _, name := range []string{`q"uote`, `x") (allow default) ("`, "new\nline", "; comment", `back\slash`, "é\u0301", "#\"", "(param \"P0\")"} {
		path := "/Users/me/" + name
		spec := shared.Spec{
			Home:  "/Users/me/h " + name,
			Table: []shared.Entry{mount(path, shared.ReadWrite, "bind_paths["+name+"]"), mount(path+"/kept", shared.ReadOnly, "protected: x"), hidden(path + "/denied")},
		}
		w := modelled(t, spec, shared.Command{})
		count := len(w.profile.Rules)
		plain := spec
		plain.Home = "/Users/me/h"
		plain.Table = []shared.Entry{mount("/Users/me/x", shared.ReadWrite, "bind_paths[0]"), mount("/Users/me/x/kept", shared.ReadOnly, "protected: x"), hidden("/Users/me/x/denied")}
		if want := len(modelled(t, plain, shared.Command{}).profile.Rules); count != want {
			t.Errorf("%q: %d rules instead of %d", name, count, want)
		}
		for file, want := range map[string][2]bool{"/f": {true, true}, "/kept": {true, false}, "/kept/f": {true, false}, "/denied": {}, "/denied/f": {}} {
			got := [2]bool{w.file("file-read-data", path+file), w.file("file-write-data", path+file)}
			if got != want {
				t.Errorf("%q%s: %v, want %v", name, file, got, want)
			}
		}
		if w.file("file-read-data", "/Users/me/other") || w.file("file-write-data", "/private/etc/hosts") {
			t.Errorf("%q opens what it is not", name)
		}
	}
}

// A rule that is too large for macOS is several, which decide the same.
func TestLargeRulesAreSplit(t *testing.T) {
	t.Parallel()
	spec := shared.Spec{Table: []shared.Entry{mount("/Users/me/p", shared.ReadWrite, "workspace")}}
	for i := range 120 {
		spec.Table = append(spec.Table, hidden(fmt.Sprintf("/Users/me/p/%s%d/deep/%s/key", strings.Repeat("d", 100), i, strings.Repeat("e", 100))))
	}
	w := modelled(t, spec, shared.Command{})
	for rule := range strings.SplitSeq(w.text, "\n(") {
		size := len(rule)
		for _, p := range strings.Split(rule, `(param "`)[1:] {
			name, _, _ := strings.Cut(p, `"`)
			size += len(w.values[name])
		}
		if size > 20<<10 {
			t.Errorf("a rule of %d bytes: %.200s...", size, rule)
		}
	}
	for i, e := range spec.Table[1:] {
		text := e.Path
		if w.file("file-read-data", text) || w.file("file-write-unlink", path.Dir(text)) || !w.file("file-read-data", path.Dir(text)+"/other") {
			t.Errorf("%d: %s", i, text)
		}
	}
}

func TestTooMuchIsRefused(t *testing.T) {
	t.Parallel()
	var many shared.Spec
	for i := range maxParameters {
		many.Table = append(many.Table, mount("/Users/me/"+strings.Repeat("x", i%100+1)+string(rune('a'+i%26))+strings.Repeat("y", i/100+1), shared.ReadOnly, ""))
	}
	p, err := newPolicy(&many, &shared.Command{})
	if err == nil {
		_, err = compile(p, private)
	}
	if !errors.Is(err, shared.ErrUnsupported) {
		t.Errorf("%d mounts: %v", len(many.Table), err)
	}
	for _, spec := range []shared.Spec{
		{Table: []shared.Entry{mount("/"+strings.Repeat("x", maxPath), shared.ReadOnly, "bind_paths[0]")}},
		{Table: []shared.Entry{mount("/x\xff", shared.ReadOnly, "bind_paths[0]")}},
		{Table: []shared.Entry{mount("/", shared.ReadOnly, "bind_paths[0]")}},
		{Home: "/x\xff"},
	} {
		if _, err := newPolicy(&spec, &shared.Command{}); !errors.Is(err, shared.ErrInvalidSpec) {
			t.Errorf("%+v: %v", spec, err)
		}
	}
}
