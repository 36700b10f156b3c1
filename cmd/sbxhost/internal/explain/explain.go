// Package explain has the commands explain and validate. They say what would happen, and run no
// command.
package explain

import (
	"context"
	"flag"
	"os"
	"path/filepath"

	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/setup"
	"github.com/sbxhost/sbxhost/config"
	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/internal/stubs"
	"github.com/sbxhost/sbxhost/shared"
)

// Report is an explanation, as -json prints it. It contains no value of a variable.
type Report struct {
	Version int    `json:"version"` // 2
	Config  string `json:"config"`  // empty for the built-in one
	Origin  string `json:"config_origin"`
	*host.Explanation

	Session *host.SessionReport `json:"session"` // null: the command shares nothing

	// Network is "none", "host", "names" or "unconfined".
	Network    string        `json:"network"`
	Names      []string      `json:"network_names"`
	HostPorts  []uint16      `json:"host_ports"`
	Publish    []string      `json:"publish"`
	Filesystem string        `json:"filesystem"`
	Home       string        `json:"home"`
	Dir        string        `json:"dir"`
	User       *shared.User  `json:"user"`    // null: the caller
	Command    []string      `json:"command"` // null for no command
	Script     bool          `json:"script"`
	TTY        bool          `json:"tty"`
	TimeoutMS  int64         `json:"timeout_ms"` // 0 for none
	GraceMS    int64         `json:"grace_ms"`
	Limits     shared.Limits `json:"limits"` // those with a value
	// Table has everything that the command sees beyond its filesystem attribute. It is empty for a
	// command without a sandbox.
	Table     []shared.Entry        `json:"table"`
	Launcher  []string              `json:"launcher"`
	Documents []shared.PlanDocument `json:"documents"`
	Notes     []string              `json:"notes"`
	Settings  []settingJSON         `json:"settings"`
}

// Command prints what exec would do.
func Command(a *cli.App, fs *flag.FlagSet) func() error {
	flags := &setup.Flags{}
	flags.Register(a, fs)
	asJSON, all, about := cli.JSONFlag(fs), fs.Bool("v", false, ""), fs.String("path", "", "")
	return func() error {
		ctx, args := context.Background(), fs.Args()
		if len(args) == 0 && !flags.Scripted {
			args = []string{"true"} // a plan needs a command; this one prints nothing
		}
		s, h, cmd, err := setup.Command(ctx, a, flags, args)
		if err != nil {
			return setup.WithRemedy(a, s, flags, err)
		}
		defer h.Close()
		e, err := cmd.Explain()
		if err != nil {
			return setup.WithRemedy(a, s, flags, err)
		}
		if *about != "" {
			out, err := explainedPath(a, flags, s, cmd, e, a.Absolute(*about))
			if err != nil {
				return setup.WithRemedy(a, s, flags, err)
			}
			return a.Result(*asJSON, out, out.text())
		}
		out := makeReport(ctx, a, flags, s, h, e)
		if fs.NArg() > 0 {
			out.Command = fs.Args()
		}
		return a.Result(*asJSON, out, out.text(*all))
	}
}

func makeReport(ctx context.Context, a *cli.App, flags *setup.Flags, s *setup.Setup, h *host.Host, e *host.Explanation) *Report {
	out := newReport(e)
	out.Config, out.Origin = s.File.Path(), s.Origin.String()
	engine := s.Options.Sandboxes[s.Sandbox].Engine
	schema, _ := a.KnownOptions(s.Options, s.Sandbox)
	if len(schema.Attributes) == 0 && e.Engine == engine {
		if info, err := h.EngineInfo(ctx, engine); err == nil { // it works
			schema = info.Options
		}
	}
	options := s.Options
	options.Workspace.Root = h.Root()
	out.Settings = settings(a, s.File, s.Sandbox, options, schema, flags)
	for _, w := range warnings(h, options.Sandboxes[s.Sandbox], &e.Spec) {
		out.Notes = append(out.Notes, w.Message)
	}
	if p := s.File.Path(); s.Origin == config.OriginWorkspace && filepath.Base(p) != config.FileName && exists(filepath.Join(filepath.Dir(p), config.FileName)) {
		out.Notes = append(out.Notes, config.FileName+" is not used: "+cli.Quote(filepath.Base(p))+" beside it comes first")
	}
	return out
}

func newReport(e *host.Explanation) *Report {
	out := &Report{
		Version: 2, Explanation: e, Network: e.Spec.Network.Mode.String(), Names: append([]string{}, e.Spec.Network.Names...),
		HostPorts: append([]uint16{}, e.Spec.Network.HostPorts...), Publish: append([]string{}, e.Spec.Network.Publish...),
		Filesystem: e.Spec.Filesystem.String(),
		Home:       e.Spec.Home, Dir: e.Command.Dir, User: e.Spec.User, Script: e.Command.Script != "", TTY: e.Command.TTY,
		TimeoutMS: e.Command.Timeout.Milliseconds(), GraceMS: e.Command.Grace.Milliseconds(),
		Limits: e.Spec.Limits, Table: []shared.Entry{},
		Launcher:  append([]string{}, e.Plan.Argv...),
		Documents: append([]shared.PlanDocument{}, e.Plan.Documents...), Notes: append([]string{}, e.Plan.Notes...),
	}
	if e.Spec.Unconfined {
		// Nothing enforces the definition's values.
		out.Network, out.Filesystem = "unconfined", "unconfined"
	} else {
		out.Table = append(out.Table, e.Spec.Table...)
	}
	if e.Session.Dir != "" {
		out.Session = &e.Session
	}
	return out
}

// exists reports whether a host path exists and is no placeholder.
func exists(p string) bool {
	_, err := os.Lstat(p)
	return p != "" && err == nil && !stubs.Is(p)
}
