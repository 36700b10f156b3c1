package terminal

import "golang.org/x/sys/unix"

// DiscardInput discards typed input that nobody has read; 1 is FREAD.
func DiscardInput(fd int) { unix.IoctlSetPointerInt(fd, unix.TIOCFLUSH, 1) }

const getModes, setModesFlush = unix.TIOCGETA, unix.TIOCSETAF
