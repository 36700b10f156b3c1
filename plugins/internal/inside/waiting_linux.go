package inside

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Waiting gives the init, of those that list gives, that waits for a command: it has a thread
// under a filter, which ends when it has started the command.
func Waiting(t testing.TB, list func() []int) int {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		for _, pid := range list() {
			threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
			if err != nil {
				t.Fatal(err)
			}
			for _, thread := range threads {
				if status, _ := os.ReadFile(thread); strings.Contains(string(status), "\nSeccomp:\t2\n") {
					return pid
				}
			}
		}
	}
	t.Fatal("no init waits for a command")
	return 0
}
