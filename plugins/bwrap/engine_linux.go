package bwrap

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/cmdengine"
	"github.com/sbxhost/sbxhost/shared/mountplan"
	"github.com/sbxhost/sbxhost/shared/sandboxinit"
)

// New makes the engine. It looks at nothing before it is used.
func New() shared.Engine {
	e := &engine{}
	e.Engine = cmdengine.New(cmdengine.Config{
		Info:    info,
		Probe:   e.probe,
		Open:    e.open,
		Attach:  e.attach,
		Init:    true,
		Rlimits: rlimits,

		HoldLimits: true,
	})
	return e.Engine
}

type engine struct {
	shared.Engine

	probing sync.Mutex
	probed  map[identity]shared.Probe

	// pathsOnly are the launchers that were found not to take descriptors of sources.
	pathsOnly sync.Map // by their identity
}

// open refuses what no command could be started with.
func (e *engine) open(_ context.Context, spec *shared.Spec) error {
	o, err := parseOptions(spec.Options)
	if err != nil {
		return err
	}
	launcher, err := locate(o.path)
	if err != nil {
		return err
	}
	if _, _, err := systemCalls(o.filter, ""); err != nil {
		return err
	}
	return outOfReach(launcher, o.path != "", spec)
}

// opened is one sandbox.
type opened struct {
	engine *engine
	spec   *shared.Spec
	table  *mountplan.Table
	held   *mountplan.Held
	home   home
}

// attach looks at the host and makes what lasts for the session.
func (e *engine) attach(_ context.Context, spec *shared.Spec) (*cmdengine.Attachment, error) {
	s := &opened{engine: e, spec: spec, held: &mountplan.Held{Reason: `engine "bwrap" makes none; use engine "native"`}}
	s.keepHome()
	s.table = &mountplan.Table{Facts: mountplan.Look(), Held: s.held, Spec: s.spec}
	launcher, _, err := locateFor(spec)
	if err != nil {
		return nil, err
	}
	drawn, err := s.draw()
	if err != nil {
		return nil, err
	}
	if _, _, err := args(spec.Network.Mode, drawn.Ops, firstFD, e.bindsFD(launcher)); err != nil {
		return nil, err
	}
	return &cmdengine.Attachment{
		Launch:   s.launch,
		Plan:     s.plan,
		Events:   func(*shared.Command) []shared.Event { return s.events() },
		Fresh:    s.freshHome(),
		Diagnose: s.diagnose,
	}, nil
}

// draw gives the plan of a command.
func (s *opened) draw() (*mountplan.Drawn, error) {
	if err := s.makePoints(); err != nil {
		return nil, err
	}
	return s.table.Draw()
}

// freshHome is the home directory where it is memory of each command's own.
func (s *opened) freshHome() string {
	shown := func(e shared.Entry) bool { return e.Path == s.spec.Home && e.Access != shared.Private }
	if slices.ContainsFunc(s.spec.Table, shown) {
		return ""
	}
	return s.spec.Home
}

func locateFor(spec *shared.Spec) (string, options, error) {
	o, err := parseOptions(spec.Options)
	if err != nil {
		return "", o, err
	}
	launcher, err := locate(o.path)
	return launcher, o, err
}

// argsFD is the descriptor of the option words, filterFD that of the system call
// filter, firstFD that of the first file that they name.
const (
	argsFD   = 3
	filterFD = 4
	firstFD  = 5
)

// launch gives bubblewrap's command line. The options travel by descriptor:
// there they can be as many as bubblewrap takes, and no process list shows them.
func (s *opened) launch(context.Context, *shared.Command) (_ *cmdengine.Launch, err error) {
	launcher, o, err := locateFor(s.spec)
	if err != nil {
		return nil, err
	}
	drawn, err := s.draw()
	if err != nil {
		return nil, err
	}
	l := &cmdengine.Launch{}
	if l.Mounts, err = mounts(drawn.Ops); err != nil {
		return nil, &shared.Error{Kind: shared.ErrUnavailable, Message: err.Error()}
	}
	words, files, err := args(s.spec.Network.Mode, drawn.Ops, firstFD, s.engine.bindsFD(launcher))
	if err != nil {
		return nil, err
	}
	confine, filter, err := systemCalls(o.filter, fmt.Sprint(filterFD))
	if err != nil {
		return nil, err
	}
	words = append(confine, words...)
	extra := make([]*os.File, 0, len(files)+2)
	defer func() {
		if err != nil {
			for _, f := range extra {
				f.Close()
			}
		}
	}()
	list, err := handOver("bwrap-args", strings.Join(words, "\x00")+"\x00")
	if err != nil {
		return nil, &shared.Error{Kind: shared.ErrUnavailable, Message: "handing over the options: " + err.Error()}
	}
	extra = append(extra, list)
	program, err := handOver("bwrap-seccomp", string(filter.Bytes()))
	if err != nil {
		return nil, &shared.Error{Kind: shared.ErrUnavailable, Message: "handing over the system call filter: " + err.Error()}
	}
	extra = append(extra, program)
	for _, in := range files {
		open := openRegular
		if in.source {
			open = mountplan.OpenSource
		}
		f, err := open(in.path)
		if err != nil {
			return nil, &shared.Error{Kind: shared.ErrUnavailable, Message: err.Error()}
		}
		extra = append(extra, f)
	}
	l.Cmd = &exec.Cmd{
		Path:       launcher,
		Args:       []string{launcher, "--args", fmt.Sprint(argsFD), "--"},
		Env:        []string{},
		ExtraFiles: extra,
	}
	return l, nil
}

func (s *opened) plan(*shared.Command) (shared.Plan, error) {
	launcher, o, err := locateFor(s.spec)
	if err != nil {
		return shared.Plan{}, err
	}
	drawn, err := s.table.Draw()
	if err != nil {
		return shared.Plan{}, err
	}
	words, _, err := args(s.spec.Network.Mode, drawn.Ops, -1, s.engine.bindsFD(launcher))
	if err != nil {
		return shared.Plan{}, err
	}
	confine, filter, err := systemCalls(o.filter, "<system calls>")
	if err != nil {
		return shared.Plan{}, err
	}
	argv := append(append([]string{launcher}, confine...), words...)
	argv = append(argv, "--")
	return shared.Plan{
		Argv:      append(argv, cmdengine.PlannedInit()...),
		Mounts:    mountplan.Planned(drawn.Ops),
		Documents: []shared.PlanDocument{{Name: "system calls", Text: filter.String()}},
		Notes:     mountplan.Notes(s.events()),
	}, nil
}

// rlimits are what the init sets for the command.
func rlimits(spec *shared.Spec) []sandboxinit.Rlimit {
	// No core dumps: they would be written to the workspace, or by the
	// host's handler, with the command's memory in them.
	limits := []sandboxinit.Rlimit{{Resource: unix.RLIMIT_CORE}}
	add := func(resource int, value uint64) {
		if value > 0 {
			limits = append(limits, sandboxinit.Rlimit{Resource: resource, Soft: value, Hard: value})
		}
	}
	add(unix.RLIMIT_NOFILE, spec.Limits.OpenFiles)
	return limits
}
