package terminal

import "golang.org/x/sys/unix"

// DiscardInput discards typed input that nobody has read.
func DiscardInput(fd int) { unix.IoctlSetInt(fd, unix.TCFLSH, unix.TCIFLUSH) }

const getModes, setModesFlush = unix.TCGETS, unix.TCSETSF
