//go:build unix

package sandboxinit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sbxhost/sbxhost/internal/engine/holder"
	"github.com/sbxhost/sbxhost/internal/engine/traced"
	"github.com/sbxhost/sbxhost/internal/frame"
)

// ErrInitLost is wrapped by the errors of [Conn.Start] and [Conn.Wait] if the init ended without a
// report: the launcher failed before the init ran, or something killed it.
var ErrInitLost = errors.New("the sandbox ended without a report")

// requestTimeout bounds a write to an init that does not read: it reads its socket at once, unless
// the command has taken it over.
const requestTimeout = 5 * time.Second

// signalTimeout is how long an init may take to answer a signal: the command may have stopped it.
const signalTimeout = 500 * time.Millisecond

// Pair returns the two ends of a control socket, both close-on-exec. Pass the init's end to the
// launcher (exec.Cmd.ExtraFiles) and close it here when the launcher runs, or the end of the init
// stays invisible.
func Pair() (engineEnd, initEnd *os.File, err error) { return frame.FilePair() }

// Conn is the engine's end of the control socket of one init, which runs one command. Any goroutine
// may call its methods. The command may have written what the init sends: it is bounded, checked,
// and trusted only about the command itself.
type Conn struct {
	f *os.File

	writing    sync.Mutex // one request at a time on the wire
	signalling sync.Mutex // one signal at a time waits for its answer
	signalled  chan struct{}
	unanswered atomic.Int64 // signals

	taken atomic.Bool // by a command, or else by Close

	started  chan struct{} // closed when startErr and is are final
	startErr error
	is       startedMessage

	ended  chan struct{} // closed when end and endErr are final
	end    endedMessage
	endErr error
}

// NewConn takes over the engine's end of a [Pair].
func NewConn(engineEnd *os.File) *Conn {
	return &Conn{f: engineEnd, started: make(chan struct{}), ended: make(chan struct{}), signalled: make(chan struct{}, 1)}
}

// Start sends the command and waits until it runs. The error is an *[ExecError] if it could not
// start, wraps [ErrInitLost] if there is no init (see the launcher's own stderr), and is the
// context's if that ends first, which ends the sandbox. A Conn starts one command: then, and after Close, the error is [os.ErrClosed].
func (c *Conn) Start(ctx context.Context, cmd Command) error {
	request, err := encodeCommand(&cmd)
	if err != nil {
		return err
	}
	return c.begin(ctx, request)
}

// Reside makes the init, which must be pid 1, run no command: it stays, and reaps what others leave
// in its pid namespace, until it is killed or c is closed. Otherwise it is like Start.
func (c *Conn) Reside(ctx context.Context) error {
	return c.begin(ctx, frame.Encode(kindReside, empty{}))
}

