package holder

import (
	"errors"
	"os"
	"syscall"
)

// ErrLost is wrapped by the errors of a [Client] whose holder was killed or crashed. Its inits died
// with it.
var ErrLost = errors.New("the session's holder died")

// ErrUnavailable is wrapped by the errors of [Connect]: no holder is possible here.
var ErrUnavailable = errors.New("no session holder")

// ErrOther is wrapped by the error of [Connect] for a session that another process has.
var ErrOther = errors.New("another process has the session")

// Place is the directory of holders in a session's directory. No command may see it.
const Place = "holder"

// Config describes a holder.
type Config struct {
	// Dir is the session's directory, private to its owner. Empty means no session: the holder has
	// no files on a disk.
	Dir string
	// User is the holder's user. Nil is the caller's own; any other needs a caller that is root.
	User *syscall.Credential
	// Executable opens the program that runs as the holder.
	Executable func() (*os.File, error)
}
