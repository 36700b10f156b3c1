package view

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/shared"
)

// OriginReview is the origin of entries whose writes go to a review.
const OriginReview = "review"

// ReviewTable turns what commands can write of the workspace, and of its git directories, into
// overlays; protected and hidden paths stay so. It refuses, by its attribute, a writable entry that is
// nested with one of these: the review would not have all of its writes.
//
// Commands can write a repository's configuration in its overlay, because an apply takes over only
// settings that run nothing. merged are these files.
func (v *View) ReviewTable(table []shared.Entry) (_ []shared.Entry, merged []string, err error) {
	kept := slices.DeleteFunc(slices.Clone(table), func(e shared.Entry) bool { return !v.reviewable(&e) })
	for _, e := range table {
		if e.Access != shared.ReadWrite || v.reviewable(&e) || e.Why == OriginTemp || e.Why == OriginHome {
			continue
		}
		if i := slices.IndexFunc(kept, func(k shared.Entry) bool { return paths.Inside(k.Source, e.Source) || paths.Inside(e.Source, k.Source) }); i >= 0 {
			return nil, nil, invalidf("review", "make it read-only, or leave review out", "commands write to %s without a review, and it and %q are nested", e.Why, kept[i].Source)
		}
		v.note("review: it does not contain what commands write to %q (%s)", e.Path, e.Why)
	}
	out := table[:0:0]
	cover := shared.Covers(table)
	for _, e := range table {
		switch {
		case v.reviewable(&e):
			if v.facts.Follow(e.Source).Kind != Directory {
				return nil, nil, invalidf("review", "leave it out of the workspace", "%s: %q is not a directory, so it cannot have an overlay", e.Why, e.Source)
			}
			// Inside an overlay that already shows it, it would be another overlay.
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

// reviewable reports whether writes to an entry go to the review.
func (v *View) reviewable(e *shared.Entry) bool {
	return e.Access == shared.ReadWrite && (isRoot(e) || e.Why == originGit)
}

// isConfiguration reports whether an entry protects the existing configuration of a repository.
func (v *View) isConfiguration(e *shared.Entry) bool {
	const why = protected + "git "
	return e.Access == shared.ReadOnly && strings.HasPrefix(e.Why, why) && path.Base(strings.TrimPrefix(e.Why, why)) == "config" &&
		path.Base(e.Source) == "config" && v.FixedContents[e.Source] == nil && v.facts.Follow(e.Source).Kind == File
}

// onHost returns a table's entries by their paths of the host. Of several for one path, the strictest
// is the last, which shared.Covers finds.
func onHost(table []shared.Entry) []shared.Entry {
	hostPath, list := HostPaths(table), slices.Clone(table)
	for i := range list {
		list[i].Path = hostPath(&table[i])
	}
	slices.SortStableFunc(list, func(a, b shared.Entry) int { return cmp.Compare(b.Access, a.Access) })
	return slices.DeleteFunc(list, func(e shared.Entry) bool { return e.Path == "" })
}

// ReviewRules returns three functions for paths of the host. hidden reports whether commands cannot see a
// path, or could not if it existed: an entry hides it, or a rule does, or no entry shows it. denied says
// why commands cannot change a path in a review, or lead it elsewhere, or could not if the file existed, by the
// definition's patterns. behind says why commands cannot put a symlink there that leads to end: a pattern
// matches the link as a directory, or could match behind it and not where that lies, or such a path lies
// beneath. Both may return "".
func (v *View) ReviewRules(table []shared.Entry) (hidden func(p string) bool, denied func(p string, directory bool) string, behind func(link, end string) string) {
	list := onHost(table)
	find := shared.Covers(list)
	exactly, beneath := map[string]string{}, map[string]string{}
	for _, l := range v.WeakProtections {
		for _, link := range l.Links {
			exactly[link] = l.Why
		}
	}
	for _, e := range list {
		if e.Access != shared.Hidden && e.Access != shared.ReadOnly {
			continue
		}
		for dir := range paths.Up(path.Dir(e.Path)) {
			beneath[dir] = e.Why
		}
	}
	deny, protect := covering(v.Deny), covering(v.Protect)
	return func(p string) bool {
			e, _ := find(p)
			return e == nil || e.Access == shared.Hidden || deny(p, true) != "" ||
				v.in.HideSensitive && slices.ContainsFunc(strings.Split(p, "/"), Sensitive)
		}, func(p string, directory bool) string {
			reason := exactly[p]
			if e, _ := find(p); e == nil { // a review begun under another definition
				reason = cmp.Or(reason, "commands do not see it")
			} else if e.Why != OriginReview {
				reason = cmp.Or(reason, e.Why)
			}
			if v.in.HideSensitive && !directory && Sensitive(path.Base(p)) {
				reason = cmp.Or(reason, OriginSensitive)
			}
			return cmp.Or(reason, deny(p, directory), protect(p, directory))
		}, func(link, end string) string {
			for _, rules := range [...][]Rule{v.Deny, v.Protect} {
				if i := SetOf(rules).Behind(link, end); i >= 0 {
					return rules[i].Why + " could match behind it"
				}
			}
			return beneath[link]
		}
}
