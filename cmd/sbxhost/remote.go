//go:build unix

package main

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"

	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/serve"
	"github.com/sbxhost/sbxhost/shared/frame"
)

// remote is a client of ours, for whom a command runs. Nil is our own caller.
type remote struct {
	// take gives the Host for a setup.
	take func(context.Context, *app, *setup) (*usedHost, error)
	// adaptTo makes of a command of a kept session what its client means; nil for a client
	// that can do without us.
	adaptTo func(*app, *host.Host, *host.Cmd) error
	send    func(kind byte, m frame.Message)
	stderr  *heldBack
	signals chan os.Signal
	gone    chan struct{} // closed when the client is
	settled bool          // how the command ends is for the client
}

// notify gives the signals to relay. The channel notified is closed once they come.
func (r *remote) notify() (signals chan os.Signal, notified chan struct{}) {
	notified = make(chan struct{})
	if r != nil {
		close(notified)
		return r.signals, notified
	}
	signals = make(chan os.Signal, 16)
	go func() {
		defer close(notified)
		notify(signals)
	}()
	return signals, notified
}

// endsWith has the client's end give up what is waited for, until stop is called.
func (r *remote) endsWith(cancel func()) (stop func()) {
	if r == nil {
		return func() {}
	}
	over := make(chan struct{})
	go func() {
		select {
		case <-r.gone:
			cancel()
		case <-over:
		}
	}()
	return func() { close(over) }
}

// begin tells the client that from now on something may have been run.
func (r *remote) begin() {
	if r != nil {
		r.send(serve.KindBegin, serve.Nothing{})
	}
}

// settle takes how the start of the command went, of which the client is told, with all
// that was held back: unless nothing was run for want of a session or of an approval, which
// the client itself can have.
func (r *remote) settle(err error) {
	if _, denied := errors.AsType[*host.DeniedError](err); r == nil || r.adaptTo == nil && (denied || errors.Is(err, host.ErrNoSession)) {
		return
	}
	r.settled = true
	r.stderr.start()
}

// leaves reports whether the client is left to do the work, and to tell why it cannot be
// done: nothing was run.
func (r *remote) leaves() bool { return r != nil && r.adaptTo == nil && !r.settled }

// suspend stops the client.
func (r *remote) suspend() { r.send(serve.KindSuspend, serve.Nothing{}) }

// errors gives what the command writes to as its standard error.
func (r *remote) errors(stderr io.Writer) io.Writer {
	if r == nil {
		return stderr
	}
	return r.stderr.File
}

// host gives the Host for a setup.
func (r *remote) host(ctx context.Context, a *app, s *setup) (*usedHost, error) {
	if r != nil && r.adaptTo == nil && s.options.Audit.Path != "" {
		// A refusal would be in the log twice, once as that of nobody who could be asked.
		return nil, errAudited
	}
	if r != nil {
		return r.take(ctx, a, s)
	}
	h, err := host.New(ctx, s.options)
	if err != nil {
		return nil, err
	}
	return &usedHost{h, func() { h.Close() }}, nil
}

var errAudited = errors.New("an audit log is written by sbxhost exec itself")

// usedHost is a Host until it is done with.
type usedHost struct {
	*host.Host
	done func()
}

// heldBack keeps what is said before a command runs: a client that is left to do the work
// itself says it again.
type heldBack struct {
	*os.File
	mu      sync.Mutex
	text    []byte
	started bool
}

func (h *heldBack) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.started {
		return h.File.Write(p)
	}
	h.text = append(h.text, p...)
	return len(p), nil
}

func (h *heldBack) start() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.started = true
	if len(h.text) > 0 {
		h.File.Write(h.text)
		h.text = nil
	}
}
