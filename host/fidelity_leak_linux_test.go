package host_test

import (
	"os"
	"runtime"
	"runtime/pprof"
	"strings"
	"testing"
	"time"
)

// own is what this process has.
type own struct{ descriptors, goroutines, children int }

func countOwn(t testing.TB) own {
	t.Helper()
	return own{countDescriptors(t), runtime.NumGoroutine(), len(children(t, os.Getpid()))}
}

func countDescriptors(t testing.TB) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// expectNoMore waits until this process has no more than before.
func (before own) expectNoMore(t testing.TB) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for tick := time.Tick(time.Millisecond); ; <-tick {
		now := own{descriptors: countDescriptors(t), goroutines: runtime.NumGoroutine()}
		if now.descriptors <= before.descriptors && now.goroutines <= before.goroutines {
			// To find them takes reading all of /proc.
			if now.children = len(children(t, os.Getpid())); now.children <= before.children {
				return
			}
		}
		if time.Now().After(deadline) {
			var stacks strings.Builder
			pprof.Lookup("goroutine").WriteTo(&stacks, 1)
			t.Errorf("left behind: %+v, before: %+v\n%s", now, before, &stacks)
			return
		}
	}
}
