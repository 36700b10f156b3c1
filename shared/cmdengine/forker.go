package cmdengine

import (
	"os"
	"runtime"
	"sync"
	"syscall"

	"github.com/sbxhost/sbxhost/internal/proc"
)

// forker makes all processes of an engine from one OS thread. The kernel sends a parent-death
// signal when the *thread* that forked ends, and the runtime ends threads at will.
type forker struct {
	start sync.Once
	work  chan func()
}

func newForker() *forker {
	f := &forker{work: make(chan func())}
	// The thread ends with an engine that nobody can use any more.
	runtime.AddCleanup(f, func(work chan func()) { close(work) }, f.work)
	return f
}

func forkerThread(work <-chan func()) {
	runtime.LockOSThread()
	// Descriptors that this process inherited may lack the flag, and a command would inherit them.
	// Go's forks do not depend on it, and files that Go opens have it.
	_ = proc.CloseOnExecFrom(3)
	for fn := range work {
		fn()
	}
	// Unlocked, the thread returns to the runtime alive. A return while it is locked would end it,
	// and with it all that it forked.
	runtime.UnlockOSThread()
}

// process forks and executes. It returns the error of fork or execve.
func (f *forker) process(path string, argv []string, attr *os.ProcAttr) (*os.Process, error) {
	f.start.Do(func() { go forkerThread(f.work) })
	var process *os.Process
	var err error
	done := make(chan struct{})
	f.work <- func() {
		defer close(done)
		process, err = os.StartProcess(path, argv, attr)
	}
	<-done
	runtime.KeepAlive(f)
	return process, err
}

// sysProcAttr adds to base what every process of an engine needs: a session of its own, so that a
// terminal's signals to the engine do not reach it; death with the engine, unless it clears up; and
// the sandbox's user.
func sysProcAttr(base *syscall.SysProcAttr, credential *syscall.Credential, clearsUp bool) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{}
	if base != nil {
		*attr = *base
	}
	attr.Setsid, attr.Setpgid, attr.Foreground = true, false, false
	if !clearsUp {
		dieWithParent(attr)
	}
	if credential != nil {
		attr.Credential = credential
	}
	return attr
}
