package containerinit

import (
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/proc"
)

// runStay is the whole life of a keeper that outlives its first engine.
func runStay(path, initArg string) int {
	l, code := dialKeeper(path)
	if code != 0 {
		return code
	}
	_, fds, err := l.receive(settlementFDs)
	if err != nil {
		return proc.Complain("fetching the socket", err)
	}
	listener, file := fds[0], fds[1]
	k := newKeeper(initArg)
	go k.serve(l)
	go k.awaitRemoval(file)
	for {
		fd, _, err := unix.Accept4(listener, unix.SOCK_CLOEXEC)
		switch err {
		case nil:
			go k.serve(line(fd))
		case unix.EINTR, unix.ECONNABORTED:
		default:
			return proc.Complain("accepting an engine", err)
		}
	}
}

// removalCheck is how often to check whether a file still exists, in milliseconds, if inotify does
// not report it.
const removalCheck = 10_000

// awaitRemoval ends everything when a file has no name any more and no command runs.
func (k *keeper) awaitRemoval(file int) {
	// A user has few inotify instances. Without one, the check takes longer.
	told, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err == nil {
		_, err = unix.InotifyAddWatch(told, "/proc/self/fd/"+strconv.Itoa(file), unix.IN_ATTRIB|unix.IN_DELETE_SELF)
	}
	if err != nil {
		told = -1
	}
	said := make([]byte, 4096)
	for {
		var st unix.Stat_t
		if err := unix.Fstat(file, &st); err != nil || st.Nlink == 0 {
			break
		}
		ready := []unix.PollFd{{Fd: int32(told), Events: unix.POLLIN}}
		if n, _ := unix.Poll(ready, removalCheck); n > 0 {
			unix.Read(told, said)
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.leaving = true
	if len(k.running) == 0 {
		proc.Exit(0)
	}
}

func dialKeeper(path string) (l line, code int) {
	if os.Getpid() != 1 {
		// It kills all that it can see, so that must only be its own namespace.
		return -1, proc.Complain("keeping a namespace", syscall.EPERM)
	}
	if l, code = dial(path); code != 0 {
		return l, code
	}
	if err := proc.CloseOnExecFrom(3); err != nil {
		return -1, proc.Complain("setting fds close-on-exec", err)
	}
	// Otherwise any command could end the others with one signal to pid 1.
	proc.IgnoreSignals()
	return l, 0
}
