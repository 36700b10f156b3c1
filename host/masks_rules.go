package host

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/sbxhost/sbxhost/glob"
	"github.com/sbxhost/sbxhost/scan"
	"github.com/sbxhost/sbxhost/workspace"
)

// A pathRule is one entry of deny_paths or protect_paths, made absolute.
type pathRule struct {
	attribute string // "deny_paths[0]"
	text      string // as written
	pattern   *glob.Pattern
	// raw is the pattern with the symlinks that were written in it; nil where
	// there are none.
	raw *glob.Pattern
	// literal is the one path that it matches, and where that leads; empty for
	// one that has wildcards.
	literal string
}

// origin says what asked for something, as in shared.Mask.
func (r *pathRule) origin() string {
	name, _, _ := strings.Cut(r.attribute, "[")
	return fmt.Sprintf("%s %q", name, r.text)
}

// pathRules makes the entries of an attribute absolute. What begins with "**/"
// is meant wherever commands can see it; all else that is relative is relative
// to the workspace's root.
func (r *resolver) pathRules(attribute string, texts []string) ([]pathRule, error) {
	var rules []pathRule
	for i, text := range texts {
		rule := pathRule{attribute: fmt.Sprintf("%s[%d]", attribute, i), text: text}
		if err := r.absolute(&rule, r.ws.Root()); err != nil {
			return nil, err
		}
		rules = append(rules, rule)
		// Relative to the root, it means the same where a command has made another
		// one by a .git.
		for _, root := range r.outer {
			wider := pathRule{attribute: rule.attribute, text: text}
			if err := r.absolute(&wider, root); err == nil && wider.pattern.String() != rule.pattern.String() {
				rules = append(rules, wider)
			}
		}
	}
	return rules, nil
}

// outerRoots are the top levels of the repositories around a root that was
// discovered, and not said.
func outerRoots(root string) (outer []string) {
	for dir := filepath.Dir(root); dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		found, err := workspace.Discover(dir)
		if err != nil {
			return outer
		}
		if _, err := os.Lstat(filepath.Join(found, ".git")); err != nil {
			return outer
		}
		outer, dir = append(outer, found), found
	}
	return outer
}

func (r *resolver) absolute(rule *pathRule, root string) error {
	invalid := func(err error) error { return attributeError(rule.attribute, err.Error(), "") }
	text := rule.text
	switch home := r.home(); {
	case text == "~" || strings.HasPrefix(text, "~/"):
		if home == "" {
			return attributeError(rule.attribute, fmt.Sprintf("%q: no home directory is known", text), "set HOME or write an absolute path")
		}
		text = quotePath(home) + text[1:]
	case strings.HasPrefix(text, "/"):
	case text == "**" || strings.HasPrefix(text, "**/"):
		text = "/" + text
	default:
		if _, err := glob.Parse(text); err != nil {
			return invalid(err) // an empty one would become the root
		}
		text = quotePath(root) + "/" + text
	}
	p, err := glob.Parse(text)
	if err != nil {
		return invalid(err)
	}
	base, more := p.Base()
	led, _, err := follow("/" + base)
	if err != nil {
		return invalid(err)
	}
	if led != "/"+base {
		rule.raw = p
		if p, err = p.Rebase(led); err != nil {
			return invalid(err)
		}
	}
	rule.pattern = p
	if !more {
		rule.literal = led
	}
	if !more && inside(led, r.ws.Root()) {
		return attributeError(rule.attribute, fmt.Sprintf("%q names the workspace itself", rule.text), "name what in it is meant")
	}
	return nil
}

func quotePath(p string) string {
	names := strings.Split(p, "/")
	for i := range names {
		names[i] = glob.Quote(names[i])
	}
	return strings.Join(names, "/")
}

// patterns are those of rules for engines that match by pattern.
func patterns(rules []pathRule) []string {
	var list []string
	for _, rule := range rules {
		for _, p := range []*glob.Pattern{rule.pattern, rule.raw} {
			if p != nil && !slices.Contains(list, p.String()) {
				list = append(list, p.String())
			}
		}
	}
	return list
}

// scanners keeps what is known of trees from one command to the next. The zero
// value is empty; nil remembers nothing.
type scanners struct {
	mu    sync.Mutex
	known map[string]*scan.Scanner
}

// of gives the Scanner for those rules. key stands for what else q asks.
func (s *scanners) of(rules []pathRule, key string, q scan.Query) *scan.Scanner {
	list := make([]*glob.Pattern, len(rules))
	for i, rule := range rules {
		list[i] = rule.pattern
		key += "\x00" + rule.pattern.String()
	}
	q.Set = glob.NewSet(list...)
	if s == nil {
		return scan.New(q)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known[key] == nil {
		if s.known == nil || len(s.known) >= maxScanners {
			s.known = map[string]*scan.Scanner{}
		}
		s.known[key] = scan.New(q)
	}
	return s.known[key]
}

// maxScanners bounds what is remembered: symlinks in patterns can lead elsewhere
// for every command.
const maxScanners = 64

// extraTrees are the directories that lie in none of the trees and in which a
// pattern can match: of the operating system's view, or of the whole host's.
func extraTrees(rules []pathRule, trees []string) []string {
	var list []string
	for _, rule := range rules {
		base, more := rule.pattern.Base()
		base = "/" + base
		if !more || base == "/" || slices.ContainsFunc(trees, func(t string) bool { return inside(t, base) }) {
			continue
		}
		list = append(list, filepath.Clean(base))
	}
	slices.Sort(list)
	var outer []string
	for _, p := range list {
		if !slices.ContainsFunc(outer, func(o string) bool { return inside(o, p) }) {
			outer = append(outer, p)
		}
	}
	return outer
}
