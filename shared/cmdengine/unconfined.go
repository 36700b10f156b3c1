package cmdengine

import (
	"fmt"
	"strconv"

	"github.com/sbxhost/sbxhost/shared"
)

// unheld refuses, without isolation, what would make a command work on other files
// than those it was given, or under a bound that is none. That files are
// merely less protected is what Unconfined means. What the engine claims is its own.
func unheld(info *shared.Info, spec *shared.Spec) error {
	if !spec.Unconfined {
		return nil
	}
	claims := info.Features.Has
	refuse := func(attribute, message, hint string) error {
		return &shared.Error{Kind: shared.ErrUnsupported, Attribute: attribute, Message: message, Hint: hint}
	}
	const isolate = "leave it out, or use an engine that isolates"
	for i, m := range spec.Table {
		attribute := m.Why
		if attribute == "" {
			attribute = fmt.Sprintf("table[%d]", i)
		}
		switch {
		case m.Access == shared.Private && !claims(shared.FeatureTmpfs):
			return refuse(attribute, fmt.Sprintf("without isolation %q would be the host's own directory and not fresh memory", m.Path), isolate)
		case m.Access == shared.Overlay && !m.Degradable && !claims(shared.FeatureOverlay):
			return refuse(attribute, fmt.Sprintf("without isolation writes to %q would be lasting", m.Path), isolate)
		case m.Access.Shows() && m.Source != m.Path && !claims(shared.FeatureRemap):
			return refuse(attribute, fmt.Sprintf("without isolation %q cannot appear as %q", m.Source, m.Path),
				"use the host's path inside, or an engine that isolates")
		}
	}
	if spec.User != nil && !claims(shared.FeatureUser) {
		return refuse("run_as", fmt.Sprintf("engine %q runs commands as its own user alone", info.Name), "leave it out")
	}
	if names := unheldLimits(info, spec); len(names) > 0 && !spec.Limits.BestEffort {
		return refuse("limits."+names[0], "no limit is held without isolation", `leave it out, or set enforce = "best_effort" to run without it`)
	}
	return nil
}

// unheldLimits names those that are set and not claimed, as a definition spells them.
func unheldLimits(info *shared.Info, spec *shared.Spec) []string {
	l := spec.Limits
	var names []string
	for _, limit := range []struct {
		name    string
		set     bool
		feature shared.Feature
	}{
		{"memory", l.Memory > 0, shared.FeatureLimitMemory},
		{"cpus", l.CPUs > 0, shared.FeatureLimitCPUs},
		{"pids", l.PIDs > 0, shared.FeatureLimitPIDs},
		{"open_files", l.OpenFiles > 0, shared.FeatureLimitOpenFiles},
		{"temp_size", l.TempSize > 0, shared.FeatureLimitTempSize},
	} {
		if limit.set && !info.Features.Has(limit.feature) {
			names = append(names, limit.name)
		}
	}
	return names
}

// unheldEvents tell what a definition asks for in vain. Of an engine with Begin, whose
// limits and overlays are its own, they tell what lack of isolation costs alone.
func (s *sandbox) unheldEvents() []shared.Event {
	c, spec := &s.engine.config, &s.spec
	if !spec.Unconfined && c.Begin != nil {
		return nil
	}
	by := "without isolation"
	if !spec.Unconfined {
		by = fmt.Sprintf("by engine %q", c.Info.Name)
	}
	var list []shared.Event
	for _, name := range unheldLimits(&c.Info, spec) {
		list = append(list, shared.Event{
			Kind:    shared.EventLimit,
			Message: "limits." + name + " is not held " + by,
			Details: map[string]string{"limit": name, "mechanism": "none", "hold": "not held"},
		})
	}
	hidden := 0
	for _, m := range spec.Table {
		if m.Access == shared.Hidden {
			hidden++
		}
		// Without isolation it is as writable as it was.
		if !spec.Unconfined && m.Access == shared.Overlay && !c.Info.Features.Has(shared.FeatureOverlay) {
			list = append(list, shared.Event{
				Kind:    shared.EventDegraded,
				Message: fmt.Sprintf("%s is read-only and has no overlay: engine %q makes none", m.Path, c.Info.Name),
				Details: map[string]string{"path": m.Path},
			})
		}
	}
	if hidden > 0 && spec.Unconfined {
		list = append(list, shared.Event{
			Kind:    shared.EventDegraded,
			Message: strconv.Itoa(hidden) + " hidden paths are within reach without isolation",
			Details: map[string]string{"hidden": strconv.Itoa(hidden)},
		})
	}
	return list
}
