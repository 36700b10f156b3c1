package doctor

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"

	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/engines"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/setup"
	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/internal/approvals"
	"github.com/sbxhost/sbxhost/internal/hostpath"
)

type doctorReport struct {
	Findings []finding             `json:"findings"`
	Engines  []engines.ProbeResult `json:"engines"`
	// Unacknowledged are files that commands have made, that act outside of sandboxes, and that
	// nobody has acknowledged.
	Unacknowledged []approvals.Finding `json:"made"`
}

// Command reports what this machine allows.
func Command(a *cli.App, fs *flag.FlagSet) func() error {
	asJSON := cli.JSONFlag(fs)
	seen := fs.Bool("seen", false, "")
	return setup.WithHost(a, cli.ConfigFlag(fs), true, func(ctx context.Context, s *setup.Setup, h *host.Host) error {
		switch {
		case fs.NArg() > 0 && *seen:
			return cli.Usage(fs, errors.New("-seen takes no ENGINE"))
		case fs.NArg() > 0:
			return engines.ProbeNamed(ctx, a, h, fs.Args(), *asJSON)
		case *seen:
			list, err := h.AcknowledgeFindings(ctx)
			fmt.Fprint(a.Stdout, madeByCommands("Seen:", list))
			return err
		}
		report := doctorReport{Findings: examine(a)}
		var err error
		if report.Unacknowledged, err = h.Findings(); err != nil {
			report.Findings = append(report.Findings, finding{Name: "what commands have made", State: stateUnknown, Found: err.Error()})
		}
		status := engines.StatusNotReady
		for _, name := range engines.Names(h) {
			e := engines.Probe(ctx, h, name)
			info, err := h.EngineInfo(ctx, name)
			if err != nil {
				e.Ready, e.Error = false, err.Error()
			}
			e.ListEntry = engines.List(s, h, name, info)
			report.Engines = append(report.Engines, e)
			if e.Ready && !info.Features.Has("unconfined") {
				status = 0
			}
		}
		return cmp.Or(a.Result(*asJSON, report, report.text()), cli.Exit(status))
	})
}

func (r *doctorReport) text() string {
	var b strings.Builder
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "%-8s %s: %s\n", f.State, f.Name, cli.Printable(f.Found))
		if f.Consequence != "" {
			fmt.Fprintf(&b, "           %s\n", cli.Printable(f.Consequence))
		}
		if f.Fix != "" {
			fmt.Fprintf(&b, "           fix: %s\n", cli.Printable(f.Fix))
		}
	}
	b.WriteString("\nEngines:\n" + engines.Table(r.Engines) + "\n")
	for i := range r.Engines {
		r.Engines[i].Text(&b)
	}
	b.WriteString(madeByCommands("\nMade by commands (sbxhost doctor -seen empties this list):", r.Unacknowledged))
	return b.String()
}

func madeByCommands(heading string, list []approvals.Finding) string {
	var b strings.Builder
	for _, t := range list {
		if b.Len() == 0 {
			b.WriteString(heading + "\n")
		}
		fmt.Fprintf(&b, "  %s: %s\n", hostpath.Quote(t.Path), t.Description)
	}
	return b.String()
}
