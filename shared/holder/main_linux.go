package holder

import (
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// failed is the exit status of a holder that could not begin.
const failed = 125

// Main is the life of a holder, in a process that [Wanted] its arguments. It
// returns the exit status. sweep is called when launchers were killed that may not
// have been able to take their children along, or when such a child is in the way.
func Main(args []string, sweep func()) int {
	// First of all: commands have this process's uid, if not its namespaces.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return failed
	}
	name := [16]byte{'s', 'b', 'x', 'h', 'o', 's', 't', '-', 'h', 'o', 'l', 'd', 'e', 'r'}
	unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(&name[0])), 0, 0, 0)
	unix.CloseOnExec(clientFD)
	unix.Close(binaryFD)
	unix.Umask(0)

	first, err := newConn(clientFD)
	if err != nil {
		return failed
	}
	s := &server{byRoot: args[2] == "true", sweep: sweep, clients: map[*client]bool{}, trees: map[string]*tree{}, listener: -1}
	if e := s.begin(); e != nil {
		first.write(encodeFailed(0, e))
		return failed
	}
	s.admit(first)
	s.accept()
	return 0
}

// Names in the holder's directory.
const (
	lockName   = "lock"   // locked for the life of a holder
	startName  = "start"  // locked by who starts one
	socketName = "socket" // what clients connect to
	logName    = "log"    // a crash's last words
)

// begin takes the place of the session's holder and makes its file system.
func (s *server) begin() *MountError {
	dir, err := unix.Open(".", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return mountError("opening the session's directory", err)
	}
	lock, err := unix.Openat(dir, lockName, unix.O_RDWR|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return mountError("opening the lock", err)
	}
	// Whoever has it is about to end: it accepts no clients any more, and none
	// other is being started.
	for err = unix.EINTR; err == unix.EINTR; {
		err = unix.Flock(lock, unix.LOCK_EX)
	}
	if err != nil {
		return mountError("flock", err)
	}
	if s.listener, err = listen(dir); err != nil {
		return mountError("listening", err)
	}
	var e *MountError
	s.space, e = newSpace(dir, s.sweep)
	return e
}

// listen makes the socket. Its path goes through a descriptor, because an
// address has room for 107 bytes.
func listen(dir int) (int, error) {
	if err := unix.Unlinkat(dir, socketName, 0); err != nil && err != unix.ENOENT {
		return -1, err
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, err
	}
	err = unix.Bind(fd, &unix.SockaddrUnix{Name: socketPath(dir)})
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

func socketPath(dir int) string { return fdPath + strconv.Itoa(dir) + "/" + socketName }
