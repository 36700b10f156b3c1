package plan

import (
	"slices"
	"testing"
	"time"

	"github.com/sbxhost/sbxhost/internal/engine/containerinit"
	"github.com/sbxhost/sbxhost/plugins/docker/internal/definition"
)

func TestCacheVolumes(t *testing.T) {
	t.Parallel()
	of := func(caller uint32, user, project string, paths ...string) string {
		return Caches(&definition.CacheOptions{Paths: paths, Lasting: time.Hour}, caller, user, project)[0].Name
	}
	first := of(1, "1:1", "/p", "/c")
	if again := of(1, "1:1", "/p", "/c"); again != first {
		t.Errorf("%s, then %s", first, again)
	}
	for name, other := range map[string]string{
		"caller": of(2, "1:1", "/p", "/c"), "user": of(1, "2:1", "/p", "/c"), "project": of(1, "1:1", "/q", "/c"), "path": of(1, "1:1", "/p", "/d"),
		"no project": of(1, "1:1", "", "/p/c"),
	} {
		if other == first {
			t.Errorf("another %s has the same volume", name)
		}
	}
	for user, want := range map[string]string{
		"7:8": "7:8", "node": containerinit.Anybody, "7": containerinit.Anybody, "7:staff": containerinit.Anybody, "4294967295:1": containerinit.Anybody, "-1:1": containerinit.Anybody,
	} {
		p := basePlanner()
		p.Options.User = user
		if got := p.cacheOwner(); got != want {
			t.Errorf("%s: %v", user, got)
		}
	}
	p := basePlanner()
	p.Caches = Caches(&definition.CacheOptions{Paths: []string{"/c"}}, 1, p.User(), "/p")
	got, err := p.CacheSetUp(p.Caches)
	if err != nil || got.Config.User != "0:0" || !slices.Equal(got.Host.CapAdd, []string{"CAP_CHOWN"}) || len(got.Host.Mounts) != 2 || got.Host.NetworkMode != "none" {
		t.Errorf("got %+v, %v", got, err)
	}
}
