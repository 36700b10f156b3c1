package cmdengine

import (
	"context"
	"errors"
	"syscall"

	"github.com/sbxhost/sbxhost/shared"
)

// An Attachment is what an engine keeps for one open sandbox. Its functions are
// called from many goroutines at once; a nil one is the Config's.
type Attachment struct {
	// Launch is as [Config.Launch]. A nil Command is one that is not known yet; what there is for the
	// last one will do, and places that are held while commands run may not be there.
	Launch func(ctx context.Context, cmd *shared.Command) (*Launch, error)
	// Prepares says that what Launch gives has Same, mostly.
	Prepares bool
	// Plan is as in Config.
	Plan func(cmd *shared.Command) (shared.Plan, error)
	// Events are told when a command has started, and stand in a plan: what is degraded, which
	// mechanism holds a limit. Times are filled in. What Features lack the host tells itself
	// (see [shared.Spec.Without]).
	Events func(cmd *shared.Command) []shared.Event
	// Fresh is a directory inside, of memory that each command has for itself, with
	// [Config.Init]: an event tells how many files a command has left there. "" is none.
	Fresh string
	// Diagnose is as in Config.
	Diagnose func(ctx context.Context, stderr string, status *syscall.WaitStatus) error
	// Renew, for a Session with Processes, gives the credentials of the Spec's network other values,
	// also in a gate that has begun. With nil the session has those that it was begun with, and a
	// sandbox with others is refused.
	Renew func([]shared.Credential)
	// Close is called once, when the last command of the sandbox is gone.
	Close func()
}

// ErrAgain is what Diagnose returns where Launch will give another command line now
// that it is known why this one failed, or where the same may well do: the command
// is tried once more, and no second time.
var ErrAgain = errors.New("try another command line")

// attach is what the engine keeps for a sandbox, with the Config's for each function that
// is nil.
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
		a.Launch = func(_ context.Context, cmd *shared.Command) (*Launch, error) {
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
		a.Events = func(*shared.Command) []shared.Event { return nil }
	}
	if a.Close == nil {
		a.Close = func() {}
	}
	return a, nil
}

func (s *sandbox) command(ctx context.Context, cmd *shared.Command) (*Launch, error) {
	l, err := s.attached.Launch(ctx, cmd)
	if err == nil && (l == nil || l.Cmd == nil) {
		// An author's oversight in one case must not end the commands of all others.
		err = errors.New("the engine's Launch gave neither a command line nor an error")
	}
	return l, err
}
