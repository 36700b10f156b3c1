package approvals

import (
	"errors"
	"time"
)

// BootTime is a point in time that no change of the wall clock moves: the time since the machine's
// boot, suspension included.
type BootTime struct {
	Boot    string
	Elapsed time.Duration
}

// ErrNoSession says that nobody can tell which login session this process belongs to.
var ErrNoSession = errors.New("no login session is known here")

// NamedSession is the session with a name of its user's choice. Who ends such a session must revoke
// its approvals.
func NamedSession(name string) string { return "name:" + name }
