package actor_test

import (
	"runtime"
	"testing"

	"github.com/sbxhost/sbxhost/shared/enginetest/internal/actor"
	"github.com/sbxhost/sbxhost/shared/enginetest/internal/probes"
	"github.com/sbxhost/sbxhost/shared/enginetest/internal/scene"
)

// Each action that a probe names is there, on the platform that it is for.
func TestActionsExist(t *testing.T) {
	t.Parallel()
	k := &scene.Kit{Dir: t.TempDir(), Random: "0123456789", Program: "/actor"}
	tried := 0
	for _, p := range probes.All() {
		if !p.Tried() || p.Only == probes.OnlyDarwin || p.Only == probes.OnlyLinux && runtime.GOOS != "linux" {
			continue
		}
		sc := k.Layout(p.Place(), p.ID)
		sc.Plant() // which fails where a victim is needed, that nothing starts here
		for _, tr := range []*scene.Trial{p.Asked(sc), p.Granted(sc)} {
			if tried++; !actor.Has(tr.Act) {
				t.Errorf("%s: no action %q", p.ID, tr.Act)
			}
		}
		sc.Close()
	}
	if tried == 0 || actor.Has([]string{"no-such-action"}) {
		t.Errorf("%d actions were looked for", tried)
	}
}
