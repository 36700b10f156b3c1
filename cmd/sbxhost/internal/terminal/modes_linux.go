package terminal

import (
	"golang.org/x/sys/unix"
)

// DiscardInput throws away what was typed and not read.
func DiscardInput(fd int) { unix.IoctlSetInt(fd, unix.TCFLSH, unix.TCIFLUSH) }

const getModes, setModesFlush = unix.TCGETS, unix.TCSETSF

// CooksOutput reports whether a terminal makes a line's end one for itself.
func CooksOutput(fd int) bool {
	mode, err := unix.IoctlGetTermios(fd, getModes)
	return err != nil || mode.Oflag&unix.OPOST != 0
}
