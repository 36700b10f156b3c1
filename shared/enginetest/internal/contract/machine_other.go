//go:build !linux

package contract

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"

	"github.com/sbxhost/sbxhost/shared/enginetest/internal/scene"
)

// keptAsKernelDoes is for Linux alone.
func keptAsKernelDoes(string) error { return nil }

// peakMemory is what a process has in memory now: this system does not report the past.
func peakMemory(pid int) (int64, error) {
	out, err := exec.Command("/bin/ps", "-o", "rss=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return 0, fmt.Errorf("memory of process %d: %w", pid, err)
	}
	kib, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
	return kib << 10, err
}

// holdings would take a program for each question here.
func holdings(int) (map[string]int, error) {
	return nil, scene.AbsentError("what a process holds cannot be counted here")
}

// adopt can mark nothing here.
func adopt(*subject, int) (uint64, error) { return 0, scene.AbsentError("only on Linux") }
func marked(uint64) error                 { return nil }

// running takes a plan's word for it here.
func running([]string) error { return nil }
