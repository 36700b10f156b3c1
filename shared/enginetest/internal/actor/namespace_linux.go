package actor

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// namespaceActions try to leave, or to build, what a sandbox is made of.
func namespaceActions() map[string]action {
	return map[string]action{
		"namespace": func(args []string) (string, error) { // NAME LINK
			link, err := os.Readlink("/proc/self/ns/" + args[0])
			if err == nil && link != args[1] {
				err = fmt.Errorf("it is another one, %s", link)
			}
			return link, err
		},
		"processes": func(args []string) (string, error) {
			shown := fmt.Sprintf("%d processes are shown", len(Processes()))
			if len(Processes()) < number(args[0]) {
				return "", errors.New(shown)
			}
			return shown, nil
		},
		"capabilities": func([]string) (string, error) {
			return each([]string{"CapEff", "CapPrm", "CapInh", "CapAmb"}, func(name string) (string, error) {
				value, err := field(name)
				if err == nil && strings.Trim(value, "0") == "" {
					err = errors.New("the sets are empty")
				}
				return value, err
			})
		},
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
		"clone": func(args []string) (string, error) {
			return started(&syscall.SysProcAttr{Cloneflags: namespaces[args[0]]}, "nothing")
		},
		"unshare": func(args []string) (string, error) {
			return started(&syscall.SysProcAttr{Unshareflags: namespaces[args[0]]}, "nothing")
		},
		// ACTION, by root of a new user and mount namespace
		"nested": func(args []string) (string, error) {
			cmd := self(args[0], args[1:]...)
			cmd.SysProcAttr = &syscall.SysProcAttr{
				Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
				UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
				GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
			}
			cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
			err := cmd.Run()
			if err == nil {
				os.Exit(0) // it has said how it went
			}
			return "", err
		},
		"raise-limit": raiseLimit,
	}
}

var namespaces = map[string]uintptr{
	"user": unix.CLONE_NEWUSER, "mnt": unix.CLONE_NEWNS, "net": unix.CLONE_NEWNET, "pid": unix.CLONE_NEWPID,
}

// started runs a process in a new namespace.
func started(attr *syscall.SysProcAttr, action string) (string, error) {
	cmd := self(action)
	cmd.SysProcAttr = attr
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w %s", err, out)
	}
	return "a process runs in one", nil
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
