package serve

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/proc"
)

// lockName is the file in a directory that a server locks while the socket or session there belongs
// to it. The file has the server's process number and, for a session, the path of its socket.
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
	text := strings.TrimSpace(strconv.Itoa(os.Getpid()) + "\n" + socket)
	_, err := l.file.WriteAt([]byte(text), 0)
	if err == nil {
		err = l.file.Truncate(int64(len(text)))
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

// HolderOf finds the process that has the lock of a directory. The error is ErrAbsent if no process
// has it.
func HolderOf(dir string) (*Holder, error) {
	lock, err := os.Open(filepath.Join(dir, lockName))
	if errors.Is(err, os.ErrNotExist) {
		return nil, ErrAbsent
	}
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	held := func() bool { return hostpath.TryLock(int(lock.Fd()), unix.LOCK_SH) == unix.EWOULDBLOCK }
	if !held() {
		return nil, ErrAbsent
	}
	text := make([]byte, unix.PathMax)
	n, _ := lock.ReadAt(text, 0)
	number, socket, _ := strings.Cut(string(text[:n]), "\n")
	pid, err := strconv.Atoi(number)
	if err != nil || pid <= 1 {
		return nil, ErrAbsent // it is about to begin
	}
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, ErrAbsent
	}
	if !held() { // the number is another's, perhaps
		unix.Close(pidfd)
		return nil, ErrAbsent
	}
	return &Holder{pid, socket, dir, pidfd}, nil
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
