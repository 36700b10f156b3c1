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

	renderLatency(line, r)
	renderSessions(line, r.Sessions)
	renderEngines(line, r.Engines)
	renderProtections(line, r.Protections)
	renderThroughput(line, r.Throughput)
	renderOutput(line, r.Output)
	renderMemory(line, r.Memory)
	if r.Phases != nil {
		line("\nWhere the time of a one-shot run goes, ms (medians)")
		renderPhases(line, *r.Phases)
	}
	renderBinaries(line, r.Binaries)

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
