package host_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/shared"
)

// program puts an executable file at a path.
func program(t *testing.T, path string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// An engine is never taken from where a command can write, by whatever way leads
// there, nor by a host that only answers questions: it would be run for them.
func TestNoEngineFromWhereCommandsWrite(t *testing.T) {
	t.Parallel()
	top := realTemp(t)
	project, more, cache := top+"/project", top+"/more", top+"/cache"
	must(t, os.Mkdir(project, 0o755), os.Mkdir(more, 0o755))
	good := program(t, top+"/good/sbxhost-engine-x")
	inProject := program(t, project+"/engines/sbxhost-engine-x")
	inMore := program(t, more+"/sbxhost-engine-x")
	inSession := program(t, cache+"/sbxhost/sessions/n-1/tmp/sbxhost-engine-x")
	link := func(at, to string) string {
		must(t, os.MkdirAll(filepath.Dir(at), 0o755), os.Symlink(to, at))
		return at
	}
	toProject := link(top+"/links/sbxhost-engine-x", inProject)
	dirInProject := link(top+"/dirlink", project+"/engines") + "/sbxhost-engine-x"
	through := link(project+"/through/sbxhost-engine-x", good) // a command can lead it elsewhere
	twice := link(top+"/twice/sbxhost-engine-x", through)
	absent := project + "/absent/sbxhost-engine-x"
	for _, only := range []bool{false, true} {
		for path, want := range map[string]string{
			good: "", inProject: "in the workspace", inMore: "in the workspace", toProject: "in the workspace", dirInProject: "in the workspace",
			through: "in the workspace", twice: "in the workspace", inSession: "in the files of sessions",
		} {
			checkEngine(t, host.Options{
				EnginesOnly: only, Dir: project, Workspace: host.WorkspaceOptions{Writable: []string{more}},
				Environ: []string{"HOME=" + top + "/home", "XDG_CACHE_HOME=" + cache}, Sandboxes: map[string]host.Definition{"x": {Engine: "x"}},
				Engines: map[string]host.EngineSource{"x": {Source: path}},
			}, "x", want)
		}
		// Nor what would be there by then.
		checkEngine(t, host.Options{EnginesOnly: only, Dir: project, Engines: map[string]host.EngineSource{"x": {Source: absent}}}, "x", "in the workspace")
	}
	// A home directory is no workspace, and engines are asked about from there.
	checkEngine(t, host.Options{EnginesOnly: true, Dir: top, Environ: []string{"HOME=" + top}, Engines: map[string]host.EngineSource{"x": {Source: good}}}, "x", "")
}

// checkEngine compares what is found with a part of an error, or none.
func checkEngine(t *testing.T, o host.Options, name, want string) {
	t.Helper()
	h, err := host.New(t.Context(), o)
	must(t, err)
	defer h.Close()
	_, _, err = h.EngineCommand(name)
	if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
		t.Errorf("%v, only %v: %v", o.Engines, o.EnginesOnly, err)
	}
}

// Nor from where somebody else can write, or has decided what it is.
func TestNoEngineOfOthers(t *testing.T) {
	t.Parallel()
	top := realTemp(t)
	must(t, os.Chmod(top, 0o755))
	dir := top + "/above/engines"
	path := program(t, dir+"/sbxhost-engine-x")
	linked := top + "/links"
	must(t, os.Mkdir(linked, 0o755), os.Symlink(path, linked+"/sbxhost-engine-x"))
	check := func(what, at, want string) {
		t.Helper()
		t.Log(what)
		checkEngine(t, host.Options{EnginesOnly: true, Dir: "/", Engines: map[string]host.EngineSource{"x": {Source: at + "/sbxhost-engine-x"}}}, "x", want)
	}
	check("as it is", dir, "")
	check("by a link", linked, "")
	for _, c := range []struct {
		path string
		mode fs.FileMode
		want string
	}{
		{path, 0o757, "chmod go-w"},
		{path, 0o644, "is not executable"},
		{dir, 0o777, "chmod go-w"},
		{filepath.Dir(dir), 0o777, "chmod go-w"},
		{filepath.Dir(dir), 0o777 | fs.ModeSticky, ""},
	} {
		before, err := os.Stat(c.path)
		must(t, err, os.Chmod(c.path, c.mode))
		check(c.path+" "+c.mode.String(), dir, c.want)
		must(t, os.Chmod(c.path, before.Mode()))
	}
	must(t, os.Chmod(linked, 0o777))
	check("a link in a directory of everybody's", linked, "chmod go-w")
	must(t, os.Chmod(linked, 0o777|fs.ModeSticky))
	check("one's own link in such as /tmp", linked, "")
	if os.Getuid() == 0 {
		must(t, os.Lchown(linked+"/sbxhost-engine-x", 65534, 65534))
		check("somebody's link in such as /tmp", linked, "belongs to another user, who decides")
		must(t, os.Chown(path, 65534, 65534))
		check("somebody's program", dir, "belongs to another user")
	}
}

