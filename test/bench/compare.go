package main

import (
	"context"
	"errors"
	"fmt"
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

const warmUpRounds = 3

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
			took, err := list[i].turn()
			if err != nil {
				return nil, fmt.Errorf("%s: %w", list[i].name, err)
			}
			if round >= 0 {
				samples[i] = append(samples[i], took)
			}
			time.Sleep(list[i].settle)
		}
	}
	return samples, nil
}

func (c *contender) turn() (float64, error) {
	if c.prepare != nil {
		if err := c.prepare(); err != nil {
			return 0, fmt.Errorf("preparing: %w", err)
		}
	}
	begin := time.Now()
	err := c.run()
	return milliseconds(time.Since(begin)), err
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

// percentile gives the p-th percentile of values, which it sorts: at least p of a hundred are at most that.
func percentile(values []float64, p int) float64 {
	slices.Sort(values)
	return values[max(0, (len(values)*p+99)/100-1)]
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
