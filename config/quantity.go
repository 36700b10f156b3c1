package config

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/zclconf/go-cty/cty"
)

// duration is a string such as "90s", "2m" or "1h30m", above zero.
func (d *decoder) duration(it item) (time.Duration, bool) {
	if !it.val.IsNull() && it.val.Type() == cty.Number {
		d.invalid(it, `a duration has a unit: write "90s", "2m" or "1h30m"`)
		return 0, false
	}
	s, ok := d.text(it)
	if !ok {
		return 0, false
	}
	v, err := time.ParseDuration(s)
	switch {
	case err != nil:
		d.invalid(it, `%s is not a duration; write "90s", "2m" or "1h30m"`, it.show(s))
		return 0, false
	case v <= 0:
		d.invalid(it, "%s is not more than zero; leave it out for the default", it.show(s))
		return 0, false
	}
	return v, true
}

// The range of cpus: the kernel counts processor time by the millisecond in periods of 100, and no
// machine has more than some thousands of processors.
const (
	leastCPUs = 0.01
	mostCPUs  = 1 << 16
)

// cpus is a number of processors, which may be a fraction.
func (d *decoder) cpus(it item) (float64, bool) {
	if it.val.IsNull() || it.val.Type() != cty.Number {
		d.wrongType(it, "a number")
		return 0, false
	}
	v, _ := it.val.AsBigFloat().Float64()
	if v < leastCPUs || v > mostCPUs {
		d.invalid(it, "must be a number from %v to %d", leastCPUs, mostCPUs)
		return 0, false
	}
	return v, true
}

// size is a whole number and a unit: B, KiB, MiB, GiB or TiB. There is only one spelling of each,
// because 1g, 1G and 1GB differ from tool to tool.
func (d *decoder) size(it item) (uint64, bool) {
	const form = `write a whole number and a unit, such as "512MiB" or "2GiB"`
	if !it.val.IsNull() && it.val.Type() == cty.Number {
		d.invalid(it, "a size has a unit; "+form)
		return 0, false
	}
	s, ok := d.text(it)
	if !ok {
		return 0, false
	}
	v, problem := parseSize(s)
	if problem != "" {
		d.invalid(it, "%s %s; "+form, it.show(s), problem)
		return 0, false
	}
	return v, true
}

// units are those of sizes, by the power of two.
var units = map[string]uint{"B": 0, "KiB": 10, "MiB": 20, "GiB": 30, "TiB": 40}

func parseSize(s string) (uint64, string) {
	digits := len(s) - len(strings.TrimLeft(s, "0123456789"))
	number, unit := s[:digits], s[digits:]
	shift, known := units[unit]
	v, err := strconv.ParseUint(number, 10, 64)
	switch {
	case unit == "":
		return 0, "has no unit"
	case !known && number == "":
		return 0, "is not a size"
	case !known:
		return 0, "has an unknown unit (there are B, KiB, MiB, GiB and TiB)"
	case number == "":
		return 0, "has no number"
	case err != nil || v > math.MaxInt64>>shift: // limits pass through interfaces with signed sizes
		return 0, "is too large"
	case v == 0:
		return 0, "is not more than zero"
	}
	return v << shift, ""
}
