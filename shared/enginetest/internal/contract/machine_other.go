//go:build !linux

package contract

import (
	"os/exec"
	"strconv"
	"strings"

	"github.com/sbxhost/sbxhost/shared/enginetest/internal/scene"
)

// keptAsKernelDoes is for Linux alone.
func (s *subject) keptAsKernelDoes(string) {}

// peakMemory is what a process has in memory now: this system does not report the past.
func (s *subject) peakMemory(pid int) int64 {
	out, err := exec.Command("/bin/ps", "-o", "rss=", "-p", strconv.Itoa(pid)).Output()
	s.Must(err)
	kib, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
	s.Must(err)
	return kib << 10
}

// holdings would take a program for each question here.
func (s *subject) holdings(int) map[string]int {
	s.End(scene.NotApplicable, "what a process holds cannot be counted here")
	return nil
}

// adopt can mark nothing here.
func (s *subject) adopt(int) uint64 {
	s.End(scene.NotApplicable, "only on Linux")
	return 0
}

func marked(uint64) error { return nil }

// running takes a plan's word for it here.
func running([]string) error { return nil }
