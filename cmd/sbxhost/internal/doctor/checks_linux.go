package doctor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/engine/cgroup"
	"github.com/sbxhost/sbxhost/internal/engine/nsengine"
	"github.com/sbxhost/sbxhost/internal/engine/sandboxinit/confine"
	"github.com/sbxhost/sbxhost/internal/hostpath"
)

// tryPatience bounds each program that is tried.
const tryPatience = 10 * time.Second

// examinePlatform looks at the kernel. What becomes of it is for the engines' probes to say.
func examinePlatform(ctx context.Context) []finding {
	return []finding{
		{Name: "kernel", State: stateOK, Found: setting("/proc/sys/kernel/osrelease")},
		userNamespaces(ctx), appArmor(), container(), overlay(ctx),
		cgroups(), landlockABI(), seccomp(),
	}
}

// setting is what a file of the kernel says, or "".
func setting(path string) string {
	text, _ := os.ReadFile(path)
	return strings.TrimSpace(string(text))
}

// attempt runs a program and gives the end of what it says.
func attempt(ctx context.Context, attr *syscall.SysProcAttr, argv ...string) error {
	ctx, cancel := context.WithTimeout(ctx, tryPatience)
	defer cancel()
	program, _, err := (&hostpath.Programs{}).Find(argv[0])
	if err != nil {
		return err
	}
	cmd := program.Command(ctx, argv[1:]...)
	cmd.SysProcAttr = attr
	var said bytes.Buffer
	cmd.Stderr = &said
	err = cmd.Run()
	if text := strings.TrimSpace(said.String()); err != nil && text != "" {
		err = fmt.Errorf("%w: %s", err, text)
	}
	return err
}

// inUserNamespace makes the process root of a user namespace of its own.
func inUserNamespace(more uintptr) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | more,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
}

func userNamespaces(ctx context.Context) finding {
	f := finding{Name: "user namespaces", State: stateOK, Found: "a process runs in one"}
	err := attempt(ctx, inUserNamespace(0), "/bin/sh", "-c", ":")
	if err == nil {
		return f
	}
	reason, fix := nsengine.LookAtKernel().Refused(appArmorFix(os.Executable()))
	f.State, f.Found, f.Fix = stateMissing, err.Error()+": "+reason, fix
	f.Consequence = "the engines native and bwrap cannot isolate for an ordinary user"
	return f
}

func appArmor() finding {
	f := finding{Name: "AppArmor", State: stateOK, Found: "does not restrict user namespaces"}
	if setting("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1" {
		f.State, f.Found = stateLimited, "restricts user namespaces of programs without a profile"
		f.Consequence = "the engines native and bwrap work only where a profile allows userns; whether it does is told below"
		f.Fix = appArmorFix(os.Executable())
	}
	return f
}

const appArmorOff = "as root: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"

// appArmorFix gives the profile that lets this program, and the lean engine beside it, make
// user namespaces. A path that would mean something else in a profile gets none.
func appArmorFix(program string, err error) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._+-", r)
	}
	if err != nil || strings.ContainsFunc(program, func(r rune) bool { return !plain(r) }) {
		return appArmorOff
	}
	// The parser takes a path that begins with a slash alone for what a profile is of.
	dir, name := filepath.Split(program)
	return fmt.Sprintf("as root: write `abi <abi/4.0>, profile sbxhost %s{%s,sbxhost-engine-native} flags=(unconfined) { userns, }` to /etc/apparmor.d/sbxhost and run: apparmor_parser -r /etc/apparmor.d/sbxhost", dir, name)
}

// container tells whether this machine is one.
func container() finding {
	f := finding{Name: "container", State: stateOK, Found: "none: this is a machine of its own"}
	for _, mark := range []string{"/.dockerenv", "/run/.containerenv", "/run/systemd/container"} {
		if _, err := os.Lstat(mark); err == nil {
			f.State, f.Found = stateLimited, "inside one, by "+mark
			f.Consequence = "what the container withholds, such as mounting /proc, sandboxes inside lack too"
			f.Fix = "if the engines fail below: run the container with --security-opt seccomp=unconfined --security-opt systempaths=unconfined, or privileged"
		}
	}
	if nsengine.InSandbox() {
		f.State, f.Found = stateLimited, "inside a sandbox of sbxhost"
		f.Consequence, f.Fix = "no namespaces can be made here, unless its definition says so", nsengine.FixSandbox
	}
	return f
}

