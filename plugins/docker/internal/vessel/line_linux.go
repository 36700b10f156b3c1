package vessel

import (
	"cmp"
	"context"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/proc"
	"github.com/sbxhost/sbxhost/internal/wire"
	"github.com/sbxhost/sbxhost/plugins/docker/internal/daemon"
	"github.com/sbxhost/sbxhost/plugins/docker/internal/plan"
)

// meeting is a socket at which the init of one container finds the engine. The container has its
// directory; only the engine's user can enter the host's directory around it.
type meeting struct {
	top      string // private
	Dir      string // the bound directory
	listener *net.UnixListener
}

// NewMeeting opens the socket. A killed engine leaves it.
func NewMeeting(getenv func(string) string) (*meeting, error) {
	top, err := wire.PrivateDir([]string{getenv("XDG_RUNTIME_DIR"), getenv("TMPDIR")}, "/line/"+plan.SocketName)
	if err != nil {
		return nil, err
	}
	m := &meeting{top: top, Dir: filepath.Join(top, "line")}
	if err := m.listen(); err != nil {
		m.End()
		return nil, err
	}
	return m, nil
}

// listen lets every user connect: the init may run as another one, and the directory above decides
// who can come here. A chmod would follow a symlink that somebody has put in the socket's place.
func (m *meeting) listen() (err error) {
	thread := proc.NewThread()
	defer thread.End()
	thread.Do(func() {
		if err = unix.Unshare(unix.CLONE_FS); err != nil { // the umask belongs to the whole process
			return
		}
		unix.Umask(0)
		if err = os.Mkdir(m.Dir, 0o755); err == nil {
			m.listener, err = net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(m.Dir, plan.SocketName), Net: "unix"})
		}
	})
	return err
}

// End removes the socket and its directories. The container keeps an empty directory that is
// nowhere else.
func (m *meeting) End() {
	if m.listener != nil {
		m.listener.Close() // this unlinks the socket
	}
	os.Remove(m.Dir)
	os.Remove(m.top)
}

// accept waits for the process with that number, and for nobody after it. A command of another
// sandbox that sees the socket can connect too, and would get the command's variables and files.
func (m *meeting) accept(ctx context.Context, pid int) (*net.UnixConn, error) {
	stop := context.AfterFunc(ctx, func() { m.listener.Close() })
	defer stop()
	defer m.End()
	for {
		conn, err := m.listener.AcceptUnix()
		if err != nil {
			return nil, cmp.Or(context.Cause(ctx), err)
		}
		if cred, err := daemon.PeerCred(conn); err == nil && cred.Pid > 0 && int(cred.Pid) == pid {
			return conn, nil
		}
		conn.Close()
	}
}
