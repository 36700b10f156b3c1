package holder

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/frame"
	"github.com/sbxhost/sbxhost/internal/proc"
)

// processName is the name of a holder in the list of processes.
const processName = "sbxhost-holder"

// Main is the life of a holder, a process whose arguments are [Requested]. It returns the exit
// status.
func Main(args []string) int {
	// First of all: commands have this process's uid, in other namespaces.
	if proc.Hide() != nil {
		return proc.Failed
	}
	proc.SetName(processName)
	unix.CloseOnExec(clientFD)
	unix.Close(binaryFD)
	unix.Umask(0)

	first, err := frame.NewConn(clientFD)
	if err != nil {
		return proc.Failed
	}
	failed := apart(args[3:])
	s := &server{clients: map[*client]bool{}, trees: map[Plan]*tree{}, over: make(chan struct{})}
	switch {
	case failed != nil:
	case args[2] == alone:
		s.space, failed = newSpace(-1)
	default:
		failed = s.begin()
	}
	if failed != nil {
		first.Write(msgFailed, failed)
		return proc.Failed
	}
	s.admit(first)
	if s.listener != nil {
		go s.accept()
	}
	<-s.over
	return 0
}

// Names in the holder's directory.
const (
	lockName   = "lock"   // locked for the life of a holder, by its starter
	socketName = "socket" // for clients
)

// begin makes the file system of the session's holder, which has the lock.
func (s *server) begin() *MountError {
	dir, err := unix.Open(".", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return mountError("opening the session's directory", err)
	}
	unix.CloseOnExec(lockFD)
	pid, network, err := peerOf(clientFD)
	if err == nil {
		s.starter, err = look(pid, network, statusFD)
	}
	s.orphan = errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH)
	fd, err := listen(dir)
	if err != nil {
		return mountError("listening", err)
	}
	s.listener = os.NewFile(uintptr(fd), "listener")
	var e *MountError
	if s.space, e = newSpace(dir); e == nil {
		os.RemoveAll(s.space.path(ownDir)) // of a killed holder: this one has its lock
		s.secret, e = keepSecret()
	}
	return e
}

func listen(dir int) (int, error) {
	if err := unix.Unlinkat(dir, socketName, 0); err != nil && err != unix.ENOENT {
		return -1, err
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, err
	}
	err = unix.Bind(fd, &unix.SockaddrUnix{Name: address(dir)})
	if err == nil {
		err = unix.Fchmodat(dir, socketName, 0o600, 0)
	}
	if err == nil {
		err = unix.Listen(fd, 64)
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// address is the name to bind the socket to: its path, if that fits into an address of 107 bytes.
// The kernel lists it, and a search for sockets that commands must not reach finds the socket by
// it; a name through a descriptor makes each command search all visible directories.
func address(dir int) string {
	path, err := os.Readlink(fdPath + strconv.Itoa(dir))
	if path = filepath.Join(path, socketName); err == nil && len(path) < len(unix.RawSockaddrUnix{}.Path) {
		var there, here unix.Stat_t
		if unix.Lstat(filepath.Dir(path), &there) == nil && unix.Fstat(dir, &here) == nil && there.Dev == here.Dev && there.Ino == here.Ino {
			return path
		}
	}
	return socketPath(dir)
}

func socketPath(dir int) string { return fdPath + strconv.Itoa(dir) + "/" + socketName }
