package holder

import (
	"os"
	"strings"
	"testing"
)

// What holds a place can be made for each command, and takes the mount with it. What is in
// its place must be protected each time.
func TestLostMountsAreMadeAgain(t *testing.T) {
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
	const text = "cd /.tree/0; for d in held hidden; do mkdir rw/$d/made 2>/dev/null && echo MADE; done; cat rw/secret aside 2>/dev/null"
	run := func(want string) {
		t.Helper()
		for _, p := range []string{"/rw/held", "/rw/hidden"} {
			if err := os.Mkdir(dir+p, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if out := strings.TrimSpace(sh(t, c, ops, text)); out != want {
			t.Errorf("got %q", out)
		}
		for _, p := range []string{"/rw/held", "/rw/hidden"} {
			if err := os.Remove(dir + p); err != nil {
				t.Fatal(err)
			}
		}
	}
	run("1")
	run("1")
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
