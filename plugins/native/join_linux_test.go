package native

import (
	"context"
	"errors"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/engine/sandboxinit"
	"github.com/sbxhost/sbxhost/internal/proc"
	"github.com/sbxhost/sbxhost/plugins/internal/inside"
	"github.com/sbxhost/sbxhost/shared"
)

// A command cannot join processes that ended with their holder. It must not wait for the end of
// the holder that replaced that one.
func TestJoinAfterTheHolderDied(t *testing.T) {
	t.Parallel()
	e := need(t).(*engine)
	spec := sessionSpec(t)
	spec.Session.Processes = true
	a, err := e.attach(t.Context(), &spec)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	l, err := a.Launch(&shared.Command{})
	if err != nil {
		t.Fatal(err)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	exe, err := sandboxinit.Binary{Self: true}.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer exe.Close()
	ours, theirs, err := sandboxinit.Pair()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	defer theirs.Close()
	words, files := sandboxinit.Argv(3, 4), []*os.File{null, null, null, exe, theirs}
	spawn, _ := l.Shared(nil, func(shared.Event) {})
	first, err := spawn(t.Context(), words, files, nil)
	if err != nil {
		t.Fatal(err)
	}
	first.(*process).client.Close()
	first.Wait()
	spawn, _ = l.Shared(first, nil)
	if _, err = spawn(t.Context(), words, files, nil); !errors.Is(err, shared.ErrBroken) {
		t.Errorf("%v", err)
	}
}

// Whatever of a session is killed, the next command begins new processes. The machine may be slow to
// reap: here this process is the parent of what a holder leaves, and does not reap it meanwhile. A pid 1
// waits for that.
func TestKilledSessionBeginsAnew(t *testing.T) { // not parallel: other tests' processes would come here too
	e := need(t).(*engine)
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	defer unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
	var all sync.WaitGroup
	for i := range 10 { // mostly another thread than the first is the last, and the kernel then calls it a zombie
		all.Go(func() {
			spec := shared.Spec{Session: shared.Session{ID: strconv.Itoa(i), Dir: sessionDir(t), Processes: true}}
			sandbox, err := e.Open(t.Context(), spec)
			if err != nil {
				t.Error(err)
				return
			}
			defer sandbox.Close(context.Background())
			r, w := inside.Pipe(t)
			p, err := sandbox.Start(t.Context(), shared.Command{Args: []string{"/bin/sh", "-c", "echo up; exec sleep 1000"}, Dir: "/", Env: inside.Env}, shared.Stdio{Stdout: w})
			if err != nil {
				t.Error(err)
				return
			}
			r.Read(make([]byte, 3))
			e.sessions.mu.Lock()
			holder := e.sessions.open[newSession(&spec).key].client.Pid()
			e.sessions.mu.Unlock()
			children := proc.Children(holder)
			slices.Sort(children)
			if i < 2 {
				syscall.Kill(children[0], syscall.SIGKILL)
			} else {
				syscall.Kill(holder, syscall.SIGKILL)
			}
			// A command that joins it before it is exiting is killed with it. No event tells that moment:
			// a pidfd tells only the end.
			for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
				if flags, err := strconv.Atoi(proc.Stat(children[0], proc.StatFlags)); err != nil || flags&4 != 0 {
					break
				}
				if time.Now().After(deadline) {
					t.Fatal("it is not seen that pid 1 was killed")
				}
			}
			out, err := inside.TryRun(t, e, spec, shared.Command{Args: []string{"/bin/echo", "again"}})
			if err != nil || out.Stdout != "again\n" {
				t.Errorf("%d: %q, %v", i, out.Stdout, err)
			}
			if _, err := p.Wait(t.Context()); !errors.Is(err, shared.ErrBroken) {
				t.Errorf("%d: %v", i, err)
			}
			for _, pid := range slices.Backward(children) { // pid 1 waits for the others
				syscall.Wait4(pid, nil, 0, nil) // if this process has inherited it
			}
		})
	}
	all.Wait()
}