// overlay mounts one in a user namespace.
func overlay(ctx context.Context) finding {
	f := finding{Name: "overlay in a user namespace", State: stateOK, Found: "can be mounted"}
	dir, err := os.MkdirTemp("", "sbxhost-doctor-")
	if err == nil {
		defer os.RemoveAll(dir)
		for _, name := range []string{"lower", "upper", "work", "merged"} {
			err = errors.Join(err, os.Mkdir(filepath.Join(dir, name), 0o755))
		}
	}
	if err == nil {
		err = attempt(ctx, inUserNamespace(syscall.CLONE_NEWNS), "mount", "-t", "overlay", "overlay",
			"-o", "userxattr,lowerdir="+dir+"/lower,upperdir="+dir+"/upper,workdir="+dir+"/work", dir+"/merged")
	}
	// The kernel makes it with a mode of its own.
	os.Chmod(filepath.Join(dir, "work", "work"), 0o700)
	switch {
	case errors.Is(err, hostpath.ErrNoProgram):
		f.State, f.Found = stateUnknown, "there is no mount program to try it with"
	case err != nil:
		f.State, f.Found = stateMissing, err.Error()
		f.Consequence = "binds that want an overlay become read-only where the definition lets them, and are refused otherwise"
		f.Fix = "use a kernel from 5.11 on, and a file system other than overlay for TMPDIR"
		if refused, ok := errors.AsType[*fs.PathError](err); ok && refused.Op == "fork/exec" {
			// The namespace was, before any mount.
			f.Fix = "see user namespaces above"
		}
	}
	return f
}

// cgroups tells what would hold the limits of a whole command.
func cgroups() finding {
	var st unix.Statfs_t
	if err := unix.Statfs("/sys/fs/cgroup", &st); err != nil {
		f := heldLimits(cgroup.Host{})
		f.Found, f.Fix = "not mounted: "+err.Error(), "mount cgroup2 on /sys/fs/cgroup"
		return f
	}
	return heldLimits(cgroup.Look())
}

// heldLimits says what a machine that offers this to a process can hold.
func heldLimits(host cgroup.Host) finding {
	f := finding{Name: "cgroups", State: stateOK}
	decision := host.Decide(cgroup.Limits{Memory: 1, CPUs: 1, PIDs: 1})
	var holds, lacks []string
	for _, l := range [...]struct {
		name       string
		controller cgroup.Controller
	}{{"limits.memory", cgroup.Memory}, {"limits.cpus", cgroup.CPU}, {"limits.pids", cgroup.PIDs}} {
		if mechanism := decision.Mechanism(l.controller); mechanism != "" {
			holds = append(holds, l.name+" by "+mechanism)
		} else {
			lacks = append(lacks, l.name)
		}
	}
	f.Found = "what is there holds " + strings.Join(holds, ", ")
	if len(holds) == 0 {
		f.Found = "no group can be had that limits anything"
	}
	if len(lacks) > 0 {
		f.State = stateLimited
		f.Consequence = strings.Join(lacks, ", ") + ": refused where required; best_effort approximates memory and pids for each process by itself, and does not hold cpus"
		f.Fix = "log in to a session of systemd, with busctl and the user's bus (dbus-user-session), and the controllers delegated to users; as a system service, run as root, or have root make a group that you own"
	}
	return f
}

func landlockABI() finding {
	f := finding{Name: "Landlock", State: stateOK}
	const consequence = "a command with the host's network reaches the host's abstract sockets; this is reported"
	abi, err := confine.ABI()
	switch {
	case err != nil:
		f.State, f.Found, f.Consequence, f.Fix = stateMissing, err.Error(), "the engine landlock cannot work, and "+consequence, "use a kernel from 6.12 on with landlock in its lsm= list"
	case abi < 6:
		f.State, f.Found, f.Consequence, f.Fix = stateLimited, fmt.Sprintf("ABI %d", abi), consequence, "use a kernel from 6.12 on"
	default:
		f.Found = fmt.Sprintf("ABI %d", abi)
	}
	return f
}

// seccomp asks for a filter at no address: EFAULT tells that it was looked for.
func seccomp() finding {
	f := finding{Name: "seccomp filters", State: stateOK, Found: "can be set"}
	const modeFilter = 1 // SECCOMP_SET_MODE_FILTER
	if _, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, modeFilter, 0, 0); errno != unix.EFAULT {
		f.State, f.Found = stateMissing, errno.Error()
		f.Consequence, f.Fix = "system calls of a command cannot be filtered", "use a kernel with CONFIG_SECCOMP_FILTER"
	}
	return f
}
