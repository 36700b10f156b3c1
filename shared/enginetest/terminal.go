package enginetest

import (
	"os"

	"golang.org/x/sys/unix"
)

// terminal is both ends of a pseudo-terminal.
type terminal struct{ master, slave *os.File }

func (t *terminal) close() {
	t.master.Close()
	t.slave.Close()
}

func (t *terminal) resize(rows, cols uint16) error {
	return unix.IoctlSetWinsize(int(t.master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols})
}
