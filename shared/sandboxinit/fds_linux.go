package sandboxinit

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// closeInherited closes what the init has inherited by design and needs no
// more: its executable and the command's stdio. It goes by their numbers, not
// by a range: the Go runtime has fds of its own, one for its network poller
// among them, and dies without.
func closeInherited(control int) {
	if number, ok := strings.CutPrefix(os.Args[0], "/proc/self/fd/"); ok {
		if fd, ok := parseFD(number); ok && fd > 2 {
			unix.Close(fd)
		}
	}
	for fd := control + 1; fd <= control+3; fd++ {
		unix.Close(fd)
	}
}
