package kept

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/engine/containerinit"
	"github.com/sbxhost/sbxhost/plugins/docker/internal/definition"
	"github.com/sbxhost/sbxhost/plugins/docker/internal/owner"
	"github.com/sbxhost/sbxhost/plugins/docker/internal/vessel"
	"github.com/sbxhost/sbxhost/shared"
)

// The labels of a container of a named session: the session and the definition, the checksum of its
// ingredients, the files of the host that it shows, and the file on which its life depends.
const (
	SessionLabel = "org.sbxhost.session"
	madeOfLabel  = "org.sbxhost.made-of"
	sourcesLabel = "org.sbxhost.sources"
	whileLabel   = "org.sbxhost.while"
)

// SessionContainer is the container of one definition in a named session: a socket in the session's
// directory, at which its pid 1 accepts engines. The container ends when the socket's file goes,
// with the session or because another replaces it.
type SessionContainer struct {
	Dir     string // this user's alone; commands do not see it
	socket  string // name in dir
	session string // value of SessionLabel
}

// lastingDir is the name of the engine's directory in a session's.
const lastingDir = "docker"

// NewSessionContainer returns nil if containers end with the sandbox.
func NewSessionContainer(spec *shared.Spec, o *definition.Options) (*SessionContainer, error) {
	if !o.Lasts(spec) {
		return nil, nil
	}
	l := &SessionContainer{Dir: filepath.Join(spec.Session.Dir, lastingDir)}
	if err := os.Mkdir(l.Dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, l.Unavailable(err)
	}
	sum := sha256.Sum256([]byte(spec.Sandbox))
	l.socket = hex.EncodeToString(sum[:8])
	l.session = spec.Session.ID + "/" + l.socket
	return l, nil
}

func (l *SessionContainer) path() string { return filepath.Join(l.Dir, l.socket) }

// withShortPath calls use with a path of the socket that fits into sockaddr_un.
func (l *SessionContainer) withShortPath(use func(path string) error) error {
	dir, err := os.OpenFile(l.Dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer dir.Close()
	if path := l.path(); len(path) < len(unix.RawSockaddrUnix{}.Path) {
		return use(path) // the kernel lists it, so a search for sockets finds it
	}
	return use("/proc/self/fd/" + strconv.Itoa(int(dir.Fd())) + "/" + l.socket)
}

// dial connects to the current container.
func (l *SessionContainer) dial() (conn *net.UnixConn, err error) {
	err = l.withShortPath(func(path string) (err error) {
		conn, err = net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
		return err
	})
	return conn, err
}

// listen makes the socket.
func (l *SessionContainer) listen() (listener, file *os.File, err error) {
	if err := l.Leave(); err != nil {
		return nil, nil, err
	}
	// Not with package net: pid 1 waits in accept, on the same open file.
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socket", err)
	}
	listener = os.NewFile(uintptr(fd), l.path())
	err = l.withShortPath(func(path string) error {
		return errors.Join(unix.Bind(fd, &unix.SockaddrUnix{Name: path}), unix.Listen(fd, 16),
			// The init may run as another user; the directory keeps others out.
			os.Chmod(path, 0o666))
	})
	if err == nil {
		file, err = os.OpenFile(l.path(), unix.O_PATH|unix.O_NOFOLLOW, 0)
	}
	if err != nil {
		listener.Close()
		return nil, nil, err
	}
	return listener, file, nil
}

// Leave ends the current container when no command runs in it.
func (l *SessionContainer) Leave() error {
	if err := os.Remove(l.path()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Place identifies the file on which the container's life depends; nil has none.
func (l *SessionContainer) Place() string {
	if l == nil {
		return ""
	}
	return identity(l.path())
}

func (l *SessionContainer) Unavailable(err error) error {
	return &shared.Error{Kind: shared.ErrUnavailable, Attribute: "config.reuse", Message: "the session's container: " + err.Error()}
}

// Find returns the current container if it is usable, else nil, and perhaps why not.
func (l *SessionContainer) Find(ctx context.Context, docker *client.Client, m *ingredients) (v *vessel.Vessel, why *string, err error) {
	list, err := docker.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: make(client.Filters).Add("label", SessionLabel+"="+l.session)})
	if err != nil {
		return nil, nil, vessel.StartError(ctx, err)
	}
	for _, c := range list.Items {
		// An unusable one ends by itself, or the sweep removes it.
		if c.Labels[madeOfLabel] != m.Of || c.State != container.StateRunning {
			continue
		}
		if other := m.Differs(strings.Split(c.Labels[sourcesLabel], ",")); other != nil {
			why = other
			continue
		}
		conn, err := l.dial()
		if err != nil {
			break // it is about to go
		}
		return vessel.Found(ctx, docker, c.ID, conn), nil, nil
	}
	return nil, why, nil
}

// Labels are those of a new container.
func (l *SessionContainer) Labels(m *ingredients) map[string]string {
	return map[string]string{owner.Label: owner.This().String(), SessionLabel: l.session, madeOfLabel: m.Of, sourcesLabel: strings.Join(m.Sources, ","), whileLabel: l.path()}
}

// Settle makes a new container with launch and a new socket. It replaces the old one, which ends
// when no command runs in it.
func (l *SessionContainer) Settle(launch func() (*vessel.Vessel, error)) (*vessel.Vessel, error) {
	listener, file, err := l.listen()
	if err != nil {
		return nil, l.Unavailable(err)
	}
	defer listener.Close()
	defer file.Close()
	v, err := launch()
	if err == nil {
		message, rights := containerinit.Settlement(listener, file)
		if err = v.Send(message, rights); err != nil {
			v.Remove()
			err = l.Unavailable(err)
		}
	}
	if err != nil {
		l.Leave()
		return nil, err
	}
	return v, nil
}

// Orphaned reports whether a session's container has lost its session, or its maker never started
// it.
func Orphaned(c *container.Summary, maker owner.Owner, makerGone bool) bool {
	if makerGone && (c.State == container.StateCreated || maker.Boot != owner.Boot()) {
		return true
	}
	// In another namespace the path is another file.
	_, err := os.Lstat(c.Labels[whileLabel])
	return maker.Namespace == owner.PidNamespace() && errors.Is(err, fs.ErrNotExist)
}
