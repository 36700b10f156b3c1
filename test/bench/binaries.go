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

// inspectBinaries lists what the executables cost before their main: the slowest packages of
// each, by their medians.
func inspectBinaries(ctx context.Context, s *scene, o options, r *report) error {
	r.line("\nExecutables, before main")
	for _, program := range []struct{ name, idle string }{ // what makes each do nothing
		{"sbxhost", "-version"}, {"sbxhost-engine-native", "-version"}, {"sbxhost-init", "-version"},
	} {
		path := filepath.Join(s.bin, program.name)
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		samples := map[string][]float64{}
		for range max(1, min(o.rounds/10, 15)) {
			cmd := exec.CommandContext(ctx, path, program.idle)
			cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			if _, exited := errors.AsType[*exec.ExitError](cmd.Run()); !exited && cmd.ProcessState == nil {
				return fmt.Errorf("%s did not run", path)
			}
			for name, took := range initTimes(stderr.String()) {
				samples[name] = append(samples[name], took)
			}
		}
		if len(samples) == 0 {
			return fmt.Errorf("%s printed no init trace", path)
		}
		var packages []row
		sum := 0.
		for name, took := range samples {
			packages = append(packages, row{name: name, p50: percentile(took, 50)})
			sum += packages[len(packages)-1].p50
		}
		slices.SortFunc(packages, func(a, b row) int { return cmp.Or(cmp.Compare(b.p50, a.p50), cmp.Compare(a.name, b.name)) })
		r.line("  %-24s %5.1f MiB, %3d packages take %.2f ms", program.name, mebibytes(info.Size()>>10), len(packages), sum)
		for _, one := range packages[:min(3, len(packages))] {
			r.line("    %-70s %5.2f ms", one.name, one.p50)
		}
	}
	return nil
}

// initTimes takes the lines of the form
//
//	init internal/bytealg @0.008 ms, 0.001 ms clock, 0 bytes, 0 allocs
//
// and passes over all others: of each package the milliseconds of its initialisation.
func initTimes(text string) map[string]float64 {
	times := map[string]float64{}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 6 || f[0] != "init" || f[3] != "ms," || f[5] != "ms" {
			continue
		}
		if took, err := strconv.ParseFloat(f[4], 64); err == nil && took >= 0 {
			times[f[1]] = took
		}
	}
	return times
}
