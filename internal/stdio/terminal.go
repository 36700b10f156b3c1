//go:build unix

package stdio

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// terminal is a terminal pair that the host owns. A nil one can be closed.
type terminal struct {
	master, slave *os.File
	once          sync.Once
	over          atomic.Bool
}

func openTerminal(size TerminalSize) (*terminal, error) {
	// With the runtime's poller: to close one that is being read or written hangs the command
	// up, now rather than when the read or write ends.
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: "/dev/ptmx", Err: err}
	}
	err = unix.SetNonblock(fd, true)
	p := &terminal{master: os.NewFile(uintptr(fd), "/dev/ptmx")}
	var name string
	if err == nil {
		name, err = unlockSlave(fd)
	}
	if err == nil {
		p.slave, err = os.OpenFile(name, os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		p.master.Close()
		return nil, err
	}
	if size == (TerminalSize{}) {
		size = TerminalSize{Rows: 24, Cols: 80}
	}
	err = p.resize(size)
	if err == nil {
		err = p.editUTF8()
	}
	if err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// openScreen makes a terminal that can only be written to, and that changes nothing
// of what is. A program that would read its keys there is told that it cannot, and
// does not wait for what nobody types.
func openScreen(size TerminalSize) (*terminal, error) {
	p, err := openTerminal(size)
	if err != nil {
		return nil, err
	}
	slave, err := os.OpenFile(p.slave.Name(), os.O_WRONLY|syscall.O_NOCTTY, 0)
	if err == nil {
		p.slave.Close()
		p.slave = slave
		err = p.changeModes(func(m *unix.Termios) { m.Oflag &^= unix.OPOST })
	}
	if err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// editUTF8 has the line editor of the kernel erase whole characters, which
// terminal emulators ask for, too: all else it erases a byte at a time.
func (p *terminal) editUTF8() error {
	return p.changeModes(func(m *unix.Termios) { m.Iflag |= iUTF8 })
}

func (p *terminal) changeModes(change func(*unix.Termios)) error {
	return control(p.slave, func(fd int) error {
		modes, err := unix.IoctlGetTermios(fd, getTermios)
		if err != nil {
			return err
		}
		change(modes)
		return unix.IoctlSetTermios(fd, setTermios, modes)
	})
}

// stops reports whether one of keys stops the foreground job, and that is the
// command itself. Its process group is orphaned, and the kernel stops no such one.
// A shell in it that has jobs of its own ignores the signal.
func (p *terminal) stops(keys []byte) (stops bool) {
	control(p.master, func(fd int) error {
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

func isTerminal(f *os.File) bool {
	return control(f, func(fd int) error {
		_, err := unix.IoctlGetTermios(fd, getTermios)
		return err
	}) == nil
}

// sizeOf is a terminal's size, or zero.
func sizeOf(f *os.File) (size TerminalSize) {
	control(f, func(fd int) error {
		w, err := unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ)
		if err == nil {
			size = TerminalSize{Rows: w.Row, Cols: w.Col}
		}
		return err
	})
	return size
}

func sameDevice(f, g *os.File) bool {
	device := func(f *os.File) (number uint64, err error) {
		err = control(f, func(fd int) error {
			var stat unix.Stat_t
			err := unix.Fstat(fd, &stat)
			number = uint64(stat.Rdev)
			return err
		})
		return number, err
	}
	a, errA := device(f)
	b, errB := device(g)
	return errA == nil && errB == nil && a == b
}

// resize sets the size; the kernel tells the foreground process group.
func (p *terminal) resize(size TerminalSize) error {
	return control(p.master, func(fd int) error {
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: size.Rows, Col: size.Cols})
	})
}

// control is for what has no method of os.File. Its Fd would end the file's use
// of the poller.
func control(f *os.File, do func(fd int) error) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	controlErr := conn.Control(func(fd uintptr) { err = do(int(fd)) })
	return cmp.Or(err, controlErr)
}

// output reads what the command writes, up to its end.
func (p *terminal) output() io.Reader { return terminalReader{p} }

// ended tells that the command has ended. With it, its terminal is hung up: what
// it has left behind where an engine does not isolate can hold that open, but
// write to it no more. A nil one can be told.
func (p *terminal) ended() {
	if p == nil {
		return
	}
	p.over.Store(true)
	p.master.SetReadDeadline(time.Now().Add(drainPatience))
}

// drainPatience is how long the kernel may take to pass on the last output.
const drainPatience = 100 * time.Millisecond

func (p *terminal) close() {
	if p == nil {
		return
	}
	p.once.Do(func() {
		p.master.Close()
		p.slave.Close()
	})
}

// terminalReader reads EIO, which Linux gives once the last slave is closed, as the
// end.
type terminalReader struct{ *terminal }

func (r terminalReader) Read(b []byte) (int, error) {
	if r.over.Load() {
		r.ended()
	}
	n, err := r.master.Read(b)
	if r.over.Load() && errors.Is(err, os.ErrDeadlineExceeded) {
		n, err = r.waiting(b)
	}
	if errors.Is(err, syscall.EIO) {
		err = io.EOF
	}
	return n, err
}

// waiting reads what the kernel has ready, or is the end. A Read of Go's does not
// look for that once its time is up, which on a busy machine can be before it begins.
func (p *terminal) waiting(b []byte) (n int, err error) {
	err = control(p.master, func(fd int) (err error) {
		n, err = unix.Read(fd, b)
		return err
	})
	if err != nil || n <= 0 {
		return 0, io.EOF
	}
	return n, nil
}

// WriteTo is what io.Copy calls. Where nobody takes the output any more, it hangs
// up: the command would otherwise wait for ever in writing to a terminal that
// nobody reads, as it has no SIGPIPE there.
func (r terminalReader) WriteTo(w io.Writer) (int64, error) {
	n, err := io.Copy(w, struct{ io.Reader }{r})
	if err != nil {
		r.master.Close()
	}
	return n, err
}
