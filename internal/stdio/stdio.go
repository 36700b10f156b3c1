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

	"github.com/sbxhost/sbxhost/shared"
)

// Streams are a command's standard input and output as its caller gives them.
type Streams struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// TTY has the command write to a terminal of its own, and Stdin typed there.
	TTY bool
	// Size is that terminal's; zero means 24 rows, 80 columns.
	Size TerminalSize
	// Suspend, if set, is called when the key that stops jobs was typed and nobody
	// inside acts on it.
	Suspend func()
	// Confined says that the command must not open again what it is given.
	Confined bool
	// User is whom the command runs as; nil is the caller.
	User *shared.User
	// MayOutlive says that processes of the command may go on when it has ended, and hold its output
	// open. Nobody waits for these: what they write goes to Late, nil for nowhere.
	MayOutlive bool
	AfterExit  io.Writer
}

// Files carry one command's standard input and output. The zero value has none.
type Files struct {
	made        *shared.Stdio
	child       []*os.File // closed once the command has started
	parent      []*os.File // closed once it has ended
	piped       bool       // one of the pipes was asked for
	stdin       *feeder    // nil if there is nothing to copy
	copiers     []func() error
	copied      chan error    // one from each copier
	stderrEnds  *Ends         // of the command's standard error; nil where nobody keeps it
	log         *appended     // that file, where it is a regular one
	sharedPipes []*sharedPipe // of what is copied, that which others may hold open
	terminals   []*terminal   // of the command's own; with TTY, the first is what is typed to
}

// InputPipe makes a pipe whose read end is for the command. End closes write.
func (f *Files) InputPipe() (read, write *os.File, err error) {
	if read, write, err = os.Pipe(); err == nil {
		f.piped = true
		f.child, f.parent = append(f.child, read), append(f.parent, write)
	}
	return read, write, err
}

// OutputPipe makes a pipe whose write end is for the command. End closes read.
func (f *Files) OutputPipe() (read, write *os.File, err error) {
	if read, write, err = os.Pipe(); err == nil {
		f.piped = true
		f.child, f.parent = append(f.child, write), append(f.parent, read)
	}
	return read, write, err
}

