package enginetest

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sbxhost/sbxhost/shared"
)

// A MacTrial is a probe as it would be tried on macOS. A test that has a model of
// profiles, and no Mac, can say by it what the probe would find.
type MacTrial struct {
	ProbeInfo
	// Requires is what an engine must claim for the probe to be tried.
	Requires []shared.Feature
	// Refusable says that an engine may refuse the request instead.
	Refusable bool
	// Trial is what is tried.
	Trial MacCommand
	// Granted is the control, where the same must succeed; nil where the control
	// runs without a sandbox or there is none.
	Granted *MacCommand
	// Links are the symbolic links that are planted, and what they lead to.
	Links map[string]string
	// Volume are names by device and number, and the files that they are of.
	Volume map[string]string
	// Unmodelled says why no profile decides what the probe finds. Trial and Granted
	// are then without meaning.
	Unmodelled string
}

// A MacCommand is one command of a MacTrial.
type MacCommand struct {
	Spec    shared.Spec    // with which it is opened
	Command shared.Command // what is started
	Acts    [][]string     // the actions of earlier commands, and its own, with their arguments
}

// Why no profile decides what a probe finds.
const (
	decidedByEngine  = "a matter of what the engine hands over, which its other tests hold"
	decidedByRequest = "a matter of what the engine refuses, before there is a profile"
	decidedByEnd     = "a matter of what ends when, which no profile says"
	decidedByLimits  = "a matter of limits, of which profiles have none"
)

// MacTrials gives every probe that is tried on macOS, as if the scenes of a
// suite lay in the directory as and the caller's home in home. They are planted,
// one after the other, in dir, an existing directory, and removed again.
func MacTrials(dir, as, home string) ([]MacTrial, error) {
	const random = "MODELLED"
	planted := &Suite{dir: dir, actor: filepath.Join(dir, "kit"), home: home, random: random}
	told := &Suite{dir: as, actor: filepath.Join(as, "kit"), home: home, random: random}
	var list []MacTrial
	for _, p := range allProbes() {
		if p.only == onlyLinux {
			continue
		}
		m := MacTrial{ProbeInfo: p.info(), Requires: p.features, Refusable: p.refusal, Unmodelled: p.unmodelled}
		if p.tried() {
			if err := m.fill(planted, told, p); err != nil {
				return nil, err
			}
		}
		list = append(list, m)
	}
	return list, nil
}

// fill plants the probe's scene, and describes it as if it lay in told's directory.
func (m *MacTrial) fill(planted, told *Suite, p *probe) error {
	real := planted.layout(p, p.id)
	defer real.close()
	err := real.plant()
	if err != nil && !errors.As(err, new(*absentError)) { // what is absent here need not be so on a Mac
		return err
	}
	rename := func(s string) string { return strings.ReplaceAll(s, planted.dir, told.dir) }
	m.Links, m.Volume = map[string]string{}, map[string]string{}
	err = filepath.WalkDir(real.dir, func(path string, d fs.DirEntry, err error) error {
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
	scene := told.layout(p, p.id)
	scene.values = maps.Clone(real.values)
	if scene.values["addr"] == "" {
		scene.values["addr"] = "192.0.2.7:40000" // where this machine has no address
	}
	for name, value := range scene.values {
		scene.values[name] = rename(value)
	}
	if name, ok := scene.values["volume"]; ok {
		m.Volume[name] = scene.path("outside/secret")
	}
	t := scene.asked()
	m.Requires, m.Trial = append(p.requires(t), slices.DeleteFunc(p.shows(t), func(f shared.Feature) bool { return f == shared.FeatureNetworkTCP })...), t.onMac()
	if p.where() == controlGranted && !p.works {
		granted := scene.granted().onMac()
		m.Granted = &granted
	}
	return nil
}

// onMac gives the trial's command.
func (t *trial) onMac() MacCommand {
	c := MacCommand{Spec: t.sorted(), Command: t.Command, Acts: append(slices.Clone(t.first), t.act)}
	c.Command.TTY = t.tty
	return c
}
