package main

import (
	"fmt"
	"strings"
)

// printer writes one line. Sections that were not measured write none.
type printer = func(format string, args ...any)

func renderLatency(line printer, r *results) {
	if r.Latency == nil {
		return
	}
	line("\nOne command, /bin/true: %d rounds in turns", r.Rounds)
	renderRows(line, r.Latency)
}

func renderRows(line printer, rows []latencyRow) {
	line("  %-38s %9s %9s %12s", "", "p50 ms", "p95 ms", "of raw p50")
	for _, row := range rows {
		line("  %-38s %9.2f %9.2f %11.2fx", row.Name, row.P50, row.P95, row.Ratio)
	}
}

func renderSessions(line printer, t *sessionTable) {
	if t == nil {
		return
	}
	line("\nSessions")
	if t.Missing != "" {
		line("  not measured: %s", shorten(t.Missing))
		return
	}
	renderRows(line, t.Warm)
	line("  The first command, the engine's start and end included")
	renderRows(line, t.First)
}

func renderEngines(line printer, t *engineTable) {
	if t == nil {
		return
	}
	line("\nEngines, against a plain line of bubblewrap's, in a repository of 1,000 files")
	renderRows(line, t.Rows)
	for _, row := range t.AtOnce {
		line("  %-38s %9.0f/s %21.2fx", fmt.Sprintf("%d at once: %s", atOncePlain, row.Name), row.PerSecond, row.Ratio)
	}
	for _, row := range t.First {
		line("  %-38s %9.2f", fmt.Sprintf("first three of a host with %d MiB", row.ResidentMiB), row.P50)
	}
}

func renderProtections(line printer, t *protectionTable) {
	if t == nil {
		return
	}
	line("\nProtections, in a repository of 100 directories")
	renderRows(line, t.Warm)
	renderRows(line, t.Once)
	line("  %-52s %9s %12s", "what each costs", "ms", "of raw")
	for _, c := range t.Costs {
		line("  %-52s %9.2f %11.2fx", c.Name, c.Cost, c.Of)
	}
	if t.Limited != "" {
		line("  limits by cgroup, not measured: %s", shorten(t.Limited))
	}
}

func renderThroughput(line printer, rows []throughputRow) {
	if rows == nil {
		return
	}
	line("\nCommands a second")
	line("  %-34s %9s %9s %12s", "", "raw", "library", "of raw")
	for _, row := range rows {
		line("  %-34s %9.0f %9.0f %11.2fx", fmt.Sprintf("%d at once", row.AtOnce), row.Raw, row.Library, row.Ratio)
	}
}

func renderOutput(line printer, t *outputTable) {
	if t == nil {
		return
	}
	line("\nA command's output: %s", size(t.Bytes))
	line("  %-34s %9s %22s", "", "MB/s", "of the pipe")
	for _, row := range t.Rows {
		line("  %-34s %9.0f %21.2fx", row.Name, row.Rate, row.Ratio)
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
	line("  %-22s %9s %9s %7s %9s  %s", "", "size", "packages", "inits", "init ms", "slowest")
	for _, row := range rows {
		line("  %-22s %9s %9d %7d %9.2f  %s", row.Name, size(row.Bytes), row.Packages, row.Inits, row.Clock, row.slowest())
	}
	for _, row := range rows {
		switch {
		case len(row.Heavy) == 0:
			line("  %s does not link: %s", row.Name, row.Light)
		default:
			line("  %s LINKS %s", row.Name, strings.Join(row.Heavy, ", "))
		}
	}
}

// shorten keeps a reason to the terminal's columns.
func shorten(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if r := []rune(text); len(r) > 60 {
		return string(r[:59]) + "…"
	}
	return text
}
