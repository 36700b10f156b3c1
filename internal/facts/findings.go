//go:build unix

package facts

import (
	"time"

	"github.com/sbxhost/sbxhost/internal/approvals"
	"github.com/sbxhost/sbxhost/internal/view"
)

// Findings are the changes that act outside, for the list that a person must see.
func (made *Changes) Findings() (list []approvals.Finding) {
	now := time.Now().UTC()
	for _, r := range made.Repositories {
		what := "a git repository, in which a git outside of a sandbox would act on what a command made"
		if r.Unclear != "" {
			what = "a git repository; what a git outside of a sandbox would act on is not clear: " + r.Unclear
		}
		if r.Executes() {
			list = append(list, approvals.Finding{Path: r.Path, Description: what, At: now})
		}
	}
	for _, p := range made.Instructions {
		list = append(list, approvals.Finding{Path: p, Description: "instructions for tools", At: now})
	}
	for _, p := range made.Truncated {
		list = append(list, approvals.Finding{Path: p, Description: "one of many repositories or instructions for tools that a command made", At: now})
	}
	return list
}

// StillPresent reports whether a finding still exists. A later change does not end it.
func StillPresent(t *approvals.Finding) bool { return Follow(t.Path).Kind != view.Absent }
