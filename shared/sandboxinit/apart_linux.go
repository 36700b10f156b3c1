package sandboxinit

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// apart has a child made in a user namespace of its own, in which its user and group are what they
// are. Its result is to be called once the child is there.
func apart(sys *syscall.SysProcAttr) (forked func()) {
	sys.Cloneflags |= unix.CLONE_NEWUSER
	sys.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}}
	sys.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}
	sys.AmbientCaps = []uintptr{unix.CAP_SETPCAP} // for giveUpCapabilities
	// What is not dumpable belongs to root: without that, this process could not write the
	// child's map. Other commands are in user namespaces of their own.
	unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0)
	return func() { unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) }
}

// giveUpCapabilities takes what a process has that is the first of a user namespace from the
// calling thread, and from what it executes.
func giveUpCapabilities() error {
	for c := uintptr(0); ; c++ {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		if err == unix.EINVAL {
			break // past the last one that this kernel has
		}
		if err != nil {
			return err
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	return unix.Capset(&header, &none[0])
}
