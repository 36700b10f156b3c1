package serve

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/wire"
)

// limitNames are resources as /proc/PID/limits names them. The limit of open files is not passed
// on: Go raises the soft limit in each process before anybody can look.
var limitNames = map[string]int{
	"Max cpu time": unix.RLIMIT_CPU, "Max file size": unix.RLIMIT_FSIZE, "Max data size": unix.RLIMIT_DATA, "Max stack size": unix.RLIMIT_STACK,
	"Max core file size": unix.RLIMIT_CORE, "Max resident set": unix.RLIMIT_RSS, "Max processes": unix.RLIMIT_NPROC,
	"Max locked memory": unix.RLIMIT_MEMLOCK, "Max address space": unix.RLIMIT_AS, "Max file locks": unix.RLIMIT_LOCKS,
	"Max pending signals": unix.RLIMIT_SIGPENDING, "Max msgqueue size": unix.RLIMIT_MSGQUEUE, "Max nice priority": unix.RLIMIT_NICE,
	"Max realtime priority": unix.RLIMIT_RTPRIO, "Max realtime timeout": unix.RLIMIT_RTTIME,
}

// Usage is what a command of a process with this identity would have.
func (id Identity) Usage() (u wire.Usage, err error) {
	mask, err := strconv.ParseInt(id["status Umask"], 8, 32)
	if err != nil {
		return u, err
	}
	u.Umask = int(mask) & 0o077 // as sbxhost's own
	if u.CPUs, err = parseCPUs(id["status Cpus_allowed"]); err != nil {
		return u, err
	}
	if u.Nice, err = strconv.Atoi(id["nice"]); err != nil {
		return u, err
	}
	if u.OOMScoreAdj, err = strconv.Atoi(id["oom_score_adj"]); err != nil {
		return u, err
	}
	limits, err := parseLimits(id["limits"])
	if err != nil {
		return u, err
	}
	for name, number := range limitNames {
		if l, ok := limits[name]; ok {
			u.Limits = append(u.Limits, wire.Limit{Resource: number, Soft: l[0], Hard: l[1]})
		}
	}
	slices.SortFunc(u.Limits, func(a, b wire.Limit) int { return a.Resource - b.Resource })
	return u, nil
}

// parseCPUs reads a mask, as words of 32 bits, the lowest one last.
func parseCPUs(mask string) (cpus []int, err error) {
	words := strings.Split(mask, ",")
	slices.Reverse(words)
	for i, word := range words {
		bits, err := strconv.ParseUint(word, 16, 32)
		if err != nil {
			return nil, err
		}
		for bit := range 32 {
			if bits>>bit&1 != 0 {
				cpus = append(cpus, 32*i+bit)
			}
		}
	}
	return cpus, nil
}

// parseLimits reads soft and hard limits by their names; -1 means unlimited.
func parseLimits(text string) (map[string][2]int64, error) {
	limits := map[string][2]int64{}
	for line := range strings.Lines(text) {
		const width = 26 // of the names' column
		if !strings.HasPrefix(line, "Max ") || len(line) < width {
			continue
		}
		var l [2]int64
		fields := strings.Fields(line[width:])
		if len(fields) < 2 {
			return nil, fmt.Errorf("limits are cut short: %q", line)
		}
		for i := range l {
			n, err := strconv.ParseUint(fields[i], 10, 64)
			switch {
			case fields[i] == "unlimited":
				l[i] = -1
			case err != nil || n > math.MaxInt64:
				return nil, fmt.Errorf("limits: %q", line)
			default:
				l[i] = int64(n)
			}
		}
		limits[strings.TrimSpace(line[:width])] = l
	}
	if len(limits) == 0 {
		return nil, errors.New("limits are empty")
	}
	return limits, nil
}

// cannotGive names what a process with the identity own cannot give to a command as the peer would;
// "" if it can give all. A command gets no more than the server has.
func (own Identity) cannotGive(peer Identity) string {
	less := func(a, b int64) bool { return a != -1 && (b == -1 || a < b) }
	has, err := parseLimits(own["limits"])
	wants, wrong := parseLimits(peer["limits"])
	if err != nil || wrong != nil {
		return "limits"
	}
	for name, l := range wants {
		if _, given := limitNames[name]; !given && l[1] != has[name][1] || less(has[name][1], l[1]) {
			return strings.ToLower(strings.TrimPrefix(name, "Max ")) + " limit"
		}
	}
	for _, name := range [...]string{"nice", "oom_score_adj"} {
		has, err := strconv.Atoi(own[name])
		wants, wrong := strconv.Atoi(peer[name])
		if err != nil || wrong != nil || wants < has {
			return name
		}
	}
	return ""
}

// LeaveCaller gives up what a server inherited from the process that started it: how it makes
// files, and its limits, which may be lower than those of other clients.
func LeaveCaller() {
	unix.Umask(0o077)
	for _, number := range limitNames {
		var l unix.Rlimit
		if number == unix.RLIMIT_STACK || number == unix.RLIMIT_CORE || unix.Getrlimit(number, &l) != nil {
			continue // by the first, what it starts would be laid out otherwise
		}
		l.Cur = l.Max
		unix.Setrlimit(number, &l)
	}
}
