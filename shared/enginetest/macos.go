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
	"github.com/sbxhost/sbxhost/shared/enginetest/internal/probes"
	"github.com/sbxhost/sbxhost/shared/enginetest/internal/scene"
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

// MacTrials gives every probe that is tried on macOS, as if the scenes of a
// suite lay in the directory as and the caller's home in home. They are planted,
// one after the other, in dir, an existing directory, and removed again.
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

// fill plants the probe's scene, and describes it as if it lay in told's directory.
func (m *MacTrial) fill(planted, told *scene.Kit, p *probes.Probe) error {
	real := planted.Layout(p.Place(), p.ID)
	defer real.Close()
	err := real.Plant()
	if err != nil && !errors.As(err, new(scene.AbsentError)) { // what is absent here need not be so on a Mac
		return err
	}
	rename := func(s string) string { return strings.ReplaceAll(s, planted.Dir, told.Dir) }
	m.Links, m.Volume = map[string]string{}, map[string]string{}
	err = filepath.WalkDir(real.Dir, func(path string, d fs.DirEntry, err error) error {
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
		at.Values["addr"] = "192.0.2.7:40000" // where this machine has no address
	}
	for name, value := range at.Values {
		at.Values[name] = rename(value)
	}
	if name, ok := at.Values["volume"]; ok {
		m.Volume[name] = at.Path("outside/secret")
	}
	t := p.Asked(at)
	m.Requires, m.Trial = append(probes.Requires(p.Features, t), slices.DeleteFunc(p.Shows(t), func(f shared.Feature) bool { return f == shared.FeatureNetworkTCP })...), onMac(t)
	if p.Where() == probes.ControlGranted && !p.Works {
		granted := onMac(p.Granted(at))
		m.Granted = &granted
	}
	return nil
}

// onMac gives the trial's command.
func onMac(t *scene.Trial) MacCommand {
	c := MacCommand{Spec: t.Sorted(), Command: t.Command, Acts: append(slices.Clone(t.First), t.Act)}
	c.Command.TTY = t.TTY
	return c
}
