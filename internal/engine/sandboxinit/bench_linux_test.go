package sandboxinit

import (
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// BenchmarkLaunch compares the median life of /bin/true in bwrap alone with one
// under the init, in turn, all stdio being /dev/null.
func BenchmarkLaunch(b *testing.B) {
	bwrapLean.require(b)
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer null.Close()
	plain := func() {
		cmd := exec.Command(bwrapOptions[0], append(bwrapOptions[1:], "/bin/true")...)
		cmd.Env = []string{}
		if err := cmd.Run(); err != nil {
			b.Fatal(err)
		}
	}
	under := func(w way, limits ...Rlimit) func() {
		bin := w.binary(b)
		argv := slices.Concat(w.launcher, Argv(3, 4))
		return func() {
			exe, err := bin.Open()
			if err != nil {
				b.Fatal(err)
			}
			engineEnd, initEnd, err := Pair()
			if err != nil {
				b.Fatal(err)
			}
			cmd := exec.Command(argv[0], argv[1:]...)
			cmd.Env = []string{}
			cmd.ExtraFiles = []*os.File{exe, initEnd, null, null, null}
			err = cmd.Start()
			exe.Close()
			initEnd.Close()
			c := NewConn(engineEnd)
			defer c.Close()
			if err != nil {
				b.Fatal(err)
			}
			err = c.Start(b.Context(), Command{Args: []string{"/bin/true"}, Rlimits: limits})
			if err != nil {
				b.Fatal(err)
			}
			if s, err := c.Wait(); err != nil || s.Code != 0 {
				b.Fatalf("%+v, %v", s, err)
			}
			if err := cmd.Wait(); err != nil {
				b.Fatal(err)
			}
		}
	}
	kinds := []struct {
		name string
		run  func()
	}{
		{"bwrap", plain},
		{"init", under(bwrapLean)},
		{"init+core", under(bwrapLean, Rlimit{unix.RLIMIT_CORE, 0, 0})},
		{"init+as", under(bwrapLean, Rlimit{unix.RLIMIT_AS, 1 << 42, 1 << 42})},
		{"re-executed", under(bwrapSelf)},
	}
	times := make([][]time.Duration, len(kinds))
	for b.Loop() {
		for i, k := range kinds { // in turn: the machine's mood hits all alike
			begin := time.Now()
			k.run()
			times[i] = append(times[i], time.Since(begin))
		}
	}
	for i, k := range kinds {
		slices.Sort(times[i])
		b.ReportMetric(float64(times[i][len(times[i])/2].Microseconds()), "us/"+k.name)
	}
	b.ReportMetric(0, "ns/op")
}
