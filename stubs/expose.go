package stubs

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"
)

// Expose says that the command can write to something in which the ledgers are,
// although not to them: until Release nobody puts anything on the shelf, or takes
// it from there. A command that is in a directory when that is moved goes up from
// there to where it was moved to, beneath the mount that keeps it from writing to
// the ledgers, and to what lies beside them. The kernel stops it only where both
// places are not in one bind.
//
// The command must not run where that cannot be said.
func (h *Hold) Expose(ctx context.Context) error {
	r := h.registry
	r.mu.Lock()
	defer r.mu.Unlock()
	if h.exposed || r.dir == "" {
		return nil
	}
	if r.exposed == 0 {
		_, unlock, err := r.account(ctx)
		defer unlock()
		if err == nil {
			err = r.note(exposedLine)
		}
		if errors.Is(err, unix.EROFS) {
			return nil // nor can others move anything there
		} else if err != nil {
			return err
		}
	}
	h.exposed = true
	r.exposed++
	return nil
}

// cover takes back what Expose has said.
func (r *Registry) cover(h *Hold) {
	if !h.exposed {
		return
	}
	h.exposed = false
	if r.exposed--; r.exposed == 0 {
		r.note(coveredLine)
	}
}
