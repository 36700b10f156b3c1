package bwrap

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"github.com/sbxhost/sbxhost/internal/egress/gate"
	"github.com/sbxhost/sbxhost/internal/engine/gated"
	"github.com/sbxhost/sbxhost/internal/engine/mountplan"
	"github.com/sbxhost/sbxhost/internal/engine/nsengine"
	"github.com/sbxhost/sbxhost/internal/engine/sandboxinit"
	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/cmdengine"
)

// New makes the engine. It reads nothing before its first use.
func New() shared.Engine {
	e := &engine{}
	e.Engine = cmdengine.New(cmdengine.Config{
		Info:   info,
		Probe:  e.probe,
		Open:   e.open,
		Attach: attach,
		Init:   true,
		Filter: nsengine.FilterProgram(false),
		Trace:  nsengine.TraceProgram,

		HoldLimits: true, HomeOfCommand: true,
	})
	return e.Engine
}

type engine struct {
	shared.Engine

	prober nsengine.Prober
}

// open refuses a Spec with which no command could start.
func (e *engine) open(_ context.Context, spec *shared.Spec) error {
	_, err := locateFor(spec)
	return err
}

type openSandbox struct {
	*mountplan.Table
	// network passes connections between a command's network and the host's; may be nil.
	network *gated.Network
	rooted  bool // see [sandboxinit.Confinement]
}

// attach looks at the host.
func attach(_ context.Context, spec *shared.Spec) (*cmdengine.Attachment, error) {
	network, err := gated.Read(spec)
	if err != nil {
		return nil, err
	}
	filter, err := nsengine.ParseFilter(spec.Options)
	if err != nil {
		return nil, err
	}
	if u := spec.User; len(spec.Devices) > 0 && os.Geteuid() == 0 && (u == nil || u.UID == 0) {
		// bubblewrap mounts devices either writable or unusable, and root's commands own them.
		return nil, &shared.Error{Kind: shared.ErrUnsupported, Attribute: "devices", Message: "a command of root could change the modes of the host's devices", Hint: `use engine = "native"`}
	}
	support := &mountplan.Support{Reason: `engine "bwrap" has no overlays; use engine "native"`}
	if network != nil {
		support.Nameserver = gate.Nameserver
	}
	s := &openSandbox{Table: &mountplan.Table{Facts: mountplan.Look(), Support: support, Spec: spec}, network: network, rooted: !filter.NestedUserNamespaces}
	drawn, err := s.Draw()
	if err != nil {
		return nil, err
	}
	if _, _, err := args(spec.Network.Mode, drawn.Ops, firstFD); err != nil {
		return nil, err
	}
	return &cmdengine.Attachment{
		Launch:   s.launch,
		Plan:     s.plan,
		Events:   s.Events,
		Fresh:    nsengine.FreshHome(spec, false),
		Diagnose: s.diagnose,
	}, nil
}

// locateFor finds the launcher of a Spec's commands, which must be out of their reach.
func locateFor(spec *shared.Spec) (string, error) {
	named, err := parsePath(spec.Options)
	if err != nil {
		return "", err
	}
	launcher, err := locate(named)
	if err != nil {
		return "", err
	}
	return launcher, outOfReach(launcher, named != "", spec)
}

// argsFD is the descriptor of the options, firstFD that of the first file that they name.
const (
	argsFD  = 3
	firstFD = 4
)

// launch makes bubblewrap's command line. A descriptor passes the options: it has no limit for
// their number, and no process list shows them.
func (s *openSandbox) launch(*shared.Command) (_ *cmdengine.Launch, err error) {
	launcher, err := locateFor(s.Spec)
	if err != nil {
		return nil, err
	}
	drawn, err := s.Draw()
	if err != nil {
		return nil, err
	}
	l := &cmdengine.Launch{Confinement: sandboxinit.Confinement{Locked: true, Rooted: s.rooted, Writable: mountplan.Writable(drawn.Ops)}}
	if s.network != nil {
		// Without Resets: what bubblewrap executes has no right to a raw socket.
		l.Gate = func(sockets *sandboxinit.Sockets) (cmdengine.Gate, error) {
			return s.network.Begin(gated.Way{Sockets: sockets.New})
		}
	}
	if l.Mounts, err = mounts(drawn.Ops); err != nil {
		return nil, mountplan.Unavailable(err)
	}
	words, files, err := args(s.Spec.Network.Mode, drawn.Ops, firstFD)
	if err != nil {
		return nil, err
	}
	extra := make([]*os.File, 0, len(files)+1)
	defer func() {
		if err != nil {
			for _, f := range extra {
				f.Close()
			}
		}
	}()
	list, err := sandboxinit.Sealed("bwrap-args", strings.Join(words, "\x00")+"\x00")
	if err != nil {
		return nil, mountplan.Unavailable(fmt.Errorf("passing the options: %w", err))
	}
	extra = append(extra, list)
	for _, in := range files {
		open := openRegular
		if in.source {
			open = mountplan.OpenSource
		}
		if in.text != "" {
			open = func(string) (*os.File, error) { return sandboxinit.Sealed("text", in.text) }
		}
		f, err := open(in.path)
		if err != nil {
			return nil, mountplan.Unavailable(err)
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

func (s *openSandbox) plan(*shared.Command) (shared.Plan, error) {
	launcher, err := locateFor(s.Spec)
	if err != nil {
		return shared.Plan{}, err
	}
	drawn, err := s.Draw()
	if err != nil {
		return shared.Plan{}, err
	}
	words, _, err := args(s.Spec.Network.Mode, drawn.Ops, -1)
	if err != nil {
		return shared.Plan{}, err
	}
	filter, err := nsengine.Filter(s.Spec, false)
	if err != nil {
		return shared.Plan{}, err
	}
	argv := append(append([]string{launcher}, words...), "--")
	return shared.Plan{
		Argv:      append(argv, cmdengine.PlannedInit()...),
		Mounts:    mountplan.Planned(drawn.Ops),
		Documents: []shared.PlanDocument{{Name: "system calls", Text: filter.String()}},
	}, nil
}

// diagnose explains why a launcher ended before its init answered.
func (s *openSandbox) diagnose(stderr string, status *syscall.WaitStatus) error {
	if !status.Exited() {
		return nil // killed, which proves nothing about the machine
	}
	e := diagnose(stderr, nsengine.LookAtKernel())
	if u := s.Spec.User; u != nil && e.Kind == shared.ErrDenied { // root may not expect that
		e.Hint = nsengine.LetSearch(u)
	}
	return e
}
