package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/sbxhost/sbxhost/internal/view"
)

// measured is a string of a number and its unit, which parse reads; form is what it must be.
func measured[N any](d *decoder, it item, form string, parse func(string) (N, bool)) (value N, ok bool) {
	if !d.is(it, cty.String, form) {
		return value, false
	}
	s := it.val.AsString()
	if value, ok = parse(s); !ok {
		d.invalid(it, "%s is not %s", it.show(s), form)
	}
	return value, ok
}

func (d *decoder) duration(it item) (time.Duration, bool) {
	return measured(d, it, `a time above zero with its unit, such as "90s", "2m" or "1h30m"`, func(s string) (time.Duration, bool) {
		v, err := time.ParseDuration(s)
		return v, err == nil && v > 0
	})
}

// The range of cpus: the kernel counts processor time by the millisecond in periods of 100, and no
// machine has more than some thousands of processors.
const (
	leastCPUs = 0.01
	mostCPUs  = 1 << 16
)

// cpus is a number of processors, which may be a fraction.
func (d *decoder) cpus(it item) (float64, bool) {
	if !d.is(it, cty.Number, "a number") {
		return 0, false
	}
	v, _ := it.val.AsBigFloat().Float64()
	if v < leastCPUs || v > mostCPUs {
		d.invalid(it, "must be a number from %v to %d", leastCPUs, mostCPUs)
		return 0, false
	}
	return v, true
}

// units are those of sizes, by the power of two. There is only one spelling of each, because 1g, 1G and 1GB
// differ from tool to tool.
var units = map[string]uint{"B": 0, "KiB": 10, "MiB": 20, "GiB": 30, "TiB": 40}

// size is at least so many bytes.
func (d *decoder) size(it item, least uint64) (uint64, bool) {
	return measured(d, it, fmt.Sprintf(`a size from %q to "8388607TiB", in B, KiB, MiB, GiB or TiB`, view.SizeText(least)), func(s string) (uint64, bool) {
		digits := len(s) - len(strings.TrimLeft(s, "0123456789"))
		shift, known := units[s[digits:]]
		v, err := strconv.ParseUint(s[:digits], 10, 64)
		// Limits pass through interfaces with signed sizes.
		return v << shift, known && err == nil && v <= math.MaxInt64>>shift && v<<shift >= least
	})
}
