package containerinit

import (
	"io"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/frame"
	"github.com/sbxhost/sbxhost/internal/proc"
)

// keeper is pid 1 of a namespace in which one command runs after another.
type keeper struct {
	initArg string
	// begun has an entry when there may be children to wait for.
	begun chan struct{}

	mu      sync.Mutex
	running map[int]handed // by the pid of its init
	leaving bool           // end with the last command
}

// handed is a command that a client has passed.
type handed struct {
	client *client
	number uint64
}

// client is an engine.
type client struct {
	line line
	gone bool // guarded by the keeper's lock
}

func newKeeper(initArg string) *keeper {
	k := &keeper{initArg: initArg, begun: make(chan struct{}, 1), running: make(map[int]handed)}
	go k.reap()
	return k
}

// runKeep is the whole life of a keeper that ends with its engine.
func runKeep(path, initArg string) int {
	l, code := dialKeeper(path)
	if code != 0 {
		return code
	}
	if newKeeper(initArg).serve(l) != nil {
		return proc.Failed // the engine notices, and everything inside ends: nobody waits for an unknown command
	}
	return 0
}

// serve accepts the commands of one engine until it is gone.
func (k *keeper) serve(l line) (failed error) {
	c := &client{line: l}
	for failed == nil {
		number, fds, err := l.receive(handedOver)
		if err == nil {
			err = k.begin(c, number, fds)
			frame.CloseAll(fds)
		}
		if err == io.EOF {
			break
		}
		if failed = err; err != nil {
			proc.Complain("starting an init", err)
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	c.gone = true // its number may be another's from now on
	syscall.Close(int(l))
	return failed
}

func (k *keeper) begin(c *client, number uint64, fds []int) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	pid, err := k.forkInit(fds[0])
	if err != nil {
		return err
	}
	k.running[pid] = handed{c, number}
	select {
	case k.begun <- struct{}{}:
	default:
	}
	return nil
}

// reap collects the inits, and the orphans of inits that died first.
func (k *keeper) reap() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch err {
		case nil:
			k.ended(pid)
		case syscall.ECHILD:
			<-k.begun
		}
	}
}

func (k *keeper) ended(pid int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	h, ok := k.running[pid]
	if !ok {
		return
	}
	delete(k.running, pid)
	if len(k.running) == 0 {
		killTheRest()
	}
	if !h.client.gone {
		h.client.line.ended(h.number)
	}
	if k.leaving && len(k.running) == 0 {
		proc.Exit(0)
	}
}

// killTheRest kills every process of the namespace except pid 1, and returns when they are gone. No
// init may run meanwhile.
func killTheRest() {
	for {
		unix.Kill(-1, unix.SIGKILL)
		var status syscall.WaitStatus
		if _, err := syscall.Wait4(-1, &status, 0, nil); err == syscall.ECHILD {
			return
		}
	}
}
