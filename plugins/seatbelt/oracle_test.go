package seatbelt

import (
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/shared"
)

// oracle says what a Spec means, from the words of package shared and doc.go
// alone. It shares no code with what makes the profile.
type oracle struct {
	spec shared.Spec
	at   places
}

func (o oracle) under(p, root string) bool { return p == root || strings.HasPrefix(p, root+"/") }

// mounted gives the deepest mount around a path.
func (o oracle) mounted(p string) (m shared.Entry, ok bool) {
	for _, have := range o.spec.Table {
		if o.under(p, have.Path) && (!ok || len(have.Path) > len(m.Path)) {
			m, ok = have, true
		}
	}
	if ok && o.spec.Home != "" && o.under(p, o.spec.Home) && !o.under(m.Path, o.spec.Home) {
		return shared.Entry{}, false // the home lies over it, and is empty there
	}
	return m, ok
}

// closed reports whether a path is in what an entry hides, in any case, in which
// nothing is shown.
func (o oracle) closed(p string) bool {
	return slices.ContainsFunc(o.spec.Table, func(h shared.Entry) bool {
		return h.Access == shared.Hidden && o.under(foldAPFS(p), foldAPFS(h.Path)) && !o.under(o.at.scratch, h.Path) &&
			!slices.ContainsFunc(o.spec.Table, func(m shared.Entry) bool { return m.Access != shared.Hidden && o.under(m.Path, h.Path) })
	})
}

func (o oracle) private(p string) bool {
	return o.under(p, o.at.temp) || o.at.home != "" && o.under(p, o.at.home)
}

// kept reports whether a path is in a read-only mount, in any case, that lies in a writable one and holds none.
func (o oracle) kept(p string) bool {
	return slices.ContainsFunc(o.spec.Table, func(k shared.Entry) bool {
		writable := func(in func(m shared.Entry) bool) bool {
			return slices.ContainsFunc(o.spec.Table, func(m shared.Entry) bool { return m.Access == shared.ReadWrite && in(m) })
		}
		return k.Access == shared.ReadOnly && o.under(foldAPFS(p), foldAPFS(k.Path)) &&
			writable(func(m shared.Entry) bool { return o.under(k.Path, m.Path) }) && !writable(func(m shared.Entry) bool { return o.under(m.Path, k.Path) })
	})
}

var hiddenOnHost = []string{"/dev", "/Library/Keychains", "/private/tmp", "/private/var/tmp", "/private/var/folders", "/private/var/run"}

func (o oracle) readable(p string) bool {
	if o.closed(p) {
		return false
	}
	if o.private(p) {
		return true
	}
	m, mounted := o.mounted(p)
	if o.under(p, o.at.scratch) && !(mounted && o.under(m.Path, o.at.scratch)) {
		return false
	}
	if mounted {
		return m.Access != shared.Hidden
	}
	if o.spec.Home != "" && o.under(p, o.spec.Home) {
		return false
	}
	if o.spec.Filesystem == shared.FilesystemHost {
		return !slices.ContainsFunc(hiddenOnHost, func(dir string) bool { return o.under(p, dir) })
	}
	return o.under(p, "/usr") || o.under(p, "/System/Library")
}

func (o oracle) writable(p string) bool {
	if o.closed(p) || o.kept(p) {
		return false
	}
	for _, kept := range []string{"LaunchAgents", "Preferences", "Keychains", "Application Support/com.apple.TCC"} {
		if o.spec.Home != "" && o.under(strings.ToLower(p), strings.ToLower(o.spec.Home+"/Library/"+kept)) {
			return false
		}
	}
	if o.private(p) {
		return true
	}
	m, mounted := o.mounted(p)
	if o.under(p, o.at.scratch) && !(mounted && o.under(m.Path, o.at.scratch)) {
		return false
	}
	return mounted && m.Access == shared.ReadWrite
}

// short is what matters of a Spec, for messages.
func short(s shared.Spec) string {
	out := fmt.Sprintf("%v, home %q", s.Filesystem, s.Home)
	for _, m := range s.Table {
		out += fmt.Sprintf("\n%v %s (%s)", m.Access, m.Path, m.Why)
	}
	return out
}

// alphabet is the names of which Specs are made, and those of the paths that are
// asked for.
type alphabet struct{ spec, asked []string }

func plainNames() alphabet {
	return alphabet{
		[]string{"a", "b", "Sub", ".env", "secrets", "config", "key.pem", "st", "Tests"},
		[]string{"a", "b", "Sub", "sub", ".env", ".ENV", "secrets", "ſecrets", "SECRETS", "config", "key.pem", "st", "ﬆ", "Tests", "z", ".env.local"},
	}
}

