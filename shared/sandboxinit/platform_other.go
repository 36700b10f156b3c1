//go:build !linux

package sandboxinit

import (
	"os"
	"strconv"
	"syscall"
)

const needsLinux = "sbxhost-init: the init needs Linux namespaces\n"

func runMaking(int, [2]int) int { return initFailed }

func runInit(int) int {
	os.Stderr.WriteString(needsLinux)
	return initFailed
}

func runLimitStage(int) int {
	os.Stderr.WriteString(needsLinux)
	return initFailed
}

func runFetch(string) int {
	os.Stderr.WriteString(needsLinux)
	return initFailed
}

func runKeep(string) int {
	os.Stderr.WriteString(needsLinux)
	return initFailed
}

func runStay(string) int {
	os.Stderr.WriteString(needsLinux)
	return initFailed
}

func runOwn(string, []string) int {
	os.Stderr.WriteString(needsLinux)
	return initFailed
}

// CloseOnExecFrom marks every descriptor from first on, so that no program that this
// process executes inherits what this process was itself started with. What Go
// passes on by ExtraFiles is not affected.
func CloseOnExecFrom(first int) error {
	entries, err := os.ReadDir("/dev/fd")
	if err != nil {
		return err
	}
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd >= first {
			syscall.CloseOnExec(fd)
		}
	}
	return nil
}

const ownFDs = "/dev/fd/"

// Sealed is a file that no name leads to, with that content, read from its start.
func Sealed(name, content string) (*os.File, error) {
	w, err := os.CreateTemp("", name+"-*")
	if err != nil {
		return nil, err
	}
	defer w.Close()
	defer os.Remove(w.Name())
	if _, err := w.WriteString(content); err != nil {
		return nil, err
	}
	return os.Open(w.Name())
}

func openBinary(b Binary) (*os.File, error) { return os.Open(b.Path) }

func socketpair() ([2]int, error) {
	// Without SOCK_CLOEXEC a fork between the two calls would inherit the ends.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fds[0])
		syscall.CloseOnExec(fds[1])
	}
	return fds, err
}

func exit(code int) { os.Exit(code) }
