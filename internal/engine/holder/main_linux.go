package holder

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/frame"
	"github.com/sbxhost/sbxhost/internal/proc"
)

// Main is the life of a holder, a process whose arguments are [Requested]. It returns the exit
// status.
func Main(args []string) int {
	// First of all: commands have this process's uid, in other namespaces.
	if proc.Hide() != nil {
		return proc.Failed
	}
	proc.SetName(Arg)
	unix.CloseOnExec(clientFD)
	unix.Close(binaryFD)
	umask := unix.Umask(0)

	conn, err := frame.NewConn(clientFD)
	if err != nil {
		return proc.Failed
	}
	err = apart(args[3:])
	s := &server{conn: conn, umask: umask}
	switch {
	case err != nil:
	case args[2] == alone:
		s.space, err = newSpace(-1)
	default:
		err = s.begin()
	}
	if err != nil {
		conn.Write(msgFailed, message(err))
		return proc.Failed
	}
	s.serve()
	return 0
}

// lockName is a file in the holder's directory, locked for the life of a holder, by its starter.
const lockName = "lock"

// begin makes the file system of the session's holder, which has the lock.
func (s *server) begin() error {
	dir, err := unix.Open(".", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return mountError("opening the session's directory", err)
	}
	unix.CloseOnExec(lockFD)
	if s.space, err = newSpace(dir); err == nil {
		os.RemoveAll(s.space.path(ownDir)) // of a killed holder: this one has its lock
	}
	return err
}
