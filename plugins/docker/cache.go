package docker

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/moby/moby/api/types/mount"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/containerinit"
)

// The labels of a cache's volume: whose it is, by the number of a user of this
// machine, of what it is the cache, and how long it was to last without use when
// it was made.
const (
	cacheLabel   = "org.sbxhost.cache"
	cacheProject = "org.sbxhost.project"
	cachePath    = "org.sbxhost.path"
	cacheLasting = "org.sbxhost.ttl"
)

// A cacheVolume is a named volume of the daemon's that outlives containers.
type cacheVolume struct {
	name   string
	inside string
	origin string
	labels map[string]string
}

// cacheVolumes are those of a definition: of one project, or, where project is
// empty, of one caller. Commands that run as different users share none, since
// a volume has one owner.
func cacheVolumes(o *cacheOptions, caller uint32, user, project string) []cacheVolume {
	var out []cacheVolume
	for i, inside := range o.Paths {
		whose := strconv.FormatUint(uint64(caller), 10)
		sum := sha256.Sum256([]byte(strings.Join([]string{whose, user, project, inside}, "\x00")))
		out = append(out, cacheVolume{
			name: "sbxhost-cache-" + hex.EncodeToString(sum[:16]), inside: inside, origin: fmt.Sprintf("config.cache.paths[%d]", i),
			labels: map[string]string{cacheLabel: whose, cacheProject: strings.ToValidUTF8(project, "?"), cachePath: inside, cacheLasting: o.ttl.String()},
		})
	}
	return out
}

func (c *cacheVolume) mount() mount.Mount {
	return mount.Mount{Type: mount.TypeVolume, Source: c.name, Target: c.inside,
		// What the image has there belongs to others than the command's user.
		VolumeOptions: &mount.VolumeOptions{NoCopy: true, Labels: c.labels}}
}

// ours reports whether a volume is the one that this was made as.
func (c *cacheVolume) ours(labels map[string]string) bool {
	for _, l := range [...]string{cacheLabel, cacheProject, cachePath} {
		if got, ok := labels[l]; !ok || got != c.labels[l] {
			return false
		}
	}
	return true
}

// cacheOwner is who commands run as, which owns what they cache. The number of
// somebody whom the image names is not known here.
func (p *planner) cacheOwner() containerinit.Owner {
	uid, gid, _ := strings.Cut(p.user(), ":")
	u, err := strconv.ParseUint(uid, 10, 31)
	g, err2 := strconv.ParseUint(gid, 10, 31)
	if err != nil || err2 != nil {
		return containerinit.Owner{Anybody: true}
	}
	return containerinit.Owner{UID: uint32(u), GID: uint32(g)}
}

// cacheSetUp is the container that gives new volumes to their owner. No program
// of the image runs in it.
func (p *planner) cacheSetUp(fresh []cacheVolume) (*plan, error) {
	set := *p
	set.spec = &shared.Spec{}
	set.options = &options{User: "0:0", CapAdd: []string{"CAP_CHOWN"}}
	set.limits, set.binds, set.caches, set.network, set.lineDir = shared.Limits{}, nil, fresh, "", ""
	dirs := make([]string, len(fresh))
	for i, c := range fresh {
		dirs[i] = c.inside
	}
	return set.container(containerinit.OwnArgv(p.cacheOwner(), dirs...))
}

// recordedTTL reads the text of a record, of which the modification time says when
// a cache was last used, and the text for how long it is to last without. Labels
// of a volume cannot be changed once it is there, so it is a file of the caller's.
func recordedTTL(text string) (ttl time.Duration, ok bool) {
	ttl, err := time.ParseDuration(strings.TrimSpace(text))
	return ttl, err == nil && ttl > 0
}
