package sandboxinit

import (
	"runtime"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/engine/holder"
	"github.com/sbxhost/sbxhost/internal/proc"
)

// onEachThread makes a system call on each thread. The error is ENOTSUP in a program with C in it.
//
//go:uintptrescapes
func onEachThread(call, a, b uintptr) error {
	if _, _, errno := syscall.AllThreadsSyscall(call, a, b, 0); errno != 0 {
		return errno
	}
	return nil
}

// dropCapabilities drops all capabilities except those of a mask from every thread. An executed
// program can gain none, because the holder emptied the bounding set; see also runAlone.
func dropCapabilities(kept, control, resets int) error {
	err := capsetAll(kept)
	if err == syscall.ENOTSUP {
		// For a program with C in it. The executed program has no other capabilities, and no other
		// thread.
		return dropByExec(kept, control, resets)
	}
	return err
}

func capsetAll(kept int) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	have := [2]unix.CapUserData{{Effective: uint32(kept), Permitted: uint32(kept), Inheritable: uint32(kept)}} // a tracer inherits them
	return onEachThread(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&have[0])))
}

// dropLocking gives up the capabilities for a command's namespaces, if there are any: every thread
// has the same. In a program with C in it the init keeps them.
func dropLocking() error {
	if have, err := capabilities(); err == nil && have[0].Permitted|have[1].Permitted == 0 {
		return nil
	}
	if err := capsetAll(0); err != syscall.ENOTSUP {
		return err
	}
	return nil
}

func dropByExec(kept, control, resets int) error {
	runtime.LockOSThread()
	if err := proc.SetCapabilities(uint32(kept)); err != nil {
		return err
	}
	// Not os.Args[0]: its descriptor is closed then, and its number may be the runtime's.
	const self = "/proc/self/exe"
	words := []string{self, initRole}
	for _, fd := range [...]int{control, resets} {
		if fd < 0 {
			continue
		}
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0); err != nil {
			return err
		}
		words = append(words, strconv.Itoa(fd))
	}
	return syscall.Exec(self, words, []string{"GOMAXPROCS=1"})
}

// capabilities are those of this thread.
func capabilities() (have [2]unix.CapUserData, err error) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	return have, unix.Capget(&header, &have[0])
}

// lockingCaps are this process's capabilities for a command's namespaces.
func lockingCaps() (list []uintptr) {
	have, _ := capabilities()
	for _, c := range holder.LockingCaps {
		if have[0].Permitted&(1<<c) != 0 {
			list = append(list, c)
		}
	}
	return list
}
