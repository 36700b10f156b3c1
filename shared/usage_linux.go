package shared

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/wire"
)

// takeUsage takes over the process attributes that the host passes on from its client.
func takeUsage() error {
	text, ok := os.LookupEnv(wire.UsageEnv)
	if !ok {
		return nil
	}
	os.Unsetenv(wire.UsageEnv)
	u, err := wire.ParseUsage(text)
	if err != nil {
		return err
	}
	if err := os.WriteFile("/proc/self/oom_score_adj", []byte(strconv.Itoa(u.OOMScoreAdj)), 0); err != nil {
		return err
	}
	var cpus unix.CPUSet
	for _, cpu := range u.CPUs {
		cpus.Set(cpu)
	}
	set := func(tid int) error {
		if err := unix.Setpriority(unix.PRIO_PROCESS, tid, u.Nice); err != nil {
			return os.NewSyscallError("setpriority", err)
		}
		return os.NewSyscallError("sched_setaffinity", unix.SchedSetaffinity(tid, &cpus))
	}
	// Both are attributes of a thread. A new thread inherits them from the thread that made it,
	// where they may not be set yet.
	done := map[string]bool{}
	for more := true; more; {
		more = false
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return err
		}
		for _, t := range threads {
			if done[t.Name()] {
				continue
			}
			tid, _ := strconv.Atoi(t.Name())
			if err := set(tid); err != nil {
				return err
			}
			done[t.Name()], more = true, true
		}
	}
	for _, l := range u.Limits {
		limit := unix.Rlimit{Cur: uint64(l.Soft), Max: uint64(l.Hard)}
		if err := unix.Setrlimit(l.Resource, &limit); err != nil {
			return fmt.Errorf("limit %+v: %w", l, err)
		}
	}
	unix.Umask(u.Umask)
	return nil
}
