package sandboxinit

import (
	"encoding/binary"
	"io"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// keeper is pid 1 of a namespace in which one command runs after another.
type keeper struct {
	line line
	// begun has an entry once there may be children to wait for.
	begun chan struct{}

	mu      sync.Mutex
	running map[int]uint64 // pid of an init -> number of its handover
}

// runKeep is the whole life of a keeper.
func runKeep(path string) int {
	if os.Getpid() != 1 {
		// It kills all that it can see, which must be its own namespace alone.
		return complain("keeping a namespace", syscall.EPERM)
	}
	l, code := dial(path)
	if code != 0 {
		return code
	}
	if err := closeOnExecFrom(3); err != nil {
		return complain("setting fds close-on-exec", err)
	}
	// Any command could otherwise end the others with one kill of pid 1.
	silence()
	k := &keeper{line: l, begun: make(chan struct{}, 1), running: make(map[int]uint64)}
	go k.reap()
	for {
		number, control, err := l.receive()
		if err == nil {
			err = k.begin(number, control)
			closeRow(control, handedOver)
		}
		switch {
		case err == io.EOF:
			return 0
		case err != nil:
			// The engine sees it, and everything inside ends: nobody waits for
			// a command of which nothing is known.
			return complain("starting an init", err)
		}
	}
}

func (k *keeper) begin(number uint64, control int) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	pid, err := forkInit(control)
	if err != nil {
		return err
	}
	k.running[pid] = number
	select {
	case k.begun <- struct{}{}:
	default:
	}
	return nil
}

// reap collects the inits, and the orphans of those that did not live to do it.
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
	number, ok := k.running[pid]
	if !ok {
		return
	}
	delete(k.running, pid)
	if len(k.running) == 0 {
		killTheRest()
	}
	message := binary.BigEndian.AppendUint64(nil, number)
	controlSocket(k.line).send(message)
}

// killTheRest kills every process of the namespace but pid 1, and returns once
// they are gone. It must not run while an init does.
func killTheRest() {
	for {
		unix.Kill(-1, unix.SIGKILL)
		var status syscall.WaitStatus
		if _, err := syscall.Wait4(-1, &status, 0, nil); err == syscall.ECHILD {
			return
		}
	}
}
