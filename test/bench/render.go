package main

import (
	"fmt"
	"io"
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

	line("\nOne command, /bin/true: %d rounds in turns", r.Rounds)
	line("  %-34s %9s %9s %12s", "", "p50 ms", "p95 ms", "of raw p50")
	for _, row := range r.Latency {
		line("  %-34s %9.2f %9.2f %11.2fx", row.Name, row.P50, row.P95, row.Ratio)
	}

	line("\nCommands a second")
	line("  %-34s %9s %9s %12s", "", "raw", "library", "of raw")
	for _, row := range r.Throughput {
		line("  %-34s %9.0f %9.0f %11.2fx", fmt.Sprintf("%d at once", row.AtOnce), row.Raw, row.Library, row.Ratio)
	}

	line("\nA command's output: %s", size(r.Output.Bytes))
	line("  %-34s %9s %22s", "", "MB/s", "of the pipe")
	for _, row := range r.Output.Rows {
		line("  %-34s %9.0f %21.2fx", row.Name, row.Rate, row.Ratio)
	}

	line("\nPeak of resident memory, MiB")
	line("  %-52s %7s %7s %7s", "", "host", "engine", "sum")
	for _, row := range r.Memory {
		line("  %-52s %7.1f %7.1f %7.1f", row.Name, mebibytes(row.Host), mebibytes(row.Engine), mebibytes(row.Host+row.Engine))
	}

	line("\nWhere the time of a one-shot run goes, ms (medians)")
	renderPhases(line, r.Phases)

	line("\nExecutables")
	line("  %-22s %9s %9s %7s %9s  %s", "", "size", "packages", "inits", "init ms", "slowest")
	for _, row := range r.Binaries {
		line("  %-22s %9s %9d %7d %9.2f  %s %.2f", row.Name, size(row.Bytes), row.Packages, row.Inits, row.Clock, lastOf(row.Slowest), row.SlowTime)
	}
	for _, row := range r.Binaries {
		switch {
		case row.Name == "sbxhost":
		case len(row.Heavy) == 0:
			line("  %s links no hcl, no cli, no telemetry, no host", row.Name)
		default:
			line("  %s LINKS %s", row.Name, strings.Join(row.Heavy, ", "))
		}
	}

	line("\nTargets")
	for _, t := range r.Targets {
		line("  %v", t)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func renderPhases(line func(string, ...any), t phaseTable) {
	if t.Missing != "" {
		line("  not measured: %s", t.Missing)
		return
	}
	row := func(name string, cells ...string) {
		text := fmt.Sprintf("  %-52s", name)
		for _, c := range cells {
			text += fmt.Sprintf(" %10s", c)
		}
		line("%s", text)
	}
	row("", "lean", "re-exec")
	cells := make([]string, len(t.Columns))
	for k, name := range t.Names {
		for i, c := range t.Columns {
			cells[i] = "-" // in the next one
			if c.Medians[k] != nil {
				cells[i] = fmt.Sprintf("%.2f", *c.Medians[k])
			}
		}
		row(name, cells...)
	}
	for i, c := range t.Columns {
		cells[i] = fmt.Sprintf("%.2f", c.Traced)
	}
	row("the whole, under strace", cells...)
	for i, c := range t.Columns {
		cells[i] = fmt.Sprintf("%.2f", c.Plain)
	}
	row("the whole without, from above", cells...)
}

// size is a number of bytes for people.
func size(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.4g GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.3g MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.3g KiB", float64(n)/(1<<10))
}

// lastOf is the end of an import path.
func lastOf(pkg string) string { return pkg[strings.LastIndex(pkg, "/")+1:] }
