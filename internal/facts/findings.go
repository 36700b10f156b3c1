//go:build unix

package facts

import (
	"time"

	"github.com/sbxhost/sbxhost/internal/approvals"
	"github.com/sbxhost/sbxhost/internal/view"
)

// Findings are what of made acts outside, for the list of what a person is to see.
func (made *Changes) Findings() (list []approvals.Finding) {
	now := time.Now().UTC()
	for _, r := range made.Repositories {
		what := "a git repository, in which a git outside of a sandbox would act on what a command made"
		if r.Unclear != "" {
			what = "where it is not clear on what a git outside of a sandbox would act: " + r.Unclear
		}
		if r.Executes() {
			list = append(list, approvals.Finding{Path: r.Path, Description: what, At: now})
		}
	}
	for _, p := range made.Instructions {
		list = append(list, approvals.Finding{Path: p, Description: "what tools outside of a sandbox take for instructions", At: now})
	}
	for _, p := range made.Truncated {
		list = append(list, approvals.Finding{Path: p, Description: "one of many repositories or instructions for tools that a command made", At: now})
	}
	return list
}

// StillPresent reports whether what was told is still there. What a later command changes in it stays told.
func StillPresent(t *approvals.Finding) bool { return Follow(t.Path).Kind != view.Absent }
