package main

import (
	"math"
	"slices"
	"strings"
	"testing"
)

func TestPercentile(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		values []float64
		p      float64
		want   float64
	}{
		{nil, 50, 0},
		{[]float64{7}, 95, 7},
		{[]float64{3, 1, 2}, 50, 2},
		{[]float64{4, 1, 3, 2}, 50, 2.5},
		{[]float64{1, 2, 3, 4, 5}, 0, 1},
		{[]float64{1, 2, 3, 4, 5}, 100, 5},
		{[]float64{1, 2, 3, 4, 5}, 95, 4.8},
		{[]float64{1, 2}, 1000, 2},
	} {
		before := slices.Clone(test.values)
		if got := percentile(test.values, test.p); math.Abs(got-test.want) > 1e-9 {
			t.Errorf("percentile(%v, %v) = %v, want %v", test.values, test.p, got, test.want)
		}
		if !slices.Equal(before, test.values) {
			t.Errorf("percentile changed %v into %v", before, test.values)
		}
	}
	if got := ratio(3, 0); got != 0 {
		t.Errorf("ratio(3, 0) = %v", got)
	}
}

func TestParseInitTrace(t *testing.T) {
	t.Parallel()
	got := parseInitTrace(`init runtime @0.021 ms, 0.037 ms clock, 0 bytes, 0 allocs
init google.golang.org/grpc @5.3 ms, 0.071 ms clock, 28328 bytes, 478 allocs
init errors @0.4 ms, 0 ms clock, 0 bytes, 0 allocs
init nonsense @x ms, NaN ms clock
init is what this line of the program's own begins with
usage: nothing
`)
	if len(got.inits) != 3 || math.Abs(got.clock-.108) > 1e-9 || got.inits[1].name != "google.golang.org/grpc" {
		t.Errorf("got %+v", got)
	}
}

func TestStatusField(t *testing.T) {
	t.Parallel()
	const text = "Name:\tsbxhost\nPPid:\t17\nVmHWM:\t   18432 kB\nVmRSS:\t 9 kB\n"
	for name, want := range map[string]int64{"PPid": 17, "VmHWM": 18432, "VmSwap": 0, "Name": 0} {
		if got := statusField(text, name); got != want {
			t.Errorf("%s: got %d, want %d", name, got, want)
		}
	}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	r := results{
		Engines: &engineTable{
			Rows:   []row{{Name: namePlain, P50: 10}, {Name: "native, no session", P50: 11}, {Name: "native, session", P50: 9.6}, {Name: "native, session, 10 overlays", P50: 10}},
			AtOnce: []atOnceRow{{Name: namePlain, Ratio: 1}, {Name: "native, session", Ratio: 0.99}},
			First:  []firstRow{{0, 10}, {512, 10.4}},
		},
		Memory: []memoryRow{{nameLean, peak{20 << 10, 11 << 10}}, {nameMemoryFile, peak{20 << 10, 13 << 10}}},
	}
	var met []bool
	for _, target := range judge(&r) {
		met = append(met, target.Met)
	}
	if got := judge(&results{}); len(got) != 0 {
		t.Errorf("of nothing, %v was judged", got)
	}
	// Prepared, one-shot, masks and landlock are not among the results.
	if want := []bool{true, false, false, false, false, false, true, false, true, true, false}; !slices.Equal(met, want) {
		t.Errorf("met %v, want %v", met, want)
	}
}

func TestSlowestOf(t *testing.T) {
	t.Parallel()
	got := slowestOf(map[string][]float64{"a": {1, 9, 1}, "b": {2}, "c": {3, 3}, "d": {1}})
	if want := []packageCost{{"c", 3}, {"b", 2}, {"a", 1}}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
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

func FuzzParseInitTrace(f *testing.F) {
	f.Add("init errors @0.4 ms, 0.01 ms clock, 0 bytes, 0 allocs\n")
	f.Add("init errors @0.4 ms, NaN ms clock\ninit x @1 ms, -1 ms clock\n")
	f.Fuzz(func(t *testing.T, text string) {
		got := parseInitTrace(text)
		if got.clock < 0 || math.IsNaN(got.clock) || len(got.inits) == 0 && got.clock > 0 {
			t.Errorf("%q: %+v", text, got)
		}
	})
}
