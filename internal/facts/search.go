//go:build unix

package facts

import (
	"slices"
	"strings"

	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/internal/scan"
	"github.com/sbxhost/sbxhost/internal/view"
	"github.com/sbxhost/sbxhost/shared"
)

// search searches all that a definition shows, if it may contain paths to hide. Otherwise it searches
// only where the host reports what commands make.
func (m *Machine) search(out *Resolution, look *lookup) (found *view.SearchResult, err error) {
	found = &view.SearchResult{}
	if err := out.Rules(); err != nil {
		return nil, err
	}
	trees := out.Trees()
	q := scan.Query{Sockets: true, Name: view.Sensitive}
	dirs, host := m.addOns, out.Spec.Filesystem == shared.FilesystemHost
	if host {
		dirs = slices.Concat(m.addOns, []string{"/srv"})
	}
	var addOns []string
	for _, dir := range dirs {
		if way := look.Follow(dir); way.Kind == view.Directory && !paths.InsideAny(trees, way.End) {
			addOns = append(addOns, way.End)
		}
	}
	sockets, listed := look.boundSockets(slices.Concat(trees, addOns), host)
	if found.Sockets = sockets; host && sockets == nil {
		out.Notes = append(out.Notes, `filesystem = "host": the kernel does not list its sockets, so they are hidden only in `+strings.Join(slices.Concat(trees, addOns), ", "))
	}
	more := socketsIn(addOns, sockets) // besides those in trees
	if m.HideSensitive || !listed {
		if more, err = m.scanners.scanner(nil, "add-ons", q, addOns).Scan(); err != nil {
			return nil, searchError(err)
		}
	}
	q.Repositories, q.MatchName = true, view.MayBeInstruction
	scanner := func(key string, dirs []string) *scan.Scanner {
		s := m.scanners.scanner(out.Deny, key, q, dirs)
		out.searchAgain = func() ([]scan.Found, error) { return s.ScanTo(out.ReportDepth(dirs)) } // the reported part
		return s
	}
	all := !listed || m.HideSensitive || len(out.Deny) > 0
	if !all {
		scanner("near", paths.Outermost(out.Tops()))
		if found.Trees, err = out.searchAgain(); err != nil {
			return nil, searchError(err)
		}
		own, complete := out.NestedRepositories(found.Trees)
		found.Trees, all = scan.Merge(found.Trees, slices.Concat(own, socketsIn(trees, sockets))), !complete
	}
	if all {
		if found.Trees, err = scanner("trees", trees).Scan(); err != nil {
			return nil, searchError(err)
		}
	}
	if elsewhere := view.PatternRoots(out.Deny, trees); len(elsewhere) > 0 {
		inElsewhere, err := m.scanners.scanner(out.Deny, "elsewhere", scan.Query{}, elsewhere).Scan()
		if err != nil {
			return nil, searchError(err)
		}
		more = slices.Concat(more, inElsewhere)
	}
	found.Trees = scan.Merge(found.Trees, more)
	// A separate search, because a search does not look beneath a match: beneath protected paths there may
	// be paths to hide.
	if err := out.HardLinkRules(found.Trees); err != nil {
		return nil, err
	}
	rules := slices.Concat(out.Protect, out.HardLinks)
	trees = slices.Clip(trees)
	for _, rule := range out.HardLinks {
		if !paths.InsideAny(trees, rule.Literal) {
			trees = append(trees, rule.Literal)
		}
	}
	if len(rules) > 0 {
		if found.Protected, err = m.scanners.scanner(rules, "protect", scan.Query{}, trees).Scan(); err != nil {
			return nil, searchError(err)
		}
	}
	return found, nil
}

// socketsIn returns the socket files that are in some directories.
func socketsIn(trees, sockets []string) (found []scan.Found) {
	for _, p := range sockets {
		if paths.InsideAny(trees, p) {
			found = append(found, scan.Found{Path: p, Reason: scan.Socket, Pattern: -1})
		}
	}
	return found
}

// searchError makes the error of a search one about deny_paths, or about a shortage.
func searchError(err error) error {
	if hint := shortageHint(err); hint != "" {
		return &shared.Error{Kind: shared.ErrUnavailable, Message: "the search for paths to hide and protect failed: " + err.Error(), Hint: hint}
	}
	return view.Invalid("deny_paths", err.Error(), "show less: bind only the directories that are needed, or choose a smaller workspace")
}

// SensitiveFiles names ten files near the top of the workspace that look as if they held secrets.
func (m *Machine) SensitiveFiles() (list []string) {
	var roots []string
	for _, root := range m.Workspace.Roots() {
		roots = append(roots, root.Path)
	}
	const most, depth = 10, 4
	found, _ := m.scanners.scanner(nil, "sensitive", scan.Query{Name: view.Sensitive}, paths.Outermost(roots)).ScanTo(depth)
	for _, f := range found {
		if f.Reason == scan.SensitiveName && len(list) < most && !strings.Contains(f.Path, "/node_modules/") {
			list = append(list, f.Path)
		}
	}
	return list
}
