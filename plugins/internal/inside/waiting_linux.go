package inside

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// Waiting gives the one init that list gives once it waits for a command: it has a thread
// under a filter, which ends when it has started the command. That of a command which has just
// ended may still have its thread, so it is looked at several times.
func Waiting(t testing.TB, list func() []int) int {
	t.Helper()
	last, times := 0, 0
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		inits := list()
		if len(inits) != 1 || !confined(t, inits[0]) {
			last = 0
			continue
		}
		if inits[0] != last {
			last, times = inits[0], 0
		}
		if times++; times > 5 {
			return last
		}
	}
	t.Fatal("no init waits for a command")
	return 0
}

// confined reports whether a thread of a process is under a filter.
func confined(t testing.TB, pid int) bool {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(threads, func(thread string) bool {
		status, _ := os.ReadFile(thread)
		return strings.Contains(string(status), "\nSeccomp:\t2\n")
	})
}
