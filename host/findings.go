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
// seen them. Those of files that do not exist stay: a command can move one away for a moment.
func (h *Host) AcknowledgeFindings(ctx context.Context) (seen []approvals.Finding, err error) {
	seen, err = h.Findings()
	if err != nil || len(seen) == 0 {
		return nil, err
	}
	return seen, h.store().AcknowledgeFindings(ctx, seen)
}
