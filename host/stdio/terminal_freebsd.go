package stdio

import (
	"syscall"

	"golang.org/x/sys/unix"
)

const getTermios, setTermios = unix.TIOCGETA, unix.TIOCSETA

// iUTF8: FreeBSD's line editor knows no characters of several bytes.
const iUTF8 = 0

// noKey stands for a key that a terminal does not have.
const noKey = 0xff

// ignores reports whether a process ignores a signal: nobody knows here.
func ignores(int, syscall.Signal) bool { return true }
