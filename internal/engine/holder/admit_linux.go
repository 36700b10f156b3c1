package holder

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/proc"
)

// admitted checks who connects. The socket can be in a view that a command has,
// where a read-only mount keeps nobody from connecting, and a command has the
// holder's uid; but it is in a pid namespace of its own. In the user namespace
// of a holder that root has started for another user, root is nobody: there the
// directory, which is root's, keeps others out.
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
	// The number was its own while that was read, if it is still alive now. Kernels
	// before 6.5 do not tell.
	pidfd, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PEERPIDFD)
	if err != nil {
		return err == unix.ENOPROTOOPT
	}
	defer unix.Close(pidfd)
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, 0)
	return n == 0 && err == nil
}

// nested reports whether a process, by its status in /proc, is in a pid namespace
// below that of this /proc. One that does not say is taken to be.
func nested(status string) bool {
	return len(strings.Fields(proc.StatusField(status, "NSpid"))) != 1
}

func overflowUID() int {
	const usual = 65534
	b, err := os.ReadFile("/proc/sys/kernel/overflowuid")
	if err != nil {
		return usual
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return usual
	}
	return n
}
