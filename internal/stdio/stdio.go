//go:build unix

package stdio

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"

	"github.com/sbxhost/sbxhost/internal/frame"
	"github.com/sbxhost/sbxhost/shared"
)

// Streams are a command's standard input and output, as the caller gives them.
type Streams struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// TTY gives the command a terminal of its own; Stdin is typed there.
	TTY bool
	// Size is the size of that terminal; zero means 24 rows, 80 columns.
	Size TerminalSize
	// Suspend, if set, is called after the user types the key that stops jobs, if no process inside
	// handles the key.
	Suspend func()
	// Confined says that the command must not open its files again by their names in /proc.
	Confined bool
	// User is the user of the command; nil means the caller.
	User *shared.User
	// MayOutlive says that processes of the command may go on after the command has ended, and may
	// hold its output open. Nobody waits for them: their later output goes to AfterExit, and is
	// discarded if AfterExit is nil.
	MayOutlive bool
	AfterExit  io.Writer
}

// Files are one command's standard input and output. The zero value has no files.
type Files struct {
	made        *shared.Stdio
	child       []*os.File // closed after the command has started
	parent      []*os.File // closed after the command has ended
	stdin       *feeder    // nil if there is nothing to copy
	mirror      *mirror    // nil if standard input is no pipe of the caller's
	copiers     []func() error
	copied      chan error    // one from each copier
	stderrEnds  *Ends         // of the command's standard error; nil if nobody keeps it
	sharedPipes []*sharedPipe // the copied pipes that other processes may hold open
	terminals   []*terminal   // the command's own; with TTY, the first one gets the typed input
}

// Pipe makes a pipe for the command's input, or for its output. End closes the end that is not the
// command's.
func (f *Files) Pipe(input bool) (read, write *os.File, err error) {
	if read, write, err = os.Pipe(); err != nil {
		return nil, nil, err
	}
	child, parent := write, read
	if input {
		child, parent = read, write
	}
	f.child, f.parent = append(f.child, child), append(f.parent, parent)
	return read, write, nil
}

// Make returns the files for the engine. Only its first call makes them: a caller may start a
// command again with the same files if the first start failed.
func (f *Files) Make(s *Streams) (shared.Stdio, error) {
	if f.made != nil {
		return *f.made, nil
	}
	var made shared.Stdio
	var err error
	// One pipe keeps the order of both outputs.
	joined := s.Stderr == nil && s.TTY || s.Stderr != nil && sameOutput(s.Stderr, s.Stdout)
	s.AfterExit = &oneAtATime{w: cmp.Or(s.AfterExit, io.Discard)}
	var inStdout, inStderr *Ends
	if s.Confined {
		f.stderrEnds = &Ends{Limit: maxStderr / 2}
		inStderr = f.stderrEnds
	}
	if joined {
		inStdout = f.stderrEnds
	}
	if s.TTY {
		if made.Stdin, err = f.typedTo(s, inStdout); err != nil {
			return made, err
		}
		made.Stdout = made.Stdin
	} else if made.Stdin, err = f.input(s); err != nil {
		return made, err
	} else if made.Stdout, err = f.output(s, s.Stdout, inStdout); err != nil {
		return made, err
	}
	if joined {
		made.Stderr = made.Stdout
	} else if made.Stderr, err = f.output(s, s.Stderr, inStderr); err != nil {
		return made, err
	}
	if err := made.Validate(); err != nil {
		return made, err
	}
	f.made = &made
	return made, nil
}

// Remake forgets the files and terminals of Make: the next Make makes new ones.
func (f *Files) Remake() {
	f.closeMade()
	*f = Files{child: f.child, parent: f.parent}
}

func (f *Files) input(s *Streams) (*os.File, error) {
	switch stdin := s.Stdin.(type) {
	case nil:
		return nil, nil
	case *os.File:
		if frame.IsTerminal(stdin) {
			return nil, nil
		}
		// By /proc/self/fd/0 a command could open a regular file or a pipe again, and write to what it may
		// only read.
		switch info, err := stdin.Stat(); {
		case err == nil && s.Confined && info.Mode()&os.ModeNamedPipe != 0 && !slices.Contains(f.child, stdin): // Pipe made that one, which nobody else reads
			return f.mirrored(stdin)
		case err != nil || !info.Mode().IsRegular() || !s.Confined:
			return stdin, nil
		}
	}
	read, write, err := f.Pipe(true)
	if err != nil {
		return nil, err
	}
	f.stdin = newFeeder(s.Stdin, write, true)
	if _, ok := s.Stdin.(*os.File); ok {
		if f.stdin.unread, err = reopen(read); err == nil {
			f.parent = append(f.parent, f.stdin.unread)
		}
	}
	return read, err
}

