package holder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/frame"
	"github.com/sbxhost/sbxhost/internal/proc"
)

// Client is a connection to a session's holder. Any goroutine may call its methods.
type Client struct {
	conn *frame.Conn
	log  *proc.Log // the output of a holder that was started here
	// holder is the process at the other end, a child of this process; exited is closed when it was
	// reaped.
	holder *os.Process
	exited <-chan struct{}

	gone context.Context // ends with the connection; its cause is an error for what is lost
	lose context.CancelCauseFunc
}

// Lost is closed when the holder, or the connection to it, is gone.
func (c *Client) Lost() <-chan struct{} { return c.gone.Done() }

// Pid is the holder's number.
func (c *Client) Pid() int { return c.holder.Pid }

// Close ends the connection. The holder kills its inits, and ends.
func (c *Client) Close() { c.conn.Close() }

// CloseAlone is Close for a holder without a session. It waits until the holder is gone.
func (c *Client) CloseAlone() {
	c.conn.Close()
	select {
	case <-c.exited:
	case <-time.After(dyingPatience):
		c.holder.Kill()
	}
}

// killStopped kills the holder if it is stopped, after the caller has given up the wait for it. A
// stopped holder would delay the session's next command, and its socket holds this command's files.
func (c *Client) killStopped() {
	if proc.Stopped(c.holder.Pid) {
		c.holder.Kill() // by pidfd: its number may be another process's
	}
}

// watch waits for the end of the connection.
func (c *Client) watch() {
	_, _, err := c.conn.Next(0) // all answers come over other connections
	c.conn.Close()
	c.conn.Discard()
	lost, output := error(ErrLost), proc.Quote(c.log.Text())
	if errors.Is(err, os.ErrClosed) {
		lost = fmt.Errorf("%w: the connection was closed", ErrLost)
	} else if output != "" {
		lost = fmt.Errorf("%w; it said: %s", ErrLost, output)
	}
	c.lose(lost)
}

// Overlay makes the overlay of a directory of the host, unless the session has it. With own, each
// command has one of its own, and this one is only a trial. A *[MountError] says why it is
// impossible.
func (c *Client) Overlay(ctx context.Context, source string, own bool) error {
	answers, _, err := c.ask(ctx, nil, msgOverlay, &overlayRequest{source, own})
	if err == nil {
		answers.Close()
	}
	return err
}

// Prepare makes the holder begin with the tree of a plan, because an init in it will soon start. The
// holder checks the tree again then, like each existing tree.
func (c *Client) Prepare(plan Plan) {
	message := frame.Encode(msgTree, &plan)
	if len(message)-frame.HeaderSize > maxPayload {
		return // the starter of an init receives it
	}
	if c.conn.Send(message) != nil {
		c.conn.Close() // half a message may be out
	}
}

// A Start asks for an init over the tree of a plan, in namespaces of its own. The init must call
// [Making.Complete].
type Start struct {
	Plan       Plan
	Namespaces uint32
	// First says that it is pid 1 of namespaces that others join. Joins is such an init, whose
	// namespaces this one is in, except those in Namespaces. Its Sandbox is then a Member.
	First bool
	Joins *Process
	// Restored, with First, is called when the holder restores a mount at dest, because somebody on the
	// host replaced its mount point: in the tree of this init, or of one that has joined it. A reason
	// says why the holder could not. It may be nil.
	Restored func(dest, reason string)
	// Ahead says that it waits for a command. Call [Client.Same] before that: meanwhile the host
	// removes stubs for running commands, and nobody checks the tree.
	Ahead bool
	// Overlays are the sources of each [OwnOverlay] of its Sandbox, see [OwnOverlays].
	Overlays []string

	Argv  []string   // the first names its program by descriptor
	Files []*os.File // its descriptors from 0 on
	// Group is the directory of the control group that it begins in, unless that is nil or the
	// holder may not do that.
	Group *os.File
}

func (c *Client) Start(ctx context.Context, s Start) (*Process, error) {
	m := &run{plan: s.Plan, argv: s.Argv, namespaces: s.Namespaces | unix.CLONE_NEWNS, first: s.First, ahead: s.Ahead, overlays: s.Overlays, grouped: s.Group != nil}
	files := s.Files
	if m.grouped {
		files = append(slices.Clip(files), s.Group)
	}
	if len(files) >= frame.MaxFiles {
		return nil, fmt.Errorf("%d descriptors are more than can be passed (%d)", len(files), frame.MaxFiles-1)
	}
	m.files = uint32(len(files))
	answers, pid, err := c.ask(ctx, s.Joins, msgRun, m, files...)
	if err != nil {
		return nil, err
	}
	fds, err := answers.Claim(1)
	if err != nil {
		answers.Close()
		return nil, err
	}
	l := &Process{client: c, conn: answers, restored: s.Restored, pid: pid, pidfd: fds[0], exited: make(chan struct{})}
	go l.follow()
	return l, nil
}

// Same reports whether an init with the plan of l would start in the same tree if it started now.
func (c *Client) Same(ctx context.Context, l *Process) bool {
	answers, _, err := c.ask(ctx, l, msgSame, &number{})
	if err == nil {
		answers.Close()
	}
	return err == nil
}

