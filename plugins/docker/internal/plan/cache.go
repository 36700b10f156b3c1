package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/moby/moby/api/types/mount"

	"github.com/sbxhost/sbxhost/internal/engine/containerinit"
	"github.com/sbxhost/sbxhost/plugins/docker/internal/definition"
	"github.com/sbxhost/sbxhost/shared"
)

// The labels of a cache's volume: the user's number on this machine, what the cache is for, and its
// lifetime without use.
const (
	CacheLabel   = "org.sbxhost.cache"
	CacheProject = "org.sbxhost.project"
	cachePath    = "org.sbxhost.path"
	CacheLasting = "org.sbxhost.ttl"
)

// A Cache is a named volume of the daemon that outlives containers.
type Cache struct {
	Name   string
	Inside string
	Origin string
	Labels map[string]string
}

// Caches are those of a definition: of one project, or, if project is empty, of one caller.
// Commands of different users share none, because a volume has one owner. Nor do definitions with
// different lifetimes, because its labels cannot change.
func Caches(o *definition.CacheOptions, caller uint32, user, project string) []Cache {
	var out []Cache
	for i, inside := range o.Paths {
		whose := strconv.FormatUint(uint64(caller), 10)
		sum := sha256.Sum256([]byte(strings.Join([]string{whose, user, project, inside, o.Lasting.String()}, "\x00")))
		out = append(out, Cache{
			Name: "sbxhost-cache-" + hex.EncodeToString(sum[:16]), Inside: inside, Origin: fmt.Sprintf("config.cache.paths[%d]", i),
			Labels: map[string]string{CacheLabel: whose, CacheProject: strings.ToValidUTF8(project, "?"), cachePath: inside, CacheLasting: o.Lasting.String()},
		})
	}
	return out
}

func (c *Cache) mount() mount.Mount {
	return mount.Mount{Type: mount.TypeVolume, Source: c.Name, Target: c.Inside,
		// The image's files there belong to others than the command's user.
		VolumeOptions: &mount.VolumeOptions{NoCopy: true, Labels: c.Labels}}
}

// Ours reports whether a volume was made as this one.
func (c *Cache) Ours(labels map[string]string) bool {
	for _, l := range [...]string{CacheLabel, CacheProject, cachePath} {
		if got, ok := labels[l]; !ok || got != c.Labels[l] {
			return false
		}
	}
	return true
}

// cacheOwner is the commands' user, who owns the caches. The number of a user of the image is not
// known here.
func (p *Planner) cacheOwner() string {
	uid, gid, _ := strings.Cut(p.User(), ":")
	for _, number := range []string{uid, gid} {
		if _, err := strconv.ParseUint(number, 10, 31); err != nil {
			return containerinit.Anybody
		}
	}
	return p.User()
}

// CacheSetUp is the container that gives new volumes to their owner. No program of the image runs
// in it.
func (p *Planner) CacheSetUp(fresh []Cache) (*Plan, error) {
	set := *p
	set.Spec = &shared.Spec{}
	set.Options = &definition.Options{User: "0:0", CapAdd: []string{"CAP_CHOWN"}}
	set.Limits, set.Caches, set.LineDir = shared.Limits{}, fresh, ""
	dirs := make([]string, len(fresh))
	for i, c := range fresh {
		dirs[i] = c.Inside
	}
	return set.Container(containerinit.OwnArgv(p.cacheOwner(), dirs...))
}
