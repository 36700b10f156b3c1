//go:build unix

package stdio

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/frame"
)

// terminal is a terminal pair of the host.
type terminal struct {
	master, slave *os.File
	over          atomic.Bool
	late          int // bytes that were read after the deadline of ended
}

// openTerminal makes a terminal whose slave is opened with access. One that takes output only changes no
// byte of it, and a program that reads its keys there gets an error, and does not wait for keys that
// nobody types.
func openTerminal(size TerminalSize, access int) (*terminal, error) {
	// It has the runtime's poller: close then interrupts a running read or write and hangs the command
	// up at once.
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	p := &terminal{master: master}
	var name string
	err = frame.Control(master, func(fd int) (err error) {
		name, err = unlockSlave(fd)
		return err
	})
	if err == nil {
		p.slave, err = os.OpenFile(name, access|unix.O_NOCTTY, 0)
	}
	if err != nil {
		master.Close()
		return nil, err
	}
	size = cmp.Or(size, TerminalSize{Rows: 24, Cols: 80})
	if err = cmp.Or(p.resize(size), p.changeModes(func(m *unix.Termios) {
		m.Iflag |= unix.IUTF8 // the kernel's line editor shall erase whole characters, as terminal emulators ask for
		if access == os.O_WRONLY {
			m.Oflag &^= unix.OPOST
		}
	})); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *terminal) changeModes(change func(*unix.Termios)) error {
	return frame.Control(p.slave, func(fd int) error {
		modes, err := unix.IoctlGetTermios(fd, getTermios)
		if err != nil {
			return err
		}
		change(modes)
		return unix.IoctlSetTermios(fd, setTermios, modes)
	})
}

// stops reports whether one of keys stops the foreground job, and that job is the command itself.
// The command's process group is orphaned, and the kernel does not stop such a group. A shell there
// with jobs of its own ignores the signal.
func (p *terminal) stops(keys []byte) (stops bool) {
	frame.Control(p.master, func(fd int) error {
		modes, err := unix.IoctlGetTermios(fd, getTermios)
		if err != nil || modes.Lflag&unix.ISIG == 0 {
			return err
		}
		key := modes.Cc[unix.VSUSP]
		if key == noKey || bytes.IndexByte(keys, key) < 0 {
			return nil
		}
		job, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
		if err != nil {
			return err
		}
		session, err := unix.Getsid(job)
		stops = err == nil && job == session && !ignores(job, syscall.SIGTSTP)
		return err
	})
	return stops
}

// sizeOf returns a terminal's size, or zero.
func sizeOf(f *os.File) (size TerminalSize) {
	frame.Control(f, func(fd int) error {
		w, err := unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ)
		if err == nil {
			size = TerminalSize{Rows: w.Row, Cols: w.Col}
		}
		return err
	})
	return size
}

// resize sets the size; the kernel signals the foreground process group.
func (p *terminal) resize(size TerminalSize) error {
	return frame.Control(p.master, func(fd int) error {
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: size.Rows, Col: size.Cols})
	})
}

// ended tells the terminal that the command has ended, and hangs up. In a kept session, or where an
// engine does not isolate, processes of the command can hold the terminal open and go on writing: their
// output is not waited for.
func (p *terminal) ended() {
	p.over.Store(true)
	p.master.SetReadDeadline(time.Now().Add(drainPatience))
}

// drainPatience is how long the kernel may take to pass on the last output.
const drainPatience = 100 * time.Millisecond

func (p *terminal) close() {
	p.master.Close()
	p.slave.Close()
}

// maxLate is more than the kernel holds of a terminal's output, in bytes.
const maxLate = 64 << 10

// terminalReader reads what the command writes, up to its end. It turns EIO into the end: Linux gives it after the last slave is closed.
type terminalReader struct{ *terminal }

func (r terminalReader) Read(b []byte) (int, error) {
	n, err := r.master.Read(b)
	if r.over.Load() && errors.Is(err, os.ErrDeadlineExceeded) {
		n, err = r.waiting(b)
	}
	if errors.Is(err, syscall.EIO) {
		err = io.EOF
	}
	return n, err
}

// waiting reads what the kernel has ready, or reports the end. Go's Read does not look at that
// after its deadline, and on a busy machine the deadline can pass before Read begins.
func (p *terminal) waiting(b []byte) (n int, err error) {
	if p.late > maxLate {
		return 0, io.EOF
	}
	n, err = waiting{p.master}.Read(b)
	p.late += n
	return n, err
}

// WriteTo is what io.Copy calls. It hangs up if nobody takes the output any more: the command gets
// no SIGPIPE at a terminal, and would wait forever in its write.
func (r terminalReader) WriteTo(w io.Writer) (int64, error) {
	n, err := io.Copy(w, struct{ io.Reader }{r})
	if err != nil {
		r.master.Close()
	}
	return n, err
}
