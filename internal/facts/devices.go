//go:build unix

package facts

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/view"
)

// device describes an element of a definition's devices.
func device(p string) (d view.Device) {
	way := Follow(p)
	if d.Path, d.Err = way.End, way.Err; d.Err != nil {
		return d
	}
	var st unix.Stat_t
	if d.Err = unix.Lstat(way.End, &st); d.Err != nil || st.Mode&unix.S_IFMT != unix.S_IFCHR {
		return d
	}
	d.Driver, d.Minor = driverOf(unix.Major(uint64(st.Rdev))), unix.Minor(uint64(st.Rdev))
	return d
}

// driverOf is the kernel's name for the driver with a major number of character devices, or "".
func driverOf(major uint32) string {
	text, _ := os.ReadFile("/proc/devices")
	characters, _, _ := strings.Cut(string(text), "\nBlock devices:")
	for line := range strings.Lines(characters) {
		if number, name, ok := strings.Cut(strings.TrimSpace(line), " "); ok && number == strconv.FormatUint(uint64(major), 10) {
			return name
		}
	}
	return ""
}
