package containerinit

import (
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/proc"
)

// Main is the life of a process whose arguments are [Requested]. It returns the exit status.
// runInit is the life of the init that it becomes, with a control socket; it first hides the process
// from the command.
func Main(args []string, runInit func(control int) int) int {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		for {
			if err = unix.Connect(fd, &unix.SockaddrUnix{Name: args[2]}); err != unix.EINTR {
				break
			}
		}
	}
	if err != nil {
		proc.Complain("connecting to "+strconv.Quote(args[2]), err)
		return Unreachable
	}
	return runInit(fd)
}
