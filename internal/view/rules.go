package view

import (
	"fmt"
	"path"
	"runtime"
	"slices"
	"strings"

	"github.com/sbxhost/sbxhost/internal/glob"
	"github.com/sbxhost/sbxhost/internal/paths"
)

// A Rule is one element of deny_paths or protect_paths, made absolute.
type Rule struct {
	Attribute string // "deny_paths[0]"
	Text      string // as written
	Why       string // of an entry
	Pattern   *glob.Pattern
	// Literal is the only path that it matches, without symlinks; empty if it has wildcards.
	Literal string
	way     Way // of Literal, or of the part before the first wildcard
}

// cover reports whether rules match a path of the host, or a directory above it.
func cover(rules []Rule, p string) bool { return covering(rules)(p, true) != "" }

// covering returns a function that names the rule that matches a path of the host, or a directory above
// it; "" for none.
func covering(rules []Rule) func(p string, directory bool) (why string) {
	set := SetOf(rules)
	return func(p string, directory bool) string {
		if i := set.Cover(p, directory); i >= 0 {
			return rules[i].Why
		}
		return ""
	}
}

// SetOf returns the patterns of rules as a set.
func SetOf(rules []Rule) *glob.Set {
	list := make([]*glob.Pattern, len(rules))
	for i := range rules {
		list[i] = rules[i].Pattern
	}
	return glob.NewSet(list...)
}

// Rules makes Deny and Protect: the elements of deny_paths and protect_paths, absolute. One that begins with "**/"
// matches everywhere that commands can see; other relative ones are relative to the workspace's
// root.
func (v *View) Rules() (err error) {
	if v.Deny, err = v.rules("deny_paths", v.in.DenyPaths); err == nil {
		v.Protect, err = v.rules("protect_paths", v.in.ProtectPaths)
	}
	return err
}

func (v *View) rules(attribute string, texts []string) ([]Rule, error) {
	var rules []Rule
	var exemptions []int
	for i, text := range texts {
		rule := Rule{Attribute: fmt.Sprintf("%s[%d]", attribute, i), Text: text, Why: fmt.Sprintf("%s %q", attribute, text)}
		if err := v.parse(&rule, v.root()); err != nil {
			return nil, err
		}
		if rule.Pattern.Except() {
			exemptions = append(exemptions, len(rules))
		}
		rules = append(rules, rule)
		// If a command makes another root with a .git, a rule relative to the root must still
		// match.
		for _, root := range v.in.Outer {
			wider := Rule{Attribute: rule.Attribute, Text: text, Why: rule.Why}
			if err := v.parse(&wider, root); err == nil && wider.Pattern.String() != rule.Pattern.String() {
				rules = append(rules, wider)
			}
		}
	}
	for _, i := range exemptions {
		rule := &rules[i]
		exempts := func(before Rule) bool {
			return before.Literal == "" && !before.Pattern.Except() && before.Pattern.Meets(rule.Pattern)
		}
		around, more := rule.Pattern.Base()
		if around = "/" + around; !more {
			around = path.Dir(around)
		}
		if !slices.ContainsFunc(rules[:i], exempts) || around != "/" && cover(rules, around) {
			return nil, invalidf(rule.Attribute, `write it behind an element with "*" that matches it; what lies in a directory that is matched as a whole cannot be exempted`,
				"%q exempts nothing", rule.Text)
		}
	}
	return rules, nil
}

func (v *View) parse(rule *Rule, root string) error {
	invalid := func(err error) error { return Invalid(rule.Attribute, err.Error(), "") }
	text, except := strings.CutPrefix(rule.Text, "!")
	switch home := v.in.Home; {
	case text == "~" || strings.HasPrefix(text, "~/"):
		if home == "" {
			return invalidf(rule.Attribute, "set HOME or write an absolute path", "%q: no home directory is known", text)
		}
		text = glob.Quote(home) + text[1:]
	case strings.HasPrefix(text, "/"):
	case text == "**" || strings.HasPrefix(text, "**/"):
		text = "/" + text
	default:
		if _, err := glob.Parse(text); err != nil {
			return invalid(err) // an empty one would become the root
		}
		text = glob.Quote(root) + "/" + text
	}
	if except {
		text = "!" + text
	}
	p, err := glob.Parse(text)
	if err != nil {
		return invalid(err)
	}
	base, more := p.Base()
	rule.way = v.facts.Follow("/" + base)
	if err := rule.way.Err; err != nil && err != ErrUnsearchable {
		return invalid(err)
	}
	end := rule.way.End
	if rule.way.Err != nil {
		end = "/" + base // the caller's user cannot get there
	}
	if link := v.replaceableLink(&rule.way); link != "" {
		hint := "write the path that it leads to"
		if rule.way.Err == nil {
			hint += fmt.Sprintf(": %q", strings.TrimPrefix(end, v.root()+"/"))
		}
		return invalidf(rule.Attribute, hint, "%q goes through the symlink %q, which a command can replace: the rule would then match something else", rule.Text, link)
	}
	if end != "/"+base {
		if p, err = p.Rebase(end); err != nil {
			return invalid(err)
		}
	}
	rule.Pattern = p
	if !more && !except {
		rule.Literal = end
	}
	if !more && paths.Inside(end, v.root()) {
		return invalidf(rule.Attribute, "name a path in it", "%q names the workspace itself", rule.Text)
	}
	return nil
}

// PatternRoots are the directories outside of trees in which a pattern can match, in the view of the
// operating system or of the whole host.
func PatternRoots(rules []Rule, trees []string) []string {
	var list []string
	for _, rule := range rules {
		base, more := rule.Pattern.Base()
		base = path.Clean("/" + base)
		if more && !rule.Pattern.Except() && base != "/" && !paths.InsideAny(trees, base) {
			list = append(list, base)
		}
	}
	return paths.Outermost(list)
}

// OriginSensitive is why approvals.mode = "deny" hides files that look as if they held secrets.
const OriginSensitive = "sensitive file"

// Sensitive reports whether a file of this name probably has secrets: .env and names that begin with ".env.".
func Sensitive(name string) bool {
	if runtime.GOOS == "darwin" { // the file system folds case
		name = strings.ToLower(name)
	}
	return name == ".env" || strings.HasPrefix(name, ".env.")
}
