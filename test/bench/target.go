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

// judge holds the results against the goals of the sections that were measured.
// What is missing from one is not met.
func judge(r *results) []target {
	var list []target
	add := func(name string, measured, bound float64, atLeast bool, unit string) {
		met := measured > 0 && measured <= bound
		if atLeast {
			met = measured >= bound
		}
		list = append(list, target{name, measured, bound, atLeast, unit, met})
	}
	if t := r.Engines; t != nil {
		of := func(name string) float64 { return ratio(p50Of(t.Rows, name), p50Of(t.Rows, namePlain)) }
		add("native, no session, of plain bwrap", of("native, no session"), 1.1, false, "x")
		add("native, session, of plain bwrap", of("native, session"), .95, false, "x")
		add("native, prepared, of plain bwrap", of("native, session, prepared"), .55, false, "x")
		add("landlock, prepared, of plain bwrap", of("landlock, session, prepared"), .75, false, "x")
		add("native, one-shot, of plain bwrap", of("native, one-shot"), 3.5, false, "x")
		add("native, 200 masks, of none", ratio(of("native, session, 200 masks"), of("native, session")), 1.15, false, "x")
		add("native, 10 overlays, of none", ratio(of("native, session, 10 overlays"), of("native, session")), 1.05, false, "x")
		for _, row := range t.AtOnce {
			if row.Name == "native, session" {
				add("native, 8 at once, commands/s of plain bwrap", row.Ratio, 1, true, "x")
			}
		}
		if len(t.First) == 2 {
			add("first three with 512 MiB resident, of none", ratio(t.First[1].P50, t.First[0].P50), 1.05, false, "x")
		}
	}
	if t := r.Search; t != nil {
		for i, bound := range [...]float64{3, 5} {
			row := t.OneShot[1+2*i]
			add(row.Name+", of plain bwrap", row.Ratio, bound, false, "x")
		}
	}
	if t := r.Network; t != nil {
		// Noise can make it less than nothing, which is no miss.
		add("a list of names, ready, more than without", max(.01, t.Ready[1].P50-t.Ready[0].P50), 4, false, " ms")
		add("small requests through the gate, of direct", t.Small[1].Ratio, 1.3, false, "x")
		add("small requests in TLS through the gate, of direct", t.TLS[1].Ratio, 1.3, false, "x")
		add("small requests through the gate, of a plain relay", ratio(t.Small[1].P50, t.Small[2].P50), 1.1, false, "x")
		add("download through the gate, speed of direct", ratio(t.Big[0].P50, t.Big[1].P50), .7, true, "x")
		add("the gate at 100 connections", max(.01, t.MiB), 10, false, " MiB")
	}
	if t := r.Review; t != nil {
		for i, c := range reviewCommands {
			bound := 1.1
			if c.name == "git status" {
				bound = 1.3
			}
			for j, which := range [...]string{"first of a review", "in a review"} {
				measured := 0.
				if rows := t.Commands[i]; rows != nil {
					measured = rows[1+j].Ratio
				}
				add(c.name+", "+which+", of direct", measured, bound, false, "x")
			}
			if rows := t.Commands[i]; len(rows) == 4 {
				add(c.name+", first of a review, of a new overlay", ratio(rows[1].P50, rows[3].P50), 1.1, false, "x")
			}
		}
		for _, row := range t.Carrying {
			add(row.Name, row.P50, 500, false, " ms")
		}
	}
	for _, row := range r.Memory {
		of, is := map[string]string{nameLean: nameLean, nameMemoryFile: "library"}[row.Name]
		if is {
			add("resident, host + engine, "+of, mebibytes(row.Host+row.Engine), 32, false, " MiB")
		}
	}
	return list
}

func mebibytes(kib int64) float64 { return float64(kib) / 1024 }
