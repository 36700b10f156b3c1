package main

import (
	"math"
	"path"
	"strconv"
	"strings"
)

// traceLine is one line of `strace -f -ttt -o FILE`.
type traceLine struct {
	pid    int
	at     float64 // milliseconds; where a call begins
	call   string  // "exited" for the end of a process
	args   string  // what follows the parenthesis
	failed bool
}

// parseTraceLine understands calls, also those that another thread's line
// interrupts, and ends of processes. All else, ok is false.
func parseTraceLine(line string) (l traceLine, ok bool) {
	pid, rest, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
	if !ok {
		return l, false
	}
	stamp, rest, ok := strings.Cut(strings.TrimLeft(rest, " "), " ")
	if !ok {
		return l, false
	}
	var err error
	if l.pid, err = strconv.Atoi(pid); err != nil || l.pid < 1 {
		return l, false
	}
	if l.at, ok = parseStamp(stamp); !ok {
		return l, false
	}
	if strings.HasPrefix(rest, "+++ exited with ") || strings.HasPrefix(rest, "+++ killed by ") {
		l.call = "exited"
		return l, true
	}
	name, args, ok := strings.Cut(rest, "(")
	if !ok || name == "" || strings.ContainsAny(name, " <>+-") {
		return l, false // a signal, or the second half of a call
	}
	l.call, l.args = name, args
	if at := strings.LastIndex(args, ") = "); at >= 0 {
		l.failed = strings.HasPrefix(args[at+len(") = "):], "-1 ")
	}
	return l, true
}

// parseStamp reads seconds with six decimals as milliseconds.
func parseStamp(s string) (float64, bool) {
	whole, fraction, ok := strings.Cut(s, ".")
	if !ok || len(fraction) != 6 || len(whole) > 12 {
		return 0, false
	}
	seconds, err1 := strconv.ParseUint(whole, 10, 64)
	micros, err2 := strconv.ParseUint(fraction, 10, 64)
	return float64(seconds)*1e3 + float64(micros)/1e3, err1 == nil && err2 == nil
}

// mark is a point of a one-shot run that a system call shows.
type mark struct {
	phase string // what ends here
	is    func(traceLine) bool
}

// oneShotMarks are those of `sbxhost exec ... /bin/true`, in order. The first
// is the beginning.
func oneShotMarks(config string) []mark {
	var root, command int
	executes := func(l traceLine) (string, bool) {
		name, _, ok := strings.Cut(strings.TrimPrefix(l.args, `"`), `"`)
		return name, l.call == "execve" && !l.failed && ok
	}
	return []mark{
		{"", func(l traceLine) bool {
			_, ok := executes(l)
			root = l.pid
			return ok
		}},
		{"sbxhost: runtime, packages, flags; main reached", func(l traceLine) bool {
			return l.call == "openat" && strings.Contains(l.args, strconv.Quote(config))
		}},
		{"sbxhost: configuration parsed, workspace resolved", func(l traceLine) bool {
			return l.call == "mkdirat" && strings.Contains(l.args, "/sbxhost-")
		}},
		{"sbxhost: engine forked", func(l traceLine) bool {
			name, ok := executes(l)
			return ok && (strings.HasPrefix(path.Base(name), "sbxhost-engine-") || name == "/proc/self/exe")
		}},
		{"engine: runtime, packages; main reached", func(l traceLine) bool {
			return l.call == "getsockopt" && strings.Contains(l.args, "SO_TYPE")
		}},
		{"engine: listening; the handshake follows", func(l traceLine) bool { return l.call == "listen" }},
		{"both: connected, opened, planned, holder forked", func(l traceLine) bool {
			_, ok := executes(l)
			return ok && strings.Contains(l.args, `"sbxhost-holder", "`)
		}},
		{"holder: the tree made, init forked", func(l traceLine) bool {
			_, ok := executes(l)
			return ok && strings.Contains(l.args, `"sbxhost-init", "`)
		}},
		{"init: runtime, packages; main reached", func(l traceLine) bool { return l.call == "close_range" }},
		{"init: sandbox made, command received and forked", func(l traceLine) bool {
			name, ok := executes(l)
			command = l.pid
			return ok && path.Base(name) == "true"
		}},
		{"the command", func(l traceLine) bool { return l.call == "exit_group" && l.pid == command }},
		{"all: end reported, engine stopped, sbxhost gone", func(l traceLine) bool { return l.call == "exited" && l.pid == root }},
	}
}

// phases gives the milliseconds before each mark but the first. A mark that is
// not found has NaN, and its time is the next one's. ok says that the run is
// seen from beginning to end.
func phases(marks []mark, lines []traceLine) (durations []float64, ok bool) {
	durations = make([]float64, 0, len(marks))
	next, last := 0, math.NaN()
	for i, m := range marks {
		at := math.NaN()
		for j := next; j < len(lines); j++ {
			if m.is(lines[j]) {
				at, next = lines[j].at, j+1
				break
			}
		}
		found := !math.IsNaN(at)
		if (i == 0 || i == len(marks)-1) && !found {
			return nil, false
		}
		if i > 0 {
			durations = append(durations, at-last)
		}
		if found {
			last = at
		}
	}
	return durations, true
}

// refine splits the spans in which coarse has NaN as fine divides them: a
// trace of more calls finds more marks and stretches everything by more.
func refine(coarse, fine []float64) []float64 {
	refined := make([]float64, len(coarse))
	begin := 0
	for end, span := range coarse {
		if math.IsNaN(span) {
			continue
		}
		total := 0.0
		for _, part := range fine[begin : end+1] {
			if !math.IsNaN(part) {
				total += part
			}
		}
		for k, part := range fine[begin : end+1] {
			refined[begin+k] = span * ratio(part, total)
		}
		if total == 0 || math.IsNaN(fine[end]) {
			copy(refined[begin:], coarse[begin:end+1]) // nothing to divide by
		}
		begin = end + 1
	}
	copy(refined[begin:], coarse[begin:])
	return refined
}
