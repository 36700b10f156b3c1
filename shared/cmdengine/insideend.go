package cmdengine

import (
	"errors"
	"os"
	"syscall"
	"time"

	"github.com/sbxhost/sbxhost/internal/engine/sandboxinit"
	"github.com/sbxhost/sbxhost/shared"
)

// Wait implements [runningCommand].
func (r *insideRun) Wait() (shared.ExitStatus, error) {
	select {
	case <-r.conn.Done():
	case <-r.exited:
		// The init's last message may still arrive; or the init was killed too.
		select {
		case <-r.conn.Done():
		case <-time.After(endPatience):
			r.conn.HangUp()
		}
	}
	status, err := r.conn.Wait()
	r.awaitRest()
	r.mu.Lock()
	killed := r.escalate != nil
	if killed {
		r.escalate.Stop()
	}
	r.mu.Unlock()
	switch {
	case err == nil && status.Signal != 0:
		return shared.ExitStatus{Signal: syscall.Signal(status.Signal), CoreDumped: status.CoreDumped}, nil
	case err == nil:
		return shared.ExitStatus{Code: status.Code}, nil
	case killed:
		// The end is known, though no init could report it.
		return shared.ExitStatus{Signal: syscall.SIGKILL}, nil
	case errors.Is(err, sandboxinit.ErrProtocol):
		return shared.ExitStatus{}, broken(err.Error())
	}
	return shared.ExitStatus{}, r.unknown()
}

// Signal implements [runningCommand].
func (r *insideRun) Signal(sig syscall.Signal) error {
	err := r.conn.Signal(int(sig))
	if err == nil || errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return broken("signalling the command: " + err.Error())
}

// Kill implements [runningCommand]. After endPatience, giveUp ends an init that does not obey.
func (r *insideRun) Kill() error {
	select {
	case <-r.conn.Done():
		return os.ErrProcessDone
	default:
	}
	r.mu.Lock()
	again := r.escalate != nil
	if !again {
		// The init may be stopped, or the command may control it by now.
		r.escalate = time.AfterFunc(endPatience, r.giveUp)
	}
	r.mu.Unlock()
	if again {
		return nil
	}
	if err := r.conn.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		r.giveUp()
	}
	return nil
}
