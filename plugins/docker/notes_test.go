package docker

import (
	"slices"
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/plugins/docker/internal/daemon"
	"github.com/sbxhost/sbxhost/plugins/docker/internal/definition"
	"github.com/sbxhost/sbxhost/plugins/docker/internal/plan"
	"github.com/sbxhost/sbxhost/shared"
)

// Each command has a home of its own, which a session learns, unless the definition has one.
func TestHomeIsReported(t *testing.T) {
	t.Parallel()
	home := shared.Entry{Path: "/home/u", Source: "/kept", Access: shared.ReadWrite}
	for _, tt := range []struct {
		spec shared.Spec
		want bool
	}{
		{shared.Spec{Home: "/home/u", Session: shared.Session{ID: "s"}}, true},
		{shared.Spec{Home: "/home/u", Session: shared.Session{ID: "s"}, Table: []shared.Entry{home}}, false},
		{shared.Spec{Home: "/home/u"}, false},
		{shared.Spec{Session: shared.Session{ID: "s"}}, false},
	} {
		events := notes(&plan.Planner{Spec: &tt.spec, Options: &definition.Options{}, Daemon: daemon.Facts{LimitsPIDs: true}})
		if got := slices.ContainsFunc(events, func(e shared.Event) bool { return strings.Contains(e.Message, "lasts for one command") }); got != tt.want {
			t.Errorf("%+v: %v", tt.spec, events)
		}
	}
}
