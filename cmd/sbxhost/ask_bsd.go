//go:build darwin || freebsd

package main

import "golang.org/x/sys/unix"

// discardInput throws away what was typed and not read; 1 is FREAD.
func discardInput(fd int) { unix.IoctlSetPointerInt(fd, unix.TIOCFLUSH, 1) }

const getModes, setModesFlush = unix.TIOCGETA, unix.TIOCSETAF

// cooksOutput reports whether a terminal makes a line's end one for itself.
func cooksOutput(fd int) bool {
	mode, err := unix.IoctlGetTermios(fd, getModes)
	return err != nil || mode.Oflag&unix.OPOST != 0
}
