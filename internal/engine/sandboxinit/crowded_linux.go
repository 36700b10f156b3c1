package sandboxinit

import (
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// spareThreads is more than what an init can need at a time: one that waits for
// children, one that waits for requests, and one that the runtime wants idle
// when those sleep.
const spareThreads = 4

// makeThreads leaves n idle threads with the runtime, which keeps them for
// its next need. A goroutine that is locked to its thread shares it with none.
func makeThreads(n int) {
	var ready, gone sync.WaitGroup
	release := make(chan struct{})
	ready.Add(n)
	for range n {
		gone.Go(func() {
			runtime.LockOSThread()
			ready.Done()
			<-release
			// Unlocked, the thread outlives the goroutine.
			runtime.UnlockOSThread()
		})
	}
	ready.Wait()
	close(release)
	gone.Wait()
}

// offer is added to the score by which the kernel, when memory is used up,
// chooses whom to kill: half of what memory there is.
const offer = 500

// offerChildren makes the processes that are forked before its result is called
// more likely to be killed for want of memory than the init. A score can
// be raised by anyone, and taken back to what it was. It is a matter of the kernel's choice
// alone, so that failure is ignored.
func offerChildren() (forked func()) {
	// A process that is not dumpable cannot open its own files in /proc. Nothing
	// that could make use of the moment runs inside yet.
	unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0)
	fd, err := syscall.Open("/proc/self/oom_score_adj", syscall.O_RDWR|syscall.O_CLOEXEC, 0)
	unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	if err != nil {
		return func() {}
	}
	var text [16]byte
	n, _ := syscall.Read(fd, text[:])
	before, err := strconv.Atoi(strings.TrimSpace(string(text[:max(n, 0)])))
	if err != nil {
		syscall.Close(fd)
		return func() {}
	}
	score := func(n int) { syscall.Pwrite(fd, []byte(strconv.Itoa(n)), 0) }
	score(min(before+offer, 1000))
	return func() {
		score(before)
		syscall.Close(fd)
	}
}
