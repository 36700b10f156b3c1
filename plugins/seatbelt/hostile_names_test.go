package seatbelt

import (
	"fmt"
	"math/rand/v2"
	"path"
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/shared"
)

// hostileNames are names that mean something to profiles, expressions or logs,
// and others that a file system of macOS takes for the same as one of them.
func hostileNames() alphabet {
	spec := []string{`q"uote`, `x") (allow default) ("`, "new\nline", "(paren)", `back\slash`, "Caf\u00e9", "na\u0308if", "[a]", "; #\"", `(param "P0")`, "a", ".env"}
	asked := append([]string{"Cafe\u0301", "CAF\u00c9", "CAFE\u0301", "n\u00e4if", "NA\u0308IF", `Q"UOTE`, "NEW\nLINE", "(PAREN)", `BACK\SLASH`, "[A]", ".ENV", "new", "line", "quote", "b"}, spec...)
	return alphabet{spec, asked}
}

// called gives another name for the file at p in a world where it exists: in
// another case, in another form of Unicode, by the data volume, by its number, by a
// link, by a detour.
func called(r *rand.Rand, p string) (name string, files sbplFiles) {
	for at := p; at != "/"; at = path.Dir(at) {
		files.Entries = append(files.Entries, at)
	}
	switch r.IntN(7) {
	case 0:
		return strings.ToUpper(p), files
	case 1:
		return foldAPFS(p), files
	case 2:
		if strings.HasPrefix(p, "/Users") || strings.HasPrefix(p, "/private") {
			return dataVolume + p, files
		}
	case 3:
		files.Volume = map[string]string{"/.vol/16777220/7": p}
		return "/.vol/16777220/7", files
	case 4:
		files.Volume = map[string]string{"/.vol/16777220/7": path.Dir(p)}
		return "/.vol/16777220/7/" + strings.ToUpper(path.Base(p)), files
	case 5:
		files.Links = map[string]string{"/Users/me/p/link": path.Dir(p)}
		return "/Users/me/p/link/" + path.Base(p), files
	case 6:
		return path.Dir(p) + "/./x/../" + path.Base(p), files
	}
	return p, files
}

// Thousands of Specs and paths of hostile names: however a file is called, the
// profile allows nothing that the Spec does not.
func TestHostileNamesWidenNothing(t *testing.T) {
	t.Parallel()
	specs, paths := 1000, 5
	if testing.Short() {
		specs = 200
	}
	a := hostileNames()
	allowed, denied := 0, 0
	for seed := range specs {
		r := rand.New(rand.NewPCG(uint64(seed), 3))
		spec, at := generated(r, a)
		policy, err := newPolicy(&spec, &shared.Command{})
		if err != nil {
			t.Fatalf("%s: %v", short(spec), err)
		}
		profile, err := compile(policy, at)
		if err != nil {
			t.Fatal(err)
		}
		model, err := parseSBPL(profile.text, profile.values())
		if err != nil {
			t.Fatalf("%v\n%s", err, profile.text)
		}
		w := &world{t: t, profile: model, policy: policy, places: at}
		o := oracle{spec, at}
		for range paths {
			p := somewhere(r, &spec, at, a)
			if p == "/" {
				continue
			}
			var name string
			name, w.files = called(r, p)
			if found := w.files.Resolve(name, true); found != p {
				t.Fatalf("seed %d: %q is found at %q, want %q", seed, name, found, p)
			}
			for _, group := range []struct {
				operations []string
				want       bool
			}{{readOperations, o.readable(p)}, {writeOperations, o.writable(p)}, {[]string{"file-write-create", "file-write-unlink"}, o.writable(p)}, {neverOperations, false}} {
				for _, operation := range group.operations {
					got := w.file(operation, name)
					if got && !group.want {
						t.Fatalf("seed %d: %s of %q (%q) is allowed\n%s", seed, operation, name, p, short(spec))
					}
					if got {
						allowed++
					} else {
						denied++
					}
				}
			}
			// Where nothing is, a name is taken as it is spelled.
			variant := fmt.Sprintf("%s/%s", path.Dir(p), strings.ToUpper(path.Base(p)))
			if w.ask(sbplAccess{Operation: "file-write-create", Path: variant}) && !o.writable(variant) {
				t.Fatalf("seed %d: %q can be made\n%s", seed, variant, short(spec))
			}
		}
	}
	t.Logf("%d verdicts allow, %d deny", allowed, denied)
	if allowed < denied/20 {
		t.Error("the paths say little: almost nothing is allowed")
	}
}

// Whatever a command renames, what it could not read it still cannot, and what
// it could not write neither.
func TestNothingIsMovedIntoReach(t *testing.T) {
	t.Parallel()
	for name, a := range map[string]alphabet{"plain names": plainNames(), "hostile names": hostileNames()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nothingIsMovedIntoReach(t, a)
		})
	}
}

func nothingIsMovedIntoReach(t *testing.T, a alphabet) {
	t.Helper()
	specs := 100
	moves := 0
	for seed := range specs {
		r := rand.New(rand.NewPCG(uint64(seed), 2))
		spec, at := generated(r, a)
		policy, err := newPolicy(&spec, &shared.Command{})
		if err != nil {
			t.Fatal(err)
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
		for range 60 {
			file := somewhere(r, &spec, at, a)
			read := w.ask(sbplAccess{Operation: "file-read-data", Path: file})
			write := w.ask(sbplAccess{Operation: "file-write-data", Path: file})
			for dir := file; dir != "/"; dir = path.Dir(dir) {
				if !w.ask(sbplAccess{Operation: "file-write-unlink", Path: dir}) {
					continue
				}
				for range 8 {
					to := somewhere(r, &spec, at, a)
					if strings.HasPrefix(to+"/", dir+"/") || !w.ask(sbplAccess{Operation: "file-write-create", Path: to}) {
						continue
					}
					moves++
					moved := to + strings.TrimPrefix(file, dir)
					if !read && w.ask(sbplAccess{Operation: "file-read-data", Path: moved}) {
						t.Fatalf("seed %d: %s can be read once %s is %s\n%s\n%s", seed, file, dir, to, short(spec), profile.text)
					}
					if !write && w.ask(sbplAccess{Operation: "file-write-data", Path: moved}) {
						t.Fatalf("seed %d: %s can be written once %s is %s\n%s\n%s", seed, file, dir, to, short(spec), profile.text)
					}
				}
			}
		}
	}
	t.Logf("%d moves were possible", moves)
	if moves < specs/4 {
		t.Error("hardly anything could be moved at all")
	}
}
