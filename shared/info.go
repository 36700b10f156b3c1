package shared

import "encoding/json"

// Info is what an engine says of itself.
type Info struct {
	Name     string       // as in a definition's `engine`, such as "bwrap"
	Version  string       // the engine's own version
	Doc      string       // one line for people
	Features Features     // what it holds; everything else is refused
	Options  OptionSchema // what a definition's `config` block may hold
}

// OptionSchema describes an engine's own options as plain data: attributes and
// one level of blocks. The host checks configuration against it, so that a
// typo is reported at its place.
type OptionSchema struct {
	Attributes []OptionAttribute // names unique, those of Blocks among them
	Blocks     []OptionBlock     // likewise
}

// OptionAttribute is one named value.
type OptionAttribute struct {
	Name     string          `json:"name"`              // lower case, as in a config block
	Type     OptionType      `json:"type"`              // what its value may be
	Doc      string          `json:"doc"`               // one line
	Required bool            `json:"required"`          // whether a config block without it is refused
	Default  json.RawMessage `json:"default,omitempty"` // shown to people; empty means none. The engine applies it
}

// OptionBlock is a group of attributes, given at most once.
type OptionBlock struct {
	Name       string            // lower case; in Spec.Options, the name of an object
	Doc        string            // one line
	Attributes []OptionAttribute // names unique
}

// OptionType is the type of an option's value, as people read it in a
// definition. The comments say what Spec.Options holds.
type OptionType string

const (
	OptionString     OptionType = "string"       // a JSON string
	OptionBool       OptionType = "bool"         // true or false
	OptionNumber     OptionType = "number"       // a JSON number, fractions too
	OptionStringList OptionType = "list(string)" // an array of strings
	OptionStringMap  OptionType = "map(string)"  // an object whose values are strings
)

// Probe is what an engine found out about this machine.
type Probe struct {
	Ready    bool              // whether Open and Start can work here
	Reason   string            // why it is not ready, as a sentence fragment
	Fix      string            // what a person can do about it
	Unusable bool              // the reason is one for ErrUnusable
	Degraded []string          // what works less well than it could
	Facts    map[string]string // what was found, such as "bwrap": "/usr/bin/bwrap 0.8.0"
}

// Plan is what a Start would do, for people and for tests.
type Plan struct {
	// Argv is the launcher's command line. Where the real one has a file
	// descriptor, it shows what the descriptor stands for in angle brackets, or the
	// words that the launcher reads there. Where it begins with a bare name, no such
	// process is started: a daemon does what that line would.
	Argv []string
	// Mounts is the view inside, in the order in which it is made; empty where the
	// launcher alone knows.
	Mounts []PlannedMount
	// Documents are further inputs of the launcher, such as a profile.
	Documents []PlanDocument
	// Notes say what is degraded or approximated, and by which mechanism a
	// limit is held.
	Notes []string
}

// PlannedMount is one step of a plan.
type PlannedMount struct {
	Op          string // "ro-bind", "bind", "tmpfs", "symlink", "proc", "dev", "dir", "mask", ...
	Source      string // on the host; empty for an Op that needs none
	Destination string // inside
	Why         string // the attribute or rule that asked for it
}

// PlanDocument is a named text that a launcher is given.
type PlanDocument struct {
	Name string // of the document, such as "profile"; unique in a Plan
	Text string // all of it, without secrets
}
