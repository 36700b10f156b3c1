package cmdengine

import (
	"errors"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/sbxhost/sbxhost/internal/engine/sandboxinit"
	"github.com/sbxhost/sbxhost/shared"
)

// Patience is how long each of two ends of a sandbox may outlive the other before it is killed, and
// how long an init may take to obey a kill.
const Patience = 1500 * time.Millisecond

// clearingUp is how long a launcher with [Config.ClearsUp] may outlive the init.
const clearingUp = 20 * time.Second

// An InitRun is a [Run] of a command in an init, wherever the engine put the init. The fields are
// final after the command's start.
type InitRun struct {
	// Conn is the control socket of the init.
	Conn *sandboxinit.Conn
	// Gone is closed when the init's container is gone.
	Gone <-chan struct{}
	// Finish waits until everything of the command is gone, and closes Conn.
	Finish func()
	// End ends everything without the init's help. It does not wait.
	End func()
	// Lost returns the error, after Finish, for a command whose end nobody reported.
	Lost func(cause error) error

	mu       sync.Mutex
	killed   bool
	escalate *time.Timer
}

// Wait implements [Run]. It calls Finish.
func (r *InitRun) Wait() (shared.ExitStatus, error) {
	select {
	case <-r.Conn.Done():
	case <-r.Gone:
		// The init's last message may still arrive; or the init was killed too.
		select {
		case <-r.Conn.Done():
		case <-time.After(Patience):
			r.Conn.HangUp()
		}
	}
	status, err := r.Conn.Wait()
	r.Finish()
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
		// The end is known, though no init could report it.
		return shared.ExitStatus{Signal: syscall.SIGKILL}, nil
	case errors.Is(err, sandboxinit.ErrProtocol):
		return shared.ExitStatus{}, &shared.Error{Kind: shared.ErrBroken, Message: err.Error()}
	}
	return shared.ExitStatus{}, r.Lost(err)
}

// Usage is the kernel's count, from the init.
func (r *InitRun) Usage() shared.Usage {
	used := r.Conn.Used()
	return shared.Usage{CPU: max(0, time.Duration(used.CPU)), Memory: used.Memory}
}

// Signal implements [Run].
func (r *InitRun) Signal(sig shared.Signal) error {
	err := r.Conn.Signal(int(sig))
	if err == nil || errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return &shared.Error{Kind: shared.ErrBroken, Message: "signalling the command: " + err.Error()}
}

// Kill implements [Run]. After Patience, End ends an init that does not obey.
func (r *InitRun) Kill() error {
	select {
	case <-r.Conn.Done():
		return os.ErrProcessDone
	default:
	}
	r.mu.Lock()
	again := r.killed
	r.killed = true
	if !again {
		// The init may be stopped, or the command may control it by now.
		r.escalate = time.AfterFunc(Patience, r.End)
	}
	r.mu.Unlock()
	if again {
		return nil
	}
	if err := r.Conn.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		r.End()
	}
	return nil
}
