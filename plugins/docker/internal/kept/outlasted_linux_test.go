package kept

import (
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/sbxhost/sbxhost/plugins/docker/internal/owner"
)

func TestSweepLasting(t *testing.T) {
	t.Parallel()
	there := t.TempDir()
	me := owner.This()
	stranger, rebooted := me, me
	stranger.Namespace, rebooted.Boot = "1", "before"
	for name, tt := range map[string]struct {
		state     container.ContainerState
		while     string
		maker     owner.Owner
		makerGone bool
		want      bool
	}{
		"its session is there":     {container.StateRunning, there, me, true, false},
		"its session is gone":      {container.StateRunning, there + "/no", me, true, true},
		"never started":            {container.StateCreated, there, me, true, true},
		"about to be started":      {container.StateCreated, there, me, false, false},
		"of another machine":       {container.StateRunning, there + "/no", stranger, false, false},
		"from before this boot":    {container.StateRunning, there, rebooted, true, true},
		"of a session yet to come": {container.StateCreated, there, stranger, false, false},
	} {
		c := container.Summary{State: tt.state, Labels: map[string]string{whileLabel: tt.while}}
		if got := Orphaned(&c, tt.maker, tt.makerGone); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
