package approvals

import (
	"errors"
	"time"
)

// BootTime is a point in time that no change of the wall clock moves: how long
// this boot of the machine has lasted, suspension counted.
type BootTime struct {
	Boot    string
	Elapsed time.Duration
}

// ErrNoSession says that there is no telling which login session this process
// belongs to.
var ErrNoSession = errors.New("no login session is known here")

// NamedSession is the session that goes by a name of its user's choice. Whoever
// ends one has to revoke what was approved for it.
func NamedSession(name string) string { return "name:" + name }
