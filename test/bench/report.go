package main

import (
	"context"
	"fmt"
	"strings"
)

// A report is what was measured, for a person with a terminal of 100 columns.
type report struct {
	text    strings.Builder
	medians map[string]float64 // of what was compared last under a name
	goals   []goal
}

// goal is one of the project's and what was measured of it.
type goal struct {
	name            string
	measured, bound float64
	unit            string
	relation        string // of what was measured to bound: <= or >=
}

// met is false of what could not be measured.
func (g goal) met() bool {
	if g.relation == ">=" {
		return g.measured >= g.bound
	}
	return g.measured > 0 && g.measured <= g.bound
}

func (r *report) line(format string, args ...any) { fmt.Fprintf(&r.text, format+"\n", args...) }

// compare lets contenders take turns, and shows what each took, as a ratio to the first, too.
func (r *report) compare(ctx context.Context, title string, group []contender, rounds int) {
	samples, err := takeTurns(ctx, group, rounds)
	check(err)
	r.line("\n%s", title)
	r.line("  %-45s %9s %9s %12s", "", "p50 ms", "p95 ms", "of the first")
	for i, c := range group {
		r.medians[c.name] = percentile(samples[i], 50)
		r.line("  %-45s %9.2f %9.2f %11.2fx", c.name, r.medians[c.name], percentile(samples[i], 95), r.of(c.name, group[0].name))
	}
}

// of is the ratio of two medians, and 0 where there is nothing to compare.
func (r *report) of(name, first string) float64 {
	if r.medians[first] == 0 {
		return 0
	}
	return r.medians[name] / r.medians[first]
}

func (r *report) atMost(name string, measured, bound float64, unit string) {
	r.goals = append(r.goals, goal{name, measured, bound, unit, "<="})
}

// near is a goal for a ratio of two medians.
func (r *report) near(name, first string, bound float64) {
	r.atMost(name+", of "+first, r.of(name, first), bound, "x")
}

func (r *report) atLeast(name string, measured, bound float64, unit string) {
	r.goals = append(r.goals, goal{name, measured, bound, unit, ">="})
}

func (r *report) String() string {
	r.line("\nGoals")
	for _, g := range r.goals {
		verdict := "MISS"
		if g.met() {
			verdict = "ok"
		}
		r.line("  %-52s %8.2f%-4s %s %7.2f%-4s %s", g.name, g.measured, g.unit, g.relation, g.bound, g.unit, verdict)
	}
	return r.text.String()
}
