package seatbelt

import (
	"errors"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/enginetest"
)

// modelledProbe is what the model says of one probe.
type modelledProbe struct {
	cell     string
	departed string // what is not as the kit demands
}

// onModel plans the probe's own Spec, and asks the model of the profile for each
// of the probe's attempts.
func onModel(t *testing.T, m *enginetest.MacTrial) modelledProbe {
	t.Helper()
	have := info.Features
	for _, f := range m.Requires {
		if !have.Has(f) {
			return modelledProbe{cell: "-"}
		}
	}
	if m.Unmodelled != "" {
		if _, known := departures[m.ID]; known {
			return modelledProbe{cell: "not held"}
		}
		return modelledProbe{cell: "not modelled"}
	}
	got, refused := attempted(t, m, &m.Trial)
	switch {
	case refused && !m.Refusable:
		return modelledProbe{"modelled: fails", "the request is refused"}
	case refused:
		return modelledProbe{cell: "modelled: held"}
	case m.MustWork && !got:
		return modelledProbe{"modelled: fails", "it must work, and is denied"}
	case m.MustWork:
		return modelledProbe{cell: "modelled: works"}
	case got:
		return modelledProbe{"modelled: **leaks**", "it must be denied, and is allowed"}
	}
	if m.Granted != nil {
		if got, refused := attempted(t, m, m.Granted); refused || !got {
			return modelledProbe{"modelled: control fails", "the control is denied, too"}
		}
	}
	return modelledProbe{cell: "modelled: held"}
}

// attempted says whether a command of the kit gets anywhere.
func attempted(t *testing.T, m *enginetest.MacTrial, c *enginetest.MacCommand) (got, refused bool) {
	t.Helper()
	w := &world{t: t, files: sbplFiles{Links: m.Links, Volume: m.Volume}}
	if _, err := elsewhere().Open(t.Context(), c.Spec); err != nil {
		if !errors.Is(err, shared.ErrInvalidSpec) && !errors.Is(err, shared.ErrUnsupported) {
			t.Errorf("%s: Open: %v", m.ID, err)
		}
		return false, true
	}
	spec := c.Spec
	spec.Table = withHiddenTargets(spec.Table, func(p string) string { return w.files.Resolve(p, true) })
	p, err := newPolicy(&spec, &c.Command)
	if err != nil {
		return false, true
	}
	at := private
	if c.Spec.Home == "" {
		at.home = ""
	}
	profile, err := compile(p, at)
	if err != nil {
		t.Fatalf("%s: %v", m.ID, err)
	}
	if w.profile, err = parseSBPL(profile.text, profile.values()); err != nil {
		t.Fatalf("%s: the model does not take the profile: %v", m.ID, err)
	}
	for _, way := range waysOf(c) {
		if !slices.ContainsFunc(way, func(a kitAttempt) bool { return !w.attempt(a) }) {
			return true, false
		}
	}
	return false, false
}

// attempt asks for one operation of the kit's.
func (w *world) attempt(a kitAttempt) bool {
	w.t.Helper()
	access := sbplAccess{Operation: a.Operation, Service: a.Service, Sysctl: a.Sysctl, Target: a.Target}
	switch {
	case a.Host != "":
		access.SocketDomain, access.Host, access.Port = "AF_INET", a.Host, a.Port
	case a.Path != "":
		access.Path = w.files.Resolve(a.Path, !a.NoFollow)
		if strings.HasPrefix(a.Operation, "network-") {
			access.SocketDomain = "AF_UNIX"
		}
		switch a.Operation {
		case "file-write-create", "file-write-unlink", "file-link": // of a name, which is not followed
			access.Path = path.Join(w.files.Resolve(path.Dir(a.Path), true), path.Base(a.Path))
		}
	}
	return w.ask(access)
}

// The kit's probes, of which a Mac runs the actions, are asked of the model here:
// each finds what the kit demands, or is among the departures.
func TestProbesOnTheModel(t *testing.T) {
	t.Parallel()
	trials, err := enginetest.MacTrials(t.TempDir(), "/Users/me/Library/Caches/sbxhost-probe-1", "/Users/me")
	if err != nil {
		t.Fatal(err)
	}
	cells := map[string]string{}
	for _, m := range trials {
		if m.Unmodelled == "" && (len(waysOf(&m.Trial)) == 0 || m.Granted != nil && len(waysOf(m.Granted)) == 0) {
			t.Errorf("%s: nothing says what it asks the kernel for", m.ID)
		}
		if m.Unmodelled != "" && len(m.Trial.Acts) > 0 && len(waysOf(&m.Trial)) > 0 {
			t.Errorf("%s is said not to be modelled, because %s, and what it asks for is known", m.ID, m.Unmodelled)
		}
		found := onModel(t, &m)
		cells[m.ID] = found.cell
		why, known := departures[m.ID]
		switch {
		case found.departed != "" && !known:
			t.Errorf("%s, %s: %s: %s", m.ID, m.Title, found.cell, found.departed)
		case found.departed == "" && known && found.cell != "not held":
			t.Errorf("%s, %s, is said to depart, because %s, and does not", m.ID, m.Title, why)
		}
	}
	for id := range departures {
		if cells[id] == "" {
			t.Errorf("%s departs, and is no probe for macOS", id)
		}
	}
}