// A program beside this one is part of it or nothing: what else lies in such a
// directory, which is in PATH as a rule, nobody has installed as an engine.
func TestForeignEngineBesideTheProgram(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	must(t, err)
	foreign := filepath.Join(filepath.Dir(self), "sbxhost-engine-foreign-of-test")
	program(t, foreign)
	t.Cleanup(func() { os.Remove(foreign) })
	checkEngine(t, host.Options{EnginesOnly: true, Dir: "/"}, "foreign-of-test", "no engine")
	checkEngine(t, host.Options{EnginesOnly: true, Dir: "/", EngineDir: filepath.Dir(self)}, "foreign-of-test", "")
}

// No bind makes writable where engines come from.
func TestEnginePlacesAreNotBound(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, bind, want string }{
		{"the program", "declared/engine", "never writable inside (protected: "},
		{"the symlink to it", "links", "commands could replace"},
		{"what is above", "declared", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			top := realTemp(t)
			must(t, os.Mkdir(top+"/links", 0o755), os.Symlink(top+"/declared", top+"/links/declared"))
			program(t, top+"/declared/engine")
			h := newHost(t, func(o *host.Options) {
				o.Engines = map[string]host.EngineSource{"x": {Source: top + "/links/declared/engine"}}
				o.Sandboxes["fast"] = host.Definition{Engine: "native", BindPaths: []host.Bind{{Host: filepath.Join(top, c.bind), Writable: true}}}
			})
			err := h.Check(t.Context(), "fast")
			e, ok := errors.AsType[*shared.Error](err)
			if c.want == "" && err != nil || c.want != "" && (!ok || e.Attribute != "bind_paths[0]" || !strings.Contains(e.Message, c.want)) {
				t.Errorf("%v", err)
			}
		})
	}
}

// What a bind of the directory above lets a command create is no engine.
func TestNoDeclaredEngineIsPlanted(t *testing.T) {
	t.Parallel()
	top := realTemp(t)
	must(t, os.Mkdir(top+"/bin", 0o755))
	h := newHost(t, func(o *host.Options) {
		o.Engines = map[string]host.EngineSource{"x": {Source: top + "/bin/tools/engine"}}
		o.Sandboxes["fast"] = host.Definition{Engine: "native", BindPaths: []host.Bind{{Host: top + "/bin", Writable: true}}}
	})
	out, err := h.Command(t.Context(), "fast", "sh", "-c", "cd "+top+`/bin; mkdir -p tools; echo x >tools/control && echo control
		for way in 'rmdir tools/engine' 'rmdir tools' 'mv -T tools y' 'touch tools/engine/x'; do ($way) 2>/dev/null && echo "$way"; done
		(echo x >tools/engine) 2>/dev/null && echo written; true`).Output()
	if err != nil || string(out) != "control\n" {
		t.Errorf("%v: %s", err, out)
	}
	must(t, h.Close())
	if got := listed(t, top+"/bin/tools"); !slices.Equal(got, []string{"control"}) {
		t.Errorf("in the directory there is %q", got)
	}
}

// A host attaches to what this user has started, and to nothing that somebody else
