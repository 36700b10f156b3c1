package docker

import (
	"context"
	"errors"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/cmdengine"
	"github.com/sbxhost/sbxhost/shared/sandboxinit"
)

// A run is a command that an init runs in a vessel.
type run struct {
	conn   *sandboxinit.Conn
	vessel *vessel
	// finished waits until everything of the command is gone; kill ends it
	// without the help of its init.
	finished func()
	kill     func()

	mu       sync.Mutex
	killed   bool
	escalate *time.Timer
}

// begin hands a command over to an init and waits for it to run.
func (r *run) begin(ctx context.Context, number uint64, cmd sandboxinit.Command, stdio [3]*os.File) error {
	engineEnd, initEnd, err := sandboxinit.Pair()
	if err != nil {
		return &shared.Error{Kind: shared.ErrUnavailable, Message: err.Error()}
	}
	r.conn = sandboxinit.NewConn(engineEnd)
	err = r.vessel.line.hand(number, initEnd, stdio)
	initEnd.Close()
	if err != nil {
		r.conn.Close()
		return &shared.Error{Kind: shared.ErrBroken, Message: "the container's init is gone: " + err.Error()}
	}
	err = r.conn.Start(ctx, cmd)
	if err == nil {
		return nil
	}
	defer r.conn.Close()
	switch refused := (*sandboxinit.ExecError)(nil); {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &refused):
		return cmdengine.ExecError(refused)
	case errors.Is(err, sandboxinit.ErrProtocol), errors.Is(err, sandboxinit.ErrInitLost):
		return &shared.Error{Kind: shared.ErrBroken, Message: "the container's init did not start the command: " + err.Error()}
	}
	return &shared.Error{Kind: shared.ErrInvalidSpec, Message: err.Error()}
}

// Wait implements cmdengine.Run.
func (r *run) Wait() (shared.ExitStatus, error) {
	select {
	case <-r.conn.Done():
	case <-r.vessel.gone:
		// What the init said last is on its way.
		t := time.NewTimer(patience)
		select {
		case <-r.conn.Done():
		case <-t.C:
			r.conn.Close()
		}
		t.Stop()
	}
	status, err := r.conn.Wait()
	r.finished()
	r.conn.Close()
	r.mu.Lock()
	killed := r.killed
	if r.escalate != nil {
		r.escalate.Stop()
	}
	r.mu.Unlock()
	switch {
	case err == nil && status.Signal != 0:
		return shared.ExitStatus{Signal: shared.Signal(status.Signal), CoreDumped: status.CoreDumped}, nil
	case err == nil:
		return shared.ExitStatus{Code: status.Code}, nil
	case killed:
		return shared.ExitStatus{Signal: syscall.SIGKILL}, nil
	}
	return shared.ExitStatus{}, &shared.Error{Kind: shared.ErrBroken,
		Message: "the container ended before the command's end was known: it was killed or removed, or ran out of memory as a whole: " + err.Error()}
}

// Signal implements cmdengine.Run.
func (r *run) Signal(sig shared.Signal) error {
	err := r.conn.Signal(int(sig))
	if err == nil || errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return &shared.Error{Kind: shared.ErrBroken, Message: "signalling the command: " + err.Error()}
}

// Kill implements cmdengine.Run.
func (r *run) Kill() error {
	select {
	case <-r.conn.Done():
		return os.ErrProcessDone
	default:
	}
	r.mu.Lock()
	again := r.killed
	r.killed = true
	if !again {
		// The init may be stopped.
		r.escalate = time.AfterFunc(patience, r.kill)
	}
	r.mu.Unlock()
	if again {
		return nil
	}
	if err := r.conn.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		r.kill()
	}
	return nil
}
