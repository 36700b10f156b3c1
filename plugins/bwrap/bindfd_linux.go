package bwrap

import (
	"context"
	"fmt"
	"strings"
	"syscall"

	"github.com/sbxhost/sbxhost/internal/engine/nsengine"
	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/cmdengine"
)

// bindsFD reports whether a launcher is taken to bind by descriptor. It is,
// until it has said otherwise: a trial run would cost every one-shot command as
// much as the command itself.
func (e *engine) bindsFD(launcher string) bool {
	_, not := e.pathsOnly.Load(fileIdentity(launcher))
	return !not
}

// diagnose explains why a launcher ended before its init had been heard of.
func (s *opened) diagnose(_ context.Context, stderr string, status *syscall.WaitStatus) error {
	if status == nil || !status.Exited() {
		return nil // killed, which says nothing of the machine
	}
	if strings.Contains(stderr, "Unknown option --bind-fd") || strings.Contains(stderr, "Unknown option --ro-bind-fd") {
		if launcher, err := locateFor(s.spec); err == nil {
			if _, known := s.engine.pathsOnly.LoadOrStore(fileIdentity(launcher), true); !known {
				return cmdengine.ErrAgain
			}
		}
	}
	return s.denied(diagnose(stderr, nsengine.LookAtKernel()))
}

// denied adds to an error what root may not think of, who runs commands as somebody
// else.
func (s *opened) denied(e *shared.Error) *shared.Error {
	if u := s.spec.User; u != nil && e.Kind == shared.ErrDenied {
		e.Hint = fmt.Sprintf("commands run as user %d, to whom the workspace belongs: let that user search all directories above what is shown (chmod o+x), or run as that user", u.UID)
	}
	return e
}
