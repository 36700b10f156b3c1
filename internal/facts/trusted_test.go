package facts

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/internal/view"
	"github.com/sbxhost/sbxhost/shared"
)

// configs are files that are in force.
func configs(paths ...string) (list []view.HostPath) {
	for _, p := range paths {
		list = append(list, view.HostPath{Path: p, Description: "the configuration in force", Kind: view.HostConfig})
	}
	return list
}

func TestNoWayAroundWhatIsTrusted(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	link := func(to, at string) {
		t.Helper()
		if err := os.Symlink(to, at); err != nil {
			t.Fatal(err)
		}
	}
	link("config.hcl", tr.project+"/named.hcl")
	link("sub", tr.project+"/way")
	link(tr.project+"/way", tr.base+"/outer") // itself out of reach, and through a link that is not
	link(tr.project, tr.base+"/direct")
	link(tr.base+"/nowhere", tr.project+"/dangling")

	all := view.Definition{}
	for _, c := range []struct {
		path string
		d    view.Definition
		by   string // the attribute; empty: no refusal
	}{
		{tr.project + "/config.hcl", all, ""},
		{tr.project + "/named.hcl", all, "workspace"},
		{tr.project + "/way/x", all, "workspace"},
		{tr.project + "/dangling/x", all, "workspace"},
		{tr.base + "/outer/x", all, "workspace"},
		{tr.base + "/direct/config.hcl", all, ""},
		{tr.project + "/named.hcl", view.Definition{ReadOnly: true}, ""},
		{tr.home + "/cache/x", all, ""},
		{tr.home + "/cache/x", view.Definition{BindPaths: []view.Bind{{Host: tr.home, Writable: true}}}, "bind_paths[0]"},
		{tr.home + "/cache/x", view.Definition{BindPaths: []view.Bind{{Host: tr.home}}}, ""},
	} {
		r := tr.machine(t)
		r.HostPaths = []view.HostPath{{Path: c.path, Description: "what is tested"}}
		_, err := r.resolve(t.Context(), "fast", c.d)
		e, refused := errors.AsType[*shared.Error](err)
		switch {
		case c.by == "" && err != nil, c.by != "" && !refused:
			t.Errorf("%s, %+v: %v", c.path, c.d, err)
		case c.by != "" && (e.Attribute != c.by || !strings.Contains(e.Message, "commands could replace")):
			t.Errorf("%s, %+v: %v", c.path, c.d, err)
		}
	}

	// What is protected as the host's own holds the links in it.
	if err := os.MkdirAll(tr.home+"/.config/sbxhost", 0o755); err != nil {
		t.Fatal(err)
	}
	link(tr.base+"/data/dot.hcl", tr.home+"/.config/sbxhost/config.hcl")
	r := tr.machine(t)
	r.HostPaths = []view.HostPath{{Path: tr.home + "/.config", Description: "yours", Names: []string{"sbxhost"}, Kind: view.HostNames},
		{Path: tr.home + "/.config/sbxhost/config.hcl", Description: "the configuration in force"}}
	home := view.Definition{BindPaths: []view.Bind{{Host: tr.home, Writable: true}}}
	if _, err := r.resolve(t.Context(), "fast", home); err != nil {
		t.Error(err)
	}
	if err := os.RemoveAll(tr.home + "/.config/sbxhost"); err != nil {
		t.Fatal(err)
	}
	// One that leads nowhere yet is obeyed as soon as somebody makes what it leads to.
	link(tr.project+"/dot/sbxhost", tr.home+"/.config/sbxhost")
	r.HostPaths = r.HostPaths[:1]
	out, err := r.resolve(t.Context(), "fast", view.Definition{})
	if err != nil || !slices.ContainsFunc(out.Spec.Table, func(e shared.Entry) bool {
		return e.Path == tr.project+"/dot/sbxhost" && e.Access == shared.ReadOnly && e.Missing == shared.MissingHold
	}) {
		t.Errorf("%v: %+v", err, out)
	}
	if err := os.Remove(tr.home + "/.config/sbxhost"); err != nil {
		t.Fatal(err)
	}
	link(tr.base+"/data", tr.home+"/.config/sbxhost")
	if _, err := r.resolve(t.Context(), "fast", home); err == nil || !strings.Contains(err.Error(), "(yours); name its target, \""+tr.base+"/data\"") {
		t.Errorf("where a configuration of one's own would be found: %v", err)
	}
}

func TestOtherNamesOfWhatIsTrusted(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	outside := tr.base + "/outside.hcl"
	if err := os.WriteFile(outside, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for of, name := range map[string]string{tr.project + "/config.hcl": "/sub/one", outside: "/sub/two"} {
		if err := os.Link(of, tr.project+name); err != nil {
			t.Fatal(err)
		}
	}
	r := tr.machine(t)
	r.HostPaths = configs(tr.project+"/config.hcl", outside)
	out, err := r.resolve(t.Context(), "fast", view.Definition{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"/config.hcl", "/sub/one", "/sub/two"} {
		held := func(m shared.Entry) bool {
			return m.Source == tr.project+name && m.Access == shared.ReadOnly && strings.Contains(m.Why, "the configuration in force")
		}
		if !slices.ContainsFunc(out.Spec.Table, held) {
			t.Errorf("%s can be written", name)
		}
	}
}
