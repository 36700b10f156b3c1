package main

import "golang.org/x/sys/unix"

// discardInput throws away what was typed and not read.
func discardInput(fd int) { unix.IoctlSetInt(fd, unix.TCFLSH, unix.TCIFLUSH) }

// cooksOutput reports whether a terminal makes a line's end one for itself.
func cooksOutput(fd int) bool {
	mode, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	return err != nil || mode.Oflag&unix.OPOST != 0
}
