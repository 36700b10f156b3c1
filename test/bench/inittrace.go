package main

import (
	"strconv"
	"strings"
)

// initTrace sums up what GODEBUG=inittrace=1 makes a Go program print.
type initTrace struct {
	packages int
	clock    float64 // milliseconds in package initialisation
	until    float64 // from the runtime's start to main
	slowest  packageInit
}

type packageInit struct {
	name  string
	clock float64
}

// parseInitTrace takes the lines of the form
//
//	init internal/bytealg @0.008 ms, 0.001 ms clock, 0 bytes, 0 allocs
//
// and passes over all others.
func parseInitTrace(text string) initTrace {
	var t initTrace
	for line := range strings.Lines(text) {
		p, at, ok := parseInitLine(line)
		if !ok {
			continue
		}
		t.packages++
		t.clock += p.clock
		t.until = max(t.until, at+p.clock)
		if p.clock > t.slowest.clock {
			t.slowest = p
		}
	}
	return t
}

func parseInitLine(line string) (p packageInit, at float64, ok bool) {
	f := strings.Fields(line)
	if len(f) < 6 || f[0] != "init" || f[3] != "ms," || f[5] != "ms" || len(f[2]) < 2 || f[2][0] != '@' {
		return p, 0, false
	}
	at, err := strconv.ParseFloat(f[2][1:], 64)
	clock, err2 := strconv.ParseFloat(f[4], 64)
	// Neither is ever negative, infinite or a year.
	ok = err == nil && err2 == nil && at >= 0 && at < 1e9 && clock >= 0 && clock < 1e9
	return packageInit{f[1], clock}, at, ok
}
