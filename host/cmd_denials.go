//go:build unix

package host

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/sbxhost/sbxhost/host/denial"
	"github.com/sbxhost/sbxhost/host/facts"
	"github.com/sbxhost/sbxhost/host/launch"
	"github.com/sbxhost/sbxhost/host/view"
	"github.com/sbxhost/sbxhost/shared"
)

// deniedBy is what an engine's event of a violation says.
func deniedBy(e *shared.Event) Denial {
	d := Denial{Operation: e.Details["operation"], Attribute: e.Details["attribute"], Reason: e.Message}
	if limit := e.Details["limit"]; limit != "" {
		d.Operation, d.Attribute = "use", "limits."+limit
	}
	if target := e.Details["path"]; filepath.IsAbs(target) {
		d.Path = target
	} else {
		d.Host = target
	}
	return d
}

// explainFailure adds to the report what the sandbox kept from a command that did not succeed.
// It reads what the command said, and looks at what that names: where a file system does not
// answer, it does without.
func (c *Cmd) explainFailure(missing bool) {
	opened := c.opened
	if opened.resolved.Spec.Unconfined {
		return
	}
	c.mu.Lock()
	f := &denial.Failure{
		Sandbox: opened.name, Spec: &opened.resolved.Spec, Command: c.started, NotFound: missing, Said: c.files.Said(),
		Network: slices.Clone(c.report.Network), Told: slices.Clone(c.report.Denials),
		Option: func(name string) bool {
			return slices.ContainsFunc(opened.engine.Info.Options.Attributes, func(o shared.OptionAttribute) bool { return o.Name == name })
		},
	}
	c.mu.Unlock()
	if exit, ok := errors.AsType[*ExitError](c.endErr); ok && exit.TimedOut {
		f.Told = append(f.Told, Denial{Operation: "use", Attribute: "limits.timeout", Reason: fmt.Sprintf("the command was ended after %v, its time limit", c.timeLimit())})
	}
	f.Machine = &witness{c.host, c.started.Env, c.pathNotes(c.started.Env, c.origins)}
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

// witness tells of this machine what a denial depends on.
type witness struct {
	host    *Host
	environ []string // the command's
	dropped []string // notes on the caller's PATH
}

func (w *witness) Follow(p string) view.Way    { return facts.Follow(p) }
func (w *witness) Program(name string) string  { return w.host.caller.Program(name) }
func (w *witness) Listens(port uint16) bool    { return facts.Listens(port) }
func (w *witness) Withheld(path string) string { return w.host.machine.Withheld(path) }

func (w *witness) Dropped(dir string) string {
	i := slices.IndexFunc(w.dropped, func(note string) bool { return strings.HasPrefix(note, pathEntry(dir)) })
	if i < 0 {
		return ""
	}
	return w.dropped[i]
}

func (w *witness) Variable(name string) bool {
	_, has := w.host.caller.LookupEnv(name)
	_, passed := (&facts.Caller{Environ: w.environ}).LookupEnv(name)
	return has && !passed
}
