package actor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

// contractActions are what commands of the contract's rules do, and tell of what they were given.
func contractActions() map[string]action {
	return map[string]action{
		"stream":      stream,
		"catch":       catch,
		"environment": func([]string) (string, error) { return asJSON(os.Environ()) },
		"arguments":   func(args []string) (string, error) { return asJSON(args) },
		"variables": anyOf(func(name string) (string, error) {
			if value, ok := os.LookupEnv(name); ok {
				return value, nil
			}
			return "", errors.New("none of them is set")
		}),
	}
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

// stream writes N bytes of a pattern to stdout and another to stderr, at once, and nothing else.
func stream(args []string) (string, error) {
	n := int64(number(args[0]))
	failed := make(chan error, 1)
	go func() {
		_, err := io.Copy(os.Stderr, NewPattern(2, n))
		failed <- err
	}()
	_, err := io.Copy(os.Stdout, NewPattern(1, n))
	if errors.Join(err, <-failed) != nil {
		os.Exit(2)
	}
	os.Exit(0)
	return "", nil
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

// asJSON tells texts, quoted, since they may be of any bytes.
func asJSON(texts []string) (string, error) {
	quoted := make([]string, len(texts))
	for i, text := range texts {
		quoted[i] = strconv.Quote(text)
	}
	text, err := json.Marshal(quoted)
	return string(text), err
}
