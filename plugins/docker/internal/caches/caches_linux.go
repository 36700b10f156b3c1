package caches

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/sbxhost/sbxhost/plugins/docker/internal/daemon"
	"github.com/sbxhost/sbxhost/plugins/docker/internal/definition"
	"github.com/sbxhost/sbxhost/plugins/docker/internal/owner"
	"github.com/sbxhost/sbxhost/plugins/docker/internal/plan"
	"github.com/sbxhost/sbxhost/shared"
)

// A Keeper manages the volumes of one sandbox.
type Keeper struct {
	docker *client.Client
	plans  *plan.Planner // has the volumes
	// records is the directory that records the last use of each volume.
	records string

	mu   sync.Mutex
	used time.Time // time of the last Refresh
}

// New plans the volumes. The first container makes them.
func New(docker *client.Client, plans *plan.Planner, getenv func(string) string) (*Keeper, error) {
	k := &Keeper{docker: docker, plans: plans}
	c := &plans.Options.Cache
	if len(c.Paths) == 0 {
		return k, nil
	}
	project := definition.ProjectOf(plans.Spec)
	if c.Scope == "user" {
		project = ""
	} else if project == "" {
		return nil, definition.Error("cache", "there is no workspace for it; scope = \"user\" needs none")
	}
	base := getenv("XDG_CACHE_HOME")
	if !filepath.IsAbs(base) {
		home := getenv("HOME")
		if !filepath.IsAbs(home) {
			return nil, definition.Error("cache", "there is no home directory to record its use in: set HOME")
		}
		base = filepath.Join(home, ".cache")
	}
	k.records = filepath.Join(base, "sbxhost", "docker-cache")
	if err := os.MkdirAll(k.records, 0o700); err != nil {
		return nil, definition.Error("cache", "%v", err)
	}
	plans.Caches = plan.Caches(c, plans.Self.UID, plans.User(), project)
	return k, nil
}

// Refresh makes missing volumes and records their use, now and then while the sandbox is open:
// another engine removes a volume that nobody has used for its whole lifetime.
func (c *Keeper) Refresh(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.plans.Caches) == 0 || !c.used.IsZero() && time.Since(c.used) < c.plans.Options.Cache.Lasting/4 {
		return nil
	}
	unlock, err := owner.LockDir(ctx, c.records)
	if err != nil {
		return definition.Error("cache", "%v", err)
	}
	defer unlock()
	now := time.Now()
	if err := c.make(ctx, now); err != nil {
		return err
	}
	sweepCaches(ctx, c.docker, c.records, c.plans.Self.UID, now)
	c.used = now
	return nil
}

