package execute

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"

	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/setup"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/terminal"
	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/internal/frame"
	"github.com/sbxhost/sbxhost/internal/policy"
	"github.com/sbxhost/sbxhost/internal/serve"
	"github.com/sbxhost/sbxhost/internal/session"
	"github.com/sbxhost/sbxhost/internal/wire"
)

// Remote is a client of ours, for whom a command runs. Nil is our own caller.
type Remote struct {
	// take gives the Host for a setup.
	Take func(context.Context, *cli.App, *setup.Setup) (*UsedHost, error)
	// adaptTo makes of a command of a kept session what its client means; nil for a client
	// that can do without us.
	AdaptTo    func(*cli.App, *host.Host, *host.Cmd) error
	Send       func(kind byte, m frame.Message)
	Stderr     *Buffered
	Signals    chan os.Signal
	Life       context.Context // ends with the client
	Usage      *wire.Usage     // what it may use; nil in a kept session
	ClientEnds bool            // how the command ends is for the client
	Why        string          // it is not
	Typed      bool            // what it gives as standard input is typed at its terminal
	Ended      syscall.Signal  // what has ended the command
}

// notify gives the signals to relay. The channel notified is closed once they come.
func (r *Remote) notify() (signals chan os.Signal, notified chan struct{}) {
	notified = make(chan struct{})
	if r != nil {
		close(notified)
		return r.Signals, notified
	}
	signals = make(chan os.Signal, 16)
	go func() {
		defer close(notified)
		terminal.Notify(signals)
	}()
	return signals, notified
}

// endsWith has the client's end give up what is waited for, until stop is called.
func (r *Remote) endsWith(cancel func()) (stop func() bool) {
	if r == nil {
		return func() bool { return false }
	}
	return context.AfterFunc(r.Life, cancel)
}

// begin tells the client that from now on something may have been run.
func (r *Remote) begin() {
	if r != nil {
		r.Send(serve.KindBegin, serve.Empty{})
	}
}

// Settle takes how the start of the command went, of which the client is told, with all
// that was held back: unless nothing was run for want of an approval, for which the client itself can ask.
func (r *Remote) Settle(err error) {
	if r == nil {
		return
	}
	if r.AdaptTo == nil && (errors.Is(err, policy.ErrAsks) || errors.Is(err, session.ErrNoSession)) {
		r.Why = err.Error()
		return
	}
	r.ClientEnds = true
	r.Stderr.start()
}

// caller is who the command is for, where the Host is for several.
func (r *Remote) caller(a *cli.App) *host.Caller {
	if r == nil || r.AdaptTo != nil {
		return nil
	}
	return &host.Caller{Environ: a.Environ, Dir: a.Dir}
}

// leaves reports whether the client is left to do the work, and to tell why it cannot be
// done: nothing was run.
func (r *Remote) leaves() bool { return r != nil && r.AdaptTo == nil && !r.ClientEnds }

// asClient gives a file that was made for the client the rights that it would have had of that.
func (r *Remote) asClient(f *os.File) error {
	if r == nil || r.Usage == nil {
		return nil
	}
	return f.Chmod(os.FileMode(0o644 &^ r.Usage.Umask))
}

// suspend stops the client.
func (r *Remote) suspend() { r.Send(serve.KindSuspend, serve.Empty{}) }

// errors gives what the command writes to as its standard error.
func (r *Remote) errors(stderr io.Writer) io.Writer {
	if r == nil {
		return stderr
	}
	return r.Stderr.File
}

// host gives the Host for a setup.
func (r *Remote) host(ctx context.Context, a *cli.App, s *setup.Setup) (*UsedHost, error) {
	if r != nil {
		s.Options.Usage = r.Usage
		return r.Take(ctx, a, s)
	}
	h, err := host.New(ctx, s.Options)
	if err != nil {
		return nil, err
	}
	return &UsedHost{h, func() { h.Close() }}, nil
}

// UsedHost is a Host until it is done with.
type UsedHost struct {
	*host.Host
	Done func()
}

// Buffered keeps what is said before a command runs: a client that is left to do the work
// itself says it again.
type Buffered struct {
	*os.File
	mu      sync.Mutex
	text    []byte
	started bool
	Raw     bool // it is a terminal whose lines need a carriage return
	over    bool
}

func (h *Buffered) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	text := p
	if h.Raw {
		text = bytes.ReplaceAll(p, []byte("\n"), []byte("\r\n"))
	}
	switch {
	case h.over:
	case h.started:
		if _, err := h.File.Write(text); err != nil {
			return 0, err
		}
	default:
		h.text = append(h.text, text...)
	}
	return len(p), nil
}

// End has nothing said any more: the client is gone, and who it was started by did not ask.
func (h *Buffered) End() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over = true
}

// Text is the last line that is held back.
func (h *Buffered) Text() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(string(h.text)), "\n")
	return strings.TrimPrefix(lines[len(lines)-1], "sbxhost: ")
}

func (h *Buffered) start() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.started = true
	if len(h.text) > 0 && !h.over {
		h.File.Write(h.text)
		h.text = nil
	}
}
