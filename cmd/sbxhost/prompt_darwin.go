package main

import "golang.org/x/sys/unix"

// discardInput throws away what was typed and not read; 1 is FREAD.
func discardInput(fd int) { unix.IoctlSetPointerInt(fd, unix.TIOCFLUSH, 1) }
