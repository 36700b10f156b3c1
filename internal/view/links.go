package view

import (
	"fmt"
	"path"
	"slices"

	"github.com/sbxhost/sbxhost/internal/glob"
	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/internal/scan"
)

// located finds the targets of protections. It adds those of symlinks in directories whose reader
// follows them: a mount on the directory does not protect them.
func (v *View) located(list []*protection) []*protection {
	for _, p := range list {
		p.way = v.facts.Follow(p.path)
	}
	seen := map[string]bool{}
	for i := 0; i < len(list); i++ { // it grows
		p := list[i]
		if !p.followsLinks || p.way.Kind != Directory || seen[p.way.End] || v.unprotectable(p) {
			continue
		}
		seen[p.way.End] = true
		links := v.facts.LinksIn(p.way.End)
		all := links.All
		for _, link := range links.Symlinks {
			to := p.at(link, nil)
			to.way = v.facts.Follow(link)
			elsewhere := slices.ContainsFunc(v.replaceableLinks(&to.way), func(l string) bool { return l != link })
			if to.way.Err == nil && !elsewhere && (v.writer(to.way.End) == nil || paths.Inside(p.way.End, to.way.End)) {
				continue
			}
			if all = all && len(list) <= MaxPaths; all {
				list = append(list, to)
			}
		}
		if !all {
			v.note("%s: %q has too many entries or symlinks: their targets may be writable", p.why, p.way.End)
		}
	}
	return list
}

// A WeakProtection is about a path that commands should not write, but whose target they can write, or
// which they can lead elsewhere.
type WeakProtection struct {
	Path, Why  string
	Repository string   // whose git obeys it; may be empty
	Links      []string // on the way, replaceable by commands
}

// checkLinks checks with the complete table that it protects the paths that lead through links. If it
// does not protect one with mustHold, nothing runs; notes report the others.
func (v *View) checkLinks(linked []*protection) error {
	var onlyTargets, unprotected []string
	add := func(list *[]string, p string) {
		if !slices.Contains(*list, p) {
			*list = append(*list, p)
		}
	}
	for _, p := range linked {
		replaceable := slices.DeleteFunc(v.replaceableLinks(&p.way), func(link string) bool {
			return !v.Creatable(link) || v.hasEntriesBeneath(link)
		})
		if len(replaceable) > 0 && p.mustHold {
			hint := "remove the link, or let it lead to an existing file"
			if p.way.Err == nil {
				hint = fmt.Sprintf("name its target, %q, or put that in the place of the link", p.way.End)
			}
			return invalidf(v.writer(path.Dir(replaceable[0])).Why, hint, "commands could replace %q, which is on the way to what must be protected (%s)", replaceable[0], p.why)
		}
		writable := p.way.Err == nil && v.Creatable(p.way.End)
		switch {
		case writable && len(p.way.Links) == 0:
			v.note("%s: %q can be written by a command", p.why, p.path)
		case writable, len(replaceable) > 0 && p.way.Err != nil:
			add(&unprotected, p.path)
		case len(replaceable) == 0:
			continue
		default:
			add(&onlyTargets, p.path)
		}
		v.WeakProtections = append(v.WeakProtections, WeakProtection{p.path, protected + p.why, p.repository, replaceable})
	}
	if len(onlyTargets) > 0 {
		v.claim("a command can replace symlinks on the way to these; only their targets are protected: %s", hostpath.QuoteList(onlyTargets))
	}
	if len(unprotected) > 0 {
		v.note("these are not protected; a command can write or replace their targets: %s", hostpath.QuoteList(unprotected))
	}
	return nil
}

// HardLinkRules makes HardLinks, a rule for each protected file, or directory with a file, that has other names:
// commands could write it by those. Not for the files in hooks, which git itself lists, and in modules,
// which have protections of their own.
func (v *View) HardLinkRules(trees []scan.Found) (err error) {
	v.protections = v.located(slices.Concat(v.hostProtections(), v.gitProtections(trees), v.defaultProtections(trees)))
	if !v.writesIn("/") {
		return nil
	}
	for _, p := range v.protections {
		way := p.way
		linked := way.hasNames()
		if way.Kind == Directory && p.followsLinks {
			links := v.facts.LinksIn(way.End)
			linked = links.Hard || !links.All
		}
		if way.Err != nil || !linked || slices.ContainsFunc(v.HardLinks, func(r Rule) bool { return r.Literal == way.End }) {
			continue
		}
		pattern, parseErr := glob.Parse(glob.Quote(way.End))
		if parseErr != nil {
			err = invalidf("protect_paths", "remove its other names", "%q: %v", way.End, parseErr)
		}
		v.HardLinks = append(v.HardLinks, Rule{Why: p.why + ", by another name", Pattern: pattern, Literal: way.End})
	}
	return err
}
