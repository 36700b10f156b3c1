package cmdengine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"

	"github.com/sbxhost/sbxhost/shared"
)

// An Attachment is what an engine keeps for one open sandbox. Many goroutines may call its
// functions at once. A nil function means the Config's.
type Attachment struct {
	// Launch is like [Config.Launch]. A nil cmd means that the command is not known yet: Launch may
	// return the result for the last command, and stubs that the host holds while commands run may
	// be missing.
	Launch func(cmd *shared.Command) (*Launch, error)
	// Prepares says that most results of Launch have Same.
	Prepares bool
	// Plan is as in Config.
	Plan func(cmd *shared.Command) (shared.Plan, error)
	// Events returns what to report when a command has started, and in a plan: what is degraded,
	// and which mechanism enforces a limit. Times may be zero. The host itself reports missing
	// Features (see [shared.Spec.Without]).
	Events func() []shared.Event
	// Fresh is a directory inside, in memory that each command has for itself, with [Config.Init].
	// An event reports how many files a command left there. It may be empty.
	Fresh string
	// Diagnose is as in Config.
	Diagnose func(stderr string, status *syscall.WaitStatus) error
	// Renew, for a Session with Processes, replaces the values of the credentials of the Spec's
	// network, also in a gate that has begun. If it is nil, the session keeps its first values, and
	// the engine refuses a sandbox with others.
	Renew func([]shared.Credential)
	// Close is called once, after the last command of the sandbox.
	Close func()
}

// ErrAgain is returned by Diagnose or a [Spawner] to start the command again, once: because Launch now
// knows better, or because the same command line may succeed.
var ErrAgain = errors.New("try another command line")

// attach returns what the engine keeps for a sandbox, with the Config's functions in place of nil.
func (c *Config) attach(ctx context.Context, spec *shared.Spec) (Attachment, error) {
	var a Attachment
	if c.Attach != nil {
		attached, err := c.Attach(ctx, spec)
		if err != nil {
			return a, err
		}
		a = *attached
	}
	if a.Launch == nil {
		a.Launch = func(cmd *shared.Command) (*Launch, error) {
			launcher, err := c.Launch(spec, cmd)
			return &Launch{Cmd: launcher}, err
		}
	}
	if a.Diagnose == nil {
		a.Diagnose = c.Diagnose
	}
	if a.Plan == nil {
		a.Plan = func(cmd *shared.Command) (plan shared.Plan, err error) {
			if c.Plan != nil {
				plan, err = c.Plan(spec, cmd)
			}
			return plan, err
		}
	}
	if a.Events == nil {
		a.Events = func() []shared.Event { return nil }
	}
	own := func(e shared.Entry) bool { return e.Path == spec.Home }
	if c.HomeOfCommand && spec.Session.ID != "" && spec.Home != "" && !slices.ContainsFunc(spec.Table, own) {
		events := a.Events
		a.Events = func() []shared.Event {
			return append(events(), shared.Event{Kind: shared.EventDegraded,
				Message: fmt.Sprintf(`the home directory lasts for one command, not for the session: engine %q keeps none; use engine = "native"`, c.Info.Name),
				Details: map[string]string{"mechanism": "session", "attribute": "home", "path": spec.Home}})
		}
	}
	if a.Close == nil {
		a.Close = func() {}
	}
	return a, nil
}

func (s *sandbox) command(cmd *shared.Command) (*Launch, error) {
	l, err := s.attached.Launch(cmd)
	if err == nil && (l == nil || l.Cmd == nil || s.session != nil && l.Shared == nil) {
		// An author's mistake in one case must not end the commands of all others.
		err = errors.New("the engine's Launch returned neither an error nor a command line, which for session.processes has Shared")
	}
	return l, err
}