// generated is a random Spec over a small alphabet, in which paths often meet.
func generated(r *rand.Rand, a alphabet) (shared.Spec, places) {
	names := a.spec
	some := func(n int) string {
		p := ""
		for range n {
			p += "/" + names[r.IntN(len(names))]
		}
		return p
	}
	roots := []string{"/Users/me/p", "/Users/me/p", "/Users/me", "/Users/me", "/Users", "/Users/me/other", "/Volumes/x", "/private/var/folders/zz/abc/T", "/private/tmp/y", "/usr/local/w"}
	spec := shared.Spec{}
	if r.IntN(2) == 0 {
		spec.Home = "/Users/me"
	}
	if r.IntN(3) == 0 {
		spec.Filesystem = shared.FilesystemHost
	}
	if r.IntN(3) == 0 {
		spec.Network.Mode = shared.NetworkHost
	}
	add := func(p string, kind shared.Access, origin string) {
		if !slices.ContainsFunc(spec.Table, func(m shared.Entry) bool { return m.Path == p }) {
			e := mount(p, kind, origin)
			if kind == shared.Hidden {
				e.Source, e.Missing = "", shared.MissingIgnore
			}
			spec.Table = append(spec.Table, e)
		}
	}
	add("/Users/me/p", shared.ReadOnly+shared.Access(r.IntN(2)), "workspace")
	for i := range r.IntN(8) {
		add(roots[r.IntN(len(roots))]+some(r.IntN(4)), shared.Access(r.IntN(3)), fmt.Sprintf("bind_paths[%d]", i))
	}
	r.Shuffle(len(spec.Table), func(i, j int) { spec.Table[i], spec.Table[j] = spec.Table[j], spec.Table[i] })
	at := private
	if r.IntN(4) == 0 { // a session's directory that a mount can hold
		at.scratch = "/Users/me/.cache/s"
		at.temp, at.home = at.scratch+"/c/tmp", at.scratch+"/home"
		if r.IntN(2) == 0 {
			add(at.scratch+"/temp", shared.ReadWrite, "workspace.temp")
		}
	}
	if spec.Home == "" {
		at.home = ""
	}
	return spec, at
}

// somewhere is a random path near a Spec's, resolved.
func somewhere(r *rand.Rand, spec *shared.Spec, at places, a alphabet) string {
	names := a.asked
	starts := []string{"/Users/me", "/Users/other", "/private/etc", "/usr/bin", "/private/tmp", "/private/var/folders/zz/abc/T", "/System/Library", at.scratch, at.temp, at.temp, at.home,
		spec.Home + "/Library/LaunchAgents", spec.Home + "/library/preferences", "/Volumes/x", "/dev/disk0"}
	for _, m := range spec.Table {
		starts = append(starts, m.Path, m.Path, path.Dir(m.Path))
	}
	p := starts[r.IntN(len(starts))]
	for range r.IntN(5) {
		p += "/" + names[r.IntN(len(names))]
	}
	return path.Clean("/" + p)
}

// For thousands of Specs and paths the profile says what the oracle says,
// whichever rules of precedence are right.
func TestProfileIsTheSpec(t *testing.T) {
	t.Parallel()
	specs, paths := 1000, 12
	if testing.Short() {
		specs = 200
	}
	allowed := map[bool]int{}
	for seed := range specs {
		r := rand.New(rand.NewPCG(uint64(seed), 1))
		spec, at := generated(r, plainNames())
		policy, err := newPolicy(&spec, &shared.Command{})
		if err != nil {
			t.Fatalf("%+v: %v", spec, err)
		}
		profile, err := compile(policy, at)
		if err != nil {
			t.Fatal(err)
		}
		model, err := parseSBPL(profile.text, profile.values())
		if err != nil {
			t.Fatal(err)
		}
		w := &world{t: t, profile: model, policy: policy, places: at}
		o := oracle{spec, at}
		for range paths {
			p := somewhere(r, &spec, at, plainNames())
			if p == "/" {
				continue // its list of names is for everybody
			}
			for _, group := range []struct {
				operations []string
				want       bool
			}{{readOperations, o.readable(p)}, {writeOperations, o.writable(p)}, {neverOperations, false}} {
				for _, operation := range group.operations {
					got := w.ask(sbplAccess{Operation: operation, Path: p})
					allowed[got]++
					if got != group.want {
						t.Errorf("seed %d: %s of %s is %v, want %v\n%s", seed, operation, p, got, group.want, short(spec))
					}
				}
			}
			if w.ask(sbplAccess{Operation: "file-write-unlink", Path: p}) && !o.writable(p) {
				t.Errorf("seed %d: %s can be renamed\n%s", seed, p, short(spec))
			}
			if w.ask(sbplAccess{Operation: "file-write-create", Path: p}) && !o.writable(p) {
				t.Errorf("seed %d: %s can be created\n%s", seed, p, short(spec))
			}
			if w.ask(sbplAccess{Operation: "file-read-metadata", Path: p}) != o.readable(p) && o.closed(p) {
				t.Errorf("seed %d: %s, hidden, can be looked at\n%s", seed, p, short(spec))
			}
			if t.Failed() {
				t.FailNow()
			}
		}
	}
	t.Logf("%d verdicts allow, %d deny", allowed[true], allowed[false])
	if allowed[true] < allowed[false]/50 || allowed[false] < allowed[true]/50 {
		t.Error("the paths say little: almost all verdicts are the same")
	}
}
