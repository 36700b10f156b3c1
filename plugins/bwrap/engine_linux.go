package bwrap

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/cmdengine"
	"github.com/sbxhost/sbxhost/shared/sandboxinit"
)

// New makes the engine. It looks at nothing before it is used.
func New() shared.Engine {
	e := &engine{}
	e.Engine = cmdengine.New(cmdengine.Config{
		Info:    info,
		Probe:   e.probe,
		Open:    e.open,
		Launch:  e.launch,
		Plan:    e.plan,
		Init:    true,
		Rlimits: rlimits,

		HoldLimits: true,
		Diagnose: func(_ context.Context, stderr string, state *os.ProcessState) error {
			if state != nil && !state.Exited() {
				return nil // killed, which says nothing of the machine
			}
			return diagnose(stderr, lookAtKernel())
		},
		Events: func(spec *shared.Spec, _ *shared.Command) []shared.Event { return events(spec) },
	})
	return e.Engine
}

type engine struct {
	shared.Engine
	facts atomic.Pointer[facts] // as of the latest Open

	probing sync.Mutex
	probed  map[identity]shared.Probe
}

// open looks at the host and refuses what no command could be started with.
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
	if err := outOfReach(launcher, o.path != "", spec); err != nil {
		return err
	}
	f := look()
	e.facts.Store(f)
	ops, err := plan(f, spec, &shared.Command{})
	if err != nil {
		return err
	}
	_, _, err = args(spec.Network.Mode, ops, firstFD)
	return err
}

// look gathers the facts of this machine.
func look() *facts {
	var memory uint64
	var si unix.Sysinfo_t
	if unix.Sysinfo(&si) == nil {
		memory = uint64(si.Totalram) * uint64(max(si.Unit, 1))
	}
	return gather(hostTree{}, uint32(os.Geteuid()), memory)
}

func (e *engine) known() *facts {
	if f := e.facts.Load(); f != nil {
		return f
	}
	f := look()
	e.facts.Store(f)
	return f
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
// filter, firstFD that of the first file to copy in.
const (
	argsFD   = 3
	filterFD = 4
	firstFD  = 5
)

// launch gives bubblewrap's command line. The options travel by descriptor:
// there they can be as many as bubblewrap takes, and no process list shows them.
func (e *engine) launch(spec *shared.Spec, cmd *shared.Command) (_ *exec.Cmd, err error) {
	launcher, o, err := locateFor(spec)
	if err != nil {
		return nil, err
	}
	ops, err := plan(e.known(), spec, cmd)
	if err != nil {
		return nil, err
	}
	words, files, err := args(spec.Network.Mode, ops, firstFD)
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
	list, err := sealed("bwrap-args", strings.Join(words, "\x00")+"\x00")
	if err != nil {
		return nil, err
	}
	extra = append(extra, list)
	program, err := sealed("bwrap-seccomp", string(filter.Bytes()))
	if err != nil {
		return nil, err
	}
	extra = append(extra, program)
	for _, name := range files {
		f, err := openRegular(name)
		if err != nil {
			return nil, &shared.Error{Kind: shared.ErrUnavailable, Message: err.Error()}
		}
		extra = append(extra, f)
	}
	return &exec.Cmd{
		Path:       launcher,
		Args:       []string{launcher, "--args", fmt.Sprint(argsFD), "--"},
		Env:        []string{},
		ExtraFiles: extra,
	}, nil
}

// openRegular opens a file to be copied in. What has become a fifo since
// the facts were gathered must not hang the engine.
func openRegular(name string) (*os.File, error) {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		unix.Close(fd)
		return nil, errors.Join(fmt.Errorf("%q is not a regular file any more", name), err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

// sealed is an unnamed file in memory that can no longer be changed, read from
// its start.
func sealed(name, content string) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	f := os.NewFile(uintptr(fd), name)
	if _, err := f.WriteAt([]byte(content), 0); err != nil {
		f.Close()
		return nil, err
	}
	const seals = unix.F_SEAL_WRITE | unix.F_SEAL_GROW | unix.F_SEAL_SHRINK | unix.F_SEAL_SEAL
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		f.Close()
		return nil, fmt.Errorf("sealing a memfd: %w", err)
	}
	return f, nil
}

func (e *engine) plan(spec *shared.Spec, cmd *shared.Command) (shared.Plan, error) {
	launcher, o, err := locateFor(spec)
	if err != nil {
		return shared.Plan{}, err
	}
	f := e.known()
	ops, err := plan(f, spec, cmd)
	if err != nil {
		return shared.Plan{}, err
	}
	words, _, err := args(spec.Network.Mode, ops, -1)
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
		Mounts:    planned(ops),
		Documents: []shared.PlanDocument{{Name: "system calls", Text: filter.String()}},
		Notes:     notes(events(spec)),
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
