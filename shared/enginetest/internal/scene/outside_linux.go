package scene

import (
	"os"
	"syscall"
)

// outsideAttr gives a process all capabilities: root's own, in a mount
// namespace that is its own, or those of a new user namespace.
func outsideAttr(privileged bool) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{}
	if !privileged {
		return attr
	}
	attr.Unshareflags = syscall.CLONE_NEWNS
	if os.Geteuid() != 0 {
		attr.Cloneflags = syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS
		attr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	return attr
}
