package seatbelt

import (
	_ "embed"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/shared"
)

// The parts of a profile that no Spec changes.
var (
	//go:embed base.sb
	baseRules string
	//go:embed minimal.sb
	minimalRules string
	//go:embed host.sb
	hostRules string
	//go:embed network.sb
	networkRules string
	//go:embed terminal.sb
	terminalRules string
	//go:embed final.sb
	finalRules string
)

// Operations by what they do. Grants use only wildcards, and final denials every name: of two rules
// the one for the more specific operation decides, in any order.
const (
	readGrant  = "file-read* file-map-executable process-exec*"
	writeGrant = "file-write*"
	readDeny   = "file-read* file-read-data file-read-metadata file-read-xattr\n      file-map-executable process-exec* process-exec process-exec-interpreter"
	writeDeny  = "file-write* file-write-create file-write-data file-write-flags file-write-mode\n      file-write-owner file-write-setugid file-write-times file-write-unlink file-write-xattr"
	renameDeny = "file-write-create file-write-unlink"
)

// places are the directories that exist for one command.
type places struct {
	scratch string // around the others, and the session's directory
	temp    string
	home    string // "" if the Spec has none
	proxy   uint16 // the port of the proxy for listed names; 0 if there is none
}

// private are the command's own directories.
func (at places) private() []string {
	if at.home == "" {
		return []string{at.temp}
	}
	return []string{at.temp, at.home}
}

// profile is the input of sandbox-exec.
type profile struct {
	text       string
	parameters []string // paths; the profile refers to them by P and their index
}

// compile writes the profile of a policy. It is pure.
func compile(p *policy, at places) (*profile, error) {
	w := &writer{numbers: map[string]int{}, led: map[string]bool{}}
	w.line("(version 1)")
	w.line("(deny default)")

	if p.spec.Filesystem == shared.FilesystemHost {
		w.section("filesystem = \"host\"", hostRules)
	} else {
		w.section("filesystem = \"minimal\"", minimalRules)
	}
	w.section("What every command may do", baseRules)
	if p.spec.Network.Mode == shared.NetworkHost {
		w.section("network = true", networkRules)
	}
	if at.proxy != 0 {
		w.section("network = [names]: the proxy for them, and nothing else")
		w.line(`(allow network-outbound (remote tcp "localhost:` + strconv.Itoa(int(at.proxy)) + `"))`)
	}
	if p.tty {
		w.section("A terminal", terminalRules)
	}
	w.mounts(p, at)
	w.final(p, at)
	return w.finish()
}

// writer builds the text. User's paths go to parameters only.
type writer struct {
	b          strings.Builder
	parameters []string
	numbers    map[string]int  // of the parameters
	led        map[string]bool // expressions of directories that leads has pinned
}

func (w *writer) line(s string) { w.b.WriteString(s + "\n") }

// section begins a part. A title may come from a configuration, and contain anything; it stays one
// line of a comment.
func (w *writer) section(title string, rules ...string) {
	w.line("\n; " + strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, title))
	w.b.WriteString(strings.Join(rules, ""))
}

// param returns the expression for a path.
func (w *writer) param(value string) string {
	n, ok := w.numbers[value]
	if !ok {
		n, w.numbers[value] = len(w.parameters), len(w.parameters)
		w.parameters = append(w.parameters, value)
	}
	return fmt.Sprintf(`(param "P%d")`, n)
}

// literal is the filter for a path alone.
const literal = "(literal %s)"

// paths are the filters for files or directories and their contents. Both filters, because no
// documentation says that subpath matches a plain file.
func (w *writer) paths(list ...string) []string { return w.each(list, literal, "(subpath %s)") }

// each are the filters for each path.
func (w *writer) each(list []string, forms ...string) (filters []string) {
	for _, p := range list {
		for _, form := range forms {
			filters = append(filters, fmt.Sprintf(form, w.param(p)))
		}
	}
	return filters
}

// regex is a filter. The expressions use an alphabet without quotes and backslashes; see
// foldLiteral.
func regex(expr string) string { return `(regex #"` + expr + `")` }

// rule writes a rule, or several if it has many filters. Without filters it writes none.
func (w *writer) rule(action, operations string, filters []string) {
	for some := range slices.Chunk(filters, maxFilters) {
		w.line("(" + action + " " + operations)
		w.line("  " + strings.Join(some, "\n  ") + ")")
	}
}

