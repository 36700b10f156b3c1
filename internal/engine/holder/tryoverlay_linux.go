package holder

import (
	"strconv"

	"golang.org/x/sys/unix"
)

// tryLayers tries, once a session, on the file system of the session's directory, what an overlay
// does there when a command removes or replaces something. A successful mount does not prove that
// this works: without extended attributes, or in a file system that is an overlay itself, only this
// fails.
func (s *space) tryLayers() error {
	const name, whiteout = "trial", "trial.whiteout"
	remove := func() {
		unix.Unlinkat(s.dir, name, 0)
		unix.Unlinkat(s.dir, whiteout, 0)
	}
	remove() // of a trial that was interrupted
	defer remove()
	err := unix.Mknodat(s.dir, name, unix.S_IFREG|0o600, 0)
	if err == nil {
		err = unix.Renameat2(s.dir, name, s.dir, whiteout, unix.RENAME_WHITEOUT)
	}
	if err == nil {
		err = unix.Setxattr(fdPath+strconv.Itoa(s.dir), "user.overlay.trial", []byte("y"), 0)
	}
	return mountError("using an overlay on the session's file system", err)
}
