package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/sbxhost/sbxhost/host"
)

// enginesCommand is what its subcommands have in common, and the help for it.
type enginesCommand struct{ *app }

func (*enginesCommand) Synopsis() string   { return "Say which engines there are and what they can do" }
func (*enginesCommand) takesCommand() bool { return false }
func (*enginesCommand) Run(_ []string) int { return statusHelp }

func (*enginesCommand) Help() string {
	return `Usage: sbxhost engines SUBCOMMAND [FLAGS] [NAME...]

Say which engines there are, whether they work on this machine, and which options
they take. Engines are built in, declared by an engine block, or installed as
sbxhost-engine-NAME in a directory of SBXHOST_ENGINE_PATH, in
~/.local/share/sbxhost/engines or in /usr/local/lib/sbxhost/engines.`
}

// host opens a Host on the configuration in force.
func (a *app) host(ctx context.Context, explicit string) (*setup, *host.Host, error) {
	s, err := a.load(ctx, explicit)
	if err != nil {
		return nil, nil, err
	}
	options := s.options
	options.EnginesOnly = true
	h, err := host.New(ctx, options)
	return s, h, err
}

// engineNames gives the names asked for, or all; an unknown one is an error.
func engineNames(h *host.Host, asked []string) ([]string, error) {
	known := h.EngineNames()
	if len(asked) == 0 {
		return known, nil
	}
	names := make([]string, 0, len(asked))
	for _, name := range asked {
		if name == "bubblewrap" {
			name = "bwrap"
		}
		// One that is a program of its own may be missing, of which the host
		// tells more than that there is none.
		if _, separate := h.SeparateEngines()[name]; !separate && !slices.Contains(known, name) {
			return nil, &hinted{fmt.Errorf("there is no engine %q", name), "there are " + strings.Join(known, ", ")}
		}
		names = append(names, name)
	}
	return names, nil
}

// enginesListCommand lists engines.
type enginesListCommand struct{ *app }

func (*enginesListCommand) Synopsis() string   { return "List the engines there are" }
func (*enginesListCommand) takesCommand() bool { return false }

func (*enginesListCommand) Help() string {
	return `Usage: sbxhost engines list [-config FILE] [-json]

List the engines that are built in, declared by the configuration, or installed.
First come those that "auto" chooses from, in its order, which AUTO numbers: it
takes the first that works on this machine. None is started but docker, to ask
for its version.`
}

// listOrder begins with the engines that "auto" chooses from.
func listOrder(h *host.Host) []string {
	names, auto := h.EngineNames(), h.AutoEngines()
	rest := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return slices.Contains(auto, n) })
	return append(slices.DeleteFunc(auto, func(n string) bool { return !slices.Contains(names, n) }), rest...)
}

type listedEngine struct {
	Name    string `json:"name"`
	BuiltIn bool   `json:"built_in"`
	Auto    int    `json:"auto"`    // its place in the order of "auto"; 0: never chosen
	Source  string `json:"source"`  // path of the executable of one that is not built in
	Version string `json:"version"` // of an engine of this project
	Doc     string `json:"doc"`     // likewise
}

// Run implements subcommand.
func (c *enginesListCommand) Run(args []string) int {
	fs := newFlags("engines list")
	explicit := configFlag(fs)
	asJSON := fs.Bool("json", false, "")
	if status, ok := c.parse(fs, c, args); !ok {
		return status
	}
	if status, ok := c.noArguments(fs); !ok {
		return status
	}
	ctx := context.Background()
	s, h, err := c.host(ctx, *explicit)
	if err != nil {
		return c.explainError(nil, nil, err)
	}
	defer h.Close()
	list := []listedEngine{}
	rows := [][]string{{"NAME", "AUTO", "VERSION", "FROM", "WHAT IT DOES"}}
	installed := host.InstalledEngines(s.options.EnginePath)
	separate := h.SeparateEngines()
	for _, name := range listOrder(h) {
		e := listedEngine{Name: name, Auto: 1 + slices.Index(h.AutoEngines(), name), Source: s.options.Engines[name].Source}
		if at, ok := s.options.Reattach[name]; ok {
			e.Source = at.Socket
		} else if e.Source == "" {
			e.Source = cmp.Or(separate[name], installed[name])
		}
		if info, ok := c.builtinInfo(ctx, s.options, name); ok {
			e.BuiltIn, e.Source, e.Version, e.Doc = true, "", info.Version, info.Doc
		} else if separate[name] != "" && e.Source == separate[name] {
			// One of this project, which stands beside this program. Others are
			// not run for a list.
			if info, err := h.EngineInfo(ctx, name); err == nil {
				e.Version, e.Doc = info.Version, info.Doc
			}
		}
		list = append(list, e)
		from := quote(e.Source)
		if e.BuiltIn {
			from = "built in"
		}
		place := "-"
		if e.Auto > 0 {
			place = strconv.Itoa(e.Auto)
		}
		rows = append(rows, []string{e.Name, place, cmp.Or(e.Version, "-"), from, e.Doc})
	}
	if *asJSON {
		return c.printJSON(list)
	}
	var b strings.Builder
	table(&b, "", rows)
	for _, name := range slices.Sorted(maps.Keys(separate)) {
		if !slices.ContainsFunc(list, func(e listedEngine) bool { return e.Name == name }) {
			fmt.Fprintf(&b, "\nThe engine %[1]s is a program of its own. To have it, put sbxhost-engine-%[1]s beside sbxhost:\n"+
				"  CGO_ENABLED=0 go install github.com/sbxhost/sbxhost/plugins/%[1]s/sbxhost-engine-%[1]s@latest\n", name)
		}
	}
	return c.print(b.String())
}