// output returns the file for the output to w. If ends is not nil, the output also goes to ends; a
// pipe, a socket or a regular file of the caller is then copied to, and the command does not get it.
func (f *Files) output(s *Streams, w io.Writer, ends *Ends) (*os.File, error) {
	var followed *os.File
	switch out := w.(type) {
	case nil:
		return nil, nil
	case *os.File:
		if frame.IsTerminal(out) {
			// In place of the caller's, the command gets a terminal to which it can only write. That one
			// leaves the ends of lines to the caller's.
			t, err := f.terminal(s, cmp.Or(s.Size, sizeOf(out)), out, ends, os.O_WRONLY)
			if err != nil {
				return nil, err
			}
			return t.slave, nil
		}
		if ends != nil || s.MayOutlive {
			followed = f.follow(out, s.MayOutlive)
		}
		if followed == nil {
			return out, nil
		}
		w = followed
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	f.child = append(f.child, write)
	copyTo := io.Copy
	if s.MayOutlive {
		o := &sharedPipe{read: read, afterExit: s.AfterExit}
		f.sharedPipes, copyTo = append(f.sharedPipes, o), o.copy
	} else {
		f.parent = append(f.parent, read)
	}
	f.copiers = append(f.copiers, func() error {
		_, err := copyTo(keepingEnds(w, ends), read)
		if s.MayOutlive && err == errStillOpen {
			if followed != nil {
				followed.Close()
			}
			return nil
		}
		read.Close() // if the writer failed, the command gets SIGPIPE
		if followed != nil {
			followed.Close() // who reads that to its end need not call Wait before
			if errors.Is(err, syscall.EPIPE) {
				err = nil // the command sees this error itself
			}
		}
		return err
	})
	return write, nil
}

// typedTo makes a terminal pair, and returns the command's side.
func (f *Files) typedTo(s *Streams, ends *Ends) (*os.File, error) {
	if len(f.child) > 0 {
		return nil, errors.New("host: with TTY there are no pipes; set Stdin and Stdout, to ends of io.Pipe for example")
	}
	t, err := f.terminal(s, s.Size, s.Stdout, ends, os.O_RDWR)
	if err != nil {
		return nil, err
	}
	if s.Stdin != nil {
		f.stdin = newFeeder(s.Stdin, t.master, false)
		if s.Suspend != nil {
			f.stdin.onKeys = func(keys []byte) {
				if t.stops(keys) {
					s.Suspend()
				}
			}
		}
	}
	return t.slave, nil
}

func (f *Files) terminal(s *Streams, size TerminalSize, out io.Writer, ends *Ends, access int) (*terminal, error) {
	t, err := openTerminal(size, access)
	if err == nil {
		f.terminals = append(f.terminals, t)
		if s.User != nil {
			// As login does: programs open their terminal again by its name.
			err = t.slave.Chown(int(s.User.UID), -1)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("terminal: %w", err)
	}
	f.child = append(f.child, t.slave)
	if out == nil {
		out = io.Discard
	}
	f.copiers = append(f.copiers, func() error {
		_, err := io.Copy(keepingEnds(out, ends), terminalReader{t})
		return err
	})
	return t, nil
}

// Resize sets the size of all terminals of the command.
func (f *Files) Resize(size TerminalSize) (err error) {
	if len(f.terminals) == 0 {
		return errors.New("host: command has no terminal; set TTY")
	}
	for _, t := range f.terminals {
		err = cmp.Or(err, t.resize(size))
	}
	return err
}

// Copy starts the copies. Call it after the command has started.
func (f *Files) Copy() {
	f.copied = make(chan error, len(f.copiers))
	if f.stdin != nil {
		go f.stdin.feed()
	}
	if f.mirror != nil {
		go f.mirror.run()
	}
	for _, copier := range f.copiers {
		go func() { f.copied <- copier() }()
	}
}

// End waits until the output of an ended command is copied, and until more is closed; then it
// closes everything. If delay is positive, End waits no longer than delay, and then returns
// exec.ErrWaitDelay.
func (f *Files) End(delay time.Duration, more <-chan struct{}) error {
	for _, t := range f.terminals {
		t.ended()
	}
	for _, o := range f.sharedPipes {
		o.read.SetReadDeadline(time.Unix(1, 0)) // the copy then takes only what is in the pipe
	}
	stdinErr := cmp.Or(f.mirror.stop(), f.stdin.stop())
	outputErr := f.waitCopied(delay, more)
	f.Close()
	return cmp.Or(stdinErr, outputErr)
}

func (f *Files) waitCopied(delay time.Duration, more <-chan struct{}) error {
	var timeout <-chan time.Time
	if delay > 0 {
		timeout = time.After(delay)
	}
	var first error
	for left := len(f.copiers); left > 0; left-- {
		select {
		case err := <-f.copied:
			first = cmp.Or(first, err)
			continue
		case <-timeout:
		}
		f.Close() // ends the copies, unless a Write blocks
		for ; left > 0; left-- {
			<-f.copied // else it could write after Wait has returned
		}
		return exec.ErrWaitDelay
	}
	select {
	case <-more:
	case <-timeout:
		first = cmp.Or(first, exec.ErrWaitDelay)
	}
	return first
}

// Closer returns a function that closes the present pipes. It is for a caller that can no longer
// wait while another goroutine uses f.
func (f *Files) Closer() (closePipes func()) {
	now := slices.Concat(f.child, f.parent)
	return func() { frame.CloseFiles(now) }
}

// CloseChild closes the command's side of all files.
func (f *Files) CloseChild() { frame.CloseFiles(f.child) }

// Close closes everything except the files of CloseChild.
func (f *Files) Close() {
	frame.CloseFiles(f.parent)
	f.closeMade()
}

func (f *Files) closeMade() {
	for _, o := range f.sharedPipes {
		o.close()
	}
	for _, t := range f.terminals {
		t.close()
	}
}

// sameOutput reports whether two writers lead to the same place. As in os/exec, writers that Go
// cannot compare are different. Two open files of one terminal or pipe are the same.
func sameOutput(a, b io.Writer) bool {
	if sameWriter(a, b) {
		return true
	}
	f, _ := a.(*os.File)
	g, _ := b.(*os.File)
	return f != nil && g != nil && sameFile(f, g)
}

// sameWriter compares as os/exec does.
func sameWriter(a, b io.Writer) (same bool) {
	defer func() { recover() }() // same is then false
	return a == b
}
