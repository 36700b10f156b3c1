package daemon

import (
	"errors"
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/shared"
)

func TestParsePodmanInfo(t *testing.T) {
	t.Parallel()
	claims := Facts{LimitsMemory: true, LimitsCPUs: true, LimitsPIDs: true}
	all := claims
	some := Facts{Rootless: true, LimitsMemory: true, LimitsPIDs: true}
	none := Facts{Rootless: true}
	for raw, want := range map[string]Facts{
		`{"host":{"cgroupManager":"cgroupfs","cgroupVersion":"v1","cgroupControllers":[],"security":{"rootless":false}}}`:                     all,
		`{"host":{"cgroupManager":"systemd","cgroupVersion":"v2","cgroupControllers":["memory","pids"],"security":{"rootless":true}}}`:        some,
		`{"host":{"cgroupManager":"cgroupfs","cgroupVersion":"v2","cgroupControllers":["memory","pids","cpu"],"security":{"rootless":true}}}`: none,
		`{"host":{"cgroupManager":"systemd","cgroupVersion":"v1","cgroupControllers":["memory","pids","cpu"],"security":{"rootless":true}}}`:  none,
		`{"host":{"cgroupManager":"systemd","cgroupVersion":"v2","cgroupControllers":null,"security":{"rootless":true}}}`:                     none,
	} {
		got := claims
		if err := got.takePodman([]byte(raw)); err != nil || got != want {
			t.Errorf("%s: %+v, %v", raw, got, err)
		}
	}
	// Whoever does not say that it is rootful must not be taken for it: the
	// caller's number would be somebody else's.
	for _, raw := range []string{``, `[]`, `{}`, `{"host":{}}`, `{"host":{"security":{}}}`, `{"host":{"security":{"rootless":"no"}}}`} {
		got := claims
		if err := got.takePodman([]byte(raw)); !errors.Is(err, shared.ErrUnavailable) {
			t.Errorf("%s: %+v, %v", raw, got, err)
		}
	}
}

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

func TestPodmanVersions(t *testing.T) {
	t.Parallel()
	for version, ok := range map[string]bool{"4.3.1": true, "4.9.4-rhel": true, "5.2.0-dev": true, "4.2.0": false, "3.4.4": false, "": false, "x": false} {
		got, err := isPodman("Podman Engine", version)
		if ok != (err == nil) || got != ok {
			t.Errorf("%q: %v, %v", version, got, err)
		}
	}
	if got, err := isPodman("Engine", "20.10.24"); got || err != nil {
		t.Errorf("Docker: %v, %v", got, err)
	}
}

func TestKeepable(t *testing.T) {
	t.Parallel()
	l := shared.Limits{Memory: 1, PIDs: 1}
	if _, err := Holdable(Facts{LimitsPIDs: true}, &l); err == nil || !strings.HasPrefix(err.Error(), "limits.memory: ") {
		t.Errorf("got %v", err)
	}
	l.BestEffort = true
	out, err := Holdable(Facts{LimitsPIDs: true}, &l)
	if err != nil || l.Memory != 0 || l.PIDs != 1 || len(out) != 1 || out[0].Details["hold"] != "not held" {
		t.Errorf("got %v, %v, %v", out, l, err)
	}
}
