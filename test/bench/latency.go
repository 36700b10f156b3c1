package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"time"
)

// The names of what is compared, as targets refer to them.
const (
	nameRaw     = "raw bwrap"
	nameLibrary = "library, warm, in a session"
	nameLean    = "one-shot, lean binaries"
	nameReexec  = "one-shot, by re-execution"
)

// contender is one way to run a command.
type contender struct {
	name string
	run  func() error
	// settle is how long it goes on afterwards, before it is another's turn.
	settle time.Duration
}

// latencyRow is what one contender took.
type latencyRow struct {
	Name    string    `json:"name"`
	P50     float64   `json:"p50_ms"`
	P95     float64   `json:"p95_ms"`
	Ratio   float64   `json:"ratio_to_raw"` // of the medians
	Samples []float64 `json:"samples_ms"`
}

// contenders are grouped by what they leave behind: a one-shot run ends two Go
// programs, which the kernel is still busy with when the next one has its turn,
// and empties the caches that a warm engine lives by. Each group has its own
// raw bwrap, which comes first.
func (s *scene) contenders(ctx context.Context) [][]contender {
	raw := contender{name: nameRaw, run: func() error { return s.runRaw(ctx, s.raw, "/bin/true") }}
	return [][]contender{{
		raw,
		{name: nameLibrary, run: func() error { return runLibrary(ctx, s.warm, sandboxFast) }},
	}, {
		raw,
		{name: nameLean, run: func() error { return s.run(s.sbxhost(ctx, s.lean, "/bin/true")) }},
		{name: nameReexec, run: func() error { return s.run(s.sbxhost(ctx, s.alone, "/bin/true")) }},
		{name: "plain /bin/true", run: func() error { return s.run(exec.CommandContext(ctx, "/bin/true")) }},
		{name: "an empty Go program", run: func() error { return s.run(exec.CommandContext(ctx, s.empty)) }},
	}}
}

const warmUpRounds = 3

// measureLatency compares the contenders of each group.
func measureLatency(ctx context.Context, s *scene, rounds int) ([]latencyRow, error) {
	var rows []latencyRow
	for _, group := range s.contenders(ctx) {
		of, err := compare(ctx, group, rounds)
		if err != nil {
			return nil, err
		}
		rows = append(rows, of...)
	}
	of, err := s.traced(ctx, rounds)
	return append(rows, of...), err
}

// compare lets contenders take turns and gives each as a ratio to the first.
func compare(ctx context.Context, group []contender, rounds int) ([]latencyRow, error) {
	samples, err := takeTurns(ctx, group, rounds)
	if err != nil {
		return nil, err
	}
	var rows []latencyRow
	for i, c := range group {
		rows = append(rows, latencyRow{Name: c.name, P50: median(samples[i]), P95: percentile(samples[i], 95), Samples: samples[i],
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
