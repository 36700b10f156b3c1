//go:build darwin || freebsd

package terminal

import "golang.org/x/sys/unix"

// DiscardInput throws away what was typed and not read; 1 is FREAD.
func DiscardInput(fd int) { unix.IoctlSetPointerInt(fd, unix.TIOCFLUSH, 1) }

const getModes, setModesFlush = unix.TIOCGETA, unix.TIOCSETAF

// CooksOutput reports whether a terminal makes a line's end one for itself.
func CooksOutput(fd int) bool {
	mode, err := unix.IoctlGetTermios(fd, getModes)
	return err != nil || mode.Oflag&unix.OPOST != 0
}