// mounts grants the areas, the outer ones first.
func (w *writer) mounts(p *policy, at places) {
	// Each is hidden after the areas around it and before those in it.
	hidden := append([]area{{path: at.scratch, origin: "The session's scratch directory is not the command's"}}, p.hiddenAround...)
	for _, c := range p.hidden {
		if c.holds(at) {
			hidden = append(hidden, c)
		}
	}
	slices.SortStableFunc(hidden, func(a, b area) int { return len(a.path) - len(b.path) })
	hide := func(before func(h area) bool) {
		for len(hidden) > 0 && before(hidden[0]) {
			w.section(hidden[0].origin)
			w.rule("deny", readGrant+" "+writeGrant, w.paths(aliases(hidden[0].path)...))
			hidden = hidden[1:]
		}
	}
	for _, a := range p.areas {
		hide(func(h area) bool { return len(h.path) <= len(a.path) })
		access := "read-only"
		if a.writable {
			access = "read-write"
		}
		w.section(a.origin + ": " + access)
		filters := w.paths(a.path)
		w.rule("allow", readGrant, filters)
		if a.writable {
			w.rule("allow", writeGrant, filters)
		} else {
			w.rule("deny", writeGrant, w.paths(aliases(a.path)...))
		}
	}
	hide(func(area) bool { return true })
	var shown []string
	for _, a := range p.areas {
		shown = append(shown, a.path)
	}
	if list := ancestors(shown); len(list) > 0 {
		w.section("The way to what is mounted, for realpath(3)")
		w.rule("allow", "file-read-metadata", w.each(list, literal))
	}
	w.section("The private temporary directory and home")
	private := at.private()
	w.rule("allow", readGrant+" "+writeGrant, w.paths(private...))
	w.rule("allow", "file-read-metadata", w.each(ancestors(private), literal))
	w.rule("allow", "network-outbound", w.each(private, "(remote unix-socket (subpath %s))"))
	w.rule("allow", "network-bind network-inbound", w.each(private, "(local unix-socket (subpath %s))"))
}

// final denies, by every name and last, what nothing before it may grant.
func (w *writer) final(p *policy, at places) {
	w.section("What no definition can grant", finalRules)
	w.rule("deny", "file-write-flags", w.paths(aliases(at.temp)...)) // else nobody could remove it afterwards
	for _, c := range p.kept {
		w.section(c.origin + ": read-only")
		w.rule("deny", writeDeny, w.filters(c))
		w.leads(p, c)
	}
	for _, c := range p.hidden {
		if c.holds(at) {
			continue // see mounts
		}
		w.section(c.origin + ": hidden")
		w.rule("deny", readDeny+"\n      "+writeDeny, w.filters(c))
		w.leads(p, c)
	}
	pins := append(p.pins(append(at.private(), at.scratch)...), at.private()...)
	w.section("Pinned: rules use paths, so these must not move")
	var both []string
	for _, at := range pins {
		both = append(both, aliases(at)...)
	}
	w.rule("deny", renameDeny, w.each(both, literal))
}

// holds reports whether the private directories are in a hidden path, which does not hide them.
func (a area) holds(at places) bool { return paths.Inside(a.path, at.scratch) }

// filters are for an area by all of its names.
func (w *writer) filters(a area) []string {
	return append(w.paths(aliases(a.path)...), regex(spellings(a.path, true)))
}

// leads pins the directories above a path. Commands cannot make them either: another directory with
// other contents could replace a missing one.
func (w *writer) leads(p *policy, a area) {
	var filters []string
	for dir := range paths.Up(path.Dir(a.path)) {
		filter := regex(spellings(dir, false))
		if p.writableRoot(dir) != "" && !w.led[filter] { // a second time is not necessary: later rules allow nothing
			w.led[filter] = true
			filters = append(filters, filter)
		}
	}
	w.rule("deny", renameDeny, filters)
}

func (w *writer) finish() (*profile, error) {
	bytes := 0
	for _, p := range w.parameters {
		bytes += len(p)
	}
	if len(w.parameters) > maxParameters || bytes > maxParamBytes || w.b.Len() > maxProfile {
		return nil, &shared.Error{Kind: shared.ErrUnsupported, Attribute: "bind_paths",
			Message: fmt.Sprintf("the profile would have %d paths of %d bytes and %d bytes of text, more than the %d, %d and %d that are tried here",
				len(w.parameters), bytes, w.b.Len(), maxParameters, maxParamBytes, maxProfile),
			Hint: "name directories rather than files, in bind_paths and deny_paths"}
	}
	return &profile{text: w.b.String(), parameters: w.parameters}, nil
}
