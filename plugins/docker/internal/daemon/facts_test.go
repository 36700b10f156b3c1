package daemon

import (
	"errors"
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/shared"
)

func TestOwnedBy(t *testing.T) {
	t.Parallel()
	one := uint32(1000)
	for name, tt := range map[string]struct {
		facts Facts
		user  uint32
		kind  error
	}{
		"rootful":       {Facts{}, 1000, nil},
		"its owner":     {Facts{Rootless: true, owner: &one}, 1000, nil},
		"somebody else": {Facts{Rootless: true, owner: &one}, 1001, shared.ErrUnsupported},
		"root":          {Facts{Rootless: true, owner: &one}, 0, shared.ErrUnsupported},
		"unknown":       {Facts{Rootless: true}, 1000, shared.ErrUnavailable},
	} {
		if err := tt.facts.OwnedBy(shared.User{UID: tt.user}); !errors.Is(err, tt.kind) || err != nil && !strings.HasPrefix(err.Error(), "engine: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestKeepable(t *testing.T) {
	t.Parallel()
	l := shared.Limits{Memory: 1, PIDs: 1}
	if _, err := Holdable(Facts{Limits: map[string]bool{"pids": true}}, &l); err == nil || !strings.HasPrefix(err.Error(), "limits.memory: ") {
		t.Errorf("got %v", err)
	}
	l.BestEffort = true
	out, err := Holdable(Facts{Limits: map[string]bool{"pids": true}}, &l)
	if err != nil || l.Memory != 0 || l.PIDs != 1 || len(out) != 1 || out[0].Details["hold"] != "not enforced" {
		t.Errorf("got %v, %v, %v", out, l, err)
	}
}
