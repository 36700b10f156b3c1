package main

import "fmt"

// target is a goal of the project and what was measured of it.
type target struct {
	Name     string  `json:"name"`
	Measured float64 `json:"measured"`
	Bound    float64 `json:"bound"`
	AtLeast  bool    `json:"at_least"` // else at most
	Unit     string  `json:"unit"`
	Met      bool    `json:"met"`
}

func (t target) String() string {
	relation, verdict := "<=", "MISS"
	if t.AtLeast {
		relation = ">="
	}
	if t.Met {
		verdict = "ok"
	}
	return fmt.Sprintf("%-50s %9s   %s %-9s  %s", t.Name, number(t.Measured)+t.Unit, relation, number(t.Bound)+t.Unit, verdict)
}

// number is short: two decimals where they matter.
func number(v float64) string {
	if v >= 100 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// judge holds the results against the project's goals. What was not measured
// is not met.
func judge(r *results) []target {
	var list []target
	add := func(name string, measured, bound float64, atLeast bool, unit string) {
		met := measured > 0 && measured <= bound
		if atLeast {
			met = measured >= bound
		}
		list = append(list, target{name, measured, bound, atLeast, unit, met})
	}
	for _, goal := range []struct {
		name  string
		bound float64
	}{{nameLibrary, 1.35}, {nameLean, 3.8}, {nameReexec, 4.8}} {
		measured := 0.0
		for _, row := range r.Latency {
			if row.Name == goal.name {
				measured = row.Ratio
			}
		}
		add(goal.name+", of raw bwrap", measured, goal.bound, false, "x")
	}
	for _, row := range r.Throughput {
		if row.AtOnce == 8 {
			add("library, 8 at once, commands/s of raw bwrap", row.Ratio, 0.8, true, "x")
		}
	}
	for _, row := range r.Output.Rows {
		switch row.Name {
		case nameOutputFile:
			add("output by descriptor, of a plain pipe", row.Ratio, 0.9, true, "x")
		case nameOutputStreamed:
			add("output streamed", row.Rate, 400, true, " MB/s")
		}
	}
	for _, row := range r.Memory {
		if row.Name == nameLean || row.Name == nameMemoryFile {
			name := "resident, host + engine, " + nameLean
			if row.Name == nameMemoryFile {
				name = "resident, host + engine, library"
			}
			add(name, mebibytes(row.Host+row.Engine), 40, false, " MiB")
		}
	}
	return list
}

func mebibytes(kib int64) float64 { return float64(kib) / 1024 }
