package docker

import (
	"strconv"
	"strings"
)

// owner is a process, told apart from every other of this machine.
type owner struct {
	boot, namespace string
	pid             int
	started         string
}

// String holds what the name of a Compose project can hold: small letters, digits
// and dashes.
func (o owner) String() string {
	return strings.Join([]string{o.boot, o.namespace, strconv.Itoa(o.pid), o.started}, "-")
}

func parseOwner(s string) (owner, bool) {
	parts := strings.Split(s, "-")
	if len(parts) != 4 {
		return owner{}, false
	}
	pid, err := strconv.Atoi(parts[2])
	if err != nil || pid < 1 || parts[0] == "" || parts[1] == "" || parts[3] == "" {
		return owner{}, false
	}
	return owner{parts[0], parts[1], pid, parts[3]}, true
}

// gone reports whether the process is known not to run any more. One in another
// pid namespace cannot be seen from here.
func (o owner) gone(boot, namespace string, started func(pid int) string) bool {
	if o.boot != boot {
		return boot != ""
	}
	return o.namespace == namespace && started(o.pid) != o.started
}
