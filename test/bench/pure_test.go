package main

import (
	"math"
	"reflect"
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

func TestRawFromPlan(t *testing.T) {
	t.Parallel()
	raw, err := rawFromPlan([]string{"/usr/bin/bwrap", "--add-seccomp-fd", "<system calls>", "--disable-userns", "--unshare-net", "--perms", "0644", "--file", "</etc/passwd>", "/etc/passwd",
		"--ro-bind", "/usr", "/usr", "--file", "</etc/group>", "/etc/group", "--bind-fd", "</src/w>", "/w", "--", "<init>", "sbxhost-init", "<control>"}, "")
	if err != nil {
		t.Fatal(err)
	}
	want := rawLaunch{
		argv: []string{"/usr/bin/bwrap", "--unshare-net", "--perms", "0644", "--file", "3", "/etc/passwd",
			"--ro-bind", "/usr", "/usr", "--file", "4", "/etc/group", "--bind", "/src/w", "/w"},
		files: []string{"/etc/passwd", "/etc/group"},
	}
	if !reflect.DeepEqual(raw, want) {
		t.Errorf("got %q, want %q", raw, want)
	}
	raw, err = rawFromPlan([]string{"/usr/bin/bwrap", "--add-seccomp-fd", "<system calls>", "--disable-userns", "--ro-bind-fd", "</a>", "/b", "--", "<init>"}, "/f")
	if err != nil {
		t.Fatal(err)
	}
	want = rawLaunch{argv: []string{"/usr/bin/bwrap", "--add-seccomp-fd", "3", "--disable-userns", "--ro-bind", "/a", "/b"}, files: []string{"/f"}}
	if !reflect.DeepEqual(raw, want) {
		t.Errorf("got %q, want %q", raw, want)
	}
	for _, bad := range [][]string{
		nil,
		{"--", "<init>"},
		{"/usr/bin/bwrap", "<init>"},
		{"/usr/bin/bwrap", "--ro-bind", "/usr", "/usr", "--"},
		{"/usr/bin/bwrap", "--seccomp", "<filter>", "--", "<init>"},
	} {
		if raw, err := rawFromPlan(bad, ""); err == nil {
			t.Errorf("%q gave %q", bad, raw)
		}
	}
}

func TestParseTraceLine(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		line string
		want traceLine
		ok   bool
	}{
		{`101 1700000000.000250 execve("/bin/true", ["true"], 0x7ffd /* 3 vars */) = 0`,
			traceLine{pid: 101, at: 1700000000000.25, call: "execve", args: `"/bin/true", ["true"], 0x7ffd /* 3 vars */) = 0`}, true},
		{`  7   1.000000 exit_group(0)   = ?`, traceLine{}, false},
		{`7   1.000000 exit_group(0)   = ?`, traceLine{pid: 7, at: 1000, call: "exit_group", args: "0)   = ?"}, true},
		{`7 1.000000 execve("/x", ["x"], 0x1 <unfinished ...>`, traceLine{pid: 7, at: 1000, call: "execve", args: `"/x", ["x"], 0x1 <unfinished ...>`}, true},
		{`7 1.000000 execve("/x", ["x"], 0x1) = -1 ENOENT (No such file or directory)`,
			traceLine{pid: 7, at: 1000, call: "execve", args: `"/x", ["x"], 0x1) = -1 ENOENT (No such file or directory)`, failed: true}, true},
		{`7 1.000000 +++ exited with 0 +++`, traceLine{pid: 7, at: 1000, call: "exited"}, true},
		{`7 1.000000 +++ killed by SIGKILL +++`, traceLine{pid: 7, at: 1000, call: "exited"}, true},
		{`7 1.000000 --- SIGCHLD {si_signo=SIGCHLD, si_code=CLD_EXITED} ---`, traceLine{}, false},
		{`7 1.000000 <... execve resumed>) = 0`, traceLine{}, false},
		{`7 1.5 exit_group(0) = ?`, traceLine{}, false},
		{`x 1.000000 exit_group(0) = ?`, traceLine{}, false},
		{``, traceLine{}, false},
	} {
		got, ok := parseTraceLine(test.line)
		if ok != test.ok || ok && got != test.want {
			t.Errorf("%s\ngot  %+v, %v\nwant %+v, %v", test.line, got, ok, test.want, test.ok)
		}
	}
}

