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
	"github.com/sbxhost/sbxhost/shared"
)

// Signal sends a signal to the command's process group. SIGKILL ends all that
// the command has started. After the end it returns os.ErrProcessDone.
func (c *Cmd) Signal(sig os.Signal) error {
	number, ok := sig.(shared.Signal)
	if !ok {
		return fmt.Errorf("host: %v is not a signal of this system", sig)
	}
	process := c.runningProcess()
	switch {
	case process == nil:
		return errors.New("host: not started")
	case number == syscall.SIGKILL:
		return c.kill()
	}
	ctx, cancel := context.WithTimeout(context.Background(), signalPatience)
	defer cancel()
	return process.Signal(ctx, number)
}

// Resize tells the command's terminals their new size.
func (c *Cmd) Resize(size TerminalSize) error {
	if c.runningProcess() == nil {
		return errors.New("host: not started")
	}
	return c.files.Resize(size)
}

// cancel gives the error for a command that succeeds all the same.
func (c *Cmd) cancel() error {
	cancel := c.Cancel
	if cancel == nil {
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

// signalPatience is how long an engine may take to answer that it has sent a
// signal.
const signalPatience = time.Second

// kill ends the command. That must not depend on an engine that hangs.
func (c *Cmd) kill() error {
	c.killOnce.Do(func() { time.AfterFunc(launch.Patience, c.giveUp) })
	ctx, cancel := context.WithTimeout(context.Background(), signalPatience)
	defer cancel()
	err := c.process.Signal(ctx, syscall.SIGKILL)
	if errors.Is(err, context.DeadlineExceeded) {
		err = nil // giveUp sees to it
	}
	return err
}

// giveUp ends the wait for the command. An engine that has not told its end by now
// hangs, and is killed: its commands die with it, and the next one gets a new engine.
func (c *Cmd) giveUp() {
	c.giveUpOnce.Do(func() {
		if !c.endKnown.Load() {
			c.opened.Engine.Kill()
		}
		close(c.overdue)
	})
}
