// Package proc changes this program's own process before it handles anything that a sandboxed
// command must not reach, and reads facts about other processes from /proc.
package proc

import (
	"os"
	"strconv"
	"syscall"
)

// Failed is the exit status of an init that could not do its work. The engine uses the control
// socket; the status is for a person who sees it.
const Failed = 125

// Complain prints on stderr what an init could not do, and returns Failed. That stream is the
// engine's, for diagnosis, and never the command's stderr.
func Complain(doing string, err error) int {
	os.Stderr.WriteString("sbxhost-init (pid " + strconv.Itoa(os.Getpid()) + "): " + doing + ": " + err.Error() + "\n")
	return Failed
}

// closeOnExecFrom marks the descriptors that dir lists.
func closeOnExecFrom(dir string, first int) error {
	fds, err := numbers(dir)
	for _, fd := range fds {
		if fd >= first {
			syscall.CloseOnExec(fd)
		}
	}
	return err
}

// numbers returns the names in a directory that are numbers.
func numbers(dir string) (list []int, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if n, err := strconv.Atoi(e.Name()); err == nil {
			list = append(list, n)
		}
	}
	return list, err
}

// A Thread is an OS thread of its own, which runs one function after another.
type Thread struct{ work chan func() }

// NewThread makes a thread; see [OnOwnThread].
func NewThread() *Thread {
	t := &Thread{make(chan func())}
	go OnOwnThread(func() {
		for fn := range t.work {
			fn()
		}
	})
	return t
}

// Do runs fn on the thread, and returns after that.
func (t *Thread) Do(fn func()) {
	done := make(chan struct{})
	t.work <- func() {
		defer close(done)
		fn()
	}
	<-done
}

// End ends the thread. No function may run there.
func (t *Thread) End() { close(t.work) }
