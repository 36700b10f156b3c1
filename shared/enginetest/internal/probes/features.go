package probes

import (
	"slices"
	"strings"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/enginetest/internal/scene"
)

// ofMinimal are the probes of what the minimal view alone keeps away, in the form of parts.
const ofMinimal = "read.01 read.02 read.03 read.04 read.05 read.06 read.07 read.08 read.09 read.10 read.12 read.19 read.24 read.30 read.31 " +
	"read.36 read.37 write.70 write.71 net.12"

// parts are the features that a Spec can do without, and the probes that show whether an engine
// holds them. A space ends an ID; a dot at the end stands for all of a group.
var parts = []struct {
	feature shared.Feature
	probes  string
}{
	{shared.FeatureHomePrivate, "read.33 read.76 write.42"},
	{shared.FeatureTempPrivate, "read.13 read.14 read.15 read.16 read.32 read.38 read.39 write.41 net.19"},
	{shared.FeatureMetadata, "read.37 read.60 write.09 write.10 proc.03 proc.30"},
	{shared.FeatureProcessesHidden, "read.22 read.23 read.24 read.25 read.26 read.35 proc.01 proc.02 proc.04 proc.05 proc.06 proc.07 proc.08 proc.09 " +
		"proc.26 proc.27 proc.28 proc.29 life.01 life.02 life.03 life.04 life.05 life.06 life.07 net.08 net.09 net.10 net.11 macos.07"},
	{shared.FeatureKernelFiltered, "read.20 read.29 write.15 write.31 write.32 write.33 write.34 write.35 write.36 write.88 write.37 write.39 write.40 " +
		"proc.10 proc.11 proc.12 proc.13 proc.14 proc.15 proc.16 proc.17 proc.18 proc.19 proc.20 proc.21 proc.22 proc.23 proc.24 proc.25 " +
		"proc.33 proc.34 proc.40 proc.42 kernel. net.21 net.22 net.23 net.24"},
	{shared.FeatureNetworkTCP, "net.01 net.02 net.03"},
	{shared.FeatureNetworkNone, "net.01 net.02 net.03 net.04 net.05 net.06 net.07 net.18"},
}

// Shows are the features that a probe, with its trial, is evidence of, of those that a Spec
// can do without.
func (p *Probe) Shows(t *scene.Trial) (list []shared.Feature) {
	for _, part := range parts {
		if p.in(part.probes) {
			list = append(list, part.feature)
		}
	}
	for _, l := range t.Spec.Without(nil) {
		if (l.Feature == shared.FeatureHidden || l.Feature == shared.FeatureNested) && !slices.Contains(list, l.Feature) {
			list = append(list, l.Feature)
		}
	}
	return list
}

// in reports whether the probe, or the one that it repeats, is one of these, in the form of parts.
func (p *Probe) in(ids string) bool {
	for id := range strings.FieldsSeq(ids) {
		if id == p.ID || fromSecond[id] == p.ID || strings.HasSuffix(id, ".") && strings.HasPrefix(p.ID, id) {
			return true
		}
	}
	return false
}

// FeaturesOf returns the features that a probe shows, and the feature that it counts for.
func (p *Probe) FeaturesOf(k *scene.Kit) (shows []shared.Feature, first shared.Feature) {
	sc := k.Layout(p.Place(), p.ID)
	t := sc.NewTrial()
	if p.Tried() {
		t = p.Asked(sc)
	}
	if p.Place().AnyNetwork {
		t.Spec.Network = shared.Network{} // which is not what the probe shows
	}
	shows = p.Shows(t)
	all := slices.Concat(shows, p.Features, Requires(p.Features, t))
	if p.Group == groupEnvironment || p.Group == groupHost { // whatever the view
		all = slices.Concat(shows, p.Features)
	}
	if len(all) > 0 {
		first = scene.Claimable(k.Info.Features, all[0])
	}
	if i := slices.Index(shows, shared.FeatureNetworkTCP); i >= 0 { // a part of network.none
		if first = shared.FeatureNetworkTCP; k.Info.Features.Has(shared.FeatureNetworkNone) {
			first = shared.FeatureNetworkNone
		}
		shows = []shared.Feature{first}
	}
	return shows, first
}
