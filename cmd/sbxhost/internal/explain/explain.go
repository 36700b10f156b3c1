// Package explain has the commands explain and validate. They say what would happen, and run no
// command.
package explain

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"time"

	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/setup"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/trace"
	"github.com/sbxhost/sbxhost/config"
	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/internal/stubs"
	"github.com/sbxhost/sbxhost/internal/view"
	"github.com/sbxhost/sbxhost/shared"
)

// Explained is an explanation, as -json prints it. It contains no value of a variable.
type Explained struct {
	Version  int    `json:"version"` // 2
	Config   string `json:"config"`  // empty for the built-in one
	Origin   string `json:"config_origin"`
	Sandbox  string `json:"sandbox"`
	Engine   string `json:"engine"`
	Source   string `json:"engine_source"`
	Decision string `json:"decision"`
	Rule     string `json:"rule"`
	Reason   string `json:"reason"`
	// Asks says that the decision is "denied" until somebody approves the command. All other fields
	// then describe the run after the approval.
	Asks      bool     `json:"asks"`
	Exposure  []string `json:"exposed"`   // what a command without a sandbox can reach
	Sensitive []string `json:"sensitive"` // reachable files that look as if they contain secrets

	Session *explainedSession `json:"session"` // null: the command shares nothing

	// Network is "none", "host", "names" or "unconfined".
	Network    string          `json:"network"`
	Names      []string        `json:"network_names"`
	HostPorts  []uint16        `json:"host_ports"`
	Publish    []string        `json:"publish"`
	Filesystem string          `json:"filesystem"`
	Home       string          `json:"home"`
	Dir        string          `json:"dir"`
	User       *explainedUser  `json:"user"`    // null: the caller
	Command    []string        `json:"command"` // null for no command
	Script     bool            `json:"script"`
	TTY        bool            `json:"tty"`
	TimeoutMS  int64           `json:"timeout_ms"` // 0 for none
	GraceMS    int64           `json:"grace_ms"`
	Limits     map[string]any  `json:"limits"`
	Options    json.RawMessage `json:"options"` // the engine's own
	// Table has everything that the command sees beyond its filesystem attribute. It is empty for a
	// command without a sandbox.
	Table     []ExplainedEntry `json:"table"`
	Env       []explainedVar   `json:"env"`
	Launcher  []string         `json:"launcher"`
	Documents []explainedText  `json:"documents"`
	Notes     []string         `json:"notes"`
	Settings  []settingJSON    `json:"settings"`
}

type explainedUser struct {
	UID uint32 `json:"uid"`
	GID uint32 `json:"gid"`
}

type explainedSession struct {
	Name string `json:"name"` // empty for a session that ends with the command
	Dir  string `json:"dir"`
}

// ExplainedEntry is a shared.Entry.
type ExplainedEntry struct {
	Path       string `json:"path"`             // inside
	Source     string `json:"source,omitempty"` // on the host
	Access     string `json:"access"`           // "hidden", "read-only", "read-write", "overlay", "private"
	Missing    string `json:"missing"`          // "refuse", "ignore", "hold"
	Degradable bool   `json:"degradable,omitempty"`
	Why        string `json:"why"`
	exists     bool   // on the host, and it is no placeholder
}

type explainedVar struct {
	Name   string `json:"name"`
	Origin string `json:"origin"`
}

type explainedText struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// Command prints what exec would do.
func Command(a *cli.App, fs *flag.FlagSet) func() error {
	flags := &setup.Flags{}
	flags.Register(fs)
	asJSON, all, about := cli.JSONFlag(fs), cli.VerboseFlag(fs), fs.String("path", "", "")
	return func() error {
		if *about != "" {
			s, out, err := explainedPath(a, flags, *about, fs.Args())
			if err != nil {
				return setup.WithRemedy(a, s, flags, err)
			}
			return a.Result(*asJSON, out, out.text())
		}
		s, out, err := explained(a, flags, fs.Args())
		if err != nil {
			return setup.WithRemedy(a, s, flags, err)
		}
		return a.Result(*asJSON, out, out.text(*all))
	}
}

