package serve

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/frame"
	"github.com/sbxhost/sbxhost/internal/hostpath"
)

// Ask makes the server at a socket run the command, with the standard output and error, the
// directory and the environment of this process. Meanwhile this process passes on the signals that
// it gets. program is the sbxhost that the server must be. ended is the signal that ended the
// command, or 0. After every error except ErrGone, nothing has run: the error is ErrAbsent if
// nobody listens any more, and ErrDeclined if the caller must run the command itself.
func (c *Client) Ask(path, program string) (status int, ended syscall.Signal, err error) {
	s, err := dial(path, program)
	if err != nil {
		return 0, 0, err
	}
	defer unix.Close(int(s))
	signals := make(chan os.Signal, 16)
	wanted := []os.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGTSTP, unix.SIGCONT, unix.SIGUSR1, unix.SIGUSR2}
	if c.Relay != nil {
		wanted = append(wanted, unix.SIGWINCH)
	}
	for _, sig := range wanted {
		if !signal.Ignored(sig) {
			signal.Notify(signals, sig)
		}
	}
	limit := Patience
	if c.Hello.Keep {
		limit = SessionPatience
	}
	challenge, err := s.welcome(limit)
	if err == nil {
		err = s.hello(program, c, challenge)
	}
	if err != nil {
		resend(signals)
		return 0, 0, err
	}
	relay, suspend := c.Relay, c.Suspend
	if relay == nil {
		relay = func(signals chan os.Signal, send func(syscall.Signal), _, ended <-chan struct{}) {
			for {
				select {
				case sig := <-signals:
					send(sig.(syscall.Signal))
				case <-ended:
					return
				}
			}
		}
	}
	if suspend == nil {
		suspend = func() { unix.Kill(unix.Getpid(), unix.SIGSTOP) }
	}
	begin, over, relayed := make(chan struct{}), make(chan struct{}), make(chan struct{})
	var sent []syscall.Signal
	taken := 0 // of sent, by the server
	defer func() {
		close(over)
		<-relayed
		if err == ErrGone {
			return
		}
		if err != nil {
			resend(signals)
		}
		idle := make(chan os.Signal, 1)
		signal.Notify(idle, unix.SIGCONT)
		signal.Stop(idle) // it waits for signals that the runtime has received
		for len(signals) > 0 {
			sent = append(sent, (<-signals).(syscall.Signal))
		}
		taken = min(taken, len(sent))
		had := slices.ContainsFunc(sent[:taken], Ending) // then the status is the answer to a later one, too
		for _, sig := range sent[taken:] {
			if Ending(sig) && err != nil {
				unix.Kill(unix.Getpid(), sig)
			} else if Ending(sig) && !had {
				status, ended = 128+int(sig), sig
			}
		}
	}()
	go func() {
		defer close(relayed)
		relay(signals, func(sig syscall.Signal) {
			number := Number(sig)
			s.send(KindSignal, &number) // else the server is gone, which the reader sees
			sent = append(sent, sig)
		}, begin, over)
	}()
	begun := false
	from := frame.Receiver{Socket: int(s)}
	for {
		kind, payload, err := frame.Read(&from, MaxMessage)
		switch {
		case err != nil && begun:
			return 0, 0, ErrGone
		case err != nil:
			return 0, 0, ErrAbsent
		case kind == KindLeave:
			return 0, 0, declined(payload)
		case kind == KindBegin && !begun:
			begun = true
			close(begin)
		case kind == KindSuspend:
			suspend()
		case kind == KindExit:
			var end Number
			if frame.Decode(payload, &end) != nil {
				return 0, 0, ErrGone
			}
			taken = int(end >> takenShift)
			return int(end & (1<<signalShift - 1)), syscall.Signal(end >> signalShift & (1<<signalShift - 1)), nil
		}
	}
}

// declined returns ErrDeclined with the reason.
func declined(payload []byte) error {
	var why Reason
	if frame.Decode(payload, &why) != nil || why == "" {
		return ErrDeclined
	}
	return fmt.Errorf("%w: %w", ErrDeclined, &why)
}

// Query sends the server at a socket a request that is not a command, and waits for each of its two
// messages until the limit. program is as in Ask; empty permits any.
func Query(path, program string, kind byte, m frame.Message, limit time.Duration) (string, error) {
	s, err := dial(path, program)
	if err != nil {
		return "", err
	}
	defer unix.Close(int(s))
	if _, err := s.welcome(limit); err != nil {
		return "", err
	}
	if err := s.send(kind, m); err != nil {
		return "", err
	}
	var text Reason
	answered, payload, err := s.receive(limit)
	switch {
	case err == nil && answered != kind:
		err = declined(payload)
	case err == nil:
		err = frame.Decode(payload, &text)
	}
	return string(text), err
}

// IsTerminal reports whether a descriptor is a terminal.
func IsTerminal(fd int) bool {
	_, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	return err == nil
}

