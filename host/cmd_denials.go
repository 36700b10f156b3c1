//go:build unix

package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/sbxhost/sbxhost/internal/denial"
	"github.com/sbxhost/sbxhost/internal/facts"
	"github.com/sbxhost/sbxhost/internal/launch"
	"github.com/sbxhost/sbxhost/internal/sandbox"
	"github.com/sbxhost/sbxhost/internal/view"
	"github.com/sbxhost/sbxhost/shared"
)

// addDenials adds to the report what the sandbox denied to a command that failed, was traced, or
// whose git left files unchanged. It reads the command's errors and looks at the paths in them. It
// gives up on a file system that does not answer.
func (c *Cmd) addDenials(missing bool) {
	opened := c.opened
	if opened.Resolution.Spec.Unconfined {
		return
	}
	f := c.failure(opened, c.startedCommand, c.origins)
	c.mu.Lock()
	f.NotFound, f.Succeeded, f.Stderr, f.Traced = missing, !missing && c.endErr == nil, c.files.StderrExcerpt(), slices.Clone(c.calls)
	f.Network, f.EngineDenials = slices.Clone(c.report.Network), slices.Clone(c.report.Denials)
	c.mu.Unlock()
	if exit, ok := errors.AsType[*ExitError](c.endErr); ok && exit.TimedOut {
		f.EngineDenials = append(f.EngineDenials, Denial{Operation: "use", Attribute: "limits.timeout", Reason: fmt.Sprintf("the command was ended after %v, its time limit", c.timeLimit())})
	}
	found := make(chan []Denial, 1)
	go func() { found <- f.Denials() }()
	interrupted := false // somebody ended the command, for an unknown reason
	if exit, ok := errors.AsType[*ExitError](c.endErr); ok && !exit.TimedOut {
		interrupted = slices.Contains([]syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM}, exit.Signal)
	}
	select {
	case list := <-found:
		if interrupted {
			list = slices.DeleteFunc(list, func(d Denial) bool { return d.Guess })
		}
		c.mu.Lock()
		c.report.Denials = list
		c.mu.Unlock()
	case <-time.After(launch.LostPatience):
	}
}

// failure describes the command's sandbox, but not the command's end.
func (c *Cmd) failure(opened *sandbox.Handle, command shared.Command, origins []EnvVar) *denial.Failure {
	options := opened.Engine.Info.Options
	if launch.IsAuto(opened.Definition.Engine) {
		options = c.host.engines.AutoOptions(opened.Definition.Isolation == IsolationBestEffort)
	}
	return &denial.Failure{
		Sandbox: opened.Name, Spec: &opened.Resolution.Spec, Command: command,
		Option: func(name string) bool {
			var set map[string]any
			_ = json.Unmarshal(opened.Resolution.Spec.Options, &set) // its engine has read it
			return set[name] != true && slices.ContainsFunc(options.Attributes, func(o shared.OptionAttribute) bool { return o.Name == name })
		},
		ByPermission: !opened.Engine.Info.Features.Has(shared.FeatureRemap), // nothing is mounted
		Machine:      witness{held: opened.Resolution.Holds, Witness: &facts.Witness{Machine: c.host.machine, CallerEnviron: c.callerEnviron(), CommandEnviron: command.Env, DroppedDirs: c.droppedFromPath(command.Env, origins)}},
	}
}

// witness looks at this machine, and at the stubs that the host holds.
type witness struct {
	*facts.Witness
	held []view.Hold // of the command
}

// Stub reports whether a path looks like a stub that is, or was, a directory.
func (w witness) Stub(p string) bool {
	info, err := os.Lstat(p)
	if errors.Is(err, fs.ErrNotExist) {
		return slices.ContainsFunc(w.held, func(h view.Hold) bool { return h.Path == p && !h.File })
	}
	return err == nil && info.IsDir() && info.Mode()&fs.ModeSticky != 0 && info.Mode().Perm()&0o022 == 0
}

// Denied says why the sandbox would deny a call, as Report does with Trace. It runs nothing. It
// returns nothing for a call that the sandbox permits, or that would also fail outside.
func (c *Cmd) Denied(call shared.TracedCall) ([]Denial, error) {
	opened, _, err := c.explainRoute()
	if err != nil {
		return nil, err
	}
	defer opened.Release()
	command, origins, err := c.command(c.ctx, opened, true)
	if err != nil {
		return nil, &SandboxError{Sandbox: opened.Name, Err: err}
	}
	if opened.Resolution.Spec.Unconfined {
		return nil, nil
	}
	f := c.failure(opened, command, origins)
	f.Succeeded, f.Traced = true, []shared.TracedCall{call}
	return f.Denials(), nil
}
