package sandboxinit

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

const oomScoreAdj = "/proc/self/oom_score_adj"

// Inherit makes the command use what a child of this process could: for an init whose parent has
// other limits.
func (c *Command) Inherit() error {
	nice, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		return os.NewSyscallError("getpriority", err)
	}
	var cpus unix.CPUSet
	if err := unix.SchedGetaffinity(0, &cpus); err != nil {
		return os.NewSyscallError("sched_getaffinity", err)
	}
	score, err := os.ReadFile(oomScoreAdj)
	if err != nil {
		return err
	}
	c.Usage = &Usage{Nice: 20 - nice, Score: strings.TrimSpace(string(score))} // the system call's own form
	c.Usage.CPUs = append(c.Usage.CPUs, unsafe.Slice((*byte)(unsafe.Pointer(&cpus)), unsafe.Sizeof(cpus))...)
	var own []Rlimit
	for resource := range unix.RLIMIT_RTTIME + 1 {
		var l syscall.Rlimit
		if err := syscall.Getrlimit(resource, &l); err != nil {
			return os.NewSyscallError("getrlimit", err)
		}
		own = append(own, Rlimit{resource, l.Cur, l.Max})
	}
	own[unix.RLIMIT_NOFILE] = startersNOFILE()
	c.Rlimits = append(own, c.Rlimits...)
	return nil
}

// apply gives the calling thread, and so its children, a Usage. Nil changes nothing.
func (u *Usage) apply() *ExecError {
	if u == nil {
		return nil
	}
	if err := unix.Setpriority(unix.PRIO_PROCESS, 0, u.Nice); err != nil {
		return execError(OpRlimit, "nice "+strconv.Itoa(u.Nice), err)
	}
	var cpus unix.CPUSet
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&cpus)), unsafe.Sizeof(cpus)), u.CPUs)
	if err := unix.SchedSetaffinity(0, &cpus); err != nil {
		return execError(OpRlimit, "the processors", err)
	}
	if now, err := os.ReadFile(oomScoreAdj); err == nil && strings.TrimSpace(string(now)) == u.Score {
		return nil
	}
	// A hidden process may not write that.
	err := unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0)
	if err == nil {
		err = os.WriteFile(oomScoreAdj, []byte(u.Score), 0)
		unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	}
	if err != nil {
		return execError(OpRlimit, "oom_score_adj "+u.Score, err)
	}
	return nil
}