// resend sends this process the signals that it has received for a command that the server does not
// run.
func resend(signals chan os.Signal) {
	signal.Reset()
	for len(signals) > 0 {
		unix.Kill(unix.Getpid(), (<-signals).(syscall.Signal))
	}
}

// socket is a connection to the server. It blocks.
type socket int

// dial connects to the server, if it runs as the same user and in the same namespaces as this
// process: the server gets our files and our environment, and a command could have made a socket
// where there was none.
func dial(path, program string) (socket, error) {
	fd, err := Connect(path)
	if err != nil {
		return -1, err
	}
	if err := Genuine(fd, program); err != nil {
		unix.Close(fd)
		if errors.Is(err, ErrOther) {
			err = fmt.Errorf("%w; sbxhost serve -stop -dir %s ends it", err, hostpath.Quote(filepath.Dir(path)))
		}
		return -1, err
	}
	return socket(fd), nil
}

// Connect connects to the process that listens at a path in a directory of this user. The error is
// ErrAbsent if nobody listens, and ErrSilent if the socket's queue is full: a command could make a
// socket at which a blocking call waits forever. The returned socket blocks.
func Connect(path string) (int, error) {
	// The name of a socket is 107 bytes at most.
	dir, err := unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err == unix.ENOENT {
		return -1, ErrAbsent
	}
	if err != nil {
		return -1, hostpath.OpenError(filepath.Dir(path), err)
	}
	defer unix.Close(dir)
	var st unix.Stat_t
	if err := unix.Fstat(dir, &st); err != nil || int(st.Uid) != os.Geteuid() || st.Mode&0o022 != 0 {
		return -1, errors.Join(fmt.Errorf("others could have made a socket in %s", hostpath.Quote(filepath.Dir(path))), err)
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	for {
		if err = unix.Connect(fd, &unix.SockaddrUnix{Name: InDir(dir, filepath.Base(path))}); err != unix.EINTR {
			break
		}
	}
	if err == nil {
		err = unix.SetNonblock(fd, false)
	}
	if err == nil {
		return fd, nil
	}
	unix.Close(fd)
	switch err {
	case unix.ENOENT, unix.ECONNREFUSED:
		return -1, ErrAbsent
	case unix.EAGAIN:
		return -1, ErrSilent
	}
	return -1, &os.PathError{Op: "connect", Path: path, Err: err}
}

// InDir names a file in a directory that is open.
func InDir(dir int, name string) string { return "/proc/self/fd/" + strconv.Itoa(dir) + "/" + name }

// Address is the name to bind a socket in a directory to: the kernel lists it, and a search for
// sockets that commands must not reach finds the socket by it. A name through a descriptor does not
// say where the socket lies, and makes each command search all that it shows; it is only for paths
// that are too long for an address.
func Address(dir *os.File, name string) string {
	if path := filepath.Join(dir.Name(), name); filepath.IsAbs(path) && len(path) < len(unix.RawSockaddrUnix{}.Path) {
		return path
	}
	return InDir(int(dir.Fd()), name)
}

// welcome waits for the server to accept this client, which has sent no request yet.
func (s socket) welcome(limit time.Duration) (challenge Number, err error) {
	kind, payload, err := s.receive(limit)
	switch {
	case err == ErrSilent:
		return 0, err
	case err != nil: // it ended, or gave up the session, before it accepted this client
		return 0, ErrAbsent
	case kind != KindWelcome:
		return 0, declined(payload)
	}
	frame.Decode(payload, &challenge) // another version's, which gets no Hello, can still be asked to end a session
	return challenge, s.readWithin(0)
}

// receive reads a message within a limit.
func (s socket) receive(limit time.Duration) (kind byte, payload []byte, err error) {
	if err := s.readWithin(limit); err != nil {
		return 0, nil, err
	}
	kind, payload, err = frame.Read(&frame.Receiver{Socket: int(s)}, MaxMessage)
	if errors.Is(err, unix.EAGAIN) {
		err = ErrSilent
	}
	return kind, payload, err
}

// readWithin makes later reads fail after the limit; zero is none.
func (s socket) readWithin(limit time.Duration) error {
	timeval := unix.NsecToTimeval(limit.Nanoseconds())
	return unix.SetsockoptTimeval(int(s), unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeval)
}

func (s socket) hello(program string, c *Client, challenge Number) error {
	server, err := procOf(int(s))
	if err != nil {
		return err
	}
	hello := c.Hello
	if hello.Secret, err = secretOf(server, int(challenge)); err != nil {
		return err
	}
	hello.Environ = os.Environ()
	if hello.Dir, err = os.Getwd(); err != nil {
		return err
	}
	if hello.Program, err = StampOf(program); err != nil {
		return err
	}
	return s.send(KindHello, &hello, c.Stdin, 1, 2)
}

func (s socket) send(kind byte, m frame.Message, fds ...int) error {
	return frame.Send(s, frame.Encode(kind, m), fds...)
}

// Write implements [frame.Writer]. It blocks.
func (s socket) Write(f func(fd uintptr) bool) error {
	f(uintptr(s))
	return nil
}
