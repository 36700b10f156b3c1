package view

import (
	"path"
	"slices"
	"strings"

	"github.com/sbxhost/sbxhost/internal/glob"
	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/shared"
)

// OriginReview is the origin of what a review keeps the writes to.
const OriginReview = "review"

// Reviewed turns what commands can write of the workspace, and of the git directories that
// belong to it, into overlays: what is protected and hidden stays so. It refuses, by its
// attribute, what would be written past them.
//
// The configuration of a repository can be written in its overlay: what runs nothing of it is
// taken over when the review is applied. Merged gives these files.
func (v *View) Reviewed(table []shared.Entry) (_ []shared.Entry, merged []string, err error) {
	var kept []shared.Entry
	for _, e := range table {
		if v.reviewable(&e) {
			kept = append(kept, e)
		}
	}
	for _, e := range table {
		if e.Access != shared.ReadWrite || v.reviewable(&e) || e.Why == OriginTemp || e.Why == OriginHome {
			continue
		}
		if i := slices.IndexFunc(kept, func(k shared.Entry) bool { return paths.Inside(k.Source, e.Source) || paths.Inside(e.Source, k.Source) }); i >= 0 {
			return nil, nil, invalidf("review", "make it read-only, or leave review out", "%s is written to without a review, and it and %q lie in one another", e.Why, kept[i].Source)
		}
		v.note("review: what is written to %q (%s) is not in the review", e.Path, e.Why)
	}
	out := table[:0:0]
	cover := shared.Covers(table)
	for _, e := range table {
		switch {
		case v.reviewable(&e):
			if v.facts.Follow(e.Source).Kind != Directory {
				return nil, nil, invalidf("review", "leave it out of the workspace", "%s: %q is no directory, so that no overlay can lie over it", e.Why, e.Source)
			}
			// Once more within what shows it already it would be another overlay.
			if in, host := cover(path.Dir(e.Path)); in != nil && v.reviewable(in) && path.Join(host, path.Base(e.Path)) == e.Source {
				continue
			}
			e.Access, e.Degradable, e.Why = shared.Overlay, false, OriginReview
		case v.isConfiguration(&e):
			if in, _ := cover(path.Dir(e.Path)); in != nil && v.reviewable(in) {
				merged = append(merged, e.Source)
				continue
			}
		}
		out = append(out, e)
	}
	return out, merged, nil
}

// reviewable reports whether an entry is one that a review keeps the writes to.
func (v *View) reviewable(e *shared.Entry) bool {
	return e.Access == shared.ReadWrite && (e.Why == "workspace" || strings.HasPrefix(e.Why, "workspace.writable") || strings.HasPrefix(e.Why, originGit))
}

// isConfiguration reports whether an entry protects the configuration of a repository, which is there.
func (v *View) isConfiguration(e *shared.Entry) bool {
	const why = protected + "git "
	return e.Access == shared.ReadOnly && strings.HasPrefix(e.Why, why) && path.Base(strings.TrimPrefix(e.Why, why)) == "config" &&
		path.Base(e.Source) == "config" && v.FixedContents[e.Source] == nil && v.facts.Follow(e.Source).Kind == File
}

// HiddenFrom gives what reports of a path of the host whether it is kept from commands, be anything there
// or not: an entry hides it, one of the patterns deny does, or no entry shows it.
func HiddenFrom(table []shared.Entry, deny []string) func(p string) bool {
	hostPath := HostPaths(table)
	seen := map[string]bool{}
	for i := range table {
		e := &table[i]
		if at := hostPath(e); at != "" {
			had, again := seen[at]
			seen[at] = e.Access.Shows() && (had || !again)
		}
	}
	var patterns []*glob.Pattern
	for _, text := range deny {
		p, err := glob.Parse(text)
		if err != nil {
			return func(string) bool { return true }
		}
		patterns = append(patterns, p)
	}
	set := glob.NewSet(patterns...)
	return func(p string) bool {
		if set.Covers(strings.TrimPrefix(p, "/")) {
			return true
		}
		unseen, decided := true, false
		for at := range paths.Up(p) {
			if shows, ok := seen[at]; ok && !decided {
				unseen, decided = !shows, true
			}
		}
		return unseen
	}
}

// Unwritable gives what says of a path of the host why commands cannot change it, or lead it
// elsewhere, and of one above such paths, what lies beneath it; "" of others.
func (v *View) Unwritable(table []shared.Entry) (denied, above func(p string) string) {
	hostPath := HostPaths(table)
	why := map[string]string{}
	for i := range table {
		e := &table[i]
		switch at := hostPath(e); {
		case at == "":
		case e.Access == shared.Hidden || e.Access == shared.ReadOnly:
			why[at] = e.Why
		case why[at] == "":
			why[at] = "" // what lies in something protected, and is not
		}
	}
	exactly, beneath := map[string]string{}, map[string]string{}
	for _, l := range v.Loose {
		for _, link := range l.Links {
			exactly[link] = l.Why
		}
	}
	for at, reason := range why {
		for dir := range paths.Up(path.Dir(at)) {
			if reason != "" {
				beneath[dir] = reason
			}
		}
	}
	return func(p string) string {
		if reason := exactly[p]; reason != "" {
			return reason
		}
		for at := range paths.Up(p) {
			if reason, ok := why[at]; ok {
				return reason
			}
		}
		return ""
	}, func(p string) string { return beneath[p] }
}
