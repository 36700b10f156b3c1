package actor

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// contractActions are what commands of the contract's rules do.
func contractActions() map[string]action {
	return map[string]action{
		"exit":   exitWith,
		"copy":   func([]string) (string, error) { return quiet(io.Copy(os.Stdout, os.Stdin)) },
		"stream": stream,
		"sum":    sum,
		"size":   size,
		"catch":  catch,
	}
}

// quiet ends an action that must write nothing of its own.
func quiet(_ int64, err error) (string, error) {
	if err != nil {
		os.Exit(2)
	}
	os.Exit(0)
	return "", nil
}

func exitWith(args []string) (string, error) {
	code := number(args[0])
	os.Exit(code)
	return "", nil
}

// pattern is a stream of bytes in which no two blocks are alike.
type pattern struct {
	state uint64
	left  int64
}

func NewPattern(seed uint64, n int64) *pattern { return &pattern{seed*2 + 1, n} }

func (p *pattern) Read(b []byte) (int, error) {
	if p.left == 0 {
		return 0, io.EOF
	}
	n := int(min(int64(len(b)), p.left))
	for i := range b[:n] {
		p.state = p.state*6364136223846793005 + 1442695040888963407
		b[i] = byte(p.state >> 56)
	}
	p.left -= int64(n)
	return n, nil
}

// stream writes N bytes of a pattern to stdout and another to stderr, at once.
func stream(args []string) (string, error) {
	n, err := strconv.ParseInt(args[0], 10, 64)
	tried(err)
	failed := make(chan error, 1)
	go func() {
		_, err := io.Copy(os.Stderr, NewPattern(2, n))
		failed <- err
	}()
	_, err = io.Copy(os.Stdout, NewPattern(1, n))
	return quiet(0, errors.Join(err, <-failed))
}

// sum writes the digest of its input.
func sum([]string) (string, error) {
	h := sha256.New()
	if _, err := io.Copy(h, os.Stdin); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// Signals are the signals that a Go program can handle, whose runtime keeps SIGURG
// and SIGPROF to itself.
func Signals() []syscall.Signal {
	var list []syscall.Signal
	for sig := syscall.Signal(1); sig <= lastSignal; sig++ {
		switch sig {
		case syscall.SIGKILL, syscall.SIGSTOP, syscall.SIGURG, syscall.SIGPROF, 32, 33, 34: // the last three are the C library's
		default:
			list = append(list, sig)
		}
	}
	return list
}

// catch tells each signal that it gets, by its number.
func catch([]string) (string, error) {
	caught := make(chan os.Signal, 64)
	for _, sig := range Signals() {
		signal.Notify(caught, sig)
	}
	fmt.Println()
	for {
		select {
		case sig := <-caught:
			if number, ok := sig.(syscall.Signal); ok {
				fmt.Println(int(number))
			}
		case <-time.After(3 * Timeout):
			return "", errors.New("nobody has ended it")
		}
	}
}

// size tells the terminal's size, waits for another one and tells that.
func size([]string) (string, error) {
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, syscall.SIGWINCH)
	tell := func() (string, error) {
		ws, err := unix.IoctlGetWinsize(0, unix.TIOCGWINSZ)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("%dx%d", ws.Row, ws.Col), nil
	}
	first, err := tell()
	if err != nil {
		return "", err
	}
	fmt.Println("ready " + first)
	select {
	case <-changed:
	case <-time.After(Timeout / 2):
		return "", errors.New("no SIGWINCH came")
	}
	second, err := tell()
	return strings.Join([]string{first, second}, " "), err
}
