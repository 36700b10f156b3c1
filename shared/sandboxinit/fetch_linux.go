package sandboxinit

import (
	"encoding/binary"
	"io"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/shared/frame"
)

// runFetch is the whole life of an init that fetches its descriptors.
func runFetch(path string) int {
	line, code := dial(path)
	if code != 0 {
		return code
	}
	_, fds, err := line.receive()
	if err == io.EOF {
		return initFailed // the engine has died or given up
	}
	var control int
	if err == nil {
		control, err = inARow(fds)
		frame.CloseAll(fds)
	}
	if err != nil {
		return complain("fetching the command's descriptors", err)
	}
	syscall.Close(int(line))
	return runInit(control)
}

// line is the connection to the socket of FetchArgv or KeepArgv.
type line int

// dial connects. The process is closed to the command's eyes first: from now on
// it has what is none of the command's business.
func dial(path string) (l line, code int) {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return -1, complain("prctl PR_SET_DUMPABLE", err)
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
		complain("connecting to "+strconv.Quote(path), err)
		return -1, Unreachable
	}
	return line(fd), 0
}

// handedOver is how many descriptors a handover has: the control socket and the
// command's stdin, stdout and stderr.
const handedOver = 4

// receive reads one handover and gives its descriptors.
func (l line) receive() (number uint64, fds []int, err error) { return l.receiveWith(handedOver) }

// receiveWith is receive for a message with another number of descriptors.
func (l line) receiveWith(want int) (number uint64, fds []int, err error) {
	message := make([]byte, HandoverSize)
	if fds, err = receiveRights(int(l), message, want); err != nil {
		return 0, nil, err
	}
	return binary.BigEndian.Uint64(message), fds, nil
}

// receiveRights reads a message of that length, and the descriptors that come with it.
func receiveRights(socket int, message []byte, want int) ([]int, error) {
	from := rightsReader{socket: socket}
	_, err := io.ReadFull(&from, message)
	if err == nil && len(from.fds) != want {
		err = frame.Malformed("without its descriptors")
	}
	if err != nil {
		frame.CloseAll(from.fds)
		return nil, err
	}
	return from.fds, nil
}

// rightsReader reads a socket, and keeps the descriptors that come along.
type rightsReader struct {
	socket int
	fds    []int
}

func (r *rightsReader) Read(p []byte) (int, error) {
	n, fds, err := frame.Receive(r.socket, p)
	r.fds = append(r.fds, fds...)
	if err == nil && n == 0 {
		err = io.EOF
	}
	return max(n, 0), err
}

// inARow duplicates descriptors to consecutive numbers above them all, whatever
// has those: nothing else may be opened at the same time.
func inARow(fds []int) (first int, err error) {
	for _, fd := range fds {
		first = max(first, fd+1)
	}
	for i, fd := range fds {
		if err := unix.Dup3(fd, first+i, unix.O_CLOEXEC); err != nil {
			closeRow(first, i)
			return 0, err
		}
	}
	return first, nil
}

func closeRow(first, n int) {
	for fd := first; fd < first+n; fd++ {
		syscall.Close(fd)
	}
}

// forkInit starts an init for one handover, with the descriptors at 3 to 6.
func forkInit(fds []int) (pid int, err error) {
	files := []uintptr{0, 1, 2}
	for _, fd := range fds {
		files = append(files, uintptr(fd))
	}
	return syscall.ForkExec("/proc/self/exe", []string{os.Args[0], initArg, strconv.Itoa(3)},
		&syscall.ProcAttr{Env: []string{}, Files: files})
}
