package enginetest

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/enginetest/internal/actor"
	"github.com/sbxhost/sbxhost/shared/enginetest/internal/probes"
	"github.com/sbxhost/sbxhost/shared/enginetest/internal/scene"
)

// A MacTrial is a probe for macOS as data. A test with a model of profiles, and no Mac, can predict
// its result.
type MacTrial struct {
	ProbeInfo
	// Requires are the features that an engine must claim, or the probe is skipped.
	Requires []shared.Feature
	// Refusable says that an engine may refuse the request instead.
	Refusable bool
	// Trial is the action.
	Trial MacCommand
	// Granted is the control, in which the action must succeed; nil if the control runs without a
	// sandbox, or there is none.
	Granted *MacCommand
	// Links are the planted symlinks and their targets.
	Links map[string]string
	// Volume maps device and number to files.
	Volume map[string]string
	// Unmodelled says why no profile decides the probe's result. Trial and Granted are then without
	// meaning.
	Unmodelled string
}

// A MacCommand is one command of a MacTrial.
type MacCommand struct {
	Spec    shared.Spec    // the Spec of its sandbox
	Command shared.Command // the last of its commands
	Acts    [][]string     // the steps of earlier commands, then its own, with their arguments; each must succeed
}

// MacTrials returns every probe for macOS, as if the scenes of a suite were in the directory as and
// the caller's home were home. It plants them, one after the other, in dir, an existing directory,
// and removes them.
func MacTrials(dir, as, home string) ([]MacTrial, error) {
	const random = "MODELLED"
	planted := &scene.Kit{Dir: dir, Program: filepath.Join(dir, "kit"), Home: home, Random: random}
	told := &scene.Kit{Dir: as, Program: filepath.Join(as, "kit"), Home: home, Random: random}
	var list []MacTrial
	for _, p := range probes.All() {
		if p.Only == probes.OnlyLinux {
			continue
		}
		m := MacTrial{ProbeInfo: infoOf(p), Requires: p.Features, Refusable: p.Refusal, Unmodelled: p.Unmodelled}
		if p.Tried() {
			if err := m.fill(planted, told, p); err != nil {
				return nil, err
			}
		}
		list = append(list, m)
	}
	return list, nil
}

// fill plants the probe's scene, and describes it as if it were in told's directory.
func (m *MacTrial) fill(planted, told *scene.Kit, p *probes.Probe) error {
	real := planted.Layout(p.Place(), p.ID)
	defer real.Close()
	if err := real.Plant(); err != nil { // a Mac may have what is absent here
		return err
	}
	rename := func(s string) string { return strings.ReplaceAll(s, planted.Dir, told.Dir) }
	m.Links, m.Volume = map[string]string{}, map[string]string{}
	err := filepath.WalkDir(real.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Type()&fs.ModeSymlink == 0 {
			return err
		}
		target, err := os.Readlink(path)
		m.Links[rename(path)] = rename(target)
		return err
	})
	if err != nil {
		return err
	}
	at := told.Layout(p.Place(), p.ID)
	at.Values = maps.Clone(real.Values)
	if at.Values["addr"] == "" {
		at.Values["addr"] = "192.0.2.7:40000" // if this machine has no address
	}
	for name, value := range at.Values {
		at.Values[name] = rename(value)
	}
	if name, ok := at.Values["volume"]; ok {
		m.Volume[name] = at.Path("outside/secret")
	}
	t := p.Asked(at)
	m.Requires, m.Trial = append(probes.Requires(p.Features, t), slices.DeleteFunc(p.Shows(t), func(f shared.Feature) bool { return f == shared.FeatureNetworkTCP })...), onMac(t)
	if p.ControlGranted() && !p.Works {
		m.Granted = new(onMac(p.Granted(at)))
	}
	return nil
}

// onMac returns the trial's command.
func onMac(t *scene.Trial) MacCommand {
	c := MacCommand{Spec: t.Sorted(), Command: t.Command}
	c.Command.TTY = t.TTY
	for _, act := range append(slices.Clone(t.First), t.Act) {
		c.Acts = append(c.Acts, slices.DeleteFunc(actor.Steps(act), func(step []string) bool { return strings.HasPrefix(step[0], "-") })...)
	}
	return c
}
