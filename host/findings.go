//go:build unix

package host

import (
	"context"
	"errors"
	"slices"

	"github.com/sbxhost/sbxhost/internal/approvals"
	"github.com/sbxhost/sbxhost/internal/facts"
)

// Findings returns the files that programs outside of sandboxes obey, and that commands of any Host
// with this store made or changed. It omits files that no longer exist, and those that
// [Host.AcknowledgeFindings] has removed from the list.
func (h *Host) Findings() ([]approvals.Finding, error) {
	store := h.options.Approvals.Store
	if store == nil {
		return nil, nil
	}
	list, err := store.Findings()
	return slices.DeleteFunc(list, func(t approvals.Finding) bool { return !facts.StillPresent(&t) }), err
}

// AcknowledgeFindings returns these findings and removes them from the list, because a person has
// seen them. It also removes files that no longer exist.
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

// keepFindings adds a command's findings to the list. It returns why it could not.
func (h *Host) keepFindings(made *facts.Changes) string {
	store, list := h.options.Approvals.Store, made.Findings()
	if store == nil || len(list) == 0 {
		return ""
	}
	err := store.AddFindings(context.Background(), list, facts.StillPresent)
	if err != nil && !errors.Is(err, approvals.ErrTampered) { // such as root's store in the home of a user, which Findings reports
		return "cannot write the list of what commands made: " + err.Error()
	}
	return ""
}
