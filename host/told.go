//go:build unix

package host

import (
	"context"
	"errors"
	"slices"

	"github.com/sbxhost/sbxhost/internal/approvals"
	"github.com/sbxhost/sbxhost/internal/facts"
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

// SeeTold takes out of that list what it gives, and what is not there any more: a person has seen it.
func (h *Host) SeeTold(ctx context.Context) (seen []approvals.Told, err error) {
	store := h.options.Approvals.Store
	if store == nil {
		return nil, nil
	}
	list, err := store.ToldList()
	if err != nil || len(list) == 0 {
		return nil, err
	}
	seen = slices.DeleteFunc(slices.Clone(list), func(t approvals.Told) bool { return !facts.StillTold(&t) })
	return seen, store.ClearTold(ctx, list)
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
