package stdio

import (
	"errors"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/frame"
)

// A mirror shows a command what waits in its caller's pipe, in a pipe of the command's own, and takes
// from the caller's pipe only what the command has read: the next reader, such as the shell whose script
// comes from there, finds the rest. The command does not get the caller's pipe: by /proc/self/fd/0 it
// could open that for writing, and would give the shell another script. Nobody else should read the
// caller's pipe at the same time.
type mirror struct {
	from, to *os.File
	size     int           // of to, in bytes
	ended    chan struct{} // closed by stop
	done     chan struct{}
}

// mirrored returns the command's pipe for the caller's.
func (f *Files) mirrored(stdin *os.File) (*os.File, error) {
	from, err := reopen(stdin)
	if err != nil {
		return stdin, nil // it is another user's, and the command could not open it either
	}
	f.parent = append(f.parent, from)
	read, write, err := f.Pipe(true)
	f.mirror = &mirror{from: from, to: write, ended: make(chan struct{}), done: make(chan struct{})}
	return read, err
}

// reopen opens a pipe again to read from it without a wait, which does not concern others who have it.
func reopen(pipe *os.File) (again *os.File, err error) {
	err = frame.Control(pipe, func(fd int) error {
		fd, err := unix.Open("/proc/self/fd/"+strconv.Itoa(fd), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err == nil {
			again = os.NewFile(uintptr(fd), pipe.Name())
		}
		return err
	})
	return again, err
}

// run shows until one of both ends.
func (m *mirror) run() {
	defer close(m.done)
	defer m.to.Close()
	from, err := m.from.SyscallConn()
	for err == nil {
		var shown int64
		var failed error
		err = from.Read(func(fd uintptr) bool {
			failed = frame.Control(m.to, func(to int) (err error) {
				m.resize(to)
				shown, err = unix.Tee(int(fd), to, maxShown, unix.SPLICE_F_NONBLOCK)
				return err
			})
			return !errors.Is(failed, unix.EAGAIN)
		})
		if err != nil || failed != nil || shown == 0 {
			return
		}
		over := m.awaitRead()
		discard(m.from, shown-int64(waitingIn(m.to)))
		if over {
			return
		}
	}
}

// Sizes of the command's pipe, in bytes: of one page, and of as much as the caller's mostly holds. The
// kernel says when a full pipe is read.
const onePage, manyPages, maxShown = 4 << 10, 64 << 10, 1 << 30

// resize makes the empty pipe of the command one that is full when it shows what waits.
func (m *mirror) resize(to int) {
	size := onePage
	if waitingIn(m.from) >= manyPages {
		size = manyPages
	}
	if size != m.size {
		unix.FcntlInt(uintptr(to), unix.F_SETPIPE_SZ, size)
		m.size = size
	}
}

// How long to wait between two looks at a pipe that is not full.
const minLook, maxLook = 10 * time.Microsecond, 20 * time.Millisecond

// awaitRead waits until the command has read all, or has ended; over says the latter.
func (m *mirror) awaitRead() (over bool) {
	to, err := m.to.SyscallConn()
	if err == nil {
		err = to.Write(func(fd uintptr) bool {
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, 0)
			return n > 0 || err != nil && err != unix.EINTR
		})
	}
	for wait := minLook; err == nil && waitingIn(m.to) > 0; wait = min(2*wait, maxLook) {
		select {
		case <-m.ended:
			return true
		case <-time.After(wait):
		}
	}
	return err != nil
}

// stop ends the copy after the command has ended. A nil mirror has nothing to copy.
func (m *mirror) stop() {
	if m != nil {
		close(m.ended)
		m.from.SetReadDeadline(time.Unix(1, 0))
		m.to.SetWriteDeadline(time.Unix(1, 0))
		<-m.done
	}
}
