package main

import "golang.org/x/sys/unix"

// discardInput throws away what was typed and not read.
func discardInput(fd int) { unix.IoctlSetInt(fd, unix.TCFLSH, unix.TCIFLUSH) }

const getModes, setModesFlush = unix.TCGETS, unix.TCSETSF

// cooksOutput reports whether a terminal makes a line's end one for itself.
func cooksOutput(fd int) bool {
	mode, err := unix.IoctlGetTermios(fd, getModes)
	return err != nil || mode.Oflag&unix.OPOST != 0
}
