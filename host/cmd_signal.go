//go:build unix

package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/sbxhost/sbxhost/internal/launch"
)

// Signal sends a signal to the command's process group. SIGKILL kills all that the command has
// started. After the end it returns os.ErrProcessDone.
func (c *Cmd) Signal(sig os.Signal) error {
	number, ok := sig.(syscall.Signal)
	if !ok {
		return fmt.Errorf("host: %v is not a signal of this system", sig)
	}
	switch {
	case !c.started.Load():
		return errors.New("host: not started")
	case number == syscall.SIGKILL:
		return c.kill()
	}
	ctx, cancel := context.WithTimeout(context.Background(), signalPatience)
	defer cancel()
	return c.startedProcess.Signal(ctx, number)
}

// Resize sets the size of the command's terminals.
func (c *Cmd) Resize(size TerminalSize) error {
	if !c.started.Load() {
		return errors.New("host: not started")
	}
	return c.files.Resize(size)
}

// cancel returns the error that Wait returns for a command that succeeded.
func (c *Cmd) cancel() error {
	cancel := c.Cancel
	if cancel == nil || c.abandoned.Load() {
		cancel = c.kill
	}
	switch err := cancel(); {
	case err == nil:
		return c.ctx.Err()
	case errors.Is(err, os.ErrProcessDone):
		return nil
	default:
		return fmt.Errorf("host: canceling the command: %w", err)
	}
}

// signalPatience bounds the engine's answer to a signal.
const signalPatience = time.Second

// kill ends the command, even if the engine hangs.
func (c *Cmd) kill() error {
	c.killOnce.Do(func() { time.AfterFunc(launch.Patience, c.giveUp) })
	ctx, cancel := context.WithTimeout(context.Background(), signalPatience)
	defer cancel()
	err := c.startedProcess.Signal(ctx, syscall.SIGKILL)
	if errors.Is(err, context.DeadlineExceeded) {
		err = nil // giveUp kills the engine
	}
	return err
}

// giveUp ends the wait for the command. An engine that has not reported the end by now hangs: the
// host kills it, and with it its commands. The next command gets a new engine.
func (c *Cmd) giveUp() {
	c.giveUpOnce.Do(func() {
		if !c.endKnown.Load() {
			c.opened.Engine.Kill()
		}
		close(c.overdue)
	})
}
