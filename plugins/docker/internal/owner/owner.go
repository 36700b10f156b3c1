// Package owner says which process has made something that a daemon keeps, so that
// another process can tell when nobody needs it any more.
package owner

import (
	"strconv"
	"strings"
)

// Owner is a process, told apart from every other of this machine.
type Owner struct {
	Boot, Namespace string
	PID             int
	Started         string
}

// String holds what the name of a Compose project can hold: small letters, digits
// and dashes.
func (o Owner) String() string {
	return strings.Join([]string{o.Boot, o.Namespace, strconv.Itoa(o.PID), o.Started}, "-")
}

func Parse(s string) (Owner, bool) {
	parts := strings.Split(s, "-")
	if len(parts) != 4 {
		return Owner{}, false
	}
	pid, err := strconv.Atoi(parts[2])
	if err != nil || pid < 1 || parts[0] == "" || parts[1] == "" || parts[3] == "" {
		return Owner{}, false
	}
	return Owner{parts[0], parts[1], pid, parts[3]}, true
}

// Gone reports whether the process is known not to run any more. One in another
// pid namespace cannot be seen from here.
func (o Owner) Gone(boot, namespace string, started func(pid int) string) bool {
	if o.Boot != boot {
		return boot != ""
	}
	return o.Namespace == namespace && started(o.PID) != o.Started
}
