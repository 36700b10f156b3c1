package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// contender is one way to run a command.
type contender struct {
	name    string
	prepare func() error // unseen, before each turn; it may be nil
	run     func() error
	// settle is how long it goes on afterwards, unseen, before it is another's turn.
	settle time.Duration
}

// row is what one contender took.
type row struct {
	Name    string    `json:"name"`
	P50     float64   `json:"p50_ms"`
	P95     float64   `json:"p95_ms"`
	Ratio   float64   `json:"ratio_to_first"` // of the medians
	Samples []float64 `json:"samples_ms"`
}

const warmUpRounds = 3

// compare lets contenders take turns and gives each as a ratio to the first.
func compare(ctx context.Context, group []contender, rounds int) ([]row, error) {
	samples, err := takeTurns(ctx, group, rounds)
	if err != nil {
		return nil, err
	}
	var rows []row
	for i, c := range group {
		rows = append(rows, row{Name: c.name, P50: median(samples[i]), P95: percentile(samples[i], 95), Samples: samples[i],
			Ratio: ratio(median(samples[i]), median(samples[0]))})
	}
	return rows, nil
}

// takeTurns gives what each contender took in each round, in milliseconds. The
// order of a round is shuffled, always the same way: what a command leaves for
// the kernel to clean up, and in the caches, must not always fall on the same
// one after it.
func takeTurns(ctx context.Context, list []contender, rounds int) ([][]float64, error) {
	samples := make([][]float64, len(list))
	order := rand.New(rand.NewPCG(1, 2))
	for round := -warmUpRounds; round < rounds; round++ {
		for _, i := range order.Perm(len(list)) {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			if list[i].prepare != nil {
				if err := list[i].prepare(); err != nil {
					return nil, fmt.Errorf("preparing %s: %w", list[i].name, err)
				}
			}
			begin := time.Now()
			if err := list[i].run(); err != nil {
				return nil, fmt.Errorf("%s: %w", list[i].name, err)
			}
			if round >= 0 {
				samples[i] = append(samples[i], milliseconds(time.Since(begin)))
			}
			time.Sleep(list[i].settle)
		}
	}
	return samples, nil
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

// percentile gives the p-th percentile, 0 to 100, of values, interpolated
// between neighbours; 0 where there are none. It leaves values as they are.
func percentile(values []float64, p float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	at := max(0, min(p, 100)) / 100 * float64(len(sorted)-1)
	below := int(math.Floor(at))
	above := min(below+1, len(sorted)-1)
	return sorted[below] + (at-float64(below))*(sorted[above]-sorted[below])
}

func median(values []float64) float64 { return percentile(values, 50) }

// ratio is a/b, and 0 where there is nothing to compare with.
func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// p50Of is the median of what has a name, and 0 where nothing has it.
func p50Of(rows []row, name string) float64 {
	for _, r := range rows {
		if r.Name == name {
			return r.P50
		}
	}
	return 0
}
