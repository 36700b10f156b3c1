package prompt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/terminal"
	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/internal/approvals"
	"github.com/sbxhost/sbxhost/internal/hostpath"
)

// errNoTerminal says that there is nobody to ask.
var errNoTerminal = errors.New("there is no terminal")

// errNoAnswer says that nobody answered: the terminal was closed, or a signal came.
var errNoAnswer = errors.New("the question was not answered")

// terminalOf opens the terminal of this process, not a redirection: input for a command must not
// answer. If none of the standard streams is a terminal, nobody watches: a program has started this
// process, and uses the terminal itself.
func terminalOf(a *cli.App) (*os.File, error) {
	if !cli.IsTerminal(a.Stdin) && !cli.IsTerminal(a.Stdout) && !cli.IsTerminal(a.Stderr) {
		return nil, errNoTerminal
	}
	fd, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, errNoTerminal
	}
	return os.NewFile(uintptr(fd), "/dev/tty"), nil
}

// ask shows a question, formatted for the terminal's size, and returns the typed line in small
// letters. It discards input from before the question, which is no answer.
func ask(ctx context.Context, a *cli.App, question func(host.TerminalSize) string) (string, error) {
	tty, err := terminalOf(a)
	if err != nil {
		return "", err
	}
	defer tty.Close()
	background := fmt.Errorf("%w: sbxhost is in the background", errNoTerminal)
	if terminal.InBackground(tty) {
		return "", background
	}
	done, err := turn(ctx, a)
	if err != nil {
		return "", err
	}
	defer done()
	if terminal.InBackground(tty) { // by now
		return "", background
	}
	show := func(text string) error {
		terminal.DiscardInput(int(tty.Fd()))
		if !terminal.CooksOutput(int(tty.Fd())) {
			text = strings.ReplaceAll(text, "\n", "\r\n")
		}
		_, err := tty.WriteString(text)
		return err
	}

	resumed := make(chan os.Signal, 1)
	signal.Notify(resumed, unix.SIGCONT)
	defer signal.Stop(resumed)
	if err := show(question(terminal.Size(tty))); err != nil {
		return "", fmt.Errorf("%w: %w", errNoAnswer, err)
	}
	answered, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-resumed:
			case <-answered:
				return
			}
			// The screen has had other content since. No signal reports a move from the background
			// to the foreground.
			for terminal.InBackground(tty) {
				select {
				case <-time.After(terminal.ForegroundPoll):
				case <-answered:
					return
				}
			}
			show(question(terminal.Size(tty)))
		}
	}()
	line, err := readAnswer(ctx, tty)
	close(answered)
	<-ended
	if err != nil {
		if !terminal.InBackground(tty) {
			tty.WriteString("\r\n")
		}
		return "", fmt.Errorf("%w: %w", errNoAnswer, err)
	}
	return strings.ToLower(strings.TrimSpace(line)), nil
}

// turn waits until no other process of this job asks, as those of a parallel build would at the
// same time: any of them could read the answer to the last question. A failed lock does not prevent
// the question.
func turn(ctx context.Context, a *cli.App) (done func(), err error) {
	dir := approvals.Dir(a.Getenv)
	if dir == "" || hostpath.MakePrivate(dir, 0o700) != nil {
		return func() {}, nil // another user may own it: then nothing is locked
	}
	fd, err := unix.Open(filepath.Join(dir, "questions.lock"), unix.O_RDWR|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return func() {}, nil
	}
	// A byte for each job. Of the jobs on one terminal, only one is in the foreground: it must not
	// wait for a job that was stopped during its question.
	retry := time.NewTicker(20 * time.Millisecond)
	defer retry.Stop()
	for {
		switch err := unix.FcntlFlock(uintptr(fd), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK, Start: int64(unix.Getpgrp()), Len: 1}); err {
		case unix.EAGAIN, unix.EACCES, unix.EINTR:
		default: // also for nil
			return func() { unix.Close(fd) }, nil
		}
		select {
		case <-retry.C:
		case <-ctx.Done():
			unix.Close(fd)
			return nil, fmt.Errorf("%w: %w", errNoAnswer, context.Cause(ctx))
		}
	}
}

// maxAnswer is longer than any answer.
const maxAnswer = 256

// readAnswer reads a line, until ctx ends.
func readAnswer(ctx context.Context, tty *os.File) (string, error) {
	wakeRead, wakeWrite, err := os.Pipe()
	if err != nil {
		return "", err
	}
	defer wakeRead.Close()
	stop := context.AfterFunc(ctx, func() { wakeWrite.Close() })
	defer func() {
		if stop() {
			wakeWrite.Close()
		}
	}()
	fd, done := int(tty.Fd()), int(wakeRead.Fd())
	var line []byte
	buf := make([]byte, maxAnswer)
	for {
		// Not poll, which does not work for terminals on macOS.
		var ready unix.FdSet
		var timeout *unix.Timeval
		if ready.Set(done); terminal.InBackground(tty) { // the input is not for this process
			poll := unix.NsecToTimeval(int64(terminal.ForegroundPoll))
			timeout = &poll
		} else {
			ready.Set(fd)
		}
		if _, err := unix.Select(max(fd, done)+1, &ready, nil, nil, timeout); err == unix.EINTR {
			continue
		} else if err != nil {
			return "", err
		}
		if ready.IsSet(done) || ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		if !ready.IsSet(fd) || terminal.InBackground(tty) {
			continue
		}
		n, err := unix.Read(fd, buf)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return "", err
		case n == 0:
			return "", errors.New("the terminal's input has ended")
		}
		line = append(line, buf[:n]...)
		// If a program has left the terminal raw, these arrive as bytes: Enter, and ^C, ^D, ^Z and
		// ^\, which then make no signal.
		switch i := bytes.IndexAny(line, "\n\r\x03\x04\x1a\x1c"); {
		case i >= 0 && (line[i] == '\n' || line[i] == '\r'):
			return string(line[:i]), nil
		case i >= 0:
			return "", errors.New("it was given up")
		case len(line) > maxAnswer:
			return "", errors.New("it was no answer")
		}
	}
}
