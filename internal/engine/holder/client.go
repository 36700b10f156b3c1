package holder

import (
	"errors"
	"os"
	"syscall"
)

// ErrLost is wrapped by the errors of a [Client] whose holder is gone: it was
// killed, or crashed, and the inits that it had started died with it.
var ErrLost = errors.New("the session's holder died")

// ErrUnavailable is wrapped by the errors of [Connect]: there can be no
// holder here.
var ErrUnavailable = errors.New("no session holder")

// Place is the directory in a session's that holders keep their things in. No
// command may see it: there is a socket in it.
const Place = "holder"

// Config says whose holder and where.
type Config struct {
	// Dir is the session's directory, private to its owner. Empty is no session: the holder
	// has one client, and nothing of it is on a disk.
	Dir string
	// User is who the holder runs as. Nil is the caller's own user; any other
	// needs a caller who is root.
	User *syscall.Credential
	// Executable opens the program that runs as the holder.
	Executable func() (*os.File, error)
}
