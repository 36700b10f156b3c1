//go:build unix

package host

import (
	"context"
	"errors"
	"slices"

	"github.com/sbxhost/sbxhost/internal/approvals"
	"github.com/sbxhost/sbxhost/internal/facts"
)

// Findings gives what commands of any Host with this store have made or changed, that acts outside of sandboxes, and that
// is still there, until [Host.AcknowledgeFindings].
func (h *Host) Findings() ([]approvals.Finding, error) {
	store := h.options.Approvals.Store
	if store == nil {
		return nil, nil
	}
	list, err := store.Findings()
	return slices.DeleteFunc(list, func(t approvals.Finding) bool { return !facts.StillPresent(&t) }), err
}

// AcknowledgeFindings takes out of that list what it gives, and what is not there any more: a person has seen it.
func (h *Host) AcknowledgeFindings(ctx context.Context) (seen []approvals.Finding, err error) {
	store := h.options.Approvals.Store
	if store == nil {
		return nil, nil
	}
	list, err := store.Findings()
	if err != nil || len(list) == 0 {
		return nil, err
	}
	seen = slices.DeleteFunc(slices.Clone(list), func(t approvals.Finding) bool { return !facts.StillPresent(&t) })
	return seen, store.AcknowledgeFindings(ctx, list)
}

// keepFindings adds what a command has made to the list. It says why it could not.
func (h *Host) keepFindings(made *facts.Changes) string {
	store, list := h.options.Approvals.Store, made.Findings()
	if store == nil || len(list) == 0 {
		return ""
	}
	err := store.AddFindings(context.Background(), list, facts.StillPresent)
	if err != nil && !errors.Is(err, approvals.ErrTampered) { // as where root has its user's home; Told says so
		return "the list of what commands have made cannot be written: " + err.Error()
	}
	return ""
}
