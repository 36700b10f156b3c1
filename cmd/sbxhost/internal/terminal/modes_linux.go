package terminal

import "golang.org/x/sys/unix"

// DiscardInput throws away what was typed and not read.
func DiscardInput(fd int) { unix.IoctlSetInt(fd, unix.TCFLSH, unix.TCIFLUSH) }

const getModes, setModesFlush = unix.TCGETS, unix.TCSETSF
