package landlock

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/engine/mountplan"
	"github.com/sbxhost/sbxhost/internal/engine/nsengine"
	"github.com/sbxhost/sbxhost/internal/engine/sandboxinit"
	"github.com/sbxhost/sbxhost/internal/engine/sandboxinit/confine"
	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/cmdengine"
	"github.com/sbxhost/sbxhost/shared/seccomp"
)

// New makes the engine. It reads nothing before its first use.
func New() shared.Engine {
	e := &engine{}
	e.Engine = cmdengine.New(cmdengine.Config{
		Info:    info,
		Probe:   e.probe,
		Attach:  attach,
		Init:    true,
		Environ: []string{"GOMAXPROCS=1"}, // for the init, which does one thing at a time
		Filter:  filterProgram,
		Trace:   nsengine.TraceProgram,

		HoldLimits: true, NoPIDNamespace: true,
	})
	return e
}

type engine struct {
	shared.Engine
	prober nsengine.Prober
}

// abiOf is the version of Landlock that restricts a Spec's commands.
func abiOf(o options) (int, error) {
	abi, err := confine.ABI()
	switch {
	case err == syscall.EOPNOTSUPP:
		return 0, unusable("Landlock is switched off here", "as root: add landlock to the list lsm= of the kernel's command line (/sys/kernel/security/lsm has the present one), and boot")
	case err != nil:
		return 0, unusable(fmt.Sprintf("this kernel has no Landlock, or a filter keeps it from here: %v", err), "use Linux 5.13 or later; a container's seccomp profile must allow landlock_create_ruleset")
	case o.abi > abi:
		return 0, &shared.Error{Kind: shared.ErrUnsupported, Attribute: "config.abi", Message: fmt.Sprintf("this kernel has version %d", abi), Hint: "leave it out"}
	case o.abi > 0:
		return o.abi, nil
	}
	return min(abi, newestABI), nil
}

func unusable(message, hint string) error {
	return &shared.Error{Kind: shared.ErrUnusable, Attribute: "engine", Message: message, Hint: hint}
}

func filterOf(spec *shared.Spec) (seccomp.Filter, error) {
	o, err := parseOptions(spec.Options)
	if err != nil {
		return seccomp.Filter{}, err
	}
	abi, err := abiOf(o)
	if err != nil {
		return seccomp.Filter{}, err
	}
	f, err := seccomp.New(runtime.GOARCH, o.filterOptions(spec, abi))
	if err != nil {
		err = unusable(err.Error(), "")
	}
	return f, err
}

func filterProgram(spec *shared.Spec) ([]byte, error) {
	f, err := filterOf(spec)
	return f.Bytes(), err
}

// probe runs the smallest command.
func (e *engine) probe(ctx context.Context) (shared.Probe, error) {
	abi, err := abiOf(options{})
	if err != nil {
		return shared.NotReady(err), nil
	}
	facts := map[string]string{"landlock": "version " + strconv.Itoa(abi)}
	return e.prober.Probe(ctx, e, facts, func(_ context.Context, p *shared.Probe) {
		if handled(abi)&refer == 0 {
			p.Degraded = append(p.Degraded, "commands cannot rename or link files from one directory to another: that needs Linux 5.19")
		}
		if scoped(abi) == 0 {
			p.Degraded = append(p.Degraded, "commands can signal your other processes: only Linux 6.12 prevents that")
		}
	})
}

type openSandbox struct {
	spec    *shared.Spec
	options options
	abi     int
	table   *mountplan.Table
	last    atomic.Pointer[work]
}

// work is the result of a plan.
type work struct {
	drawn  *mountplan.CachedPlan
	wants  []want
	domain *domain
}

func attach(_ context.Context, spec *shared.Spec) (_ *cmdengine.Attachment, err error) {
	s := &openSandbox{spec: spec}
	if s.options, err = parseOptions(spec.Options); err != nil {
		return nil, err
	}
	if s.abi, err = abiOf(s.options); err != nil {
		return nil, err
	}
	if err := s.refuseSockets(); err != nil {
		return nil, err
	}
	drawn := *spec
	drawn.Table = withoutNested(spec.Table)
	s.table = &mountplan.Table{Facts: mountplan.Look(), Support: &mountplan.Support{Reason: `engine "landlock" has no overlays`}, Spec: &drawn}
	if _, err := s.domain(); err != nil {
		return nil, err
	}
	return &cmdengine.Attachment{Launch: s.launch, Prepares: true, Plan: s.plan, Events: s.events}, nil
}

