package paths

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// tree is a fabricated file system: directories with "", symlinks with their text.
type tree map[string]string

func (t tree) look(p string, _ bool) (Step, error) {
	target, there := t[p]
	return Step{Missing: !there, Target: target}, nil
}

func TestFollow(t *testing.T) {
	t.Parallel()
	files := tree{
		"/a": "", "/a/f": "", "/a/d": "", "/l": "a", "/abs": "/l/./f", "/a/up": "../l/d", "/dead": "/nowhere/x", "/half": "a/none/../y", "/back": "none/x/../../l/f", "/out": "none/../up2", "/up2": "../../a/d",
		"/loop": "loop", "/ping": "pong", "/pong": "ping", "/root": "/..", "/self": ".", "/slash": "a/",
	}
	for _, tt := range []struct {
		at, rest, end string
		there         bool
		err           error
	}{
		{"/", "", "/", true, nil},
		{"/", "a/f", "/a/f", true, nil},
		{"/", "/a//./f/", "/a/f", true, nil},
		{"/", "l/f", "/a/f", true, nil},
		{"/", "abs", "/a/f", true, nil},
		{"/a", "up", "/a/d", true, nil},
		{"/a", "../l/up/../f", "/a/f", true, nil},
		{"/a/d", "../../../../a", "/a", true, nil},
		{"/", "self/self/a", "/a", true, nil},
		{"/", "root/a", "/a", true, nil},
		{"/", "slash/f", "/a/f", true, nil},
		{"/", "none", "/none", false, nil},
		{"/", "l/none/deep", "/a/none/deep", false, nil},
		{"/", "dead/y", "/nowhere/x/y", false, nil},
		{"/", "half", "/a/y", false, nil},
		{"/", "back", "/a/f", false, nil}, // the kernel finds nothing there before "none" is made
		{"/", "back/../d", "/a/d", false, nil},
		{"/", "out/../../l/up", "/a/d", false, nil},
		{"/", "none/./../none/../l/none", "/a/none", false, nil},
		{"/", "none/../loop", "/loop", false, ErrLinks},
		{"/", "loop", "/loop", false, ErrLinks},
		{"/", "ping/x", "/ping", false, ErrLinks},
	} {
		end, there, err := Follow(tt.at, tt.rest, files.look, nil)
		if end != tt.end || there != tt.there || err != tt.err {
			t.Errorf("Follow(%q, %q) = %q, %t, %v", tt.at, tt.rest, end, there, err)
		}
	}
	for n, want := range map[int]error{MaxLinks: nil, MaxLinks + 1: ErrLinks} {
		chain := tree{"/0": ""}
		for i := range n {
			chain[fmt.Sprint("/", i+1)] = fmt.Sprint(i)
		}
		if end, _, err := Follow("/", fmt.Sprint(n), chain.look, nil); err != want || err == nil && end != "/0" {
			t.Errorf("%d links: %q, %v", n, end, err)
		}
	}
	wrong := errors.New("wrong")
	last := map[string]bool{}
	end, _, err := Follow("/", "a/l/f/", func(p string, more bool) (Step, error) {
		last[p] = !more
		if p == "/b/f" {
			return Step{}, wrong
		}
		if p == "/a/l" {
			return Step{Target: "/b"}, nil
		}
		return Step{}, nil
	}, nil)
	if err != wrong || end != "/b/f" || last["/a"] || last["/a/l"] || last["/b"] || !last["/b/f"] {
		t.Errorf("%q, %v, last: %v", end, err, last)
	}
}

func TestFollowLeaves(t *testing.T) {
	t.Parallel()
	files := tree{"/a": "", "/a/f": "", "/a/d": "", "/up": "a/d/../f", "/half": "a/none/x/../../f"}
	for p, want := range map[string][]string{
		"up": {"/a/d"}, "a/../up": {"/a", "/a/d"}, "half": {"/a/none/x", "/a/none"}, "a/d": nil,
	} {
		var left []string
		end, _, err := Follow("/", p, files.look, func(dir string) { left = append(left, dir) })
		if err != nil || !slices.Equal(left, want) {
			t.Errorf("Follow(%q) = %q, %v; it leaves %q, not %q", p, end, err, left, want)
		}
	}
}

// onDisk looks at the real files.
func onDisk(p string, more bool) (step Step, err error) {
	info, err := os.Lstat(p)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return Step{Missing: true}, nil
	case err == nil && info.Mode()&os.ModeSymlink != 0:
		step.Target, err = os.Readlink(p)
	case err == nil && more && !info.IsDir():
		err = syscall.ENOTDIR // also where ".." comes next: the kernel says so
	}
	return step, err
}

// agree compares Follow with the standard library, on a real tree that chosen
// makes: what is a link, and to what.
func agree(t *testing.T, chosen uint64) {
	t.Helper()
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(chosen, 1))
	names := []string{"a", "b", "c", "d"}
	some := func() string {
		var list []string
		for range 1 + r.IntN(4) {
			list = append(list, append(names, "..", ".", "none")[r.IntN(len(names)+3)])
		}
		return strings.Join(list, "/")
	}
	dirs := []string{top}
	for range 14 {
		p := path.Join(dirs[r.IntN(len(dirs))], names[r.IntN(len(names))])
		switch r.IntN(8) {
		case 0, 1, 2:
			if os.Mkdir(p, 0o700) == nil {
				dirs = append(dirs, p)
			}
			continue
		case 3:
			if f, err := os.OpenFile(p, os.O_CREATE|os.O_EXCL, 0o600); err == nil {
				f.Close()
			}
			continue
		}
		target := some()
		if r.IntN(3) == 0 {
			target = top + "/" + target
		}
		os.Symlink(target, p) // or something is there already
	}
	for range 30 {
		rest := some()
		end, there, err := Follow(top, rest, onDisk, nil)
		want, wrong := filepath.EvalSymlinks(top + "/" + rest)
		switch {
		case wrong == nil:
			if err != nil || !there || end != want {
				t.Fatalf("%d: %q leads to %q, %t, %v; want %q", chosen, rest, end, there, err, want)
			}
		case errors.Is(wrong, os.ErrNotExist):
			if there && err == nil {
				t.Fatalf("%d: %q leads to %q, and the library says %v", chosen, rest, end, wrong)
			}
		case err == nil && there:
			t.Fatalf("%d: %q leads to %q, and the library says %v", chosen, rest, end, wrong)
		}
		if path.Clean(end) != end || !path.IsAbs(end) {
			t.Fatalf("%d: %q leads to %q", chosen, rest, end)
		}
	}
}

func TestFollowAgrees(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" && runtime.GOOS != "darwin" {
		t.Skip("the library follows by other rules")
	}
	for chosen := range uint64(200) {
		agree(t, chosen)
	}
}

func FuzzFollow(f *testing.F) {
	for _, seed := range []uint64{0, 7, 1 << 40} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, chosen uint64) { agree(t, chosen) })
}
