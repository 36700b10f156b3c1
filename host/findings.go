//go:build unix

package host

import (
	"context"
	"slices"

	"github.com/sbxhost/sbxhost/internal/approvals"
	"github.com/sbxhost/sbxhost/internal/facts"
)

// Findings returns the files that programs outside of sandboxes obey, and that commands of any Host
// with this ApprovalOptions.Dir made or changed. It omits files that no longer exist, and those that
// [Host.AcknowledgeFindings] has removed from the list.
func (h *Host) Findings() ([]approvals.Finding, error) {
	list, err := h.store().Findings()
	return slices.DeleteFunc(list, func(t approvals.Finding) bool { return !facts.StillPresent(&t) }), err
}

// AcknowledgeFindings returns these findings and removes them from the list, because a person has
// seen them. It also removes files that no longer exist.
func (h *Host) AcknowledgeFindings(ctx context.Context) (seen []approvals.Finding, err error) {
	store := h.store()
	list, err := store.Findings()
	if err != nil || len(list) == 0 {
		return nil, err
	}
	seen = slices.DeleteFunc(slices.Clone(list), func(t approvals.Finding) bool { return !facts.StillPresent(&t) })
	return seen, store.AcknowledgeFindings(ctx, list)
}