func (c *Conn) begin(ctx context.Context, request []byte) error {
	if c.taken.Swap(true) {
		return os.ErrClosed
	}
	go c.read()
	// Close unblocks a write of 16 MiB to a launcher that hangs.
	stop := context.AfterFunc(ctx, func() { c.Close() })
	c.writing.Lock()
	_, err := c.f.Write(request)
	c.writing.Unlock()
	if err != nil && !gone(err) {
		c.Close()
	}
	// Also after a failed write: an init that stopped reading may have sent the reason.
	<-c.started
	if err == nil || c.startErr != nil {
		err = c.startErr
	} else {
		err = lost(err)
	}
	if !stop() && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// Make sends an init that makes its sandbox itself, before Start, what it must make. If it cannot,
// Start returns a *[holder.MountError].
func (c *Conn) Make(box *holder.Sandbox) error { return c.send(kindSandbox, box) }

// Confine sends an init, before Complete, the confinement of its command. The thread that will
// start the command applies it at once, which takes a millisecond. The command is then
// [Command.Confined], and Start returns the kernel's refusal.
func (c *Conn) Confine(by *Confinement) error { return c.send(kindConfine, by) }

// Complete passes the command's stdio to an init, before Start. sockets, if not nil, is the init's
// end of a [NewSockets]; Complete closes it.
func (c *Conn) Complete(stdio [3]*os.File, sockets *os.File) error {
	// Fd makes a file blocking, as a command expects it.
	files := []int{int(stdio[0].Fd()), int(stdio[1].Fd()), int(stdio[2].Fd())}
	if sockets != nil {
		defer sockets.Close()
		files = append(files, int(sockets.Fd()))
	}
	return c.send(kindComplete, empty{}, files...)
}

// GiveUp ends an init that has no command yet. It returns the *[holder.MountError] that the init
// had sent, or nil.
func (c *Conn) GiveUp(ctx context.Context) error {
	c.HangUp()
	if unmade, ok := errors.AsType[*holder.MountError](c.Reside(ctx)); ok {
		return unmade
	}
	return nil
}

// send bounds the time of a message to an init that does not run its command yet.
func (c *Conn) send(kind byte, m frame.Message, files ...int) error {
	raw, err := c.f.SyscallConn()
	if err != nil {
		return err
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	c.f.SetWriteDeadline(time.Now().Add(requestTimeout))
	err = frame.Send(raw, frame.Encode(kind, m), files...)
	c.f.SetWriteDeadline(time.Time{})
	if gone(err) {
		return nil // it, or its launcher, has sent the reason
	}
	return err
}

// Scoped reports, after Start has returned nil, whether the kernel enforces [Command.Scope].
func (c *Conn) Scoped() bool {
	<-c.started
	return c.is.scoped
}

// Rooted reports the same for [Command.Rooted].
func (c *Conn) Rooted() bool {
	<-c.started
	return c.is.rooted
}

// Done is closed when [Conn.Wait] will not block.
func (c *Conn) Done() <-chan struct{} { return c.ended }

// Wait waits for the command, which was started, to end. An error means that its end is unknown. Processes that the
// command left behind end with pid 1, a moment later: wait for the launcher too before you remove
// what was bound.
func (c *Conn) Wait() (Status, error) {
	<-c.ended
	return c.end.status, c.endErr
}

// Traced returns, after Wait has returned nil, the failed calls of a command with [Command.Trace],
// the latest first. After [Conn.Kill] there are none.
func (c *Conn) Traced() []traced.Call {
	select {
	case <-c.ended:
		return c.end.failed.Calls
	default: // an init that must end at once does not wait for its tracer
		return nil
	}
}

// Signal sends signal n, in the numbers of the init's system, to the command's process group. The
// error is [os.ErrProcessDone] if the command has ended, also if it ended before it got the signal.
func (c *Conn) Signal(n int) error {
	if n < 1 || n > maxSignal {
		return errors.New("signal " + strconv.Itoa(n) + ": not between 1 and " + strconv.Itoa(maxSignal))
	}
	c.signalling.Lock()
	defer c.signalling.Unlock()
	for len(c.signalled) > 0 {
		<-c.signalled // it came too late
	}
	c.unanswered.Add(1)
	if err := c.request(kindSignal, &signalRequest{n}); err != nil {
		return err
	}
	select {
	case <-c.signalled:
	case <-time.After(signalTimeout):
	case <-c.ended:
		if len(c.signalled) == 0 {
			return os.ErrProcessDone
		}
	}
	return nil
}

// Kill asks the init to end at once, which kills every process of the sandbox. Wait then reports
// death by SIGKILL unless the command was faster. The command may have tampered with the init: if
// nothing follows, kill the launcher.
func (c *Conn) Kill() error { return c.request(kindKill, empty{}) }

// KillAllAtEnd makes the end of a command that is [Command.Apart], for any reason, the end of all
// that it has started.
func (c *Conn) KillAllAtEnd() error { return c.request(kindKillAllAtEnd, empty{}) }

func (c *Conn) request(kind byte, m frame.Message) error {
	select {
	case <-c.ended:
		return os.ErrProcessDone
	default:
	}
	select {
	case <-c.started:
	default:
		return errors.New("no command was started yet")
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	c.f.SetWriteDeadline(time.Now().Add(requestTimeout))
	n, err := c.f.Write(frame.Encode(kind, m))
	if err == nil {
		return nil
	}
	if n > 0 {
		// Half a message is out: the init would not understand another.
		c.Close()
	}
	if gone(err) {
		// The init is gone; its last message may not be read yet.
		<-c.ended
		if c.endErr == nil {
			return os.ErrProcessDone
		}
		return c.endErr
	}
	return err
}

// Close gives up the connection. To an init that still runs it means the end of the engine: it
// kills everything inside and ends.
func (c *Conn) Close() error {
	if !c.taken.Swap(true) {
		c.finish(lost(os.ErrClosed))
	}
	return c.f.Close()
}

// HangUp ends the conversation with an init that is gone, or should be. The reader still gets
// earlier messages, however late; [Conn.Close] would drop them.
func (c *Conn) HangUp() {
	frame.Control(c.f, func(fd int) error { return syscall.Shutdown(fd, syscall.SHUT_RDWR) })
}

// finish makes the outcome final. Only read calls it after Start, and only the first Close before.
func (c *Conn) finish(err error) {
	c.endErr = err
	select {
	case <-c.started:
	default:
		c.startErr = err
		close(c.started)
	}
	close(c.ended)
}

func (c *Conn) read() {
	err := c.converse()
	c.finish(err)
	if errors.Is(err, ErrProtocol) {
		c.Close() // ends an honest init, and frees a dishonest one's buffers
	}
}

// converse reads an init's messages, which have only one order.
func (c *Conn) converse() error {
	kind, payload, err := frame.Read(c.f, maxReport)
	if err != nil {
		return lost(err)
	}
	var refused frame.Message
	switch kind {
	case kindStarted:
		if err := frame.Decode(payload, &c.is); err != nil {
			return err
		}
		close(c.started)
		for {
			kind, payload, err = frame.Read(c.f, maxReport+traced.MaxReport)
			switch {
			case err != nil:
				return lost(err)
			case kind == kindEnded:
				return frame.Decode(payload, &c.end)
			case kind != kindSignalled || c.unanswered.Add(-1) < 0:
				return frame.Malformed("out of turn")
			}
			select {
			case c.signalled <- struct{}{}:
			default: // an init that was stopped answers all at once
			}
		}
	case kindRefused:
		refused = &ExecError{}
	case kindMountFailed:
		refused = &holder.MountError{}
	default:
		return frame.Malformed("neither started nor refused")
	}
	if err := frame.Decode(payload, refused); err != nil {
		return err
	}
	return refused.(error)
}

// lost wraps the loss of the peer in its sentinel.
func lost(err error) error {
	switch {
	case errors.Is(err, ErrProtocol):
		return err
	case err == io.EOF, gone(err):
		return ErrInitLost
	}
	return fmt.Errorf("%w: %w", ErrInitLost, err)
}

// gone reports whether the other end of the socket is closed.
func gone(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
}
