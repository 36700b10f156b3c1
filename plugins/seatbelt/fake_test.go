package seatbelt

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// record is what the fake launcher saw, for the test to check. Nothing is
// isolated by it: it says what a real sandbox-exec would have been given.
type record struct {
	Argv, Env, FDs []string
	Dir            string
	PID, SID, PGID int
	Profile        string
	Mode, DirMode  fs.FileMode
	Parameters     map[string]string
	Temp           []string // the entries of TMPDIR
}

// fakeSandboxExec takes the options of sandbox-exec, leaves a record beside
// itself and becomes the command.
func fakeSandboxExec() int {
	r := record{Argv: os.Args, Env: os.Environ(), PID: os.Getpid(), PGID: syscall.Getpgrp(), Parameters: map[string]string{}}
	r.SID, _ = unix.Getsid(0)
	r.Dir, _ = os.Getwd()
	args := os.Args[1:]
	file := ""
	for len(args) > 1 && args[0] != "--" {
		switch args[0] {
		case "-f":
			file = args[1]
			text, err := os.ReadFile(file)
			info, statErr := os.Stat(file)
			dir, dirErr := os.Stat(filepath.Dir(file))
			if err := errors.Join(err, statErr, dirErr); err != nil {
				return complain(err)
			}
			r.Profile, r.Mode, r.DirMode = string(text), info.Mode(), dir.Mode()
		case "-p":
			r.Profile = args[1]
		case "-D":
			name, value, _ := strings.Cut(args[1], "=")
			r.Parameters[name] = value
		default:
			return complain(fmt.Errorf("option %q", args[0]))
		}
		args = args[2:]
	}
	for _, value := range r.Parameters {
		if strings.Contains(value, "nested") {
			fmt.Fprintln(os.Stderr, "sandbox-exec: sandbox_apply: Operation not permitted")
			return 71
		}
	}
	if len(args) < 2 || args[0] != "--" {
		return complain(errors.New("no command"))
	}
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return complain(err)
	}
	for _, e := range entries {
		// What the command would inherit; Go's own descriptors are not for it.
		if fd, err := strconv.Atoi(e.Name()); err == nil {
			if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
				r.FDs = append(r.FDs, e.Name())
			}
		}
	}
	if file != "" {
		temp, err := os.ReadDir(os.Getenv("TMPDIR"))
		if err != nil {
			return complain(err)
		}
		for _, e := range temp {
			r.Temp = append(r.Temp, e.Name())
		}
		text, err := json.Marshal(r)
		if err != nil {
			return complain(err)
		}
		if err := os.WriteFile(filepath.Join(filepath.Dir(os.Args[0]), fmt.Sprintf("record-%d.json", r.PID)), text, 0o600); err != nil {
			return complain(err)
		}
	}
	command := args[1:]
	// Go's own variables are not the command's.
	return complain(syscall.Exec(command[0], command, slices.Clone(r.Env)))
}

func complain(err error) int {
	fmt.Fprintln(os.Stderr, "fake sandbox-exec:", err)
	return 71
}
