package stdio

import (
	"errors"
	"fmt"
	"io/fs"
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
	from, to, back *os.File      // back reads what to wrote
	done           chan struct{} // closed at the end of run
	err            error         // why run ended too early
}

// mirrored returns the command's pipe for the caller's. It is nil, as for no input, where the caller's is
// open only for writing: to read there would be to take what is meant for others.
func (f *Files) mirrored(stdin *os.File) (*os.File, error) {
	writes := false
	err := frame.Control(stdin, func(fd int) error {
		mode, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
		writes = mode&unix.O_ACCMODE == unix.O_WRONLY
		return err
	})
	if err != nil || writes {
		return nil, err
	}
	from, err := reopen(stdin)
	if errors.Is(err, fs.ErrPermission) {
		return stdin, nil // it is another user's, and the command could not open it either
	} else if err != nil {
		return nil, err
	}
	f.parent = append(f.parent, from)
	read, write, err := f.Pipe(true)
	if err != nil {
		return nil, err
	}
	back, err := reopen(read)
	if err != nil {
		return nil, err
	}
	f.parent = append(f.parent, back)
	f.mirror = &mirror{from: from, to: write, back: back, done: make(chan struct{})}
	return read, nil
}

// reopen opens a pipe again to read from it without a wait, which does not concern others who have it.
func reopen(pipe *os.File) (*os.File, error) {
	return another(pipe, func(fd int) (int, error) {
		return unix.Open("/proc/self/fd/"+strconv.Itoa(fd), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	})
}

// Sizes of the command's pipe, in bytes: of one page, and of as much as the caller's mostly holds.
const onePage, manyPages = 4 << 10, 64 << 10

// run shows until one of both ends. The command's pipe is full with what it shows: the kernel says when
// the command reads of that. What it leaves is then taken back, and shown again.
func (m *mirror) run() {
	defer close(m.done)
	defer m.to.Close()
	from, err := m.from.SyscallConn()
	to, toErr := m.to.SyscallConn()
	null, nullErr := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if nullErr != nil {
		m.err = nullErr
		return
	}
	defer null.Close()
	many := true
	for err == nil && toErr == nil {
		var shown int64
		var failed error
		err = from.Read(func(fd uintptr) bool {
			failed = frame.Control(m.to, func(to int) (err error) {
				size := onePage
				if many && waitingIn(m.from) >= manyPages {
					size = manyPages
				}
				if now, _ := unix.FcntlInt(uintptr(to), unix.F_GETPIPE_SZ, 0); now != size {
					unix.FcntlInt(uintptr(to), unix.F_SETPIPE_SZ, size)
				}
				shown, err = unix.Tee(int(fd), to, manyPages, unix.SPLICE_F_NONBLOCK)
				return err
			})
			return failed != unix.EAGAIN
		})
		if err != nil || failed != nil || shown == 0 {
			if number, ok := failed.(unix.Errno); ok && number != unix.EAGAIN {
				m.err = fmt.Errorf("stdin: tee: %w", number)
			}
			return
		}
		toErr = to.Write(func(fd uintptr) bool {
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, 0)
			return n > 0 || err != nil
		})
		// A command can write to its pipe, too.
		left := move(m.back, null, shown)
		move(m.from, null, shown-left)
		// Pages of a pipe can be larger, and a few of them do not fill many.
		many = left < shown
	}
}

// move moves up to most bytes out of a pipe, as far as they are there now. It does so at once, also from
// a pipe in packet mode, out of which each read takes one packet: between two reads the command could
// read, and what is taken back would no longer be the end of what it was shown.
func move(pipe, to *os.File, most int64) (n int64) {
	frame.Control(pipe, func(from int) error {
		return frame.Control(to, func(to int) error {
			for n < most {
				got, err := unix.Splice(from, nil, to, nil, int(most-n), unix.SPLICE_F_NONBLOCK)
				if n += max(got, 0); got == 0 || err != nil && err != unix.EINTR {
					return err
				}
			}
			return nil
		})
	})
	return n
}

// stop ends the copy after the command has ended. A nil mirror has nothing to copy.
func (m *mirror) stop() error {
	if m == nil {
		return nil
	}
	m.from.SetReadDeadline(time.Unix(1, 0))
	m.to.SetWriteDeadline(time.Unix(1, 0))
	<-m.done
	return m.err
}
