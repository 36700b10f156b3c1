package main

import (
	"math"
	"slices"
	"time"
)

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
