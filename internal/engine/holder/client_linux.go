package holder

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/frame"
	"github.com/sbxhost/sbxhost/internal/proc"
)

// Client is a connection to a session's holder. Any goroutine may call its methods.
type Client struct {
	conn *conn
	log  func() string // the output of a crashed holder; call it once

	umask uint32 // of this process at the time of the connection

	mu        sync.Mutex
	next      uint32
	calls     map[uint32]chan reply
	launchers map[uint32]*Launcher
	err       error // why the connection ended

	lost chan struct{} // closed with err
}

type reply struct {
	launcher *Launcher
	err      error

	same bool
}

func newClient(c *conn, log func() string) *Client {
	client := &Client{conn: c, log: log, umask: umask(), calls: map[uint32]chan reply{}, launchers: map[uint32]*Launcher{}, lost: make(chan struct{})}
	go client.read()
	return client
}

// Lost is closed when the holder, or the connection to it, is gone.
func (c *Client) Lost() <-chan struct{} { return c.lost }

// Close ends the connection. The holder kills this client's inits, and ends after its last client.
func (c *Client) Close() { c.conn.close() }

// CloseAlone is Close for the only client of a holder that this process has started. It waits until
// the holder is gone.
func (c *Client) CloseAlone() {
	c.conn.close()
	if c.conn.gone == nil {
		return
	}
	select {
	case <-c.conn.gone:
	case <-time.After(dyingPatience):
		c.conn.holder.Kill()
	}
}

// Overlay makes the overlay of a directory of the host, unless the session has it. With own, each
// command has one of its own, and this one is only a trial. A *[MountError] says why it is
// impossible.
func (c *Client) Overlay(ctx context.Context, source string, own bool) error {
	m := &overlayOf{source: source, own: own}
	return c.call(ctx, msgOverlay, m, &m.request).err
}

