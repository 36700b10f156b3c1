package docker

import (
	"cmp"
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
	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/hostpath"
	"github.com/sbxhost/sbxhost/shared"
)

// cacheKeeper sees to the volumes of one box.
type cacheKeeper struct {
	records string // directory

	mu   sync.Mutex
	used time.Time // when they were last seen to
}

// prepareCaches says which volumes there are to be. They are made with the first
// container.
func (b *box) prepareCaches(spec *shared.Spec) error {
	c := &b.plans.options.Cache
	if len(c.Paths) == 0 {
		return nil
	}
	project := projectOf(spec)
	if c.Scope == "user" {
		project = ""
	} else if project == "" {
		return optionError("cache", "there is no workspace that it could belong to; scope = \"user\" needs none")
	}
	records, err := b.cacheRecords()
	if err != nil {
		return optionError("cache", "%v", err)
	}
	b.cache.records = records
	b.plans.caches = cacheVolumes(c, self().UID, b.plans.user(), project)
	return nil
}

// cacheRecords is where it is noted when a volume was last used.
func (b *box) cacheRecords() (string, error) {
	base := b.engine.surroundings.getenv("XDG_CACHE_HOME")
	if !filepath.IsAbs(base) {
		home := b.engine.surroundings.getenv("HOME")
		if !filepath.IsAbs(home) {
			return "", fmt.Errorf("no home directory is known to note its use in: set HOME")
		}
		base = filepath.Join(home, ".cache")
	}
	base = filepath.Join(base, "sbxhost", "docker-cache")
	return base, os.MkdirAll(base, 0o700)
}

// refreshCaches makes the volumes that are not there and notes that they are
// used, now and then while the sandbox is open: another engine takes them
// away once nothing has used them for as long as they were to last.
func (b *box) refreshCaches(ctx context.Context) error {
	c := &b.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(b.plans.caches) == 0 || !c.used.IsZero() && time.Since(c.used) < b.plans.options.Cache.ttl/4 {
		return nil
	}
	unlock, err := lockDir(ctx, c.records)
	if err != nil {
		return optionError("cache", "%v", err)
	}
	defer unlock()
	now := time.Now()
	if err := b.makeCaches(ctx, now); err != nil {
		return err
	}
	sweepCaches(ctx, b.daemon.client, c.records, now)
	c.used = now
	return nil
}

// lockDir keeps other engines from doing the same to the same volumes.
func lockDir(ctx context.Context, dir string) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := hostpath.Lock(ctx, int(f.Fd()), unix.LOCK_EX); err != nil {
		f.Close()
		return nil, cmp.Or(ctx.Err(), err)
	}
	return func() { f.Close() }, nil
}

func (b *box) makeCaches(ctx context.Context, now time.Time) error {
	docker, ttl := b.daemon.client, b.plans.options.Cache.ttl
	var fresh []cacheVolume
	for _, c := range b.plans.caches {
		record := filepath.Join(b.cache.records, c.name)
		if expired(record, now) {
			if err := removeCache(ctx, docker, c.name, record); err != nil && !cerrdefs.IsConflict(err) {
				return cacheError(ctx, &c, err)
			}
		}
		got, err := docker.VolumeInspect(ctx, c.name, client.VolumeInspectOptions{})
		switch _, noted := os.Lstat(record); {
		case err == nil && !c.ours(got.Volume.Labels):
			return &shared.Error{Kind: shared.ErrUnavailable, Attribute: c.origin, Message: fmt.Sprintf("the daemon's volume %q was not made by this engine", c.name),
				Hint: "remove it with docker volume rm"}
		case err == nil && noted == nil:
			if err := note(record, ttl, now); err != nil {
				return optionError("cache", "%v", err)
			}
			continue
		case err != nil && !cerrdefs.IsNotFound(err):
			return cacheError(ctx, &c, err)
		}
		// Its record tells that it has been given to its owner, so there is none before.
		if err := os.Remove(record); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return optionError("cache", "%v", err)
		}
		if _, err := docker.VolumeCreate(ctx, client.VolumeCreateOptions{Name: c.name, Labels: c.labels}); err != nil {
			return cacheError(ctx, &c, err)
		}
		fresh = append(fresh, c)
	}
	if len(fresh) == 0 {
		return nil
	}
	if err := b.giveCaches(ctx, fresh); err != nil {
		return cacheError(ctx, &fresh[0], err)
	}
	for _, c := range fresh {
		if err := note(filepath.Join(b.cache.records, c.name), ttl, now); err != nil {
			return optionError("cache", "%v", err)
		}
	}
	return nil
}

func cacheError(ctx context.Context, c *cacheVolume, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return &shared.Error{Kind: shared.ErrUnavailable, Attribute: c.origin, Message: "the volume for " + c.inside + ": " + firstLine(err.Error())}
}

// giveCaches runs the container that gives volumes to their owner.
func (b *box) giveCaches(ctx context.Context, fresh []cacheVolume) error {
	docker := b.daemon.client
	p, err := b.plans.cacheSetUp(fresh)
	if err != nil {
		return err
	}
	p.host.AutoRemove = false // its status is to be read
	created, err := docker.ContainerCreate(ctx, createOptions(p, b.plans.options.platform))
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removalTime)
		defer cancel()
		docker.ContainerRemove(ctx, created.ID, client.ContainerRemoveOptions{Force: true})
	}()
	if _, err := docker.ContainerStart(ctx, created.ID, client.ContainerStartOptions{}); err != nil {
		return err
	}
	wait := docker.ContainerWait(ctx, created.ID, client.ContainerWaitOptions{Condition: container.WaitConditionNotRunning})
	select {
	case end := <-wait.Result:
		if end.StatusCode != 0 {
			return fmt.Errorf("it could not be given to its user: status %d", end.StatusCode)
		}
		return nil
	case err := <-wait.Error:
		return err
	}
}

// note writes a record anew.
func note(record string, ttl time.Duration, now time.Time) error {
	return errors.Join(os.WriteFile(record, []byte(ttl.String()+"\n"), 0o600), os.Chtimes(record, now, now))
}

// expired reports whether the volume of a record has been of no use for longer
// than it was to last.
func expired(record string, now time.Time) bool {
	info, err := os.Lstat(record)
	if err != nil {
		return false
	}
	raw, err := os.ReadFile(record)
	if err != nil {
		return false
	}
	ttl, ok := recordedTTL(string(raw))
	return ok && now.Sub(info.ModTime()) > ttl
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

// sweepCaches removes the caller's volumes that have expired, of whatever
// project, and the records of those that are gone. It finds volumes by their
// label; one without a record counts as used since it was made.
func sweepCaches(ctx context.Context, docker *client.Client, records string, now time.Time) {
	mine := cacheLabel + "=" + strconv.FormatUint(uint64(self().UID), 10)
	list, err := docker.VolumeList(ctx, client.VolumeListOptions{Filters: make(client.Filters).Add("label", mine)})
	if err != nil {
		return
	}
	there := map[string]bool{"lock": true}
	for _, v := range list.Items {
		record := filepath.Join(records, v.Name)
		there[v.Name] = true
		_, err := os.Lstat(record)
		made, bad := time.Parse(time.RFC3339, v.CreatedAt)
		ttl, ok := recordedTTL(v.Labels[cacheLasting])
		forgotten := errors.Is(err, fs.ErrNotExist) && bad == nil && ok && now.Sub(made) > ttl
		if forgotten || expired(record, now) {
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