func explained(a *cli.App, flags *setup.Flags, given []string) (*setup.Setup, *Explained, error) {
	ctx, args := context.Background(), given
	if len(args) == 0 && !flags.Scripted {
		args = []string{"true"} // a plan needs a command; this one prints nothing
	}
	s, h, cmd, err := setup.Command(ctx, a, flags, args)
	if err != nil {
		return s, nil, err
	}
	defer h.Close()
	if traced, err := trace.New(a, s.Sandbox, "", time.Time{}); err == nil {
		traced.Pass(cmd) // the variables, for their names
	}
	e, err := cmd.Explain()
	if err != nil {
		return s, nil, err
	}
	out := newExplained(e)
	out.Options = s.File.ShownOptions(s.Sandbox, out.Options)
	out.Config, out.Origin = s.File.Path(), s.Origin.String()
	engine := s.Options.Sandboxes[s.Sandbox].Engine
	schema := knownSchema(a, s.Options, s.Sandbox)
	if len(schema.Attributes) == 0 && e.Engine == engine {
		if info, err := h.EngineInfo(ctx, engine); err == nil { // it works
			schema = info.Options
		}
	}
	options := s.Options
	options.Workspace.Root = h.Root()
	out.Settings = settings(a, s.File, s.Sandbox, options, schema, flags)
	if len(given) > 0 {
		out.Command = given
	}
	for _, w := range warnings(h, options.Sandboxes[s.Sandbox], &e.Spec) {
		out.Notes = append(out.Notes, w.Message)
	}
	if p := s.File.Path(); s.Origin == config.OriginWorkspace && filepath.Base(p) != config.FileName && exists(filepath.Join(filepath.Dir(p), config.FileName)) {
		out.Notes = append(out.Notes, config.FileName+" is not used: "+cli.Quote(filepath.Base(p))+" beside it comes first")
	}
	for _, path := range a.ForeignConfigs {
		out.Notes = append(out.Notes, cli.Quote(path)+" is another tool's: it has no block or attribute of sbxhost")
	}
	return s, out, nil
}

func newExplained(e *host.Explanation) *Explained {
	out := &Explained{
		Version: 2, Sandbox: e.Sandbox, Engine: e.Engine, Source: e.Source, Decision: e.Decision, Rule: e.Rule,
		Reason: e.Reason, Asks: e.Asks, Exposure: append([]string{}, e.Exposure...), Sensitive: append([]string{}, e.Sensitive...),
		Network: e.Spec.Network.Mode.String(), Names: append([]string{}, e.Spec.Network.Names...),
		HostPorts: append([]uint16{}, e.Spec.Network.HostPorts...), Publish: append([]string{}, e.Spec.Network.Publish...),
		Filesystem: e.Spec.Filesystem.String(),
		Home:       e.Spec.Home, Dir: e.Command.Dir, Script: e.Command.Script != "", TTY: e.Command.TTY,
		TimeoutMS: e.Command.Timeout.Milliseconds(), GraceMS: e.Command.Grace.Milliseconds(),
		Limits: limitsOf(e.Spec.Limits), Options: e.Spec.Options,
		Table: []ExplainedEntry{}, Env: []explainedVar{}, Launcher: []string{}, Documents: []explainedText{}, Notes: []string{},
	}
	if e.Spec.Unconfined {
		// Nothing enforces the definition's values.
		out.Network, out.Filesystem = "unconfined", "unconfined"
	} else {
		at := view.HostPaths(e.Spec.Table)
		for _, entry := range e.Spec.Table {
			out.Table = append(out.Table, ExplainedEntry{entry.Path, entry.Source, entry.Access.String(), entry.Missing.String(), entry.Degradable, entry.Why, exists(at(&entry))})
		}
	}
	if len(out.Options) == 0 {
		out.Options = json.RawMessage("{}")
	}
	if e.Spec.User != nil {
		out.User = &explainedUser{e.Spec.User.UID, e.Spec.User.GID}
	}
	if e.Session.Dir != "" {
		out.Session = &explainedSession{e.Session.Name, e.Session.Dir}
	}
	for _, v := range e.Env {
		out.Env = append(out.Env, explainedVar{v.Name, v.Origin})
	}
	for _, d := range e.Plan.Documents {
		out.Documents = append(out.Documents, explainedText{d.Name, d.Text})
	}
	out.Launcher = append(out.Launcher, e.Plan.Argv...)
	out.Notes = append(out.Notes, e.Plan.Notes...)
	return out
}

// exists reports whether a host path exists and is no placeholder.
func exists(p string) bool {
	_, err := os.Lstat(p)
	return p != "" && err == nil && !stubs.Is(p)
}

// limitsOf returns the limits with a value.
func limitsOf(l shared.Limits) map[string]any {
	out := map[string]any{}
	for _, limit := range []struct {
		name  string
		value uint64
	}{{"memory", l.Memory}, {"pids", l.PIDs}, {"open_files", l.OpenFiles}, {"temp_size", l.TempSize}} {
		if limit.value > 0 {
			out[limit.name] = limit.value
		}
	}
	if l.CPUs > 0 {
		out["cpus"] = l.CPUs
	}
	return out
}
