package enginetest

import "os"

// terminal is both ends of a pseudo-terminal.
type terminal struct{ master, slave *os.File }

func (t *terminal) close() {
	t.master.Close()
	t.slave.Close()
}
