package execute

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync"

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

// Remote is a client for whom this process runs a command. Nil means this process's own caller.
type Remote struct {
	// Take returns the Host for a setup.
	Take func(context.Context, *cli.App, *setup.Setup) (*UsedHost, error)
	// AdaptTo changes a command of a kept session to what its client means; nil for a client that
	// can run the command itself.
	AdaptTo func(*cli.App, *host.Host, *host.Cmd) error
	// MakeWay closes the Hosts of the command's session that nobody uses. It returns the sandbox of
	// a kept session, which ends the wait for it.
	MakeWay    func() (kept string)
	Send       func(kind byte, m frame.Message, fds ...int) error // the end of Life says that the client is gone
	Stderr     *Buffer
	Signals    chan os.Signal
	Life       context.Context // ends with the client
	Usage      *wire.Usage     // what it may use; nil in a kept session
	ClientEnds bool            // the client's end also ends the command
	Why        string          // why it does not
	Typed      bool            // the client's standard input is typed at its terminal
}

// notify returns the signals to relay. It closes the channel notified when they can come.
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

// begin tells the client that from now on something may have run.
func (r *Remote) begin() {
	if r != nil {
		r.Send(serve.KindBegin, serve.Empty{})
	}
}

// Settle takes the result of the start, and reports it to the client with all buffered messages. It
// does not do so if nothing ran because an approval is missing: the client itself can ask for that.
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

// caller returns the user of the command, if the Host serves several.
func (r *Remote) caller(a *cli.App) *host.Caller {
	if r == nil || r.AdaptTo != nil {
		return nil
	}
	return &host.Caller{Environ: a.Environ, Dir: a.Dir}
}

// leavesToClient reports whether the client must do the work, and report the error: nothing ran.
func (r *Remote) leavesToClient() bool { return r != nil && r.AdaptTo == nil && !r.ClientEnds }

// asClient gives a file for the client the rights that the client would have given it.
func (r *Remote) asClient(f *os.File) error {
	if r == nil || r.Usage == nil {
		return nil
	}
	return f.Chmod(os.FileMode(0o644 &^ r.Usage.Umask))
}

// suspend stops the client.
func (r *Remote) suspend() { r.Send(serve.KindSuspend, serve.Empty{}) }

// stderr returns the command's standard error.
func (r *Remote) stderr(own io.Writer) io.Writer {
	if r == nil {
		return own
	}
	return r.Stderr.File
}

// host returns the Host for a setup.
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

// UsedHost is a Host in use.
type UsedHost struct {
	*host.Host
	Done func()
}

// Buffer keeps messages until a command runs: if the client must do the work itself, it prints
// them itself.
type Buffer struct {
	*os.File
	mu      sync.Mutex
	text    []byte
	started bool
	Raw     bool // it is a terminal whose lines need a carriage return
	over    bool
}

func (h *Buffer) Write(p []byte) (int, error) {
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

// WriteString is in place of the file's.
func (h *Buffer) WriteString(s string) (int, error) { return h.Write([]byte(s)) }

// End discards all further messages: the client is gone, and the process that started it did not
// ask for them.
func (h *Buffer) End() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over = true
}

// Text returns the last buffered line.
func (h *Buffer) Text() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(string(h.text)), "\n")
	return strings.TrimPrefix(lines[len(lines)-1], "sbxhost: ")
}

// start writes all buffered and further messages.
func (h *Buffer) start() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.started = true
	if len(h.text) > 0 && !h.over {
		h.File.Write(h.text)
		h.text = nil
	}
}
