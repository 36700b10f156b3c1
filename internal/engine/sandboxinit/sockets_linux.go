package sandboxinit

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/frame"
)

// ErrNoResets is the error of an init that could not open the socket that sees refused connections.
var ErrNoResets = errors.New("the init has no socket that sees refused connections")

// Sockets is a socket to an init, which makes sockets of its network namespace while it lives. The
// engine owns the user namespace: it may bind them to any port there.
type Sockets struct {
	mu     sync.Mutex
	socket *os.File
	lost   bool
}

// NewSockets makes the pair. The init's end is for [Conn.Complete].
func NewSockets() (*Sockets, *os.File, error) {
	engineEnd, initEnd, err := Pair()
	if err != nil {
		return nil, nil, err
	}
	return &Sockets{socket: engineEnd}, initEnd, nil
}

// New returns a socket with this domain and type, in the init's network namespace: neither bound nor
// connected, and non-blocking. The first raw one, if the [holder.Sandbox] has Resets, receives TCP
// over IPv4; there is no second one. After any error but ErrNoResets, do not use s again.
func (s *Sockets) New(domain, kind int) (*os.File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, err := s.ask(domain, kind)
	if err == ErrNoResets {
		return nil, err
	}
	if err != nil {
		s.lost = true
		s.socket.Close()
		return nil, fmt.Errorf("asking the init for a socket: %w", err)
	}
	return f, nil
}

func (s *Sockets) ask(domain, kind int) (*os.File, error) {
	raw, err := s.socket.SyscallConn()
	if err != nil {
		return nil, err
	}
	s.socket.SetDeadline(time.Now().Add(requestTimeout))
	if _, err := s.socket.Write([]byte{byte(domain), byte(kind)}); err != nil {
		return nil, err
	}
	var reply [1]byte
	_, fds, err := frame.ReceivePolled(raw, reply[:])
	if err == nil && kind == unix.SOCK_RAW && len(fds) == 0 {
		return nil, ErrNoResets
	}
	if err == nil && (len(fds) != 1 || !isSocket(fds[0], domain, kind)) {
		err = ErrProtocol // from a command that has taken the init over
	}
	if err != nil {
		frame.CloseAll(fds)
		return nil, err
	}
	return os.NewFile(uintptr(fds[0]), "socket inside"), nil
}

func isSocket(fd, domain, kind int) bool {
	gotDomain, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
	gotKind, err2 := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	return err == nil && err2 == nil && gotDomain == domain && gotKind == kind
}

// Lost reports whether New has failed.
func (s *Sockets) Lost() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lost
}

// Close closes the socket to the init. The made sockets stay.
func (s *Sockets) Close() error { return s.socket.Close() }

// makeSockets is the init's end of a [Sockets]: two bytes ask for a socket. resets is the raw one,
// which was opened before, or negative.
func makeSockets(socket, resets int) {
	defer unix.Close(socket)
	for {
		var ask [2]byte
		n, err := unix.Read(socket, ask[:])
		if err == unix.EINTR {
			continue
		}
		if n < len(ask) || err != nil {
			return
		}
		fd, kind := resets, int(ask[1])
		if kind == unix.SOCK_RAW {
			resets = -1
		} else if fd, err = unix.Socket(int(ask[0]), kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0); err != nil {
			return // no descriptors, perhaps: the engine tells the command
		}
		var rights []byte
		if fd >= 0 {
			rights = unix.UnixRights(fd)
		}
		err = syscall.Sendmsg(socket, ask[:1], rights, nil, unix.MSG_NOSIGNAL)
		if fd >= 0 {
			unix.Close(fd)
		}
		if err != nil {
			return
		}
	}
}
