package shared

import (
	"encoding/json"
	"errors"
)

// Info is an engine's description of itself.
type Info struct {
	Name     string       // as in a definition's `engine`, such as "bwrap"
	Version  string       // the engine's own version
	Doc      string       // one line for people
	Features Features     // what it can enforce; the host refuses the rest
	Options  OptionSchema // what a definition's `config` block may have
}

// OptionSchema describes an engine's own options. The host checks the configuration with it, so
// that a mistake is reported with its line.
type OptionSchema struct {
	Attributes []OptionAttribute // names unique
}

// OptionAttribute is one named value.
type OptionAttribute struct {
	Name     string          `json:"name"`              // lower case, as in a config block
	Type     OptionType      `json:"type"`              // the type of its value
	Doc      string          `json:"doc"`               // one line
	Required bool            `json:"required"`          // whether a config block must have it
	Default  json.RawMessage `json:"default,omitempty"` // shown to people; empty means none. The engine applies it
}

// OptionType is the type of an option, as a definition's author reads it. The comments say what
// Spec.Options contains.
type OptionType string

const (
	OptionString     OptionType = "string"       // a JSON string
	OptionBool       OptionType = "bool"         // true or false
	OptionNumber     OptionType = "number"       // a JSON number, which may be a fraction
	OptionStringList OptionType = "list(string)" // an array of strings
	OptionStringMap  OptionType = "map(string)"  // an object whose values are strings
)

// Probe is what an engine found out about this machine.
type Probe struct {
	Ready    bool              `json:"ready"`    // whether Open and Start can work here
	Reason   string            `json:"reason"`   // why it is not ready, as a sentence fragment
	Fix      string            `json:"fix"`      // what a person can do about it
	Unusable bool              `json:"-"`        // the reason justifies ErrUnusable
	Degraded []string          `json:"degraded"` // what works less well than it could
	Facts    map[string]string `json:"facts"`    // facts about the machine, such as "bwrap": "/usr/bin/bwrap 0.8.0"
}

// NotReady is the probe of an engine that fails with err.
func NotReady(err error) Probe {
	p := Probe{Reason: err.Error(), Unusable: errors.Is(err, ErrUnusable)}
	if e, ok := errors.AsType[*Error](err); ok {
		p.Reason, p.Fix = e.Message, e.Hint
	}
	return p
}

// Plan is what Start would do, for people and for tests.
type Plan struct {
	// Argv is the launcher's command line. In place of a file descriptor it shows its purpose in
	// angle brackets, or the words that the launcher reads from it. If it begins with a bare name,
	// a daemon does this work, and no such process starts.
	Argv []string
	// Mounts is the view inside, in the order of mounting; empty if only the launcher knows it.
	Mounts []PlannedMount
	// Documents are further inputs of the launcher, such as a profile.
	Documents []PlanDocument
	// Notes say what the engine enforces only in part, and which mechanism enforces a limit.
	Notes []string
}

// PlannedMount is one step of a plan.
type PlannedMount struct {
	Op          string // "ro-bind", "bind", "tmpfs", "symlink", "proc", "dev", "dir", "mask", ...
	Source      string // on the host; may be empty, as Op needs
	Destination string // inside
	Why         string // the attribute or rule that asked for it
}

// PlanDocument is a named input text of a launcher.
type PlanDocument struct {
	Name string `json:"name"` // such as "profile"; unique in a Plan
	Text string `json:"text"` // complete, without secrets
}
