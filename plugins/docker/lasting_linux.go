package docker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/containerinit"
)

// The labels of a container that lasts for a named session: the session and the
// definition, all that it was made from as a checksum, which files of the host it
// shows, and the file on which its life depends.
const (
	sessionLabel = "org.sbxhost.session"
	madeOfLabel  = "org.sbxhost.made-of"
	sourcesLabel = "org.sbxhost.sources"
	whileLabel   = "org.sbxhost.while"
)

// lasting is where the container of one definition in a named session is found:
// a socket in the session's directory, at which its pid 1 takes engines. The
// container ends when the socket's file goes, with the session or because another
// takes its place.
type lasting struct {
	dir     string // this user's alone; commands do not see it
	socket  string // name in dir
	session string // value of sessionLabel
}

// lastingDir is the name of the engine's directory in a session's.
const lastingDir = "docker"

// newLasting gives nil where containers do not outlive the sandbox.
func newLasting(spec *shared.Spec, o *options) (*lasting, error) {
	if !lasts(spec, o) {
		return nil, nil
	}
	l := &lasting{dir: filepath.Join(spec.Session.Dir, lastingDir)}
	if err := os.Mkdir(l.dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, l.unavailable(err)
	}
	sum := sha256.Sum256([]byte(spec.Sandbox))
	l.socket = hex.EncodeToString(sum[:8])
	l.session = spec.Session.ID + "/" + l.socket
	return l, nil
}

func (l *lasting) path() string { return filepath.Join(l.dir, l.socket) }

// within calls use with a path of the socket that is short enough for sockaddr_un.
func (l *lasting) within(use func(path string) error) error {
	dir, err := os.OpenFile(l.dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer dir.Close()
	return use("/proc/self/fd/" + strconv.Itoa(int(dir.Fd())) + "/" + l.socket)
}

// dial connects to the container that there is.
func (l *lasting) dial() (conn *net.UnixConn, err error) {
	err = l.within(func(path string) (err error) {
		conn, err = net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
		return err
	})
	return conn, err
}

// settle makes the socket for a new container, in the place of that of an old one,
// which ends once no command runs in it.
func (l *lasting) settle() (listener, file *os.File, err error) {
	if err := l.leave(); err != nil {
		return nil, nil, err
	}
	// Not by package net: pid 1 waits in accept, on the same open file.
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socket", err)
	}
	listener = os.NewFile(uintptr(fd), l.path())
	err = l.within(func(path string) error {
		return errors.Join(unix.Bind(fd, &unix.SockaddrUnix{Name: path}), unix.Listen(fd, 16),
			// The init may run as somebody else; the directory keeps others out.
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

// leave ends the container that there is, once no command runs in it.
func (l *lasting) leave() error {
	if err := os.Remove(l.path()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// place tells the file that the container lasts by from every other; nil has none.
func (l *lasting) place() string {
	if l == nil {
		return ""
	}
	return identity(l.path())
}

func (l *lasting) unavailable(err error) error {
	return &shared.Error{Kind: shared.ErrUnavailable, Attribute: "config.reuse", Message: "the session's container: " + err.Error()}
}

// findLasting gives the container that there is, nil for none of use, and perhaps
// why it is of none.
func (b *box) findLasting(ctx context.Context, m *made) (v *vessel, why *string, err error) {
	docker := b.daemon.client
	list, err := docker.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: make(client.Filters).Add("label", sessionLabel+"="+b.lasting.session)})
	if err != nil {
		return nil, nil, startError(ctx, err)
	}
	for _, c := range list.Items {
		// One that is of no use ends by itself, or the sweep removes it.
		if c.Labels[madeOfLabel] != m.of || c.State != container.StateRunning {
			continue
		}
		if other := m.differs(strings.Split(c.Labels[sourcesLabel], ",")); other != nil {
			why = other
			continue
		}
		conn, err := b.lasting.dial()
		if err != nil {
			break // it is about to go
		}
		v := newVessel(ctx, docker, c.ID)
		v.line = &line{conn: conn}
		return v, nil, nil
	}
	return nil, why, nil
}

func (b *box) makeLasting(ctx context.Context, m *made) (*vessel, error) {
	l := b.lasting
	listener, file, err := l.settle()
	if err != nil {
		return nil, l.unavailable(err)
	}
	defer listener.Close()
	defer file.Close()
	v, err := b.launchWith(ctx, containerinit.StayArgv, map[string]string{
		ownerLabel: thisOwner().String(), sessionLabel: l.session, madeOfLabel: m.of, sourcesLabel: m.shows(), whileLabel: l.path()})
	if err == nil {
		message, rights := containerinit.Settlement(listener, file)
		_, _, err = v.line.conn.WriteMsgUnix(message, rights, nil)
		runtime.KeepAlive(listener)
		runtime.KeepAlive(file)
		if err != nil {
			v.remove()
			err = l.unavailable(err)
		}
	}
	if err != nil {
		l.leave()
		return nil, err
	}
	return v, nil
}

// outlasted reports whether a container that is to last for a session has lost it,
// or was never started by who has made it.
func outlasted(c *container.Summary, maker owner, makerGone bool, namespace string) bool {
	if makerGone && (c.State == container.StateCreated || maker.boot != bootID()) {
		return true
	}
	// Elsewhere the path is another's.
	_, err := os.Lstat(c.Labels[whileLabel])
	return maker.namespace == namespace && errors.Is(err, fs.ErrNotExist)
}
