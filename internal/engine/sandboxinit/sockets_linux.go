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

type SocketKind byte

const (
	TCP4   SocketKind = iota // a stream, IPv4
	TCP6                     // a stream, IPv6
	UDP4                     // datagrams, IPv4
	Resets                   // raw, incoming TCP over IPv4: one only, of a [holder.Sandbox] with Resets
	socketKinds
)

// socketArgs are the domain and the type of each kind.
var socketArgs = [socketKinds][2]int{
	TCP4:   {unix.AF_INET, unix.SOCK_STREAM},
	TCP6:   {unix.AF_INET6, unix.SOCK_STREAM},
	UDP4:   {unix.AF_INET, unix.SOCK_DGRAM},
	Resets: {unix.AF_INET, unix.SOCK_RAW},
}

// ErrNoResets is the error of an init that could not open the socket of that kind.
var ErrNoResets = errors.New("the init has no socket that sees refused connections")

// Sockets is a socket to an init, which makes sockets of its network namespace while it lives. The
// engine owns the user namespace: it may bind them to any port there.
type Sockets struct {
	mu   sync.Mutex
	line *os.File
	lost bool
}

// NewSockets makes the pair. The init's end is for [Conn.Complete].
func NewSockets() (*Sockets, *os.File, error) {
	engineEnd, initEnd, err := Pair()
	if err != nil {
		return nil, nil, err
	}
	return &Sockets{line: engineEnd}, initEnd, nil
}

// New returns a socket of the init's network namespace, neither bound nor connected, which does not
// block. After an error do not use s any more.
func (s *Sockets) New(kind SocketKind) (*os.File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, err := s.ask(kind)
	if err == ErrNoResets {
		return nil, err
	}
	if err != nil {
		s.lost = true
		s.line.Close()
		return nil, fmt.Errorf("asking the init for a socket: %w", err)
	}
	return f, nil
}

func (s *Sockets) ask(kind SocketKind) (*os.File, error) {
	raw, err := s.line.SyscallConn()
	if err != nil {
		return nil, err
	}
	s.line.SetDeadline(time.Now().Add(requestTimeout))
	if _, err := s.line.Write([]byte{byte(kind)}); err != nil {
		return nil, err
	}
	var reply [1]byte
	_, fds, err := frame.ReceivePolled(raw, reply[:])
	if err == nil && kind == Resets && len(fds) == 0 {
		return nil, ErrNoResets
	}
	if err == nil && (len(fds) != 1 || !isSocket(fds[0], socketArgs[kind])) {
		err = ErrProtocol // from a command that has taken the init over
	}
	if err != nil {
		frame.CloseAll(fds)
		return nil, err
	}
	return os.NewFile(uintptr(fds[0]), "socket inside"), nil
}

func isSocket(fd int, want [2]int) bool {
	domain, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
	kind, err2 := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	return err == nil && err2 == nil && [2]int{domain, kind} == want
}

// Lost reports whether New has failed.
func (s *Sockets) Lost() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lost
}

// Close closes the socket to the init. The made sockets stay.
func (s *Sockets) Close() error { return s.line.Close() }

// makeSockets is the init's end of a [Sockets]: a byte asks for a socket. resets is the one of that
// kind, which was opened before, or negative.
func makeSockets(line, resets int) {
	defer unix.Close(line)
	for {
		var ask [1]byte
		n, err := unix.Read(line, ask[:])
		if err == unix.EINTR {
			continue
		}
		if n == 0 || err != nil || ask[0] >= byte(socketKinds) {
			return
		}
		kind, fd := socketArgs[ask[0]], resets
		if SocketKind(ask[0]) == Resets {
			resets = -1
		} else if fd, err = unix.Socket(kind[0], kind[1]|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0); err != nil {
			return // no descriptors, perhaps: the engine tells the command
		}
		var rights []byte
		if fd >= 0 {
			rights = unix.UnixRights(fd)
		}
		err = syscall.Sendmsg(line, ask[:], rights, nil, unix.MSG_NOSIGNAL)
		if fd >= 0 {
			unix.Close(fd)
		}
		if err != nil {
			return
		}
	}
}
