package driver

import (
	"os"
	"testing"
	"time"
)

func TestUsage(t *testing.T) {
	t.Parallel()
	const stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 1 2 0 0 150 20 3 4 20 0 1 0 99 1 2 3\n"
	const status = "Name:\ta) b (c\nVmPeak:\t 9000 kB\nVmRSS:\t    1024 kB\nVmSwap:\t       8 kB\n"
	var got usage
	if got.add("", ""); got != (usage{}) {
		t.Errorf("of a process that has ended: %+v", got)
	}
	want := usage{user: 1530 * time.Millisecond, system: 240 * time.Millisecond, rss: 1 << 20, swap: 8 << 10}
	if got.add(stat, status); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	want = usage{user: 2 * want.user, system: 2 * want.system, rss: 2 * want.rss, swap: 2 * want.swap}
	if got.add(stat, status); got != want {
		t.Errorf("of two: got %+v, want %+v", got, want)
	}
	own, _ := os.ReadFile("/proc/self/status")
	if got.add("", string(own)); got.rss <= want.rss {
		t.Errorf("of this process: %+v", got)
	}
}

func TestTaskUsage(t *testing.T) {
	t.Parallel()
	got := taskUsage(usage{user: time.Second, system: time.Second}, usage{user: 3 * time.Second, system: time.Second / 2, rss: 5}, 4*time.Second, 2000)
	if c := got.Cpu; c.UserMode != 50 || c.SystemMode != 0 || c.Percent != 50 || c.TotalTicks != 1000 || got.Memory.Rss != 5 {
		t.Errorf("%+v", got)
	}
}

func FuzzUsage(f *testing.F) {
	f.Add("1 (a) S 0 0 0 0 0 0 0 0 0 0 1 2 3 4", "VmRSS: 1 kB\n")
	f.Add(")", "VmRSS")
	f.Fuzz(func(t *testing.T, stat, status string) { new(usage).add(stat, status) })
}