// refuseSockets refuses a granted socket if commands cannot make sockets.
func (s *openSandbox) refuseSockets() error {
	for _, e := range s.spec.Table {
		if e.Access.Shows() && isSocket(e.Source) && !s.options.filter.UnixSockets {
			return &shared.Error{Kind: shared.ErrUnsupported, Attribute: e.Why, Message: fmt.Sprintf("connecting to %q needs unix sockets, which Landlock cannot tell apart", e.Source),
				Hint: "leave it out, or set config { unix_sockets = true }: commands then reach every socket that you can connect to"}
		}
	}
	return nil
}

func isSocket(p string) bool {
	info, err := os.Lstat(p)
	return err == nil && info.Mode()&os.ModeSocket != 0
}

// domain is the domain of a command that starts now.
func (s *openSandbox) domain() (*work, error) {
	drawn, err := s.table.Draw()
	if err != nil {
		return nil, err
	}
	if last := s.last.Load(); last != nil && last.drawn == drawn && !last.domain.listed {
		return last, nil
	}
	sockets := false // only this rule distinguishes them from other files
	socket := func(p string) bool {
		is := isSocket(p)
		sockets = sockets || is
		return is
	}
	w := &work{drawn: drawn, wants: wants(drawn.Ops, socket)}
	if w.domain, err = domainOf(w.wants, s.abi, os.ReadDir); err != nil {
		return nil, err
	}
	w.domain.listed = w.domain.listed || sockets
	s.last.Store(w)
	return w, nil
}

// launch runs the init itself: there is no launcher.
func (s *openSandbox) launch(cmd *shared.Command) (*cmdengine.Launch, error) {
	w, err := s.domain()
	if err != nil {
		return nil, err
	}
	var p private
	l := &cmdengine.Launch{
		Cmd:         &exec.Cmd{Path: sandboxinit.Argv(3, 4)[0]},
		Confinement: sandboxinit.Confinement{Landlock: w.domain.forInit(s.abi)},
		OwnRules: func() (rules []confine.Rule, err error) {
			if err := p.make(s.spec); err != nil {
				return nil, mountplan.Unavailable(fmt.Errorf("making private directories: %w", err))
			}
			for _, dir := range p.dirs() {
				rules = append(rules, confine.Rule{Path: dir, Access: uint64(write.rights() & handled(s.abi))})
			}
			return rules, nil
		},
		Inside: func(c *sandboxinit.Command) { c.Env = environ(c.Env, w.wants, p.home, p.temp, filepath.EvalSymlinks) },
		Ended:  func() { p.alone.Remove() },
	}
	if cmd == nil || !cmd.TTY { // a rule is about the terminal
		l.Same = alive
	}
	return l, nil
}

// alive reports whether a waiting init, a child of this process, was not killed or stopped.
func alive(_ context.Context, init cmdengine.Process) bool {
	var ended unix.Siginfo // stays zero for one that runs
	err := unix.Waitid(unix.P_PID, init.Pid(), &ended, unix.WEXITED|unix.WSTOPPED|unix.WNOHANG|unix.WNOWAIT, nil)
	return err == nil && ended.Signo == 0
}

func (s *openSandbox) events() []shared.Event {
	return degradedEvents(s.spec, s.options, s.abi, s.last.Load().domain)
}

func (s *openSandbox) plan(*shared.Command) (shared.Plan, error) {
	w, err := s.domain()
	if err != nil {
		return shared.Plan{}, err
	}
	f, err := filterOf(s.spec)
	if err != nil {
		return shared.Plan{}, err
	}
	p := shared.Plan{Argv: cmdengine.PlannedInit()}
	var text strings.Builder
	fmt.Fprintf(&text, "version %d; all that no line grants is refused of: %v\n", s.abi, handled(s.abi))
	fmt.Fprintf(&text, "private directories, for TMPDIR and HOME: %v\n", write.rights()&handled(s.abi))
	for _, r := range w.domain.rules {
		fmt.Fprintf(&text, "%q: %v # %s\n", r.Path, rights(r.Access), r.why)
	}
	p.Documents = []shared.PlanDocument{{Name: "landlock", Text: text.String()}, {Name: "system calls", Text: f.String()}}
	return p, nil
}
