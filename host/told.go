//go:build unix

package host

import (
	"context"
	"errors"
	"slices"

	"github.com/sbxhost/sbxhost/approvals"
	"github.com/sbxhost/sbxhost/host/facts"
)

// Told gives what commands of any Host with this store have made or changed, that acts outside of sandboxes, and that
// is still there, until [Host.SeeTold].
func (h *Host) Told() ([]approvals.Told, error) {
	store := h.options.Approvals.Store
	if store == nil {
		return nil, nil
	}
	list, err := store.ToldList()
	return slices.DeleteFunc(list, func(t approvals.Told) bool { return !facts.StillTold(&t) }), err
}

// SeeTold takes out of that list what it gives: a person has seen it. What is not there now can come back.
func (h *Host) SeeTold(ctx context.Context) (seen []approvals.Told, err error) {
	if seen, err = h.Told(); err != nil || len(seen) == 0 {
		return seen, err
	}
	return seen, h.options.Approvals.Store.ClearTold(ctx, seen)
}

// keepTold adds what a command has made to the list. It says why it could not.
func (h *Host) keepTold(made *facts.Made) string {
	store, list := h.options.Approvals.Store, made.Told()
	if store == nil || len(list) == 0 {
		return ""
	}
	err := store.AddTold(context.Background(), list, facts.StillTold)
	if err != nil && !errors.Is(err, approvals.ErrTampered) { // as where root has its user's home; Told says so
		return "the list of what commands have made cannot be written: " + err.Error()
	}
	return ""
}