// oneShotTrace is that of a whole run, shortened.
const oneShotTrace = `10 100.000000 execve("/b/sbxhost", ["/b/sbxhost", "exec"], 0x1 /* 3 vars */) = 0
10 100.001000 openat(AT_FDCWD, "/proc/self/maps", O_RDONLY|O_CLOEXEC) = 3
12 100.004000 openat(AT_FDCWD, "/t/config.hcl", O_RDONLY|O_CLOEXEC) = 5
12 100.005000 mkdirat(AT_FDCWD, "/tmp/sbxhost-1", 0700) = 0
12 100.005100 mkdirat(AT_FDCWD, "/tmp/sbxhost-1/plugin-dir2", 0700) = 0
20 100.006000 execve("/b/sbxhost-engine-native", ["/b/sbxhost-engine-native"], 0x1 /* 6 vars */ <unfinished ...>
12 100.006100 --- SIGURG {si_signo=SIGURG, si_code=SI_TKILL, si_pid=10, si_uid=0} ---
20 100.006200 <... execve resumed>) = 0
20 100.009000 getsockopt(3, SOL_SOCKET, SO_TYPE, [1], [4]) = 0
21 100.009500 listen(6, 4096) = 0
30 100.012000 execve("/proc/self/fd/4", ["/proc/self/fd/4", "sbxhost-holder", "true"], 0x1 /* 1 var */) = 0
31 100.016000 execve("/proc/self/fd/29", ["/proc/self/fd/29", "sbxhost-init", "30", "3", "4"], 0x1 /* 0 vars */) = 0
31 100.017000 close_range(3, 4294967295, CLOSE_RANGE_CLOEXEC) = 0
40 100.017500 execve("/usr/local/bin/true", ["true"], 0x1) = -1 ENOENT (No such file or directory)
40 100.018000 execve("/bin/true", ["/bin/true"], 0x1 /* 5 vars */) = 0
12 100.018500 exit_group(0) = ?
40 100.019000 exit_group(0) = ?
40 100.019100 +++ exited with 0 +++
31 100.019200 exit_group(0) = ?
10 100.022000 +++ exited with 0 +++
`

func parseTrace(text string) (lines []traceLine) {
	for line := range strings.Lines(text) {
		if l, ok := parseTraceLine(line); ok {
			lines = append(lines, l)
		}
	}
	return lines
}

func TestPhases(t *testing.T) {
	t.Parallel()
	nan := math.NaN()
	without := func(call string) (kept []traceLine) {
		for _, l := range parseTrace(oneShotTrace) {
			if l.call != call {
				kept = append(kept, l)
			}
		}
		return kept
	}
	for name, test := range map[string]struct {
		lines []traceLine
		want  []float64
	}{
		"whole":          {parseTrace(oneShotTrace), []float64{4, 1, 1, 3, .5, 2.5, 4, 1, 1, 1, 3}},
		"without openat": {without("openat"), []float64{nan, 5, 1, 3, .5, 2.5, 4, 1, 1, 1, 3}},
		"no end":         {without("exited"), nil},
		"nothing":        {nil, nil},
		"re-execution": {parseTrace(strings.Replace(oneShotTrace, `execve("/b/sbxhost-engine-native"`, `execve("/proc/self/exe"`, 1)),
			[]float64{4, 1, 1, 3, .5, 2.5, 4, 1, 1, 1, 3}},
	} {
		got, ok := phases(oneShotMarks("/t/config.hcl"), test.lines)
		if ok != (test.want != nil) || !alike(got, test.want) {
			t.Errorf("%s: got %v, %v, want %v", name, got, ok, test.want)
		}
	}
}

