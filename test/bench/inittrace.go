package main

import (
	"strconv"
	"strings"
)

// initTrace sums up what GODEBUG=inittrace=1 makes a Go program print.
type initTrace struct {
	inits []packageInit
	clock float64 // milliseconds in package initialisation
}

type packageInit struct {
	name  string
	clock float64
}

// parseInitTrace takes the lines of the form
//
//	init internal/bytealg @0.008 ms, 0.001 ms clock, 0 bytes, 0 allocs
//
// and passes over all others. The time after the @ is of no use: it has the
// printing of the lines before in it.
func parseInitTrace(text string) initTrace {
	var t initTrace
	for line := range strings.Lines(text) {
		p, ok := parseInitLine(line)
		if !ok {
			continue
		}
		t.inits = append(t.inits, p)
		t.clock += p.clock
	}
	return t
}

func parseInitLine(line string) (p packageInit, ok bool) {
	f := strings.Fields(line)
	if len(f) < 6 || f[0] != "init" || f[3] != "ms," || f[5] != "ms" {
		return p, false
	}
	clock, err := strconv.ParseFloat(f[4], 64)
	if err != nil || !(clock >= 0 && clock < 1e9) { // NaN is neither
		return p, false
	}
	return packageInit{f[1], clock}, true
}
