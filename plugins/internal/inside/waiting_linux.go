package inside

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Waiting gives the one init that list gives once it waits for a command: it has a thread
// under a filter, which ends when it has started the command.
func Waiting(t testing.TB, list func() []int) int {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		inits := list()
		if len(inits) != 1 {
			continue // of a command that has just ended
		}
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", inits[0]))
		if err != nil {
			t.Fatal(err)
		}
		for _, thread := range threads {
			if status, _ := os.ReadFile(thread); strings.Contains(string(status), "\nSeccomp:\t2\n") {
				return inits[0]
			}
		}
	}
	t.Fatal("no init waits for a command")
	return 0
}
