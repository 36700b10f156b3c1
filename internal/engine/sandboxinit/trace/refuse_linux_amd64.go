package trace

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// refuseCall ends a call that is about to begin as it would end without a tracer.
func refuseCall(pid int) {
	var regs unix.PtraceRegs
	if unix.PtraceGetRegs(pid, &regs) == nil {
		regs.Orig_rax, regs.Rax = ^uint64(0), ^uint64(syscall.ENOSYS-1)
		unix.PtraceSetRegs(pid, &regs)
	}
}