// enginesProbeCommand tries engines.
type enginesProbeCommand struct{ *app }

func (*enginesProbeCommand) Synopsis() string   { return "Try whether engines work on this machine" }
func (*enginesProbeCommand) takesCommand() bool { return false }

func (*enginesProbeCommand) Help() string {
	return `Usage: sbxhost engines probe [-config FILE] [-json] [NAME...]

Find out, by doing, whether engines work on this machine, why not, and what would
help. Without NAME it tries all.

Exit status: 0; 1 when an engine that was named does not work here; 125 when the
question could not be answered.`
}

const statusNotReady = 1

type probedEngine struct {
	Name     string            `json:"name"`
	Ready    bool              `json:"ready"`
	Reason   string            `json:"reason"` // why it is not ready
	Fix      string            `json:"fix"`
	Degraded []string          `json:"degraded"`
	Facts    map[string]string `json:"facts"`
	Error    string            `json:"error"` // why the question has no answer
}

// Run implements subcommand.
func (c *enginesProbeCommand) Run(args []string) int {
	fs := newFlags("engines probe")
	explicit := configFlag(fs)
	asJSON := fs.Bool("json", false, "")
	if status, ok := c.parse(fs, c, args); !ok {
		return status
	}
	ctx := context.Background()
	_, h, err := c.host(ctx, *explicit)
	if err != nil {
		return c.explainError(nil, nil, err)
	}
	defer h.Close()
	names, err := engineNames(h, fs.Args())
	if err != nil {
		return c.fail(err)
	}
	list := []probedEngine{}
	status := 0
	for _, name := range names {
		probe, err := h.EngineProbe(ctx, name)
		e := probedEngine{Name: name, Ready: probe.Ready, Reason: probe.Reason, Fix: probe.Fix, Degraded: probe.Degraded, Facts: probe.Facts}
		if e.Degraded == nil {
			e.Degraded = []string{}
		}
		if e.Facts == nil {
			e.Facts = map[string]string{}
		}
		switch {
		case err != nil:
			e.Ready, e.Error = false, err.Error()
			status = statusFailed
		case !e.Ready && fs.NArg() > 0 && status == 0:
			status = statusNotReady
		}
		list = append(list, e)
	}
	if *asJSON {
		if failed := c.printJSON(list); failed != 0 {
			return failed
		}
		return status
	}
	var b strings.Builder
	for _, e := range list {
		e.text(&b)
	}
	if failed := c.print(b.String()); failed != 0 {
		return failed
	}
	return status
}

func (e *probedEngine) text(b *strings.Builder) {
	switch {
	case e.Error != "":
		fmt.Fprintf(b, "%s: no answer: %s\n", e.Name, printable(e.Error))
	case e.Ready:
		fmt.Fprintf(b, "%s: works here\n", e.Name)
	default:
		fmt.Fprintf(b, "%s: does not work here: %s\n", e.Name, printable(e.Reason))
	}
	if e.Fix != "" {
		fmt.Fprintf(b, "  fix: %s\n", printable(e.Fix))
	}
	for _, d := range e.Degraded {
		fmt.Fprintf(b, "  degraded: %s\n", printable(d))
	}
	for _, name := range sortedKeys(e.Facts) {
		fmt.Fprintf(b, "  %s: %s\n", printable(name), printable(e.Facts[name]))
	}
}