// Make gives the files for the engine. It makes them at its first call: a command
// that could not be started may be given the same once more.
func (f *Files) Make(s *Streams) (shared.Stdio, error) {
	if f.made != nil {
		return *f.made, nil
	}
	var made shared.Stdio
	var err error
	// One pipe keeps the order of what is written.
	joined := s.Stderr == nil && s.TTY || s.Stderr != nil && sameOutput(s.Stderr, s.Stdout)
	s.AfterExit = serialized(s.AfterExit)
	var inStdout, inStderr *Ends
	if s.Confined {
		f.stderrEnds = &Ends{Limit: maxSaid / 2}
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

// Remake forgets what Make has made, with its terminals: the next call makes other
// files.
func (f *Files) Remake() {
	f.closeTerminals()
	f.made, f.stdin, f.terminals, f.copiers, f.sharedPipes, f.stderrEnds, f.log = nil, nil, nil, nil, nil, nil, nil
}

func (f *Files) input(s *Streams) (*os.File, error) {
	switch stdin := s.Stdin.(type) {
	case nil:
		return nil, nil
	case *os.File:
		if isTerminal(stdin) {
			return nil, nil
		}
		// Through /proc/self/fd/0 a command could open a regular file again, and
		// write to what it was only given to read.
		if info, err := stdin.Stat(); err != nil || !info.Mode().IsRegular() || !s.Confined {
			return stdin, nil
		}
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	f.child, f.parent = append(f.child, read), append(f.parent, write)
	f.stdin = newFeeder(s.Stdin, write, true)
	return read, nil
}

// output gives the file for what goes to w. What passes goes to said as well, unless that
// is nil: a pipe and a socket of the caller's are then not handed over but copied to.
func (f *Files) output(s *Streams, w io.Writer, said *Ends) (*os.File, error) {
	var followed *os.File
	switch out := w.(type) {
	case nil:
		return nil, nil
	case *os.File:
		if isTerminal(out) {
			return f.screen(s, out, said)
		}
		if said != nil || s.MayOutlive {
			followed = f.follow(out)
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
	copying := io.Copy
	if s.MayOutlive {
		o := &sharedPipe{read: read, afterExit: s.AfterExit}
		f.sharedPipes, copying = append(f.sharedPipes, o), o.copy
	} else {
		f.parent = append(f.parent, read)
	}
	f.copiers = append(f.copiers, func() error {
		_, err := copying(keeping(w, said), read)
		if s.MayOutlive && err == errStillOpen {
			if followed != nil {
				followed.Close()
			}
			return nil
		}
		read.Close() // the command gets SIGPIPE where the writer has failed
		if followed != nil {
			followed.Close() // whoever reads that to its end need not call Wait before
			if errors.Is(err, syscall.EPIPE) {
				err = nil // the command knows it by its own
			}
		}
		return err
	})
	return write, nil
}

// typedTo makes the pair of which the command gets the slave.
func (f *Files) typedTo(s *Streams, said *Ends) (*os.File, error) {
	if f.piped {
		return nil, errors.New("host: with TTY there are no pipes; set Stdin and Stdout, to ends of io.Pipe for example")
	}
	t, err := f.terminal(s, s.Size, s.Stdout, said, openTerminal)
	if err != nil {
		return nil, err
	}
	if s.Stdin != nil {
		f.stdin = newFeeder(s.Stdin, t.master, false)
		if s.Suspend != nil {
			f.stdin.keyed = func(keys []byte) {
				if t.stops(keys) {
					s.Suspend()
				}
			}
		}
	}
	return t.slave, nil
}

// screen makes a terminal that the command can only write to, in place of the
// caller's. Lines end there as they do on the caller's, which sees to that itself.
func (f *Files) screen(s *Streams, out *os.File, said *Ends) (*os.File, error) {
	t, err := f.terminal(s, cmp.Or(s.Size, sizeOf(out)), out, said, openScreen)
	if err != nil {
		return nil, err
	}
	return t.slave, nil
}

func (f *Files) terminal(s *Streams, size TerminalSize, out io.Writer, said *Ends, open func(TerminalSize) (*terminal, error)) (*terminal, error) {
	t, err := open(size)
	if err != nil {
		return nil, fmt.Errorf("terminal: %w", err)
	}
	f.terminals = append(f.terminals, t)
	if s.User != nil {
		// As login does: programs reopen their terminal by its name.
		if err := t.slave.Chown(int(s.User.UID), -1); err != nil {
			return nil, fmt.Errorf("terminal: %w", err)
		}
	}
	f.child = append(f.child, t.slave)
	if out == nil {
		out = io.Discard
	}
	f.copiers = append(f.copiers, func() error {
		_, err := io.Copy(keeping(out, said), t.output())
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

// Copy begins to copy, once the command runs.
func (f *Files) Copy() {
	f.copied = make(chan error, len(f.copiers))
	if f.stdin != nil {
		go f.stdin.feed()
	}
	for _, copier := range f.copiers {
		go func() { f.copied <- copier() }()
	}
}

// End waits until the output of a command that has ended is copied, and until more
// is closed; it then closes everything. It waits no longer than delay, if that is
// positive, and is exec.ErrWaitDelay then.
func (f *Files) End(delay time.Duration, more <-chan struct{}) error {
	for _, t := range f.terminals {
		t.ended()
	}
	for _, o := range f.sharedPipes {
		o.read.SetReadDeadline(time.Unix(1, 0)) // upon which it takes what is there, and no more
	}
	stdinErr := f.stdin.stop()
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
		f.Close() // ends the copying, unless a Write blocks
		for ; left > 0; left-- {
			<-f.copied // or it would still write when Wait has returned
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

// Closer gives what closes the pipes that there are now, for who can wait no longer
// for the use of f by somebody else.
func (f *Files) Closer() (closePipes func()) {
	now := slices.Concat(f.child, f.parent)
	return func() { closeAll(now) }
}

// CloseChild closes what the command has by now, or will never have.
func (f *Files) CloseChild() { closeAll(f.child) }

// Close closes everything but what CloseChild closes.
func (f *Files) Close() {
	closeAll(f.parent)
	for _, o := range f.sharedPipes {
		o.close()
	}
	f.closeTerminals()
}

func (f *Files) closeTerminals() {
	for _, t := range f.terminals {
		t.close()
	}
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// sameOutput reports whether two writers lead to the same place: what cannot be
// compared is different, as in os/exec, and two files of one terminal or pipe are one.
func sameOutput(a, b io.Writer) bool {
	if sameWriter(a, b) {
		return true
	}
	f, _ := a.(*os.File)
	g, _ := b.(*os.File)
	return f != nil && g != nil && (isTerminal(f) && isTerminal(g) && sameDevice(f, g) || samePipe(f, g))
}

// sameWriter compares as os/exec does.
func sameWriter(a, b io.Writer) (same bool) {
	defer func() {
		if recover() != nil {
			same = false
		}
	}()
	return a == b
}
