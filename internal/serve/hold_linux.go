package serve

import (
	"cmp"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/proc"
)

// lockName is the file in a directory that a server locks while the socket there, and the session
// if the directory is one of a session, belongs to it.
const lockName = "lock"

// A Lock is a locked directory with a socket for clients. It is held until Release, or until its
// process ends.
type Lock struct {
	*net.UnixListener
	AfterKill bool // the process that had it before was killed: then Release leaves the socket, for the next to know it too
	fd        int
	socket    string
	made      string // the socket's stamp
}

// lock takes the lock of a directory. The error is ErrServed if another process has it.
func lock(dir string) (fd int, err error) {
	fd, err = hostpath.LockAt(hostpath.NoWait(), unix.AT_FDCWD, filepath.Join(dir, lockName), unix.LOCK_EX)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = ErrServed
	}
	return fd, err
}

// Hold takes the lock of a directory, and listens there. The error is ErrServed if another process
// has the lock.
func Hold(dir string) (*Lock, error) {
	fd, err := lock(dir)
	if err != nil {
		return nil, err
	}
	l := &Lock{fd: fd, socket: filepath.Join(dir, Socket)}
	if err = l.listen(dir); err == nil {
		l.made, err = StampOf(l.socket)
	}
	if err != nil {
		l.Release()
		return nil, err
	}
	return l, nil
}

func (l *Lock) listen(dir string) error {
	at, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer at.Close()
	path := Address(at, Socket)
	err = os.Remove(path) // the socket of a killed server
	if l.AfterKill = err == nil; err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	// By its name, somebody could have another file's mode changed.
	mode := net.ListenConfig{Control: func(_, _ string, socket syscall.RawConn) (err error) {
		failed := socket.Control(func(fd uintptr) { err = unix.Fchmod(int(fd), 0o600) })
		return cmp.Or(failed, err)
	}}
	listener, err := mode.Listen(context.Background(), "unix", path)
	if err != nil {
		return err
	}
	l.UnixListener = listener.(*net.UnixListener)
	l.SetUnlinkOnClose(false) // it may be another server's by then
	return nil
}

// Lost reports whether no client can find this process any more: somebody removed the directory, as
// the end of a login does, and another server may have made it again.
func (l *Lock) Lost() bool {
	now, err := StampOf(l.socket)
	return err != nil || now != l.made
}

// Release ends the listening, and then releases the lock.
func (l *Lock) Release() {
	if !l.AfterKill && !l.Lost() {
		os.Remove(l.socket)
	}
	if l.UnixListener != nil {
		l.Close()
	}
	hostpath.Unlock(l.fd)
}

// Remove removes the directory of a session that no process holds. The error is ErrServed if one
// does.
func Remove(dir string) error {
	fd, err := lock(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer hostpath.Unlock(fd)
	return os.RemoveAll(dir)
}

// A Holder is the process that has a Lock.
type Holder struct {
	PID    int
	Socket string
	dir    string
	pidfd  int
}

// HolderOf finds the process that has the lock of a directory: the one that listens there. The error
// is ErrAbsent if no process has the lock, or it is about to begin or end.
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
	h := &Holder{Socket: filepath.Join(dir, Socket), dir: dir}
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
