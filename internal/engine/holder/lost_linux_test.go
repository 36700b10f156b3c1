package holder

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/frame"
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

// A user can have as many descriptors on the way, in all sockets together, as one process may
// open. What cannot be handed over for that is told, and its init ends.
func TestNotHandedOver(t *testing.T) {
	t.Parallel()
	c, err := Connect(t.Context(), Config{Executable: self})
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseAlone()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer frame.CloseAll(pair[:])
	var limit unix.Rlimit
	if err := unix.Prlimit(c.holder.Pid, unix.RLIMIT_NOFILE, nil, &limit); err != nil {
		t.Fatal(err)
	}
	if err := unix.Prlimit(c.holder.Pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 64, Max: limit.Max}, nil); err != nil {
		t.Fatal(err)
	}
	var many []int
	for range 100 {
		many = append(many, pair[0])
	}
	if err := unix.Sendmsg(pair[0], []byte{0}, unix.UnixRights(many...), nil, 0); err != nil {
		t.Fatal(err)
	}
	_, out, err := start(t, c, system(), "exec sleep 600")
	if failed, ok := errors.AsType[*MountError](err); !ok || failed.Errno != unix.ETOOMANYREFS {
		t.Errorf("%v", err)
	}
	if text, err := io.ReadAll(out); err != nil || len(text) > 0 {
		t.Errorf("%q, %v", text, err)
	}
	if _, fds, err := frame.Receive(pair[1], make([]byte, 1)); err != nil || len(fds) != len(many) {
		t.Errorf("%v, %v", fds, err)
	} else {
		frame.CloseAll(fds)
	}
	if err := unix.Prlimit(c.holder.Pid, unix.RLIMIT_NOFILE, &limit, nil); err != nil {
		t.Fatal(err)
	}
	if out := sh(t, c, system(), "echo up"); out != "up\n" {
		t.Errorf("got %q", out)
	}
}
