package holder

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/proc"
)

// admitted checks a connecting process. A command's view can have the socket, where a read-only
// mount does not prevent connections, and a command has the holder's uid; but it is in a pid
// namespace of its own. If root started the holder for another user, root is nobody in the holder's
// user namespace: there the directory, which is root's, keeps others out.
func (s *server) admitted(fd int) bool {
	cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil || cred.Pid <= 0 {
		return false
	}
	if int(cred.Uid) != os.Geteuid() && !(s.byRoot && int(cred.Uid) == overflowUID()) {
		return false
	}
	pid := int(cred.Pid)
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil || nested(string(status)) {
		return false
	}
	// The number was its own during the read, if it is still alive now. Kernels before 6.5 cannot
	// say.
	pidfd, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PEERPIDFD)
	if err != nil {
		return err == unix.ENOPROTOOPT
	}
	defer unix.Close(pidfd)
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, 0)
	return n == 0 && err == nil
}

// nested reports whether a process, by its status in /proc, is in a pid namespace below that of
// this /proc. Without an answer it is.
func nested(status string) bool {
	return len(strings.Fields(proc.StatusField(status, "NSpid"))) != 1
}

// overflowUID is the user of processes that have no name here; usually 65534.
func overflowUID() int {
	b, _ := os.ReadFile("/proc/sys/kernel/overflowuid")
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return 65534
	}
	return n
}