// Prepare makes the holder begin with the tree of a plan, for which an init will soon start. The
// holder then checks it, like each existing tree.
func (c *Client) Prepare(plan Plan) {
	message := frame.Encode(msgTree, &planned{plan.encoded}, len(plan.encoded)+4)
	if len(message)-frame.HeaderSize > maxPayload {
		return // the starter of an init receives it
	}
	if c.conn.send(message) != nil {
		c.conn.close() // half a message may be out; the reader reports why
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
	Joins *Launcher
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

func (c *Client) Start(ctx context.Context, s Start) (*Launcher, error) {
	m := &run{plan: s.Plan.encoded, argv: s.Argv, namespaces: s.Namespaces | unix.CLONE_NEWNS, first: s.First, ahead: s.Ahead, overlays: s.Overlays,
		umask: c.umask, grouped: s.Group != nil}
	if s.Joins != nil {
		if s.Joins.conn != c.conn {
			return nil, fmt.Errorf("%w, which had started the first of these processes", ErrLost)
		}
		m.joins = s.Joins.request
	}
	files := s.Files
	if m.grouped {
		files = append(slices.Clip(files), s.Group)
	}
	if len(files) > frame.MaxFiles {
		return nil, fmt.Errorf("%d descriptors are more than can be passed (%d)", len(files), frame.MaxFiles)
	}
	m.files = uint32(len(files))
	fds := make([]int, len(files))
	for i, f := range files {
		fds[i] = int(f.Fd())
	}
	answer := c.call(ctx, msgRun, m, &m.request, fds...)
	return answer.launcher, answer.err
}

// Same reports whether an init that started with this plan would start in the same tree now.
func (c *Client) Same(ctx context.Context, l *Launcher) bool {
	m := &pair{value: l.request}
	return c.call(ctx, msgSame, m, &m.request).same
}

// call sends a message, of which request is a field, and waits for the answer.
func (c *Client) call(ctx context.Context, kind byte, m frame.Message, request *uint32, fds ...int) reply {
	answer := make(chan reply, 1)
	c.mu.Lock()
	if c.err != nil {
		defer c.mu.Unlock()
		return reply{err: c.err}
	}
	c.next++
	*request = c.next
	c.calls[*request] = answer
	c.mu.Unlock()

	message := frame.Encode(kind, m, 256)
	if len(message)-frame.HeaderSize > maxPayload {
		c.mu.Lock()
		delete(c.calls, *request)
		c.mu.Unlock()
		return reply{err: &MountError{Index: -1, Call: "asking the holder", Reason: "the plan is too long"}}
	}
	if err := c.conn.send(message, fds...); err != nil {
		c.conn.close() // half a message may be out; the reader reports why
	}
	select {
	case r := <-answer:
		return r
	case <-ctx.Done():
		c.conn.killStopped()
		go func() {
			if r := <-answer; r.launcher != nil {
				c.abandon(r.launcher)
			}
		}()
		return reply{err: ctx.Err()}
	}
}

// abandon ends an init that nobody waits for.
func (c *Client) abandon(l *Launcher) {
	l.Kill()
	l.Wait()
}

// read handles the holder's messages until the last one.
func (c *Client) read() {
	err := c.converse()
	c.conn.close()
	c.conn.discard()
	lost, said := error(ErrLost), c.log()
	if errors.Is(err, os.ErrClosed) {
		lost = fmt.Errorf("%w: the connection was closed", ErrLost)
	} else if said != "" {
		lost = fmt.Errorf("%w; it said: %s", ErrLost, said)
	}
	c.mu.Lock()
	c.err = lost
	calls, launchers := c.calls, c.launchers
	c.calls, c.launchers = nil, nil
	c.mu.Unlock()
	close(c.lost)
	for _, answer := range calls {
		answer <- reply{err: lost}
	}
	for _, l := range launchers {
		l.lose(lost)
	}
}

func (c *Client) converse() error {
	for {
		kind, payload, err := c.conn.read()
		if err == nil {
			err = c.hear(kind, payload)
		}
		if err != nil {
			return err
		}
	}
}

func (c *Client) hear(kind byte, payload []byte) error {
	var m pair
	var put restored
	var failed refusal
	said := frame.Message(&m)
	switch kind {
	case msgDone, msgSame, msgExit:
	case msgRestored:
		said = &put
	case msgFailed:
		said = &failed
	default:
		return frame.Malformed("unknown")
	}
	if err := frame.Decode(payload, said); err != nil {
		return err
	}
	switch {
	case kind == msgDone && m.value != 0:
		fds, err := c.conn.claim(1)
		if err != nil {
			return err
		}
		l := &Launcher{conn: c.conn, request: m.request, pid: int(m.value), pidfd: fds[0], exited: make(chan struct{})}
		c.mu.Lock()
		c.launchers[m.request] = l
		c.mu.Unlock()
		c.answer(m.request, reply{launcher: l})
	case kind == msgDone || kind == msgSame:
		c.answer(m.request, reply{same: m.value == 1})
	case kind == msgFailed:
		c.answer(failed.request, reply{err: &failed.why})
	case kind == msgRestored:
		if l := c.launcher(put.request, false); l != nil {
			l.reportRestored(put.dest, put.reason)
		}
	default:
		if l := c.launcher(m.request, true); l != nil {
			l.finish(syscall.WaitStatus(m.value), nil)
		}
	}
	return nil
}

// launcher returns the init of a request, for the last time if it has ended.
func (c *Client) launcher(request uint32, ended bool) *Launcher {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.launchers[request]
	if ended {
		delete(c.launchers, request)
	}
	return l
}

func (c *Client) answer(request uint32, r reply) {
	c.mu.Lock()
	answer := c.calls[request]
	delete(c.calls, request)
	c.mu.Unlock()
	if answer != nil {
		answer <- r
	} else if r.launcher != nil {
		go c.abandon(r.launcher) // not here, where its end is read
	}
}

// A Launcher is an init that the holder has started.
type Launcher struct {
	conn    *conn
	request uint32
	pid     int

	mu    sync.Mutex // keeps the descriptor open while it is used
	pidfd int

	onRestored func(dest, reason string) // guarded by mu; may be nil

	end    sync.Once
	watch  sync.Once
	exited chan struct{} // closed when status and err are final
	status syscall.WaitStatus
	err    error
}

// Pid is its number, which may be another process's after Wait.
func (l *Launcher) Pid() int { return l.pid }

// OnRestored makes the Launcher call told when the holder restores a mount at dest, because
// somebody on the host replaced its mount point. The mount is in the tree of this init, which is
// the First of its namespaces, or of an init that has joined it. A reason says why the holder could
// not restore the mount.
func (l *Launcher) OnRestored(told func(dest, reason string)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.onRestored = told
}

func (l *Launcher) reportRestored(dest, reason string) {
	l.mu.Lock()
	told := l.onRestored
	l.mu.Unlock()
	if told != nil {
		told(dest, reason)
	}
}

func (l *Launcher) Kill() error {
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
			l.conn.killStopped() // the holder must report its end
			l.finish(0, fmt.Errorf("%w, or does not answer", ErrLost))
		})
	})
	return err
}