func TestRefine(t *testing.T) {
	t.Parallel()
	nan := math.NaN()
	for _, test := range []struct{ coarse, fine, want []float64 }{
		{[]float64{1, 2}, []float64{9, 9}, []float64{1, 2}},
		{[]float64{nan, 10, 4}, []float64{30, 20, 7}, []float64{6, 4, 4}},
		{[]float64{nan, nan, 10}, []float64{nan, 1, 1}, []float64{nan, 5, 5}},
		{[]float64{nan, 10}, []float64{nan, 0}, []float64{nan, 10}},
		{[]float64{nan, 10}, []float64{5, nan}, []float64{nan, 10}},
		{[]float64{3, nan}, []float64{1, 1}, []float64{3, nan}},
	} {
		if got := refine(test.coarse, test.fine); !alike(got, test.want) {
			t.Errorf("refine(%v, %v) = %v, want %v", test.coarse, test.fine, got, test.want)
		}
	}
}

func alike(a, b []float64) bool {
	return slices.EqualFunc(a, b, func(x, y float64) bool {
		return math.IsNaN(x) && math.IsNaN(y) || math.Abs(x-y) < 1e-6
	})
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

func TestHeavyOf(t *testing.T) {
	t.Parallel()
	got := heavyOf([]string{"os", module + "/hostile", module + "/host", "github.com/hashicorp/hcl/v2/hclsyntax", "github.com/hashicorp/go-plugin"}, heavyEngine())
	if want := []string{module + "/host", "github.com/hashicorp/hcl/v2/hclsyntax"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	r := results{
		Latency:    []latencyRow{{Name: nameRaw, Ratio: 1}, {Name: nameLibrary, Ratio: 1.35}, {Name: nameLean, Ratio: 3.9}},
		Throughput: []throughputRow{{AtOnce: 1, Ratio: 9}, {AtOnce: 8, Ratio: 0.79}},
		Output:     &outputTable{Rows: []outputRow{{Name: nameOutputFile, Ratio: 0.95}, {Name: nameOutputStreamed, Rate: 399}}},
		Memory:     []memoryRow{{nameLean, peak{20 << 10, 11 << 10}}, {nameMemoryFile, peak{20 << 10, 13 << 10}}},
	}
	var met []bool
	for _, target := range judge(&r) {
		met = append(met, target.Met)
	}
	if got := judge(&results{}); len(got) != 0 {
		t.Errorf("of nothing, %v was judged", got)
	}
	// Re-execution is not among the results.
	if want := []bool{true, false, false, false, true, false, true, false}; !slices.Equal(met, want) {
		t.Errorf("met %v, want %v", met, want)
	}
}

func TestCosts(t *testing.T) {
	t.Parallel()
	got := costs([]latencyRow{{Name: nameBare, P50: 4}, {Name: nameFiltered, P50: 5}, {Name: nameProtected, P50: 6}, {Name: nameMasked, P50: 8}})
	want := []protectionCost{{"filter of system calls, no user namespaces", 1, .25}, {"200 masks", 2, .5}}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
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
		{"-quick", quickRounds, quickBytes, false},
		{"-quick -n 7", 7, quickBytes, false},
		{"-only laten|phases", 200, 2 << 30, false},
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

func FuzzParseTraceLine(f *testing.F) {
	for line := range strings.Lines(oneShotTrace) {
		f.Add(line)
	}
	f.Add("1 99999999999999.000000 x(")
	f.Fuzz(func(t *testing.T, line string) {
		if l, ok := parseTraceLine(line); ok && (l.pid < 1 || l.call == "" || l.at < 0 || math.IsInf(l.at, 0) || math.IsNaN(l.at)) {
			t.Errorf("%q: %+v", line, l)
		}
	})
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
