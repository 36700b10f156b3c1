package cmdengine

import (
	"os"
	"sync"
	"syscall"

	"github.com/sbxhost/sbxhost/internal/proc"
)

// forker is the thread that makes all processes of engines. The kernel sends a parent-death signal when
// the *thread* that forked ends, and the runtime ends threads at will.
var forker = sync.OnceValue(func() *proc.Thread {
	t := proc.NewThread()
	// Descriptors that this process inherited may lack the flag, and a command would inherit them.
	// Go's forks do not depend on it, and files that Go opens have it.
	t.Do(func() { _ = proc.CloseOnExecFrom(3) })
	return t
})

// startProcess forks and executes. It returns the error of fork or execve.
func startProcess(path string, argv []string, attr *os.ProcAttr) (process *os.Process, err error) {
	forker().Do(func() { process, err = os.StartProcess(path, argv, attr) })
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
