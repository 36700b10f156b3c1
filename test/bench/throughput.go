package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// throughputRow compares commands per second.
type throughputRow struct {
	AtOnce  int     `json:"at_once"`
	Raw     float64 `json:"raw_per_s"`
	Library float64 `json:"library_per_s"`
	Ratio   float64 `json:"ratio_to_raw"`
}

func measureThroughput(ctx context.Context, s *scene, rounds int) ([]throughputRow, error) {
	var rows []throughputRow
	for _, atOnce := range []int{1, 8} {
		commands := max(8, min(rounds/4, 48))
		blocks := max(1, min(rounds/20, 12))
		list := []contender{
			{name: nameRaw, run: func() error { return s.runRaw(ctx, s.raw, "/bin/true") }},
			{name: nameLibrary, run: func() error { return runLibrary(ctx, s.warm, sandboxFast) }},
		}
		rates := make([][]float64, len(list))
		for block := range blocks {
			for turn := range list {
				i := (turn + block) % len(list)
				rate, err := commandsPerSecond(atOnce, commands, list[i].run)
				if err != nil {
					return nil, fmt.Errorf("%s, %d at once: %w", list[i].name, atOnce, err)
				}
				rates[i] = append(rates[i], rate)
			}
		}
		row := throughputRow{AtOnce: atOnce, Raw: median(rates[0]), Library: median(rates[1])}
		row.Ratio = ratio(row.Library, row.Raw)
		rows = append(rows, row)
	}
	return rows, nil
}

// commandsPerSecond runs that many commands, atOnce of them at any time.
func commandsPerSecond(atOnce, commands int, run func() error) (float64, error) {
	var begun atomic.Int64
	var wg sync.WaitGroup
	errs := make([]error, atOnce)
	begin := time.Now()
	for worker := range atOnce {
		wg.Go(func() {
			for begun.Add(1) <= int64(commands) && errs[worker] == nil {
				errs[worker] = run()
			}
		})
	}
	wg.Wait()
	return float64(commands) / time.Since(begin).Seconds(), errors.Join(errs...)
}
