package main

import (
	"slices"
	"strings"
	"testing"
)

func TestPercentile(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		values []float64
		p      int
		want   float64
	}{
		{[]float64{7}, 95, 7},
		{[]float64{3, 1, 2}, 50, 2},
		{[]float64{4, 1, 3, 2}, 50, 2},
		{[]float64{5, 4, 3, 2, 1}, 0, 1},
		{[]float64{1, 2, 3, 4, 5}, 100, 5},
		{[]float64{1, 2, 3, 4, 5}, 95, 5},
	} {
		if got := percentile(test.values, test.p); got != test.want {
			t.Errorf("percentile(%v, %v) = %v, want %v", test.values, test.p, got, test.want)
		}
	}
}

func TestGoals(t *testing.T) {
	t.Parallel()
	r := report{medians: map[string]float64{"plain": 10, "slow": 12}}
	r.atMost("a", r.of("slow", "plain"), 1.2, "x")
	r.atMost("b", r.of("slow", "plain"), 1.1, "x")
	r.atMost("nothing measured", r.of("none", "plain"), 1, "x")
	r.atMost("nothing to compare with", r.of("plain", "none"), 1, "x")
	r.atLeast("c", 1, 1, "x")
	r.atLeast("d", .9, 1, "x")
	var met []bool
	for _, g := range r.goals {
		met = append(met, g.met())
	}
	if want := []bool{true, false, false, false, true, false}; !slices.Equal(met, want) {
		t.Errorf("met %v, want %v", met, want)
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		args   string
		rounds int
		bytes  int64
		bad    bool
	}{
		{"", 200, 2 << 30, false},
		{"-n 7 -bytes 9", 7, 9, false},
		{"-only engines|memory", 200, 2 << 30, false},
		{"-only (", 0, 0, true},
		{"-n 0", 0, 0, true},
		{"-bytes 0", 0, 0, true},
		{"-bogus", 0, 0, true},
		{"bin", 0, 0, true},
	} {
		o, err := parseOptions(strings.Fields(test.args), new(strings.Builder))
		if (err != nil) != test.bad || !test.bad && (o.rounds != test.rounds || o.bytes != test.bytes) {
			t.Errorf("%q: got %+v, %v", test.args, o, err)
		}
	}
}
