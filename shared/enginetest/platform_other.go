//go:build !linux

package enginetest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

var errOnlyLinux = &absentError{"only on Linux"}

func outsideAttr(bool) *syscall.SysProcAttr { return &syscall.SysProcAttr{} }

func inheritDirectory(*scene) error { return errOnlyLinux }
func takeHandle(*scene) error       { return errOnlyLinux }
func makeSharedMemory(*scene) error { return errOnlyLinux }
func makeMessageQueue(*scene) error { return errOnlyLinux }
func needScoping() error            { return errOnlyLinux }

// exchange cannot be done in one step here.
func exchange(a, b string) error {
	return errors.Join(os.Rename(a, a+"-x"), os.Rename(b, a), os.Rename(a+"-x", b))
}

// peakMemory is what a process has in memory now: nothing tells of its past here.
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
	return nil, &absentError{"what a process holds cannot be counted here"}
}

// A family cannot be found here.
type family struct{}

func (*scene) adopt(int) (*family, error) { return nil, errOnlyLinux }
func (*family) look(int)                  {}
func (*family) lives() error              { return nil }

// running takes a plan's word for it here.
func running([]string) error { return nil }
