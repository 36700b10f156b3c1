//go:build unix

package facts

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/sbxhost/sbxhost/internal/approvals"
	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/view"
	"github.com/sbxhost/sbxhost/workspace"
)

// Findings are the changes that tools or git outside act on, for the list that a person must see.
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
	slices.SortStableFunc(list, func(a, b approvals.Finding) int { return deeper(a.Path, b.Path) })
	return list
}

// deeper orders paths by their names: a command can make any number of directories with harmless
// instructions, to have no room left for those at the top.
func deeper(a, b string) int { return strings.Count(a, "/") - strings.Count(b, "/") }

// StillPresent reports whether the path of a finding still exists, whatever has changed there. A stub, or
// an empty file, is nothing.
func StillPresent(t *approvals.Finding) bool {
	way := Follow(t.Path)
	if way.Kind == view.File {
		info, err := os.Lstat(way.End)
		return err == nil && info.Size() > 0
	}
	return way.Kind != view.Absent && !isStubDir(way.End)
}

// fill adds what git acts on, and the reasons why it may act on more. A harmless reason must not hide
// another one.
func (r *RepositoryReport) fill(actsOn, unclear []string) {
	r.ActsOn = append(r.ActsOn, first(actsOn, 1000)...)
	r.More = len(actsOn) - len(r.ActsOn)
	reasons := first(unclear, 390) // ten have space in a line
	if r.Unclear = hostpath.Line(strings.Join(reasons, "; ")); len(unclear) > len(reasons) {
		r.Unclear += fmt.Sprintf("; and %d more", len(unclear)-len(reasons))
	}
}

// first returns the first texts of a list, no more and no longer than people can read.
func first(list []string, long int) (texts []string) {
	for _, text := range list[:min(len(list), 10)] {
		if len(text) > long {
			text = text[:long-len("...")] + "..."
		}
		texts = append(texts, text)
	}
	return texts
}

// Executes reports whether a git outside of a sandbox would or may execute something in the
// repository. A new repository that takes objects from elsewhere has it execute nothing.
func (r *RepositoryReport) Executes() bool {
	return r.Unclear != "" || r.More > 0 || slices.ContainsFunc(r.ActsOn, func(what string) bool { return r.Existing || !strings.HasSuffix(what, "/"+workspace.Alternates) })
}

// String describes the repository in a sentence.
func (r *RepositoryReport) String() string {
	what, git := "git repository", "a git that is run there"
	if r.Superproject != "" {
		what, git = "submodule", fmt.Sprintf("the next git status in %q", r.Superproject)
	}
	s := fmt.Sprintf("the command made the %s %q", what, r.Path)
	if r.Existing {
		s = fmt.Sprintf("the command changed the %s %q", what, r.Path)
	}
	if r.Existing && len(r.ActsOn) == 0 {
		s = fmt.Sprintf("there is %q", r.Path)
	}
	if len(r.ActsOn) > 0 {
		s += fmt.Sprintf(": %s outside of a sandbox would act on %s", git, hostpath.QuoteList(r.ActsOn))
	}
	if r.More > 0 {
		s += fmt.Sprintf(", and %d more", r.More)
	}
	if r.Unclear != "" {
		s += fmt.Sprintf("; %s may act on more than is known: %s", git, r.Unclear)
	}
	return s
}