// ask sends a request, and waits for the answer and its number. about is the init of the request, or
// nil. The caller closes the connection over which the answer has come.
func (c *Client) ask(ctx context.Context, about *Process, kind byte, m frame.Message, files ...*os.File) (answers *frame.Conn, value int, err error) {
	if c.gone.Err() != nil {
		return nil, 0, context.Cause(c.gone)
	}
	message := frame.Encode(kind, m)
	if len(message)-frame.HeaderSize > maxPayload {
		return nil, 0, mountError("asking the holder", errors.New("the plan is too long"))
	}
	answers, theirs, err := frame.Pair()
	if err != nil {
		return nil, 0, err
	}
	fds := []int{int(theirs.Fd())}
	for _, f := range files {
		fds = append(fds, int(f.Fd()))
	}
	over := c.conn
	if about != nil {
		over = about.conn
	}
	err = over.Send(message, fds...)
	theirs.Close()
	if errors.Is(err, unix.ETOOMANYREFS) { // a command can cause that; nothing was sent
		answers.Close()
		return nil, 0, mountError("asking the holder", err)
	} else if err != nil {
		over.Close() // half a message may be out
	}
	giveUp := func() { answers.Close() } // the holder then kills what it has started
	stop := context.AfterFunc(ctx, giveUp)
	defer context.AfterFunc(c.gone, giveUp)()
	value, err = answerOf(answers)
	switch _, refused := err.(*MountError); {
	case !stop():
		c.killStopped()
		err = ctx.Err()
	case err != nil && !refused:
		err = c.lost(err, about)
	}
	if err != nil {
		answers.Close()
		answers.Discard()
	}
	return answers, value, err
}

// answerOf reads an answer. A *[MountError] is one too.
func answerOf(conn *frame.Conn) (int, error) {
	kind, payload, err := conn.Next(maxPayload)
	for err == nil && kind == msgRestored { // the tree can change before its first init runs
		kind, payload, err = conn.Next(maxPayload)
	}
	var done number
	var failed MountError
	switch {
	case err != nil:
	case kind == msgDone:
		err = frame.Decode(payload, &done)
	case kind == msgFailed:
		if err = frame.Decode(payload, &failed); err == nil {
			err = &failed
		}
	default:
		err = frame.Malformed("unknown")
	}
	return int(done.value), err
}

// lost is the error for an answer that did not come. err is the reason; about is the init of the
// request, or nil.
func (c *Client) lost(err error, about *Process) error {
	if !ended(err) {
		c.conn.Close()
	}
	if about == nil {
		<-c.gone.Done()
		return context.Cause(c.gone)
	}
	<-about.exited // its holder may be another one, which is gone
	return cmp.Or(about.err, mountError("joining the session's processes", errors.New("they are gone")))
}

// A Process is an init that the holder has started.
type Process struct {
	client   *Client
	conn     *frame.Conn               // the holder kills the init when it ends
	restored func(dest, reason string) // see Start
	pid      int

	mu    sync.Mutex // keeps the descriptor open while it is used
	pidfd int

	end    sync.Once
	watch  sync.Once
	exited chan struct{} // closed when status and err are final
	status syscall.WaitStatus
	err    error
}

// Pid is its number, which may be another process's after Wait.
func (l *Process) Pid() int { return l.pid }

func (l *Process) Kill() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pidfd < 0 {
		return os.ErrProcessDone
	}
	err := unix.PidfdSendSignal(l.pidfd, unix.SIGKILL, nil, 0)
	if err == unix.ESRCH {
		err = os.ErrProcessDone
	}
	l.watch.Do(func() {
		time.AfterFunc(dyingPatience, func() {
			l.client.killStopped() // the holder must report its end
			l.finish(0, fmt.Errorf("%w, or does not answer", ErrLost))
		})
	})
	return err
}

// Wait waits for its end. An error, which wraps [ErrLost], says that the init is gone and that its
// end is unknown.
func (l *Process) Wait() (syscall.WaitStatus, error) {
	<-l.exited
	return l.status, l.err
}

func (l *Process) finish(status syscall.WaitStatus, err error) {
	l.end.Do(func() {
		l.status, l.err = status, err
		close(l.exited)
	})
}

// dyingPatience bounds the wait for a killed init, and for its holder's report.
const dyingPatience = 2 * time.Second

// follow reads what the holder reports about the init, to its end.
func (l *Process) follow() {
	defer context.AfterFunc(l.client.gone, func() { l.conn.Close() })()
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		unix.Close(l.pidfd)
		l.pidfd = -1
	}()
	status, err := l.hear()
	l.conn.Close()
	l.conn.Discard()
	if err == nil {
		l.finish(status, nil)
		return
	}
	cause := l.client.lost(err, nil)
	l.Kill()                           // it may have been stopped before it asked the kernel for that
	proc.Ended(l.pidfd, dyingPatience) // it dies with its holder
	l.finish(0, cause)
}

func (l *Process) hear() (syscall.WaitStatus, error) {
	for {
		kind, payload, err := l.conn.Next(maxPayload)
		switch {
		case err != nil:
			return 0, err
		case kind == msgExit:
			var m number
			err := frame.Decode(payload, &m)
			return syscall.WaitStatus(m.value), err
		case kind != msgRestored:
			return 0, frame.Malformed("unknown")
		}
		var m restoredMount
		if err := frame.Decode(payload, &m); err != nil {
			return 0, err
		}
		if l.restored != nil {
			l.restored(m.dest, m.reason)
		}
	}
}

// ended reports whether the error of an answer says that the holder is about to end, so that another one
// must start.
func ended(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, unix.ECONNRESET) || errors.Is(err, unix.EPIPE)
}
