package actor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// namespaceActions try to leave, or to build, what a sandbox is made of.
func namespaceActions() map[string]action {
	return map[string]action{
		"namespace":    sameNamespace,
		"processes":    processes,
		"capabilities": capabilities,
		"status-not": func(args []string) (string, error) { // FIELD VALUE
			value, err := field(args[0])
			if err == nil && value == args[1] {
				err = fmt.Errorf("%s is %s", args[0], value)
			}
			return args[0] + " is " + value, err
		},
		"bounding": func(args []string) (string, error) { // USER-NAMESPACE of the host
			value, err := field("CapBnd")
			if err == nil && value == "0000000000000000" {
				return "", errors.New("it is empty")
			}
			// Where it is the host's an ordinary user cannot empty it. Then it counts for nothing as
			// long as no privileges can be gained.
			if own, _ := os.Readlink("/proc/self/ns/user"); own == args[0] && os.Geteuid() != 0 {
				if gains, err := field("NoNewPrivs"); err == nil && gains == "1" {
					return "", errors.New("nothing can be gained of it")
				}
			}
			return "CapBnd is " + value, err
		},
		"setuid": func(args []string) (string, error) { // of the calling thread alone, which is enough to see
			id := uintptr(number(args[0]))
			_, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, id, id, id)
			return "the user was changed", errnoError(errno)
		},
		"setgroups": func(args []string) (string, error) {
			return "the groups were changed", unix.Setgroups([]int{number(args[0])})
		},
		"chroot":  func(args []string) (string, error) { return "was entered", unix.Chroot(args[0]) },
		"clone":   func(args []string) (string, error) { return inNamespace(args[0], true) },
		"unshare": func(args []string) (string, error) { return inNamespace(args[0], false) },
		"setns":   setns,
		"mount":   mount,
		"unmount-read": func(args []string) (string, error) {
			err := unix.Unmount(args[0], unix.MNT_DETACH)
			text, readErr := readCanary(args[1], args[0])
			if readErr != nil {
				readErr = errors.Join(err, readErr)
			}
			return text, readErr
		},
		"bind-read": func(args []string) (string, error) { // DIR NAME CANARY
			at := filepath.Join(args[0], "sub")
			if err := unix.Mount(args[0], at, "", unix.MS_BIND, ""); err != nil {
				return "", err
			}
			return readCanary(args[2], filepath.Join(at, args[1]))
		},
		"nested-unmount-read": func(args []string) (string, error) { return nested("unmount-read", args...) },
		"nested-bind-read":    func(args []string) (string, error) { return nested("bind-read", args...) },
		"trace":               trace,
		"priority": func(args []string) (string, error) { // of this process alone
			return "was set", unix.Setpriority(unix.PRIO_PROCESS, 0, number(args[0]))
		},
		"raise-limit": raiseLimit,
		"limit": func(args []string) (string, error) { // PID
			// The processor time that is left to a process, for one: its end kills.
			limit := unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}
			return "was set", unix.Prlimit(number(args[0]), unix.RLIMIT_CPU, &limit, nil)
		},
	}
}

func sameNamespace(args []string) (string, error) { // NAME LINK
	link, err := os.Readlink("/proc/self/ns/" + args[0])
	if err == nil && link != args[1] {
		err = fmt.Errorf("it is another one, %s", link)
	}
	return link, err
}

func processes(args []string) (string, error) {
	limit := number(args[0])
	n := len(Processes())
	if n < limit {
		return "", fmt.Errorf("%d processes are shown", n)
	}
	return fmt.Sprintf("%d processes are shown", n), nil
}

func capabilities([]string) (string, error) {
	return each([]string{"CapEff", "CapPrm", "CapInh", "CapAmb"}, func(name string) (string, error) {
		value, err := field(name)
		if err == nil && strings.Trim(value, "0") == "" {
			err = errors.New("the sets are empty")
		}
		return value, err
	})
}

var namespaceFlags = map[string]uintptr{
	"user": unix.CLONE_NEWUSER, "mnt": unix.CLONE_NEWNS, "net": unix.CLONE_NEWNET, "pid": unix.CLONE_NEWPID,
}

// inNamespace starts a process in a new namespace, made by clone or by unshare.
func inNamespace(name string, clone bool) (string, error) {
	flag, ok := namespaceFlags[name]
	if !ok {
		return "", broken("no namespace %q", name)
	}
	cmd := self("nothing")
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	if clone {
		cmd.SysProcAttr.Cloneflags = flag
	} else {
		cmd.SysProcAttr.Unshareflags = flag
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w %s", err, out)
	}
	return "a process runs in one", nil
}

// setns enters the namespace that this process is in already, for which the
// kernel asks the same capability.
func setns(args []string) (string, error) {
	fd, err := unix.Open("/proc/self/ns/"+args[0], unix.O_RDONLY|unix.O_CLOEXEC, 0)
	tried(err)
	return "was entered", unix.Setns(fd, 0)
}

func mount(args []string) (string, error) { // KIND DIR [TO]
	dir := args[1]
	var err error
	switch args[0] {
	case "bind":
		dir = args[2]
		err = unix.Mount(args[1], dir, "", unix.MS_BIND, "")
	default:
		err = unix.Mount(args[0], dir, args[0], 0, "")
	}
	if err == nil {
		err = unix.Unmount(dir, unix.MNT_DETACH)
	}
	return "was mounted", err
}

// nested has an action carried out by root of a new user and mount namespace, who tells how it went.
func nested(action string, args ...string) (string, error) {
	cmd := self(action, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	err := cmd.Run()
	if err == nil {
		os.Exit(0)
	}
	return "", err
}

// trace attaches to process PID, or to a child, and lets go.
func trace(args []string) (string, error) {
	if args[0] != "child" {
		return "was attached to", seize(number(args[0]))
	}
	c := ownChild("hold")
	defer c.End()
	return "was attached to", seize(c.Process.Pid)
}

// seize attaches without stopping; the end of this process detaches.
func seize(pid int) error {
	_, _, errno := unix.RawSyscall6(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(pid), 0, 0, 0, 0)
	return errnoError(errno)
}

// raiseLimit raises a hard limit that is not infinite.
func raiseLimit([]string) (string, error) {
	var limit unix.Rlimit
	tried(unix.Getrlimit(unix.RLIMIT_CORE, &limit))
	limit.Cur, limit.Max = 4096, 4096
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &limit); err != nil && !errors.Is(err, unix.EPERM) {
		return "", broken("%v", err)
	}
	limit.Max = 8192
	return "was raised", unix.Setrlimit(unix.RLIMIT_CORE, &limit)
}
