package holder

import (
	"os"
	"strings"
	"testing"
)

// What holds a place is made for each command. That must not cost a new tree,
// and what is in its place must be protected each time.
func TestTreesAreMended(t *testing.T) {
	t.Parallel()
	c := connect(t, session(t))
	dir := tempDir(t)
	write(t, dir+"/rw/secret", "secret")
	write(t, dir+"/aside", "1")
	ops := append(system(),
		Op{Kind: Bind, Source: dir + "/rw", Dest: "/0/rw"},
		Op{Kind: ReadOnlyBind, Source: dir + "/rw/held", Dest: "/0/rw/held"},
		Op{Kind: ReadOnlyBind, Source: dir + "/aside", Dest: "/0/aside"},
		Op{Kind: HideDirectory, Dest: "/0/rw/hidden"},
		Op{Kind: HideFile, Dest: "/0/rw/secret"},
	)
	// The memory that a tree is made in, and when, tells one from another.
	const text = "cd /.tree/0; for d in held hidden; do mkdir rw/$d/made 2>/dev/null && echo MADE; done; cat rw/secret aside 2>/dev/null; " +
		"stat -c ' %d %y' /.tree"
	run := func(aside string) (id string) {
		t.Helper()
		for _, p := range []string{"/rw/held", "/rw/hidden"} {
			if err := os.Mkdir(dir+p, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		out, id, ok := strings.Cut(strings.TrimSpace(sh(t, c, ops, text)), " ")
		if !ok || strings.Contains(id, "\n") || out != aside {
			t.Errorf("got %q, id %q", out, id)
		}
		for _, p := range []string{"/rw/held", "/rw/hidden"} {
			if err := os.Remove(dir + p); err != nil {
				t.Fatal(err)
			}
		}
		return id
	}
	first := run("1")
	for range 3 {
		if id := run("1"); id != first {
			t.Errorf("the tree was made anew: it is %s, and was %s", id, first)
		}
	}
	// The old mount is still there, for the source lies elsewhere.
	write(t, dir+"/aside.new", "2")
	if err := os.Rename(dir+"/aside.new", dir+"/aside"); err != nil {
		t.Fatal(err)
	}
	run("2")
	// A mount point that becomes of another type is what its plan says, or nothing.
	if err := os.WriteFile(dir+"/rw/held", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dir+"/rw/hidden", 0o755); err != nil {
		t.Fatal(err)
	}
	if got := sh(t, c, ops, "echo text > /.tree/0/rw/held || echo refused"); !strings.Contains(got, "refused") {
		t.Errorf("a protected file was written to: %q", got)
	}
}
