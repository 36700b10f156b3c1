package serve

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/proc"
)

// lockName is the file in a directory that a server locks while the socket or session there belongs
// to it. For a session, the file has the path of the server's socket.
const lockName = "lock"

// A Lock is held until Release, or until its process ends.
type Lock struct{ file *os.File }

// Hold takes the lock of a directory, and writes there where this process listens. The error is
// ErrServed if another process has the lock.
func Hold(dir, socket string) (*Lock, error) {
	file, err := os.OpenFile(filepath.Join(dir, lockName), os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := hostpath.TryLock(int(file.Fd()), unix.LOCK_EX); err != nil {
		file.Close()
		if err == unix.EWOULDBLOCK {
			return nil, ErrServed
		}
		return nil, &os.PathError{Op: "lock", Path: file.Name(), Err: err}
	}
	l := &Lock{file}
	if err := l.Listen(socket); err != nil {
		l.Release()
		return nil, err
	}
	return l, nil
}

// Listen records that this process listens at another socket.
func (l *Lock) Listen(socket string) error {
	_, err := l.file.WriteAt([]byte(socket), 0)
	if err == nil {
		err = l.file.Truncate(int64(len(socket)))
	}
	return err
}

// Release releases the lock.
func (l *Lock) Release() {
	unix.Flock(int(l.file.Fd()), unix.LOCK_UN) // a process that is being started has the file, too
	l.file.Close()
}

// A Holder is the process that has a Lock.
type Holder struct {
	PID    int
	Socket string
	dir    string
	pidfd  int
}

// HolderOf finds the process that has the lock of a directory: the one that listens at the socket.
// Nothing that the file says is believed of a process: a command can write the file where the
// directory lies in its workspace. The error is ErrAbsent if no process has the lock, or it is about
// to begin or end.
func HolderOf(dir string) (*Holder, error) {
	lock, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil, ErrAbsent
	}
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	if hostpath.TryLock(int(lock.Fd()), unix.LOCK_SH) != unix.EWOULDBLOCK {
		return nil, ErrAbsent
	}
	text := make([]byte, unix.PathMax)
	n, _ := lock.ReadAt(text, 0)
	h := &Holder{Socket: cmp.Or(string(text[:n]), filepath.Join(dir, Socket)), dir: dir}
	s, err := dial(h.Socket, "")
	if err != nil {
		return nil, err
	}
	defer unix.Close(int(s))
	cred, err := unix.GetsockoptUcred(int(s), unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err == nil {
		h.PID = int(cred.Pid)
		h.pidfd, err = unix.GetsockoptInt(int(s), unix.SOL_SOCKET, unix.SO_PEERPIDFD)
	}
	if err != nil {
		return nil, os.NewSyscallError("looking at the server", err)
	}
	return h, nil
}

// Close closes the descriptor of the process.
func (h *Holder) Close() { unix.Close(h.pidfd) }

// Session returns what runs in the session, as JSON. The limit is as in Query.
func (h *Holder) Session(limit time.Duration) (string, error) {
	return Query(h.Socket, "", KindSession, &Session{Dir: h.dir}, limit)
}

// EndSession makes the server end what runs in the session. If the server does not, EndSession ends
// the server.
func (h *Holder) EndSession() error {
	unix.PidfdSendSignal(h.pidfd, unix.SIGCONT, nil, 0)
	_, err := Query(h.Socket, "", KindSession, &Session{Dir: h.dir, End: true}, SessionPatience)
	if err == ErrSilent {
		return h.End()
	}
	return err
}

// EndPatience is how long a server may take to end what runs in its sessions.
const EndPatience = 10 * time.Second

// End ends the process, and waits for its end.
func (h *Holder) End() error {
	unix.PidfdSendSignal(h.pidfd, unix.SIGTERM, nil, 0)
	unix.PidfdSendSignal(h.pidfd, unix.SIGCONT, nil, 0)
	for range 2 {
		if proc.Ended(h.pidfd, EndPatience) {
			return nil
		}
		unix.PidfdSendSignal(h.pidfd, unix.SIGKILL, nil, 0) // its engines end the rest
	}
	return errors.New("the server, process " + strconv.Itoa(h.PID) + ", does not end")
}
