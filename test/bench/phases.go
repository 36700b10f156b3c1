package main

import (
	"context"
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// phaseTable tells where the time of a one-shot run goes.
type phaseTable struct {
	Missing string        `json:"missing,omitempty"` // why there is no table
	Names   []string      `json:"names,omitempty"`
	Columns []phaseColumn `json:"columns,omitempty"`
}

type phaseColumn struct {
	Name    string     `json:"name"`
	Medians []*float64 `json:"medians_ms"` // nil: not seen, in the next one
	Traced  float64    `json:"traced_ms"`
	Plain   float64    `json:"untraced_p50_ms"`
}

// A traced call stops the program that makes it, for longer than the call
// takes. So the spans are those of a trace of calls that are rare, and one with
// openat, of which there are many, only divides them.
const (
	coarseCalls = "execve,exit_group,mkdirat,getsockopt,listen,?close_range"
	fineCalls   = coarseCalls + ",openat"
)

func measurePhases(ctx context.Context, s *scene, rounds int, latency []latencyRow) (phaseTable, error) {
	if _, err := exec.LookPath("strace"); err != nil {
		return phaseTable{Missing: "strace is not installed"}, nil
	}
	if err := exec.CommandContext(ctx, "strace", "-f", "--seccomp-bpf", "-e", "trace=execve", "-o", os.DevNull, "/bin/true").Run(); err != nil {
		return phaseTable{Missing: "strace -f --seccomp-bpf does not work here: " + err.Error()}, nil
	}
	programs := []string{s.lean, s.alone}
	columns := []phaseColumn{{Name: nameLean}, {Name: nameReexec}}
	marks := oneShotMarks(s.config)
	samples := make([][][]float64, len(programs)) // program, phase, run
	for i := range programs {
		samples[i] = make([][]float64, len(marks)) // the last is the whole
	}
	for range max(1, min(rounds/5, 25)) {
		for i, program := range programs {
			fine, err := s.trace(ctx, program, fineCalls)
			if err != nil {
				return phaseTable{}, err
			}
			coarse, err := s.trace(ctx, program, coarseCalls)
			if err != nil {
				return phaseTable{}, err
			}
			durations := refine(coarse, fine)
			total := 0.0
			for k, d := range durations {
				if !math.IsNaN(d) {
					samples[i][k] = append(samples[i][k], d)
					total += d
				}
			}
			samples[i][len(marks)-1] = append(samples[i][len(marks)-1], total)
		}
	}
	var t phaseTable
	for _, m := range marks[1:] {
		t.Names = append(t.Names, m.phase)
	}
	for i, column := range columns {
		for k := range t.Names {
			var value *float64
			if len(samples[i][k]) > 0 {
				m := median(samples[i][k])
				value = &m
			}
			column.Medians = append(column.Medians, value)
		}
		column.Traced = median(samples[i][len(marks)-1])
		column.Plain = p50Of(latency, column.Name)
		t.Columns = append(t.Columns, column)
	}
	return t, nil
}

func (s *scene) trace(ctx context.Context, program, calls string) ([]float64, error) {
	file := filepath.Join(s.dir, "trace")
	cmd := exec.CommandContext(ctx, "strace", append([]string{"-f", "-ttt", "--seccomp-bpf", "-s", "256", "-e", "signal=none", "-e", "trace=" + calls, "-o", file, program},
		s.execArgs("/bin/true")...)...)
	cmd.Dir, cmd.Env = s.workspace, environ(s.dir)
	if err := s.run(cmd); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var lines []traceLine
	for line := range strings.Lines(string(text)) {
		if l, ok := parseTraceLine(line); ok {
			lines = append(lines, l)
		}
	}
	durations, ok := phases(oneShotMarks(s.config), lines)
	if !ok {
		return nil, errors.New("strace shows neither beginning nor end of " + program)
	}
	return durations, nil
}

func p50Of(rows []latencyRow, name string) float64 {
	for _, r := range rows {
		if r.Name == name {
			return r.P50
		}
	}
	return 0
}
