package serve

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/wire"
)

// resources is how many there are for setrlimit(2).
const resources = unix.RLIMIT_RTTIME + 1

// usage is what a command of the process with this identity, and this directory of /proc, would have.
func (id Identity) usage(dir string) (u wire.Usage, err error) {
	pid, noPid := strconv.Atoi(filepath.Base(dir))
	mask, noMask := strconv.ParseInt(id["status Umask"], 8, 32)
	nice, noNice := strconv.Atoi(id["nice"])
	score, noScore := strconv.Atoi(id["oom_score_adj"])
	if err := errors.Join(noPid, noMask, noNice, noScore); err != nil {
		return u, err
	}
	u.Umask, u.Nice, u.OOMScoreAdj = int(mask)&0o077, nice, score // the mask as sbxhost's own
	var cpus unix.CPUSet
	if err := unix.SchedGetaffinity(pid, &cpus); err != nil {
		return u, os.NewSyscallError("sched_getaffinity", err)
	}
	for cpu := range 8 * int(unsafe.Sizeof(cpus)) {
		if cpus.IsSet(cpu) {
			u.CPUs = append(u.CPUs, cpu)
		}
	}
	for resource := range resources {
		var l unix.Rlimit
		if err := unix.Prlimit(pid, resource, nil, &l); err != nil {
			return u, os.NewSyscallError("prlimit", err)
		}
		u.Limits = append(u.Limits, wire.Limit{Resource: resource, Soft: int64(l.Cur), Hard: int64(l.Max)})
	}
	return u, nil
}

// cannotGive names what this process, with the identity own, cannot give to a command as the usage
// of a client; "" if it can give all. A command gets no more than the server has. The limit of open
// files is not given: Go raises the soft limit in each process before anybody can look.
func (own Identity) cannotGive(u *wire.Usage) string {
	for _, l := range u.Limits {
		var has unix.Rlimit
		err := unix.Getrlimit(l.Resource, &has)
		switch files := l.Resource == unix.RLIMIT_NOFILE; {
		case files && (err != nil || uint64(l.Hard) != has.Max):
			return "open files limit"
		case err != nil || uint64(l.Hard) > has.Max:
			return "limits"
		}
	}
	for name, wants := range map[string]int{"nice": u.Nice, "oom_score_adj": u.OOMScoreAdj} {
		if has, err := strconv.Atoi(own[name]); err != nil || wants < has {
			return name
		}
	}
	return ""
}

// LeaveCaller gives up what a server inherited from the process that started it: how it makes
// files, and its limits, which may be lower than those of other clients.
func LeaveCaller() {
	unix.Umask(0o077)
	for resource := range resources {
		var l unix.Rlimit
		if resource == unix.RLIMIT_STACK || resource == unix.RLIMIT_CORE || resource == unix.RLIMIT_NOFILE || unix.Getrlimit(resource, &l) != nil {
			continue // by the first, what it starts would be laid out otherwise
		}
		l.Cur = l.Max
		unix.Setrlimit(resource, &l)
	}
}
