package approvals

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestParseOffsets(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"monotonic           0         0\nboottime            0         0\n":   0,
		"monotonic           7         0\nboottime       100000         5\n":   100000*time.Second + 5,
		"monotonic           7         0\nboottime      -100000 999999999\n":   -100000*time.Second + 999999999,
		"boottime            1         0\nanother clock     1         0      ": time.Second,
	} {
		if got, err := parseOffsets(text); got != want || err != nil {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "monotonic 1 1\n", "boottime x 1\n", "boottime 1 y\n"} {
		if got, err := parseOffsets(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// A time namespace that is set back, or ahead, has the same moment.
func TestMomentInTimeNamespace(t *testing.T) {
	t.Parallel()
	try := exec.Command("unshare", "--user", "--map-root-user", "--time", "--boottime=1", "--fork", "true")
	if out, err := try.CombinedOutput(); err != nil {
		t.Skipf("no time namespaces here; TestParseOffsets has the arithmetic: %v, %s", err, out)
	}
	for _, offset := range []string{"-60", "100000"} {
		cmd := exec.Command("unshare", "--user", "--map-root-user", "--time", "--boottime="+offset, "--fork", os.Args[0])
		cmd.Env = append(os.Environ(), "TELL_MOMENT=1")
		before, err := Now()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.CombinedOutput()
		after, _ := Now()
		boot, elapsed, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
		n, parseErr := strconv.ParseInt(elapsed, 10, 64)
		if err != nil || parseErr != nil || boot != before.Boot || time.Duration(n) < before.Elapsed || time.Duration(n) > after.Elapsed {
			t.Errorf("%s: %v, %s; here it was from %v to %v", offset, err, out, before, after)
		}
	}
}
