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

// Main is the life of a process whose arguments are [Requested]. It returns the exit status. The
// arguments are those of the init that it starts, or becomes: its argv[1], and its life with a
// control socket.
func Main(args []string, initArg string, runInit func(control int) int) int {
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
func runFetch(path string, runInit func(control int) int) int {
	line, code := dial(path)
	if code != 0 {
		return code
	}
	_, fds, err := line.receive(handedOver)
	if err == io.EOF {
		return proc.Failed // the engine has died or given up
	}
	if err != nil {
		return proc.Complain("fetching the control socket", err)
	}
	syscall.Close(int(line))
	return runInit(fds[0])
}

// line is the connection to the socket of FetchArgv or KeepArgv.
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

// ended tells the engine that a handover has ended. It ignores failure: the engine is gone then,
// which the reader sees.
func (l line) ended(number uint64) {
	for {
		err := unix.Sendmsg(int(l), binary.BigEndian.AppendUint64(nil, number), nil, nil, unix.MSG_NOSIGNAL)
		if err != unix.EINTR {
			return
		}
	}
}

// The number of descriptors of a handover, the control socket, and of a settlement.
const handedOver, settlementFDs = 1, 2

// receive reads one message and returns its descriptors, which must be this many.
func (l line) receive(files int) (number uint64, fds []int, err error) {
	message := make([]byte, HandoverSize)
	from := frame.Receiver{Socket: int(l)}
	_, err = io.ReadFull(&from, message)
	if err == nil && len(from.Files) != files {
		err = frame.Malformed("without its descriptors")
	}
	if err != nil {
		frame.CloseAll(from.Files)
		return 0, nil, err
	}
	return binary.BigEndian.Uint64(message), from.Files, nil
}

// forkInit starts the init of one handover.
func (k *keeper) forkInit(control int) (pid int, err error) {
	return syscall.ForkExec("/proc/self/exe", []string{os.Args[0], k.initArg, "3"},
		&syscall.ProcAttr{Env: []string{}, Files: []uintptr{0, 1, 2, uintptr(control)}})
}
