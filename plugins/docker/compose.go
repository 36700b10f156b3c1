package docker

import (
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
)

// composePrefix begins the names of the Compose projects of this engine.
const composePrefix = "sbxhost-"

// composeProjects numbers the projects of this process, whose names must differ.
type composeProjects struct{ n atomic.Uint64 }

// name gives a project a name from which another engine can tell whether its
// owner is gone. It holds what such a name can hold: small letters, digits, dashes.
func (c *composeProjects) name(o owner) string {
	return fmt.Sprintf("%s%s-%s-%d-%s-%d", composePrefix, shortBoot(o.boot), o.namespace, o.pid, o.started, c.n.Add(1))
}

// shortBoot is enough of a boot's id to tell it from the one before.
func shortBoot(id string) string {
	return strings.ReplaceAll(id[:min(len(id), 18)], "-", "")
}

// projectOwner reads the owner of a project off its name. Its boot is short.
func projectOwner(project string) (owner, bool) {
	rest, ok := strings.CutPrefix(project, composePrefix)
	part := strings.Split(rest, "-")
	if !ok || len(part) != 5 {
		return owner{}, false
	}
	pid, err := strconv.Atoi(part[2])
	if err != nil || pid < 1 || part[0] == "" || part[1] == "" || part[3] == "" || part[4] == "" {
		return owner{}, false
	}
	return owner{part[0], part[1], pid, part[3]}, true
}
