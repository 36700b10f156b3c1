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

// lockName is the file of a directory that a server has locked for as long as what is there is the server's: a
// socket, or a session. It has the server's number and, of a session, the path of its socket.
const lockName = "lock"

// A Lock is had until it is released, or its process ends.
type Lock struct{ file *os.File }

// Hold has the lock of a directory, and says there where this process listens. It is ErrServed where another
// process has it.
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

// Listen says that this process listens somewhere else.
func (l *Lock) Listen(socket string) error {
	text := strings.TrimSpace(strconv.Itoa(os.Getpid()) + "\n" + socket)
	_, err := l.file.WriteAt([]byte(text), 0)
	if err == nil {
		err = l.file.Truncate(int64(len(text)))
	}
	return err
}

// Release gives it up.
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

// HolderOf finds who has the lock of a directory. It is ErrAbsent where nobody has.
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

// Close forgets it.
func (h *Holder) Close() { unix.Close(h.pidfd) }

// Session gives what runs in the session, as JSON.
func (h *Holder) Session() (string, error) {
	return Query(h.Socket, "", KindSession, &Session{Dir: h.dir})
}

// EndSession has it end what runs in the session. One that does not do so is ended itself.
func (h *Holder) EndSession() error {
	unix.PidfdSendSignal(h.pidfd, unix.SIGCONT, nil, 0)
	_, err := Query(h.Socket, "", KindSession, &Session{Dir: h.dir, End: true})
	if err == ErrSilent {
		return h.End()
	}
	return err
}

// EndPatience is how long a server has to end what it holds.
const EndPatience = 10 * time.Second

// End has the process end, and waits for that.
func (h *Holder) End() error {
	unix.PidfdSendSignal(h.pidfd, unix.SIGTERM, nil, 0)
	unix.PidfdSendSignal(h.pidfd, unix.SIGCONT, nil, 0)
	for range 2 {
		if proc.Ended(h.pidfd, EndPatience) {
			return nil
		}
		unix.PidfdSendSignal(h.pidfd, unix.SIGKILL, nil, 0) // whose engines end what it has not
	}
	return errors.New("the server, process " + strconv.Itoa(h.PID) + ", does not end")
}
