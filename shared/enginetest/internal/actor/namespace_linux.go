package actor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
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
			dirs, err := filepath.Glob("/proc/[0-9]*")
			shown := fmt.Sprintf("%d processes are shown", len(dirs))
			if len(dirs) < number(args[0]) {
				err = errors.New(shown)
			}
			return shown, err
		},
		"clone": func(args []string) (string, error) {
			return started(&syscall.SysProcAttr{Cloneflags: namespaces[args[0]]})
		},
		"unshare": func(args []string) (string, error) {
			return started(&syscall.SysProcAttr{Unshareflags: namespaces[args[0]]})
		},
		// ACTION, by root of a new user and mount namespace
		"nested": func(args []string) (string, error) {
			cmd := self(args[0], args[1:]...)
			cmd.SysProcAttr = &syscall.SysProcAttr{
				Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
				UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
				GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
			}
			cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
			err := cmd.Run()
			if err == nil {
				os.Exit(0) // it has said how it went
			}
			return "", err
		},
	}
}

var namespaces = map[string]uintptr{
	"user": unix.CLONE_NEWUSER, "mnt": unix.CLONE_NEWNS, "net": unix.CLONE_NEWNET, "pid": unix.CLONE_NEWPID,
}

// started runs a process in a new namespace.
func started(attr *syscall.SysProcAttr) (string, error) {
	cmd := self("nothing")
	cmd.SysProcAttr = attr
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w %s", err, out)
	}
	return "a process runs in one", nil
}
