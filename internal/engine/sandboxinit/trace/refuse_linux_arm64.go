package trace

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	ntPRStatus   = 1
	ntARMSyscall = 0x404
)

// refuseCall ends a call that is about to begin as it would end without a tracer.
func refuseCall(pid int) {
	var regs unix.PtraceRegs
	iov := unix.Iovec{Base: (*byte)(unsafe.Pointer(&regs)), Len: uint64(unsafe.Sizeof(regs))}
	if ptrace(unix.PTRACE_GETREGSET, pid, ntPRStatus, uintptr(unsafe.Pointer(&iov))) != nil {
		return
	}
	regs.Regs[0] = ^uint64(syscall.ENOSYS - 1)
	ptrace(unix.PTRACE_SETREGSET, pid, ntPRStatus, uintptr(unsafe.Pointer(&iov)))
	none := int32(-1)
	iov = unix.Iovec{Base: (*byte)(unsafe.Pointer(&none)), Len: 4}
	ptrace(unix.PTRACE_SETREGSET, pid, ntARMSyscall, uintptr(unsafe.Pointer(&iov)))
}
