// Package owner identifies the process that made something in a daemon, so that another process can
// see when nobody needs it any more.
package owner

import (
	"strconv"
	"strings"
)

// Owner is a process, unique on this machine.
type Owner struct {
	Boot, Namespace string
	PID             int
	Started         string
}

// String is what Parse reads.
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