// Wait waits for its end. An error, which wraps [ErrLost], says that the init is gone and that its
// end is unknown.
func (l *Launcher) Wait() (syscall.WaitStatus, error) {
	<-l.exited
	return l.status, l.err
}

func (l *Launcher) finish(status syscall.WaitStatus, err error) {
	l.end.Do(func() {
		l.mu.Lock()
		unix.Close(l.pidfd)
		l.pidfd = -1
		l.mu.Unlock()
		l.status, l.err = status, err
		close(l.exited)
	})
}

// dyingPatience bounds the wait for a killed init, and for its holder's report.
const dyingPatience = 2 * time.Second

// lose waits for an init to die with its holder.
func (l *Launcher) lose(cause error) {
	l.Kill() // it may have been stopped before it asked the kernel for that
	own, err := l.dup()
	if err != nil {
		l.finish(0, cause)
		return
	}
	defer unix.Close(own)
	proc.Ended(own, dyingPatience)
	l.finish(0, cause)
}

func (l *Launcher) dup() (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pidfd < 0 {
		return -1, os.ErrProcessDone
	}
	return unix.FcntlInt(uintptr(l.pidfd), unix.F_DUPFD_CLOEXEC, 0)
}

// hello is a holder's first message.
func hello(c *conn) error {
	kind, payload, err := c.read()
	switch {
	case err != nil:
		return err
	case kind == msgFailed:
		var m refusal
		if err := frame.Decode(payload, &m); err != nil {
			return err
		}
		return &m.why
	case kind != msgHello:
		return frame.Malformed("no hello")
	}
	var m pair
	if err := frame.Decode(payload, &m); err != nil {
		return err
	}
	if m.value != wireVersion {
		return fmt.Errorf("the session's holder is of another release (it speaks version %d, this program %d): end what else runs in the session", m.value, wireVersion)
	}
	return nil
}

// ended reports whether an error of hello says that the holder is about to end, so that another one
// must start.
func ended(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, unix.ECONNRESET) || errors.Is(err, unix.EPIPE)
}

// umask returns this process's umask, without setting it: umask(2) does both, and new files of
// another thread would then have the wrong mode.
func umask() uint32 {
	b, _ := os.ReadFile("/proc/self/status")
	return parseUmask(string(b))
}

// parseUmask reads /proc/PID/status. If that does not say, a command's new files are only for its
// user.
func parseUmask(status string) uint32 {
	n, err := strconv.ParseUint(proc.StatusField(status, "Umask"), 8, 9)
	if err != nil {
		return 0o077
	}
	return uint32(n)
}
