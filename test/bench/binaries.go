package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// binaryRow is what one executable costs before its main.
type binaryRow struct {
	Name    string        `json:"name"`
	Bytes   int64         `json:"bytes"`
	Inits   int           `json:"inits"`    // packages with something to initialise
	Clock   float64       `json:"clock_ms"` // median, in package initialisation
	Slowest []packageCost `json:"slowest"`  // packages, by their medians
}

func inspectBinaries(ctx context.Context, bin string, rounds int) ([]binaryRow, error) {
	rows := []binaryRow{{Name: "sbxhost"}, {Name: "sbxhost-engine-native"}, {Name: "sbxhost-init"}}
	// What makes each do nothing; its exit status then is its own affair.
	idle := []string{"version", "-version", "-version"}
	clock := make([][]float64, len(rows))
	each := make([]map[string][]float64, len(rows))
	for range max(1, min(rounds/10, 15)) {
		for i := range rows {
			t, err := traceInit(ctx, filepath.Join(bin, rows[i].Name), idle[i])
			if err != nil {
				return nil, err
			}
			clock[i] = append(clock[i], t.clock)
			rows[i].Inits = len(t.inits)
			if each[i] == nil {
				each[i] = map[string][]float64{}
			}
			for _, p := range t.inits {
				each[i][p.name] = append(each[i][p.name], p.clock)
			}
		}
	}
	for i := range rows {
		info, err := os.Stat(filepath.Join(bin, rows[i].Name))
		if err != nil {
			return nil, err
		}
		rows[i].Bytes, rows[i].Clock, rows[i].Slowest = info.Size(), median(clock[i]), slowestOf(each[i])
	}
	return rows, nil
}

func traceInit(ctx context.Context, program, idle string) (initTrace, error) {
	cmd := exec.CommandContext(ctx, program, idle)
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	err := cmd.Run()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		return initTrace{}, err
	}
	t := parseInitTrace(stderr.String())
	if len(t.inits) == 0 {
		return t, fmt.Errorf("%s printed no init trace: %v", program, err)
	}
	return t, nil
}

// packageCost is what the initialisation of one package takes.
type packageCost struct {
	Name  string  `json:"name"`
	Clock float64 `json:"clock_ms"`
}

// slowestOf gives the three packages with the greatest medians.
func slowestOf(each map[string][]float64) []packageCost {
	var list []packageCost
	for name, clock := range each {
		list = append(list, packageCost{name, median(clock)})
	}
	slices.SortFunc(list, func(a, b packageCost) int {
		return cmp.Or(cmp.Compare(b.Clock, a.Clock), strings.Compare(a.Name, b.Name))
	})
	return list[:min(3, len(list))]
}

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
