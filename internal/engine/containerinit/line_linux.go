package containerinit

import (
	"io"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/frame"
	"github.com/sbxhost/sbxhost/internal/proc"
)

// Main is the life of a process whose arguments are [Requested]. It returns the exit status.
// runInit is the life of the init that it becomes, with a control socket.
func Main(args []string, runInit func(control int) int) int {
	line, code := dial(args[2])
	if code != 0 {
		return code
	}
	control, err := line.receive()
	if err == io.EOF {
		return proc.Failed // the engine has died or given up
	}
	if err != nil {
		return proc.Complain("fetching the control socket", err)
	}
	syscall.Close(int(line))
	return runInit(control)
}

// line is the connection to the socket of FetchArgv.
type line int

// dial connects. First it hides the process from the command: from now on it has descriptors that
// the command must not see.
func dial(path string) (l line, code int) {
	if err := proc.Hide(); err != nil {
		return -1, proc.Complain("hiding", err)
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		for {
			if err = unix.Connect(fd, &unix.SockaddrUnix{Name: path}); err != unix.EINTR {
				break
			}
		}
	}
	if err != nil {
		proc.Complain("connecting to "+strconv.Quote(path), err)
		return -1, Unreachable
	}
	return line(fd), 0
}

// receive reads a [Handover] and returns its descriptor.
func (l line) receive() (control int, err error) {
	from := frame.Receiver{Socket: int(l)}
	_, err = io.ReadFull(&from, make([]byte, 1))
	if err == nil && len(from.Files) != 1 {
		err = frame.Malformed("without its descriptor")
	}
	if err != nil {
		frame.CloseAll(from.Files)
		return -1, err
	}
	return from.Files[0], nil
}
