package scan

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/glob"
)

// newTree gives an empty directory, resolved.
func newTree(t testing.TB) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// put makes files below dir, directories where a name ends in a slash, and
// symlinks where it has the form "name -> target".
func put(t testing.TB, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		name, target, link := strings.Cut(name, " -> ")
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		switch {
		case link:
			err = os.Symlink(target, path)
		case strings.HasSuffix(name, "/"):
			err = os.MkdirAll(path, 0o755)
		default:
			err = os.WriteFile(path, nil, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func patterns(t testing.TB, texts ...string) *glob.Set {
	t.Helper()
	var list []*glob.Pattern
	for _, text := range texts {
		p, err := glob.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
	return glob.NewSet(list...)
}

// show gives a result as lines, sorted.
func show(dir string, r []Found) []string {
	var lines []string
	for _, f := range r {
		kind := [...]string{"matched", "hard link", "named", "socket", "repository", "bare", "asked", "unsearched", "too deep", "of a worktree", "leads", "linked", "links unknown"}[f.Reason]
		lines = append(lines, fmt.Sprintf("%s %s", kind, strings.TrimPrefix(strings.TrimPrefix(f.Path, dir), "/")))
	}
	slices.Sort(lines)
	return lines
}

func expect(t *testing.T, s *Scanner, dir string, want ...string) {
	t.Helper()
	expectTo(t, s, 0, dir, want...)
}

func expectTo(t *testing.T, s *Scanner, depth int, dir string, want ...string) {
	t.Helper()
	r, err := s.ScanTo(depth)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(want)
	if got := show(dir, r); !slices.Equal(got, want) {
		t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

func TestScan(t *testing.T) {
	t.Parallel()
	dir := newTree(t)
	put(t, dir, "a/.env", "a/b/.env", "a/env", "a/secrets/key", "a/secrets/deep/.env", "build", "c/build/x", ".env -> a/env",
		"links/secrets -> ../other", "other/x.key", "other/y.txt", "loop -> .", "plain -> a", "gone -> nowhere")
	q := Query{Set: patterns(t, "/**/.env", dir+"/a/secrets/", dir+"/**/build/", dir+"/*/secrets/*.key")}
	expect(t, New(q, dir), dir, "matched a/.env", "matched a/b/.env", "matched a/secrets", "matched .env", "matched c/build", "leads links/secrets", "leads loop")

	t.Run("a link out of the trees", func(t *testing.T) {
		expect(t, New(q, dir+"/links"), dir)
	})
	t.Run("roots that match", func(t *testing.T) {
		expect(t, New(q, dir+"/a/secrets/deep", dir+"/c/build"), dir, "matched a/secrets/deep", "matched c/build")
	})
	t.Run("what is no directory", func(t *testing.T) {
		expect(t, New(q, dir+"/absent", dir+"/build", dir+"/a/b/.env"), dir, "matched a/b/.env")
	})
}

func TestScanFindsHardLinks(t *testing.T) {
	t.Parallel()
	dir := newTree(t)
	put(t, dir, "ws/.env", "ws/a/", "ws/secrets/key", "bind/", "ws/.env.local", "out/")
	for from, to := range map[string]string{"ws/.env": "ws/a/copy", "ws/secrets/key": "bind/key2", "ws/.env.local": "out/x"} {
		if err := os.Link(dir+"/"+from, dir+"/"+to); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(dir+"/ws/.env", dir+"/ws/a/.env"); err != nil {
		t.Fatal(err)
	}
	s := New(Query{Set: patterns(t, "/**/.env", "/**/.env.*", dir+"/ws/secrets")}, dir+"/ws", dir+"/bind")
	expect(t, s, dir,
		"matched ws/.env", "matched ws/a/.env", "matched ws/.env.local", "matched ws/secrets", "hard link ws/a/copy", "hard link bind/key2", "linked ws/.env.local")
}

func TestScanFindsNames(t *testing.T) {
	t.Parallel()
	dir := newTree(t)
	put(t, dir, ".env", "a/.env -> ../plain", "venv/.env/bin/x", "plain", "hidden/.env", "b/")
	if err := os.Link(dir+"/.env", dir+"/b/copy"); err != nil {
		t.Fatal(err)
	}
	q := Query{Set: patterns(t, "/**/hidden"), Name: func(name string) bool { return name == ".env" }}
	expect(t, New(q, dir), dir, "named .env", "named a/.env", "hard link b/copy", "matched hidden")
	expect(t, New(q, dir+"/.env", dir+"/b"), dir, "named .env", "hard link b/copy")
}

func TestScanFindsSocketsAndRepositories(t *testing.T) {
	t.Parallel()
	dir := newTree(t)
	put(t, dir, "a/", "x/repo/.git/HEAD", "y/wt/.git", "z/bare/HEAD", "z/bare/objects/", "z/bare/refs/", "z/not/HEAD", "hidden/.git/",
		"x/repo/.git/commondir", "x/repo/.git/worktrees/y/HEAD", "x/repo/.git/worktrees/y/commondir")
	// The name of a socket is short, and the directory of a test is not.
	fd, err := unix.Open(dir+"/a", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	l, err := net.Listen("unix", fmt.Sprintf("/proc/self/fd/%d/sock", fd))
	if err != nil && runtime.GOOS != "linux" {
		t.Skip("no /proc here")
	} else if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := New(Query{Sockets: true, Repositories: true, Set: patterns(t, "/**/hidden")}, dir)
	expect(t, s, dir, "socket a/sock", "repository x/repo", "repository y/wt", "of a worktree x/repo/.git/worktrees/y", "bare z/bare", "matched hidden")
	if r, err := New(Query{Set: patterns(t)}, dir).Scan(); err != nil || len(r) != 0 {
		t.Errorf("an empty query finds %v, %v", r, err)
	}
}

func TestScanReportsWhatItCannotSearch(t *testing.T) {
	t.Parallel()
	if os.Getuid() == 0 {
		t.Skip("root can search everything")
	}
	dir := newTree(t)
	put(t, dir, "closed/.env")
	if err := os.Chmod(dir+"/closed", 0); err != nil {
		t.Fatal(err)
	}
	s := New(Query{Set: patterns(t, "/**/.env")}, dir)
	expect(t, s, dir, "unsearched closed")
	if err := os.Chmod(dir+"/closed", 0o755); err != nil {
		t.Fatal(err)
	}
	expect(t, s, dir, "matched closed/.env")
}

// nest makes n directories of a name in one another.
func nest(t *testing.T, dir, name string, n int) {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	for range n {
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.Mkdirat(fd, name, 0o755); err != nil {
			t.Fatal(err)
		}
		next, openErr := unix.Openat(fd, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		unix.Close(fd)
		fd, err = next, openErr
	}
	unix.Close(fd)
}

// What is deeper than is asked for is not searched, and is as an earlier scan has found it.
func TestScanToADepth(t *testing.T) {
	t.Parallel()
	dir := newTree(t)
	bare := func(at string) []string { return []string{at + "/HEAD", at + "/objects/", at + "/refs/"} }
	put(t, dir, slices.Concat([]string{".git/", "a/.git/", "a/b/.git/"}, bare("bare"), bare("a/bare"))...)
	s := New(Query{Set: patterns(t), Repositories: true, MatchName: func(name string) bool { return name == "x" }}, dir)
	want := []string{"repository ", "repository a", "bare bare"}
	expectTo(t, s, 2, dir, want...)
	expectTo(t, s, 2, dir, want...) // as remembered
	put(t, dir, "x", "a/x", "a/b/x", "new/.git/", "a/new/.git/")
	expectTo(t, s, 2, dir, append(want, "asked x", "asked a/x", "repository new")...)
	if err := os.RemoveAll(dir + "/bare"); err != nil {
		t.Fatal(err)
	}
	expectTo(t, s, 2, dir, "repository ", "repository a", "asked x", "asked a/x", "repository new")
	all := []string{"repository ", "repository a", "repository new", "repository a/b", "repository a/new", "bare a/bare", "asked x", "asked a/x", "asked a/b/x"}
	expect(t, s, dir, all...)
	put(t, dir, "y/x", "a/b/c/x")
	expectTo(t, s, 2, dir, append(all, "asked y/x")...)
	expect(t, s, dir, append(all, "asked y/x", "asked a/b/c/x")...)
}

// What lies too deep, or has too long a path, is where the search ends, and not
// what makes it fail: it is one directory, whatever lies in that.
func TestScanEndsAtADepth(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("n", 200)
	for name, tt := range map[string]struct {
		name       string
		n          int
		levels     int // at which the search ends; 0 for nowhere
		everywhere string
	}{
		"deep":             {name: "d", n: 1900, levels: MaxDepth + 1},
		"just deep":        {name: "d", n: MaxDepth + 1, levels: MaxDepth + 1},
		"just not":         {name: "d", n: MaxDepth},
		"long":             {name: long, n: 40, levels: -1},
		"deep, in a match": {name: ".env", n: 300, everywhere: "matched .env"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := newTree(t)
			nest(t, dir, tt.name, tt.n)
			put(t, dir, "a/.env")
			levels := tt.levels
			if levels < 0 {
				for levels = 1; len(dir)+levels*(len(tt.name)+1) <= maxPath; levels++ {
				}
			}
			want := []string{"matched a/.env"}
			if levels > 0 {
				want = append(want, "too deep "+strings.TrimSuffix(strings.Repeat(tt.name+"/", levels), "/"))
			}
			if tt.everywhere != "" {
				want = append(want, tt.everywhere)
			}
			s := New(Query{Set: patterns(t, "/**/.env")}, dir)
			expect(t, s, dir, want...)
			expect(t, s, dir, want...) // as remembered
		})
	}
}

// Each of many names of hidden files takes the same time, however many there are.
func TestScanOfManyNames(t *testing.T) {
	t.Parallel()
	dir := newTree(t)
	put(t, dir, "a/.env", "b/.env")
	const n = 60000
	start := time.Now()
	for i := range n {
		from := "/a/.env"
		if i%2 == 0 {
			from = "/b/.env" // a file has 65,000 names at most
		}
		if err := os.Link(dir+from, fmt.Sprintf("%s/a/.env.%d", dir, i)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"a", "b"} {
		if err := os.Link(dir+"/"+name+"/.env", dir+"/a/plain-"+name); err != nil {
			t.Fatal(err)
		}
	}
	making := time.Since(start)
	// On a machine of any speed: it was twenty times as long, and is shorter, but for a pause.
	for try := 0; ; try++ {
		start = time.Now()
		r, err := New(Query{Set: patterns(t), Name: func(name string) bool { return strings.HasPrefix(name, ".env") }}, dir).Scan()
		took := time.Since(start)
		if err != nil || len(r) != n+4 {
			t.Fatalf("%d, %v", len(r), err)
		}
		if took <= 5*making {
			return
		}
		if try == 4 {
			t.Fatalf("it took %v, and making the files %v", took, making)
		}
	}
}

func TestScanHasABound(t *testing.T) {
	t.Parallel()
	dir := newTree(t)
	put(t, dir, "a/b", "a/c", "d")
	s := New(Query{Set: patterns(t)}, dir)
	s.limit = 3
	if _, err := s.Scan(); err == nil || !strings.Contains(err.Error(), "too many files to search") {
		t.Errorf("%v", err)
	}
	s.limit = 4
	for range 2 {
		if _, err := s.Scan(); err != nil {
			t.Error(err)
		}
	}
}

// tick returns once the clock of dir's file system tells a change from all that
// were made before.
func tick(t testing.TB, dir string) {
	t.Helper()
	stamp := func() int64 {
		f, err := os.CreateTemp(dir, "tick")
		if err != nil {
			t.Fatal(err)
		}
		defer os.Remove(f.Name())
		defer f.Close()
		var st unix.Stat_t
		if err := unix.Fstat(int(f.Fd()), &st); err != nil {
			t.Fatal(err)
		}
		return st.Ctim.Nano()
	}
	for from := stamp(); stamp() == from; {
	}
}

// Whatever is done to a tree, a Scanner that remembers it finds what one does
// that looks for the first time - and reads no more than what has changed.
func TestScanAgain(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			base := newTree(t)
			dir, clock := base+"/tree", base+"/clock"
			put(t, base, "tree/", "clock/")
			random := rand.New(rand.NewPCG(seed, 0))
			q := Query{Set: patterns(t, "/**/.env", "/**/secret/", dir+"/a/*/*"), Sockets: true, Repositories: true}
			s := New(q, dir)
			// To this one, all has been left alone for long.
			s.now = func() time.Time { return time.Now().Add(time.Hour) }
			for step := range 120 {
				tick(t, clock)
				mutate(random, dir)
				got, err := s.Scan()
				if err != nil {
					t.Fatal(err)
				}
				fresh, err := New(q, dir).Scan()
				if err != nil {
					t.Fatal(err)
				}
				if g, f := show(dir, got), show(dir, fresh); !slices.Equal(g, f) {
					t.Fatalf("step %d: got\n  %s\nand by a first look\n  %s", step, strings.Join(g, "\n  "), strings.Join(f, "\n  "))
				}
				again, err := s.Scan()
				if err != nil || !slices.Equal(show(dir, again), show(dir, got)) {
					t.Fatalf("step %d: the same tree, looked at again: %v", step, err)
				}
			}
		})
	}
}

// mutate does one random thing to a tree. That it may fail is of no matter.
func mutate(random *rand.Rand, dir string) {
	names := []string{"a", "b", "c", ".env", "secret", ".git", "HEAD", "objects", "refs"}
	path := func() string {
		p := dir
		for range 1 + random.IntN(4) {
			p += "/" + names[random.IntN(len(names))]
		}
		return p
	}
	p := path()
	switch random.IntN(8) {
	case 0, 1, 2:
		os.MkdirAll(p, 0o755)
	case 3:
		os.WriteFile(p, nil, 0o644)
	case 4:
		os.Rename(p, path())
	case 5:
		os.Link(p, path())
	case 6:
		os.Symlink(path(), p)
	case 7:
		os.RemoveAll(p)
	}
}

// What is found is what trying every path finds.
func TestScanAgainstTryingEveryPath(t *testing.T) {
	t.Parallel()
	dir := newTree(t)
	random := rand.New(rand.NewPCG(7, 7))
	for range 300 {
		mutate(random, dir)
	}
	os.RemoveAll(dir + "/.env") // or there is not much to see
	set := patterns(t, "/**/.env", dir+"/*/b/**/c")
	var want []string
	filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		_, hide := set.At(p)
		if _, above := set.At(filepath.Dir(p)); hide > 0 && above == 0 {
			want = append(want, "matched "+strings.TrimPrefix(p, dir+"/"))
		}
		return nil
	})
	r, err := New(Query{Set: set}, dir).Scan()
	if err != nil {
		t.Fatal(err)
	}
	got := show(dir, r) // more than that: what lies behind links, and hard links
	for _, w := range want {
		if !slices.Contains(got, w) {
			t.Errorf("not found: %s", w)
		}
	}
	if len(want) == 0 {
		t.Error("the tree has nothing to find")
	}
}

func BenchmarkScan(b *testing.B) {
	dir := newTree(b)
	for i := range 300 {
		for j := range 30 {
			put(b, dir, fmt.Sprintf("p%d/m%d/", i, j))
			for k := range 11 {
				put(b, dir, fmt.Sprintf("p%d/m%d/f%d.js", i, j, k))
			}
		}
	}
	q := Query{Set: patterns(b, "/**/.env", "/**/.env.*"), Sockets: true, Repositories: true}
	b.Run("first", func(b *testing.B) {
		for b.Loop() {
			if _, err := New(q, dir).Scan(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("again", func(b *testing.B) {
		s := New(q, dir)
		s.now = func() time.Time { return time.Now().Add(time.Hour) }
		for b.Loop() {
			if _, err := s.Scan(); err != nil {
				b.Fatal(err)
			}
		}
	})
}
