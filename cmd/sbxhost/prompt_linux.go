package main

import "golang.org/x/sys/unix"

// discardInput throws away what was typed and not read.
func discardInput(fd int) { unix.IoctlSetInt(fd, unix.TCFLSH, unix.TCIFLUSH) }