func (c *Keeper) make(ctx context.Context, now time.Time) error {
	var fresh []plan.Cache
	for i := range c.plans.Caches {
		v := &c.plans.Caches[i]
		there, err := c.makeOne(ctx, v, now)
		if err != nil {
			return err
		}
		if !there {
			fresh = append(fresh, *v)
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	if err := c.give(ctx, fresh); err != nil {
		return cacheError(ctx, &fresh[0], err)
	}
	for _, v := range fresh {
		if err := c.note(v.Name, now); err != nil {
			return err
		}
	}
	return nil
}

// makeOne makes a volume, unless it exists and belongs to its owner.
func (c *Keeper) makeOne(ctx context.Context, v *plan.Cache, now time.Time) (there bool, err error) {
	record := filepath.Join(c.records, v.Name)
	if unused(record, "", c.plans.Options.Cache.Lasting, now) {
		if err := removeCache(ctx, c.docker, v.Name, record); err != nil && !cerrdefs.IsConflict(err) {
			return false, cacheError(ctx, v, err)
		}
	}
	got, err := c.docker.VolumeInspect(ctx, v.Name, client.VolumeInspectOptions{})
	switch _, noted := os.Lstat(record); {
	case err == nil && !v.Ours(got.Volume.Labels):
		return false, &shared.Error{Kind: shared.ErrUnavailable, Attribute: v.Origin, Message: fmt.Sprintf("the daemon's volume %q was not made by this engine", v.Name),
			Hint: "remove it with docker volume rm"}
	case err == nil && noted == nil:
		return true, c.note(v.Name, now)
	case err != nil && !cerrdefs.IsNotFound(err):
		return false, cacheError(ctx, v, err)
	}
	// Its record proves that its owner has it, so there must be none before.
	if err := os.Remove(record); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, definition.Error("cache", "%v", err)
	}
	if _, err := c.docker.VolumeCreate(ctx, client.VolumeCreateOptions{Name: v.Name, Labels: v.Labels}); err != nil {
		return false, cacheError(ctx, v, err)
	}
	return false, nil
}

func cacheError(ctx context.Context, c *plan.Cache, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return &shared.Error{Kind: shared.ErrUnavailable, Attribute: c.Origin, Message: "the volume for " + c.Inside + ": " + daemon.FirstLine(err.Error())}
}

// give runs the container that gives volumes to their owner.
func (c *Keeper) give(ctx context.Context, fresh []plan.Cache) error {
	p, err := c.plans.CacheSetUp(fresh)
	if err != nil {
		return err
	}
	p.Host.AutoRemove = false // its status is needed
	created, err := c.docker.ContainerCreate(ctx, client.ContainerCreateOptions{Config: &p.Config, HostConfig: &p.Host, Platform: c.plans.Options.ImagePlatform})
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), daemon.RemovalTime)
		defer cancel()
		c.docker.ContainerRemove(ctx, created.ID, client.ContainerRemoveOptions{Force: true})
	}()
	if _, err := c.docker.ContainerStart(ctx, created.ID, client.ContainerStartOptions{}); err != nil {
		return err
	}
	wait := c.docker.ContainerWait(ctx, created.ID, client.ContainerWaitOptions{Condition: container.WaitConditionNotRunning})
	select {
	case end := <-wait.Result:
		if end.StatusCode != 0 {
			return fmt.Errorf("giving it to its user failed: status %d", end.StatusCode)
		}
		return nil
	case err := <-wait.Error:
		return err
	}
}

// note writes a new record of a volume.
func (c *Keeper) note(name string, now time.Time) error {
	record := filepath.Join(c.records, name)
	if err := errors.Join(os.WriteFile(record, nil, 0o600), os.Chtimes(record, now, now)); err != nil {
		return definition.Error("cache", "%v", err)
	}
	return nil
}

// unused reports whether nobody has used a volume for its whole lifetime. The modification time of
// its record, a file of the caller, is the last use; without a record, that was when it was made.
func unused(record, made string, lasting time.Duration, now time.Time) bool {
	used, err := time.Parse(time.RFC3339, made)
	if info, missing := os.Lstat(record); missing == nil {
		used, err = info.ModTime(), nil
	}
	return err == nil && now.Sub(used) > lasting
}

// removeCache removes a volume, unless a container has it, and then its record.
func removeCache(ctx context.Context, docker *client.Client, name, record string) error {
	if _, err := docker.VolumeRemove(ctx, name, client.VolumeRemoveOptions{}); err != nil && !cerrdefs.IsNotFound(err) {
		return err
	}
	if err := os.Remove(record); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// sweepCaches removes the caller's expired volumes, of all projects, and records of missing ones.
// It finds volumes by label.
func sweepCaches(ctx context.Context, docker *client.Client, records string, uid uint32, now time.Time) {
	mine := plan.CacheLabel + "=" + strconv.FormatUint(uint64(uid), 10)
	list, err := docker.VolumeList(ctx, client.VolumeListOptions{Filters: make(client.Filters).Add("label", mine)})
	if err != nil {
		return
	}
	there := map[string]bool{"lock": true}
	for _, v := range list.Items {
		record := filepath.Join(records, v.Name)
		there[v.Name] = true
		if ttl, err := time.ParseDuration(v.Labels[plan.CacheLasting]); err == nil && unused(record, v.CreatedAt, ttl, now) {
			removeCache(ctx, docker, v.Name, record)
		}
	}
	entries, err := os.ReadDir(records)
	if err != nil {
		return
	}
	for _, e := range entries {
		if e.Type().IsRegular() && !there[e.Name()] {
			os.Remove(filepath.Join(records, e.Name()))
		}
	}
}
