package main

import (
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/serve"
	"github.com/sbxhost/sbxhost/shared/frame"
)

// errServerGone is told where it cannot be known how far the command came. The server's
// engines end with it, and their commands.
var errServerGone = errors.New("sbxhost serve has ended, and the command with it")

// ask has a server run the command that program would run. Done is false where none has:
// nothing was run then.
func ask(program string) (status int, done bool) {
	if _, err := unix.IoctlGetTermios(0, unix.TCGETS); err == nil {
		return 0, false // which only its own processes can pass on
	}
	s, err := dial(program)
	if err != nil {
		return 0, false
	}
	defer unix.Close(int(s))
	signals := make(chan os.Signal, 16)
	for _, sig := range []os.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGTSTP, unix.SIGCONT} {
		if !signal.Ignored(sig) {
			signal.Notify(signals, sig)
		}
	}
	if !s.welcome() || !s.hello(program) {
		again(signals)
		return 0, false
	}
	go func() {
		for sig := range signals {
			number := serve.Number(sig.(syscall.Signal))
			s.send(serve.KindSignal, &number) // else the server is gone, which the reader sees
		}
	}()
	begun := false
	from := frame.Receiver{Socket: int(s)}
	for {
		kind, payload, err := frame.Read(&from, serve.MaxMessage)
		switch {
		case err != nil && begun:
			complain(errServerGone)
			return statusFailed, true
		case err != nil || kind == serve.KindLeave:
			again(signals)
			return 0, false
		case kind == serve.KindBegin:
			begun = true
		case kind == serve.KindSuspend:
			unix.Kill(unix.Getpid(), unix.SIGSTOP)
		case kind == serve.KindExit:
			var status serve.Number
			if frame.Decode(payload, &status) != nil {
				complain(errServerGone)
				return statusFailed, true
			}
			return int(status), true
		}
	}
}

// again gives this process the signals that it has taken for a command that it leaves.
func again(signals chan os.Signal) {
	signal.Reset()
	for {
		select {
		case sig := <-signals:
			unix.Kill(unix.Getpid(), sig.(syscall.Signal))
		default:
			return
		}
	}
}

// socket is a connection to the server. It blocks.
type socket int

// dial connects to the server, if it is the same user's and of the same namespaces as we:
// it gets our files and our environment, and a command could have made a socket where it
// found none.
func dial(program string) (socket, error) {
	dir, err := serve.Dir(os.Getenv("XDG_RUNTIME_DIR"))
	if err != nil {
		return -1, err
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	for {
		if err = unix.Connect(fd, &unix.SockaddrUnix{Name: filepath.Join(dir, serve.Socket)}); err != unix.EINTR {
			break
		}
	}
	if err == nil {
		err = serve.Genuine(fd, program)
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return socket(fd), nil
}

// patience is how long a server may take to look at us: one that is stopped, or has more
// to do than it can, is slower than to do without.
var patience = unix.Timeval{Sec: 1}

// welcome reports whether the server would have us. Nothing was asked of it yet.
func (s socket) welcome() bool {
	if unix.SetsockoptTimeval(int(s), unix.SOL_SOCKET, unix.SO_RCVTIMEO, &patience) != nil {
		return false
	}
	kind, _, err := frame.Read(&frame.Receiver{Socket: int(s)}, serve.MaxMessage)
	return err == nil && kind == serve.KindWelcome &&
		unix.SetsockoptTimeval(int(s), unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{}) == nil
}

func (s socket) hello(program string) bool {
	hello := serve.Hello{Args: os.Args[1:], Environ: os.Environ()}
	var err error
	if hello.Dir, err = os.Getwd(); err != nil {
		return false
	}
	if hello.Program, err = serve.StampOf(program); err != nil {
		return false
	}
	return s.send(serve.KindHello, &hello, 0, 1, 2) == nil
}

func (s socket) send(kind byte, m frame.Message, fds ...int) error {
	message := frame.Encode(kind, m, 4096)
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	for len(message) > 0 {
		n, err := unix.SendmsgN(int(s), message, rights, nil, unix.MSG_NOSIGNAL)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return os.NewSyscallError("sendmsg", err)
		}
		message, rights = message[n:], nil
	}
	return nil
}
