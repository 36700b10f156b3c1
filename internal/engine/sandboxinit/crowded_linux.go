package sandboxinit

import (
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// spareThreads is more than an init can need at a time: one waits for children, one for requests,
// and the runtime wants one idle while those sleep.
const spareThreads = 4

// makeThreads leaves n idle threads with the runtime, which keeps them for its next need. A
// goroutine that is locked to its thread shares it with none.
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

// offer is added to the score by which the kernel, when memory is used up, chooses a process to
// kill: half of all memory.
const offer = 500

// offerChildren makes processes that are forked before its result is called more likely than the
// init to be killed for lack of memory. Anyone can raise a score, and restore it. It ignores
// failure, because it only helps the kernel to choose.
func offerChildren() (forked func()) {
	// A process that is not dumpable cannot open its own files in /proc. No process inside can use
	// this moment yet.
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
