package holder

import (
	"os"
	"strconv"
	"strings"
)

// umask is this process's own. It is read and not set: umask(2) does both, and
// what another thread makes meanwhile would have the wrong one.
func umask() uint32 {
	b, _ := os.ReadFile("/proc/self/status")
	return parseUmask(string(b))
}

// parseUmask reads /proc/PID/status. Where it does not say, what a command makes
// is its user's alone.
func parseUmask(status string) uint32 {
	for line := range strings.Lines(status) {
		if v, ok := strings.CutPrefix(line, "Umask:"); ok {
			if n, err := strconv.ParseUint(strings.TrimSpace(v), 8, 9); err == nil {
				return uint32(n)
			}
		}
	}
	return 0o077
}
