package keep

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/proc"
)

// keeping is a keeper that another command has started.
type keeping struct {
	pid int
	fd  int // of the process
}

// errNotKept is the error of who looks for a keeper that there is not.
var errNotKept = errors.New("nothing runs in it")

// findKeeper finds the keeper of a session. It is errNotKept where there is none.
func findKeeper(a *cli.App, name string) (*keeping, error) {
	dir, err := host.KeeperDir(a.Environ, name, false)
	if err != nil {
		return nil, err
	}
	return findServer(dir)
}

// findServer finds the server that listens in a directory, likewise.
func findServer(dir string) (*keeping, error) {
	lock, err := os.Open(filepath.Join(dir, lockName))
	if errors.Is(err, os.ErrNotExist) {
		return nil, errNotKept
	}
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	held := func() bool { return hostpath.TryLock(int(lock.Fd()), unix.LOCK_SH) == unix.EWOULDBLOCK }
	if !held() {
		return nil, errNotKept
	}
	text := make([]byte, 20)
	n, _ := lock.ReadAt(text, 0)
	pid, err := strconv.Atoi(string(text[:n]))
	if err != nil || pid <= 1 {
		return nil, errNotKept // it is about to begin
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, errNotKept
	}
	if !held() { // the number is another's, perhaps
		unix.Close(fd)
		return nil, errNotKept
	}
	return &keeping{pid, fd}, nil
}

// end has it end, and waits for that.
func (k *keeping) end() error {
	unix.PidfdSendSignal(k.fd, unix.SIGTERM, nil, 0)
	unix.PidfdSendSignal(k.fd, unix.SIGCONT, nil, 0)
	for range 2 {
		if proc.Ended(k.fd, endPatience) {
			return nil
		}
		unix.PidfdSendSignal(k.fd, unix.SIGKILL, nil, 0) // whose engines end what it has not
	}
	return errors.New("its keeper, process " + strconv.Itoa(k.pid) + ", does not end")
}

func (k *keeping) close() { unix.Close(k.fd) }
