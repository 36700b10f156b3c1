package containerinit

import (
	"encoding/binary"
	"io"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/frame"
	"github.com/sbxhost/sbxhost/internal/proc"
)

// Main is the life of a process that [Wanted] its arguments. It returns the exit status.
// What it starts, or becomes, is the init: argv[1] of one, and what one does with
// the descriptors from control on, and with the line sockets, which is negative for none.
func Main(args []string, initArg string, runInit func(control, sockets int) int) int {
	switch args[1] {
	case fetchArg:
		return runFetch(args[2], runInit)
	case keepArg:
		return runKeep(args[2], initArg)
	case stayArg:
		return runStay(args[2], initArg)
	}
	return runOwn(args[2], args[3:])
}

// runFetch is the whole life of an init that fetches its descriptors.
func runFetch(path string, runInit func(control, sockets int) int) int {
	line, code := dial(path)
	if code != 0 {
		return code
	}
	_, fds, err := line.receive()
	if err == io.EOF {
		return proc.Failed // the engine has died or given up
	}
	var control int
	if err == nil {
		control, err = proc.InARow(fds)
		frame.CloseAll(fds)
	}
	if err != nil {
		return proc.Complain("fetching the command's descriptors", err)
	}
	syscall.Close(int(line))
	sockets := -1
	if len(fds) > handedOver {
		sockets = control + handedOver
	}
	return runInit(control, sockets)
}

// line is the connection to the socket of FetchArgv or KeepArgv.
type line int

// dial connects. The process is closed to the command's eyes first: from now on
// it has what is none of the command's business.
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

// ended tells the engine that a handover is done with. It ignores failure: the engine is
// gone then, which the reader sees.
func (l line) ended(number uint64) {
	for {
		err := unix.Sendmsg(int(l), binary.BigEndian.AppendUint64(nil, number), nil, nil, unix.MSG_NOSIGNAL)
		if err != unix.EINTR {
			return
		}
	}
}

// handedOver is how many descriptors a handover has: the control socket and the
// command's stdin, stdout and stderr. A line for sockets may be one more.
const handedOver = 4

// receive reads one handover and gives its descriptors.
func (l line) receive() (number uint64, fds []int, err error) {
	return l.receiveWith(handedOver, handedOver+1)
}

// receiveWith is receive for a message with another number of descriptors.
func (l line) receiveWith(least, most int) (number uint64, fds []int, err error) {
	message := make([]byte, HandoverSize)
	from := frame.Receiver{Socket: int(l)}
	_, err = io.ReadFull(&from, message)
	if err == nil && (len(from.Files) < least || len(from.Files) > most) {
		err = frame.Malformed("without its descriptors")
	}
	if err != nil {
		frame.CloseAll(from.Files)
		return 0, nil, err
	}
	return binary.BigEndian.Uint64(message), from.Files, nil
}

// forkInit starts an init for one handover, with the descriptors from 3 on.
func (k *keeper) forkInit(fds []int) (pid int, err error) {
	const control = 3
	files, words := []uintptr{0, 1, 2}, []string{os.Args[0], k.initArg, strconv.Itoa(control)}
	for _, fd := range fds {
		files = append(files, uintptr(fd))
	}
	if len(fds) > handedOver {
		words = append(words, strconv.Itoa(control+handedOver))
	}
	return syscall.ForkExec("/proc/self/exe", words,
		&syscall.ProcAttr{Env: []string{}, Files: files})
}
