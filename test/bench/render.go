package main

import (
	"fmt"
	"io"
	"path"
	"strings"
)

// render writes the results for a person with a terminal of 100 columns.
func render(w io.Writer, r *results) error {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	user := "an ordinary user"
	if r.Machine.Root {
		user = "root"
	}
	line("Linux %s %s, %d x %s, load %s", r.Machine.Kernel, r.Machine.Arch, r.Machine.CPUs, r.Machine.CPU, r.Machine.Load)
	line("bubblewrap %s, %s, as %s", r.Machine.Bwrap, r.Machine.Go, user)

	renderEngines(line, r.Engines)
	if t := r.Search; t != nil {
		line("\nWorkspaces of %s files", thousands(t.Files))
		renderRows(line, t.OneShot, "plain p50")
		line("\nThe search alone")
		renderRows(line, t.Alone, "the first")
	}
	if r.Telemetry != nil {
		line("\nTelemetry")
		renderRows(line, r.Telemetry, "plain p50")
	}
	if t := r.Network; t != nil {
		for _, part := range []struct {
			title string
			rows  []row
		}{{"ready", t.Ready}, {"each on a connection of its own", t.Small}, {"each on a connection of its own, in TLS", t.TLS}, {"one connection", t.Big}} {
			line("\nNetwork, %s", part.title)
			renderRows(line, part.rows, "the first")
		}
	}
	if t := r.Review; t != nil {
		line("\nReviews")
		for _, rows := range append(t.Commands, t.Carrying) {
			if rows != nil {
				renderRows(line, rows, "the first")
			}
		}
	}
	renderMemory(line, r.Memory)
	renderBinaries(line, r.Binaries)

	line("\nTargets")
	for _, t := range r.Targets {
		line("  %v", t)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// printer writes one line. Sections that were not measured write none.
type printer = func(format string, args ...any)

// renderRows writes rows with their ratios to the first of them.
func renderRows(line printer, rows []row, first string) {
	line("  %-38s %9s %9s %12s", "", "p50 ms", "p95 ms", "of "+first)
	for _, row := range rows {
		line("  %-38s %9.2f %9.2f %11.2fx", row.Name, row.P50, row.P95, row.Ratio)
	}
}

func renderEngines(line printer, t *engineTable) {
	if t == nil {
		return
	}
	line("\nEngines, against a plain line of bubblewrap's, in a repository of 1,000 files")
	renderRows(line, t.Rows, "plain p50")
	for _, row := range t.AtOnce {
		line("  %-38s %9.0f/s %21.2fx", fmt.Sprintf("%d at once: %s", atOncePlain, row.Name), row.PerSecond, row.Ratio)
	}
	for _, row := range t.First {
		line("  %-38s %9.2f", fmt.Sprintf("first three of a host with %d MiB", row.ResidentMiB), row.P50)
	}
}

func renderMemory(line printer, rows []memoryRow) {
	if rows == nil {
		return
	}
	line("\nPeak of resident memory, MiB")
	line("  %-52s %7s %7s %7s", "", "host", "engine", "sum")
	for _, row := range rows {
		line("  %-52s %7.1f %7.1f %7.1f", row.Name, mebibytes(row.Host), mebibytes(row.Engine), mebibytes(row.Host+row.Engine))
	}
}

func renderBinaries(line printer, rows []binaryRow) {
	if rows == nil {
		return
	}
	line("\nExecutables")
	line("  %-22s %9s %7s %9s  %s", "", "MiB", "inits", "init ms", "slowest")
	for _, row := range rows {
		var slowest []string
		for _, p := range row.Slowest[:min(2, len(row.Slowest))] {
			slowest = append(slowest, fmt.Sprintf("%s %.2f", path.Base(p.Name), p.Clock))
		}
		line("  %-22s %9.1f %7d %9.2f  %.40s", row.Name, mebibytes(row.Bytes>>10), row.Inits, row.Clock, strings.Join(slowest, ", "))
	}
}
