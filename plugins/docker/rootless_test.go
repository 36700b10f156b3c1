package docker

import (
	"errors"
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/shared"
)

func TestParsePodmanInfo(t *testing.T) {
	t.Parallel()
	all := podmanFacts{limitsMemory: true, limitsCPUs: true, limitsPIDs: true}
	some := podmanFacts{rootless: true, limitsMemory: true, limitsPIDs: true}
	none := podmanFacts{rootless: true}
	for raw, want := range map[string]podmanFacts{
		`{"host":{"cgroupManager":"cgroupfs","cgroupVersion":"v1","cgroupControllers":[],"security":{"rootless":false}}}`:                     all,
		`{"host":{"cgroupManager":"systemd","cgroupVersion":"v2","cgroupControllers":["memory","pids"],"security":{"rootless":true}}}`:        some,
		`{"host":{"cgroupManager":"cgroupfs","cgroupVersion":"v2","cgroupControllers":["memory","pids","cpu"],"security":{"rootless":true}}}`: none,
		`{"host":{"cgroupManager":"systemd","cgroupVersion":"v1","cgroupControllers":["memory","pids","cpu"],"security":{"rootless":true}}}`:  none,
		`{"host":{"cgroupManager":"systemd","cgroupVersion":"v2","cgroupControllers":null,"security":{"rootless":true}}}`:                     none,
	} {
		if got, err := parsePodmanInfo([]byte(raw)); err != nil || got != want {
			t.Errorf("%s: %+v, %v", raw, got, err)
		}
	}
	// Whoever does not say that it is rootful must not be taken for it: the
	// caller's number would be somebody else's.
	for _, raw := range []string{``, `[]`, `{}`, `{"host":{}}`, `{"host":{"security":{}}}`, `{"host":{"security":{"rootless":"no"}}}`} {
		if got, err := parsePodmanInfo([]byte(raw)); !errors.Is(err, shared.ErrUnavailable) {
			t.Errorf("%s: %+v, %v", raw, got, err)
		}
	}
}

func TestOwnedBy(t *testing.T) {
	t.Parallel()
	one := uint32(1000)
	for name, tt := range map[string]struct {
		facts daemonFacts
		user  uint32
		kind  error
	}{
		"rootful":       {daemonFacts{}, 1000, nil},
		"its owner":     {daemonFacts{rootless: true, owner: &one}, 1000, nil},
		"somebody else": {daemonFacts{rootless: true, owner: &one}, 1001, shared.ErrUnsupported},
		"root":          {daemonFacts{rootless: true, owner: &one}, 0, shared.ErrUnsupported},
		"unknown":       {daemonFacts{rootless: true}, 1000, shared.ErrUnavailable},
	} {
		if err := tt.facts.ownedBy(shared.User{UID: tt.user}); !errors.Is(err, tt.kind) || err != nil && !strings.HasPrefix(err.Error(), "engine: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
