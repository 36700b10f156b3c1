package docker

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/sbxhost/sbxhost/internal/testing/dockerd"
	"github.com/sbxhost/sbxhost/plugins/docker/internal/definition"
	"github.com/sbxhost/sbxhost/plugins/docker/internal/plan"
	"github.com/sbxhost/sbxhost/shared"
)

// cached lists the volumes of caches of some projects, and removes them with
// the test.
func cached(t *testing.T, projects ...string) []string {
	t.Helper()
	d := daemonFor(t)
	list := func() (names []string) {
		got, err := d.Client.VolumeList(context.Background(), client.VolumeListOptions{Filters: make(client.Filters).Add("label", plan.CacheLabel)})
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range got.Items {
			if slices.Contains(projects, v.Labels[plan.CacheProject]) {
				names = append(names, v.Name)
			}
		}
		return names
	}
	t.Cleanup(func() {
		for _, name := range list() {
			d.Client.VolumeRemove(context.Background(), name, client.VolumeRemoveOptions{Force: true})
		}
	})
	return list()
}

// inCache runs a script in a sandbox of its own with a cache.
func inCache(t *testing.T, e *engine, project string, user *shared.User, options opts, cache opts, script string) string {
	t.Helper()
	options["cache"] = cache
	s, err := e.Open(t.Context(), shared.Spec{User: user, Options: rawOptions(t, options),
		Table: []shared.Entry{{Source: project, Path: "/w", Access: shared.ReadWrite, Why: "workspace"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(context.Background())
	out := sh(t, s, script)
	return out.stdout + out.stderr
}

func TestCaches(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	projects := []string{dir(t), dir(t)}
	cached(t, projects...)
	user, inside := them()
	run := func(project int, path, script string) string {
		t.Helper()
		return inCache(t, e, projects[project], &user, opts{}, opts{"paths": []string{path}, "ttl": "1h"}, script)
	}
	if out := run(0, "/cache", "stat -c '%u:%g %a' /cache; grep CapEff /proc/self/status; mkdir /cache/d && echo kept > /cache/d/f"); out != inside+" 755\nCapEff:\t0000000000000000\n" {
		t.Fatal(out)
	}
	if out := run(0, "/cache", "cat /cache/d/f; rm -r /cache/d; echo kept > /cache/f"); out != "kept\n" {
		t.Errorf("the same project: %s", out)
	}
	if out := run(1, "/cache", "ls -A /cache"); out != "" {
		t.Errorf("another project: %s", out)
	}
	if out := run(0, "/other", "ls -A /other"); out != "" {
		t.Errorf("another path: %s", out)
	}
	if names := cached(t, projects...); len(names) != 3 {
		t.Errorf("volumes: %q", names)
	}
	// Somebody has removed it behind the engine's back.
	gone := plan.Caches(&definition.CacheOptions{Paths: []string{"/cache"}, Lasting: time.Hour}, self().UID, inside, projects[1])[0].Name
	if _, err := daemonFor(t).Client.VolumeRemove(t.Context(), gone, client.VolumeRemoveOptions{}); err != nil {
		t.Fatal(err)
	}
	if out := run(1, "/cache", "echo new > /cache/f && cat /cache/f"); out != "new\n" {
		t.Errorf("a volume that was removed: %s", out)
	}
}

// TestCacheOfUser shares one between the projects of a caller, in which nobody
// finds what another user inside has.
func TestCacheOfUser(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	projects := []string{dir(t), dir(t)}
	cache := opts{"paths": []string{"/of-user"}, "scope": "user"}
	me, _ := them()
	cached(t, "")
	inCache(t, e, projects[0], &me, opts{}, cache, "echo all > /of-user/f")
	if out := inCache(t, e, projects[1], &me, opts{}, cache, "cat /of-user/f"); out != "all\n" {
		t.Errorf("shared by the user's projects: %s", out)
	}
	if !withRootless() {
		if out := inCache(t, e, projects[1], &shared.User{UID: 4244, GID: 4243}, opts{}, cache, "ls -A /of-user"); out != "" {
			t.Errorf("another user: %s", out)
		}
	}
	// One whose number only the image knows.
	if out := inCache(t, e, projects[1], &me, opts{"user": "tester"}, cache, "echo x > /of-user/f && id -u && cat /of-user/f"); out != "4242\nx\n" {
		t.Errorf("a user by name: %s", out)
	}
}

func TestCachesExpire(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	project := dir(t)
	cached(t, project)
	records := filepath.Join(e.surroundings.Getenv("HOME"), ".cache/sbxhost/docker-cache")
	cache := func(paths ...string) opts { return opts{"paths": paths, "ttl": "1h"} }
	inCache(t, e, project, nil, opts{}, cache("/a", "/b"), "echo x > /a/f; echo x > /b/f")
	names := cached(t, project)
	if len(names) != 2 {
		t.Fatalf("volumes: %q", names)
	}
	old := time.Now().Add(-2 * time.Hour)
	for _, name := range names {
		if err := os.Chtimes(filepath.Join(records, name), old, old); err != nil {
			t.Fatal(err)
		}
	}
	if out := inCache(t, e, project, nil, opts{}, cache("/a"), "ls -A /a; echo y > /a/g"); out != "" {
		t.Errorf("of no use for longer than its ttl: %s", out)
	}
	if left := cached(t, project); len(left) != 1 {
		t.Errorf("what has expired is left: %q", left)
	}
	if entries, _ := os.ReadDir(records); len(entries) != 2 {
		t.Errorf("records: %v", entries)
	}
	// Without a record nobody knows whose it is.
	if err := os.RemoveAll(records); err != nil {
		t.Fatal(err)
	}
	if out := inCache(t, e, project, nil, opts{}, cache("/a"), "ls -A /a"); out != "g\n" {
		t.Errorf("without its record: %s", out)
	}
}

// A volume in whose place somebody has put another is not the command's.
func TestForeignVolume(t *testing.T) {
	t.Parallel()
	project := dir(t)
	user, inside := them()
	name := plan.Caches(&definition.CacheOptions{Paths: []string{"/cache"}, Lasting: 720 * time.Hour}, self().UID, inside, project)[0].Name
	d := daemonFor(t)
	if _, err := d.Client.VolumeCreate(t.Context(), client.VolumeCreateOptions{Name: name}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		d.Client.VolumeRemove(context.Background(), name, client.VolumeRemoveOptions{})
	})
	s := open(t, shared.Spec{User: &user, Options: rawOptions(t, opts{"image": dockerd.Image, "cache": opts{"paths": []string{"/cache"}}}),
		Table: []shared.Entry{{Source: project, Path: "/w", Access: shared.ReadWrite, Why: "workspace"}}})
	_, err := s.Start(t.Context(), script("true"), shared.Stdio{})
	if err == nil || !strings.Contains(err.Error(), "was not made by this engine") {
		t.Errorf("got %v", err)
	}
}

// The daemon would make a missing place in the workspace, as root.
func TestCacheBeneathWorkspace(t *testing.T) {
	t.Parallel()
	e, project := newEngine(t), dir(t, "there/f")
	cached(t, project)
	out := inCache(t, e, project, nil, opts{}, opts{"paths": []string{"/w/there"}}, "ls -A /w/there; echo x > /w/there/g")
	if _, err := os.Lstat(project + "/there/g"); out != "" || err == nil {
		t.Errorf("the workspace shows through: %q, %v", out, err)
	}
	_, err := e.Open(t.Context(), shared.Spec{Options: rawOptions(t, opts{"cache": opts{"paths": []string{"/w/missing"}}}),
		Table: []shared.Entry{{Source: project, Path: "/w", Access: shared.ReadWrite, Why: "workspace"}}})
	if err == nil || !strings.Contains(err.Error(), "does not exist in the bind around it") {
		t.Errorf("got %v", err)
	}
}
