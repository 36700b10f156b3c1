package stdio

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

const getTermios, setTermios, bytesWaiting = unix.TCGETS, unix.TCSETS, unix.TIOCINQ

// unlockSlave allows the other side of a terminal to be opened, and returns its name.
func unlockSlave(master int) (name string, err error) {
	number, err := unix.IoctlGetUint32(master, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0)
	}
	return fmt.Sprint("/dev/pts/", number), err
}

// noKey is the value of a key that a terminal does not have.
const noKey = 0

// ignores reports whether a process ignores a signal. It is true if the process is unknown.
func ignores(pid int, sig syscall.Signal) bool {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, mask, _ := bytes.Cut(status, []byte("\nSigIgn:\t"))
	mask, _, _ = bytes.Cut(mask, []byte("\n"))
	bits, err := strconv.ParseUint(string(mask), 16, 64)
	return err != nil || bits&(1<<(sig-1)) != 0
}
