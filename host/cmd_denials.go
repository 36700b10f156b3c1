//go:build unix

package host

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/sbxhost/sbxhost/host/denial"
	"github.com/sbxhost/sbxhost/host/facts"
	"github.com/sbxhost/sbxhost/host/launch"
	"github.com/sbxhost/sbxhost/shared"
)

// explain adds to the report what the sandbox kept from a command that did not succeed, or was
// traced. It reads what the command said, and looks at what that names: where a file system
// does not answer, it does without.
func (c *Cmd) explain(missing bool) {
	opened := c.opened
	if opened.Resolved.Spec.Unconfined {
		return
	}
	c.mu.Lock()
	f := &denial.Failure{
		Sandbox: opened.Name, Spec: &opened.Resolved.Spec, Command: c.started, NotFound: missing, Succeeded: !missing && c.endErr == nil, Said: c.files.Said(), Traced: slices.Clone(c.calls),
		Network: slices.Clone(c.report.Network), Told: slices.Clone(c.report.Denials),
		Option: func(name string) bool {
			return slices.ContainsFunc(opened.Engine.Info.Options.Attributes, func(o shared.OptionAttribute) bool { return o.Name == name })
		},
	}
	c.mu.Unlock()
	if exit, ok := errors.AsType[*ExitError](c.endErr); ok && exit.TimedOut {
		f.Told = append(f.Told, Denial{Operation: "use", Attribute: "limits.timeout", Reason: fmt.Sprintf("the command was ended after %v, its time limit", c.timeLimit())})
	}
	f.Machine = &facts.Witness{Machine: c.host.machine, Environ: c.started.Env, Notes: c.droppedFromPath(c.started.Env, c.origins)}
	found := make(chan []Denial, 1)
	go func() { found <- f.Denials() }()
	interrupted := false // somebody has ended it, who knows why
	if exit, ok := errors.AsType[*ExitError](c.endErr); ok {
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
