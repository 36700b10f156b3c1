package docker

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sbxhost/sbxhost/shared"
)

// prepareCaches makes the directories that outlive containers, and forgets those
// that nothing has used for as long as they were to last. They are directories
// of the caller's, and no volumes of the daemon's: a volume belongs to root, and
// nobody but a privileged container could hand it to the command's user.
func (b *box) prepareCaches(spec *shared.Spec) error {
	c := &b.plans.options.cache
	if len(c.paths) == 0 {
		return nil
	}
	base, err := b.cacheBase()
	if err != nil {
		return optionError("cache", "%v", err)
	}
	project := projectOf(spec)
	if !c.perUser && project == "" {
		return optionError("cache", "there is no workspace that it could belong to; scope = \"user\" needs none")
	}
	if c.perUser {
		project = ""
	}
	for i, inside := range c.paths {
		dir := filepath.Join(base, cacheName(project, inside))
		data, err := openCache(dir, project, inside, c.ttl, time.Now())
		if err == nil && spec.User != nil {
			err = os.Chown(data, int(spec.User.UID), int(spec.User.GID))
		}
		if err != nil {
			return optionError(fmt.Sprintf("cache.paths[%d]", i), "%v", err)
		}
		b.plans.binds = append(b.plans.binds, shared.Mount{Source: data, Destination: inside, Kind: shared.MountReadWrite,
			Origin: fmt.Sprintf("config.cache.paths[%d]", i)})
	}
	sweepCaches(base, time.Now())
	return nil
}

func (b *box) cacheBase() (string, error) {
	base := b.engine.surroundings.getenv("XDG_CACHE_HOME")
	if !filepath.IsAbs(base) {
		home := b.engine.surroundings.getenv("HOME")
		if !filepath.IsAbs(home) {
			return "", fmt.Errorf("no home directory is known to keep it in: set HOME")
		}
		base = filepath.Join(home, ".cache")
	}
	base = filepath.Join(base, "sbxhost", "docker-cache")
	if err := os.MkdirAll(base, 0o700); err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(base)
}

// cacheName is a directory for one path inside of one project, or, where
// project is empty, of the user.
func cacheName(project, inside string) string {
	sum := sha256.Sum256([]byte(project + "\x00" + inside))
	return hex.EncodeToString(sum[:16])
}

// A cache is a directory with these in it.

const (
	cacheData = "data"
	cacheUse  = "use" // its modification time is that of the latest use
)

// openCache gives the directory to bind, empty where it has expired.
func openCache(dir, project, inside string, ttl time.Duration, now time.Time) (string, error) {
	data, use := filepath.Join(dir, cacheData), filepath.Join(dir, cacheUse)
	if expired(use, now) {
		if err := os.RemoveAll(dir); err != nil {
			return "", err
		}
	}
	if err := os.MkdirAll(data, 0o755); err != nil {
		return "", err
	}
	text := fmt.Sprintf("%s\n%q\n%q\n", ttl, project, inside)
	return data, os.WriteFile(use, []byte(text), 0o600)
}

// expired reports whether the cache of a use file has been of no use for
// longer than it was to last.
func expired(use string, now time.Time) bool {
	info, err := os.Lstat(use)
	if err != nil {
		return false
	}
	raw, err := os.ReadFile(use)
	if err != nil {
		return false
	}
	line, _, _ := strings.Cut(string(raw), "\n")
	ttl, err := time.ParseDuration(line)
	return err == nil && ttl > 0 && now.Sub(info.ModTime()) > ttl
}

// sweepCaches removes the caches that have expired, of whatever project.
func sweepCaches(base string, now time.Time) {
	entries, err := os.ReadDir(base)
	if err != nil {
		return
	}
	for _, e := range entries {
		if dir := filepath.Join(base, e.Name()); e.IsDir() && expired(filepath.Join(dir, cacheUse), now) {
			os.RemoveAll(dir)
		}
	}
}
