package holder

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/frame"
	"github.com/sbxhost/sbxhost/internal/proc"
)

// A command can use up its user's descriptors in transit. A request that cannot be sent for that
// must not end the session's other commands. Not parallel: it lowers this process's limit.
func TestRequestThatCannotBeSent(t *testing.T) {
	c := connect(t, session(t))
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	pair, err := frame.Socketpair()
	if err != nil {
		t.Fatal(err)
	}
	defer frame.CloseAll(pair[:])
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 64, Max: limit.Max}, nil); err != nil {
		t.Fatal(err)
	}
	var many []int
	for range 100 {
		many = append(many, pair[0])
	}
	err = unix.Sendmsg(pair[0], []byte{0}, unix.UnixRights(many...), nil, 0)
	proc.OnOwnThread(func() {
		if err == nil {
			err = proc.SetCapabilities(0) // with some, the kernel does not limit
		}
		if err == nil {
			_, err = c.Start(t.Context(), Start{Plan: NewPlan(system()), Argv: []string{"init"}, Files: []*os.File{null}})
		}
	})
	unix.Prlimit(0, unix.RLIMIT_NOFILE, &limit, nil)
	if !errors.Is(err, unix.ETOOMANYREFS) {
		t.Errorf("%v", err)
	}
	if _, fds, err := frame.Receive(pair[1], make([]byte, 1)); err != nil || len(fds) != len(many) {
		t.Errorf("%v, %v", fds, err)
	} else {
		frame.CloseAll(fds)
	}
	if out := sh(t, c, system(), "echo up"); out != "up\n" {
		t.Errorf("%q", out)
	}
}
