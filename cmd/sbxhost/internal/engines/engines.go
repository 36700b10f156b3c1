// Package engines describes and tests engines.
package engines

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/setup"
	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/internal/launch"
	"github.com/sbxhost/sbxhost/shared"
)

// engineNames returns the requested names. An unknown name is an error.
func engineNames(h *host.Host, asked []string) ([]string, error) {
	known := h.EngineNames()
	names := make([]string, 0, len(asked))
	for _, name := range asked {
		name = launch.Name(name)
		// An engine that is a separate program may be missing; the host then explains more than its
		// absence.
		if _, separate := h.SeparateEngines()[name]; !separate && !slices.Contains(known, name) {
			return nil, cli.Hint(fmt.Errorf("there is no engine %q", name), "there are "+strings.Join(known, ", "))
		}
		names = append(names, name)
	}
	return names, nil
}

// Names returns all names, first those from which "auto" chooses.
func Names(h *host.Host) []string {
	names, auto := h.EngineNames(), h.AutoEngines()
	rest := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return slices.Contains(auto, n) })
	return append(slices.DeleteFunc(auto, func(n string) bool { return !slices.Contains(names, n) }), rest...)
}

// ListEntry is one engine in a list.
type ListEntry struct {
	BuiltIn bool   `json:"built_in"`
	Auto    int    `json:"auto"`    // its place in the order of "auto"; 0 means never chosen
	Source  string `json:"source"`  // path of its executable; empty if it is built in
	Version string `json:"version"` // empty if sbxhost could not ask the engine
	Doc     string `json:"doc"`     // empty if sbxhost could not ask the engine
}

// List describes an engine by its own info.
func List(s *setup.Setup, h *host.Host, name string, info shared.Info) *ListEntry {
	e := &ListEntry{Auto: 1 + slices.Index(h.AutoEngines(), name), Source: cmp.Or(s.Options.Engines[name].Source, h.SeparateEngines()[name]),
		Version: info.Version, Doc: info.Doc}
	e.BuiltIn = e.Source == ""
	return e
}

// Table formats listed engines.
func Table(list []ProbeResult) string {
	rows := [][]string{{"NAME", "AUTO", "VERSION", "FROM", "WHAT IT DOES"}}
	for _, e := range list {
		from, place := cli.Quote(e.Source), "-"
		if e.BuiltIn {
			from = "built in"
		}
		if e.Auto > 0 {
			place = strconv.Itoa(e.Auto)
		}
		rows = append(rows, []string{e.Name, place, cli.Printable(cmp.Or(e.Version, "-")), from, cli.Printable(e.Doc)})
	}
	return cli.Table("", rows)
}

const StatusNotReady = 1

type ProbeResult struct {
	Name string `json:"name"`
	*ListEntry
	shared.Probe
	Error string `json:"error"` // why sbxhost has no answer
}

// ProbeNamed probes the engines of those names.
func ProbeNamed(ctx context.Context, a *cli.App, h *host.Host, asked []string, asJSON bool) error {
	names, err := engineNames(h, asked)
	if err != nil {
		return err
	}
	list := []ProbeResult{}
	var b strings.Builder
	status := 0
	for _, name := range names {
		e := Probe(ctx, h, name)
		list = append(list, e)
		e.Text(&b)
		if e.Error != "" {
			status = cli.StatusFailed
		} else if !e.Ready && status == 0 {
			status = StatusNotReady
		}
	}
	return cmp.Or(a.Result(asJSON, list, b.String()), cli.Exit(status))
}

// probeLimit is longer than the probe of any engine of sbxhost takes.
const probeLimit = 40 * time.Second

// Prober is a *host.Host.
type Prober interface {
	EngineProbe(ctx context.Context, name string) (shared.Probe, error)
}

func Probe(ctx context.Context, h Prober, name string) ProbeResult {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	probe, err := h.EngineProbe(ctx, name)
	e := ProbeResult{Name: name, Probe: probe}
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("its Probe has not returned in %v", probeLimit)
	}
	if err != nil {
		e.Error = err.Error()
	}
	if e.Degraded == nil {
		e.Degraded = []string{}
	}
	if e.Facts == nil {
		e.Facts = map[string]string{}
	}
	return e
}

func (e *ProbeResult) Text(b *strings.Builder) {
	switch {
	case e.Error != "":
		fmt.Fprintf(b, "%s: no answer: %s\n", e.Name, cli.Printable(e.Error))
	case e.Ready:
		fmt.Fprintf(b, "%s: works here\n", e.Name)
	default:
		fmt.Fprintf(b, "%s: does not work here: %s\n", e.Name, cli.Printable(e.Reason))
	}
	if e.Fix != "" {
		fmt.Fprintf(b, "  fix: %s\n", cli.Printable(e.Fix))
	}
	for _, d := range e.Degraded {
		fmt.Fprintf(b, "  degraded: %s\n", cli.Printable(d))
	}
	for _, name := range cli.SortedKeys(e.Facts) {
		fmt.Fprintf(b, "  %s: %s\n", cli.Printable(name), cli.Printable(e.Facts[name]))
	}
}
