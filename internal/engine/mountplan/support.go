package mountplan

import (
	"fmt"
	"path"

	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/shared"
)

// Support is what this machine can provide for one Spec's session.
type Support struct {
	// Holder says whether the session has a holder, which keeps overlays and the home. Reason is
	// why the engine has no overlays at all; it may be empty.
	Holder bool
	Reason string
	// Refused are the impossible overlays, by source, with the reason. Foreign are the overlays of
	// another user's directory.
	Refused map[string]string
	Foreign map[string]bool
	// Nameserver is the only address that answers questions for names; "" leaves them to the host's
	// configuration.
	Nameserver string
}

// NoOverlay says why a directory has no overlay here; "" if it has one.
func (h *Support) NoOverlay(source string) string {
	switch {
	case h.Refused[source] != "":
		return h.Refused[source]
	case h.Holder:
		return ""
	case h.Reason != "":
		return h.Reason
	}
	return "there is no session to keep the writes"
}

// NestedOverlays are the overlays of a Spec whose layers would be nested, by source, each with the
// reason to refuse it. It is pure.
func NestedOverlays(spec *shared.Spec) map[string]string {
	refused := map[string]string{}
	for _, m := range spec.Table {
		if m.Access != shared.Overlay {
			continue
		}
		if dir := spec.Session.Dir; dir != "" && (paths.Inside(m.Source, dir) || paths.Inside(dir, m.Source)) {
			refused[m.Source] = "the session's own directory and it are nested"
		}
		cover, _ := shared.Cover(spec.Table, path.Dir(m.Path))
		if cover != nil && cover.Access == shared.ReadOnly {
			continue // the outer one does not show there: nobody writes to both
		}
		for _, other := range spec.Table {
			if other.Access == shared.Overlay && other.Source != m.Source && paths.Inside(other.Source, m.Source) {
				refused[m.Source] = fmt.Sprintf("it is in %q, which has an overlay itself", other.Source)
			}
		}
	}
	return refused
}

// Events report the overlays that a command does not get as the Spec asks, and the limits that the
// engine itself enforces.
func (t *Table) Events() (out []shared.Event) {
	for _, m := range t.Spec.Table {
		if m.Access != shared.Overlay {
			continue
		}
		message := ""
		if reason := t.Support.NoOverlay(m.Source); reason != "" && reason == t.Support.Reason {
			continue // package cmdengine reports what an engine does not claim
		} else if reason != "" {
			message = fmt.Sprintf("%s: %s is read-only and has no overlay: %s", m.Why, m.Path, reason)
		} else if t.Support.Foreign[m.Source] {
			message = fmt.Sprintf("%s: %s belongs to another user: its overlay accepts new files only at its top", m.Why, m.Path)
		} else {
			continue
		}
		out = append(out, shared.Event{Kind: shared.EventDegraded, Message: message,
			Details: map[string]string{"mechanism": "overlay", "attribute": m.Why, "path": m.Path}})
	}
	if t.Spec.Limits.OpenFiles > 0 {
		out = append(out, shared.LimitEvent("open_files", "RLIMIT_NOFILE", "enforced"))
	}
	if t.Spec.Limits.TempSize > 0 {
		out = append(out, shared.LimitEvent("temp_size", "tmpfs size", "enforced"))
	}
	return out
}
