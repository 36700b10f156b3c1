package enginetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sbxhost/sbxhost/shared"
)

// doing is a trial whose action needs nothing of the scene.
func doing(action string, args ...string) func(*scene, *trial) {
	return func(_ *scene, t *trial) { t.do(action, args...) }
}

// showOutside grants what is planted outside of the workspace.
func showOutside(s *scene, t *trial) { t.show(s.outside, shared.ReadOnly) }

// readOutside reads the secret that no mount shows, by a path below the scene.
func readOutside(elements ...string) func(*scene, *trial) {
	return func(s *scene, t *trial) { t.do("read-canary", s.canary, s.path(elements...)) }
}

// listing tries what a directory of the host shows besides the mounts.
func listing(dir string) func(*scene, *trial) {
	return func(s *scene, t *trial) { t.do("list", dir, s.dir, s.suite.actor) }
}

// plantIn puts a secret into a directory that is the host's alone to see.
func plantIn(dir func() (string, error)) func(*scene) error {
	return func(s *scene) error {
		path, err := dir()
		if err != nil {
			return &absentError{err.Error()}
		}
		s.values["planted"] = filepath.Join(path, "sbxhost-probe-"+s.suite.random)
		f, err := os.CreateTemp(path, "sbxhost-probe-")
		if err != nil {
			return &absentError{err.Error()}
		}
		s.cleanup(func() { os.Remove(f.Name()) })
		s.values["planted"] = f.Name()
		defer f.Close()
		_, err = f.WriteString(s.canary)
		return err
	}
}

func in(dir string) func() (string, error) {
	return func() (string, error) { return dir, nil }
}

func readPlanted(s *scene, t *trial) { t.do("read-canary", s.canary, s.values["planted"]) }

// readProbes are about what of the host can be read.
func readProbes() []probe {
	hostView := func(then func(*scene, *trial)) func(*scene, *trial) {
		return func(s *scene, t *trial) {
			t.Spec.Filesystem = shared.FilesystemHost
			then(s, t)
		}
	}
	return []probe{
		{id: "read.01", title: "a file that no mount shows", trial: readOutside("outside/secret"),
			control: controlGranted, grant: showOutside},
		{id: "read.02", title: "the same through ..", trial: readOutside("ws/../outside/secret"),
			control: controlGranted, grant: showOutside},
		{id: "read.03", title: "the same through a symlink in the workspace", trial: readOutside("ws/link/secret"),
			prepare: func(s *scene) error { return os.Symlink(s.outside, s.path("ws/link")) },
			control: controlGranted, grant: showOutside},
		{id: "read.04", title: "the neighbours of the workspace", trial: func(s *scene, t *trial) { t.do("list", s.dir, s.ws, s.suite.actor) },
			control: controlGranted, grant: func(s *scene, t *trial) {
				t.Spec.Table = slices.Insert(t.Spec.Table, 0, shared.Entry{Source: s.dir, Path: s.dir, Why: "bind_paths[1]", Access: shared.ReadOnly})
			}},
		{id: "read.05", title: "a directory whose name begins with the workspace's", trial: readOutside("ws-evil/secret"),
			prepare: func(s *scene) error { return s.write("ws-evil/secret", s.canary) },
			control: controlGranted, grant: func(s *scene, t *trial) { t.show(s.path("ws-evil"), shared.ReadOnly) }},
		{id: "read.06", title: "password hashes", only: onlyLinux, trial: doing("read", "/etc/shadow", "/etc/gshadow"), maybe: true},
		{id: "read.07", title: "the homes of the host", trial: listing("/home"), maybe: true},
		{id: "read.08", title: "root's home", only: onlyLinux, trial: listing("/root"), maybe: true},
		{id: "read.09", title: "the caller's own home", trial: func(s *scene, t *trial) {
			t.do("list", s.suite.home, s.dir, s.suite.actor)
		}, maybe: true},
		{id: "read.10", title: "/run", only: onlyLinux, trial: listing("/run"), maybe: true},
		{id: "read.11", title: "/run of the host's view", only: onlyLinux,
			prepare: plantIn(in("/run")), trial: hostView(readPlanted)},
		{id: "read.12", title: "/var/log and /var/lib", trial: doing("read", "/var/log", "/var/lib"), maybe: true},
		{id: "read.13", title: "the host's /tmp", prepare: plantIn(in("/tmp")), trial: readPlanted},
		{id: "read.14", title: "the host's /tmp in the host's view", prepare: plantIn(in("/tmp")), trial: hostView(readPlanted)},
		{id: "read.15", title: "the host's /var/tmp", prepare: plantIn(in("/var/tmp")), trial: hostView(readPlanted)},
		{id: "read.16", title: "the host's /dev/shm", only: onlyLinux, prepare: plantIn(in("/dev/shm")), trial: hostView(readPlanted)},
		{id: "read.17", title: "block devices", only: onlyLinux, trial: doing("devices", "block"), maybe: true},
		{id: "read.18", title: "memory and port devices", only: onlyLinux, trial: doing("devices", "memory"), maybe: true},
		{id: "read.19", title: "/sys", only: onlyLinux, trial: doing("read", "/sys/kernel", "/sys/class", "/sys/devices", "/sys/module", "/sys/fs/ext4"), maybe: true},
		{id: "read.20", title: "the kernel's log by system call", only: onlyLinux, trial: doing("syslog"), maybe: true},
		{id: "read.21", title: "the kernel's log and memory by file", only: onlyLinux, trial: doing("read", "/proc/kmsg", "/dev/kmsg", "/proc/kcore"), maybe: true},
		{id: "read.22", title: "command lines of the host's processes", only: onlyLinux, trial: victimTrial("cmdline")},
		{id: "read.23", title: "environments of the host's processes", only: onlyLinux, trial: victimTrial("environ")},
		{id: "read.24", title: "the host's tree by /proc/PID/root", only: onlyLinux, trial: victimTrial("root")},
		{id: "read.25", title: "the host's tree by /proc/PID/cwd", only: onlyLinux, trial: victimTrial("cwd")},
		{id: "read.26", title: "open files of the host's processes", only: onlyLinux, trial: victimTrial("fd")},
		{id: "read.27", title: "files that are open in the engine's process", only: onlyLinux,
			prepare: inheritDirectory, trial: func(s *scene, t *trial) { t.do("inherited", s.canary) },
			control: controlOutside},
		{id: "read.28", title: "a directory as standard input is refused", unmodelled: decidedByRequest, custom: directoryAsStdin},
		{id: "read.29", title: "files by their handle", only: onlyLinux, prepare: takeHandle,
			trial:   func(s *scene, t *trial) { t.do("handle", s.ws, s.values["handle"], s.canary) },
			control: controlOutside, maybe: true},
		{id: "read.30", title: "the host's identity files", only: onlyLinux,
			trial: doing("read", "/etc/machine-id", "/etc/sudoers", "/etc/ssh/sshd_config", "/etc/ssl/private", "/etc/fstab"), maybe: true},
		{id: "read.31", title: "other trees of the host", trial: doing("read", "/boot", "/mnt", "/media", "/srv", "/var/spool", "/var/cache"), maybe: true},
		{id: "read.32", title: "what an earlier command left in /tmp", trial: func(s *scene, t *trial) {
			t.first = [][]string{{"create", "/tmp/left-" + s.suite.random + s.p.id}}
			t.do("read", "/tmp/left-"+s.suite.random+s.p.id)
		}, control: controlGranted, grant: func(s *scene, t *trial) {
			t.first = nil
			t.do("write-then-read", t.act[1])
		}, after: func(s *scene, o *outcome) error { return notOnHost("/tmp/left-"+s.suite.random+s.p.id)(s, o) }},
		{id: "read.33", title: "the home directory that the private one takes the place of",
			prepare: func(s *scene) error { return s.write("home/secret", s.canary) },
			trial:   hostView(func(s *scene, t *trial) { t.Spec.Home = s.path("home"); readOutside("home/secret")(s, t) }),
			control: controlGranted, grant: func(s *scene, t *trial) { t.show(s.path("home/secret"), shared.ReadOnly) }},
		{id: "read.34", title: "values of variables in command lines on the host", only: onlyLinux, custom: secretInArgv},
		{id: "read.35", title: "the init's environment, memory and files", only: onlyLinux, trial: doing("peek", "1"),
			control: controlGranted, grant: func(_ *scene, t *trial) { t.do("peek", "child") }},
		{id: "read.36", title: "the host's root by .. from every directory, and by chroot", only: onlyLinux,
			trial: func(s *scene, t *trial) { t.do("chroot-escape", s.canary, s.path("outside/secret")) }, control: controlOutside},
	}
}

// victimTrial looks for the victim, a process of the host, by way of /proc.
func victimTrial(part string) func(*scene, *trial) {
	return func(s *scene, t *trial) {
		v, err := s.suite.victim()
		if err != nil {
			t.do("victim "+err.Error(), "") // no such action: the probe fails with it
			return
		}
		t.do("proc-search", part, v.canary)
	}
}

// directoryAsStdin hands over the host's root, which must not be taken.
func directoryAsStdin(ctx context.Context, s *scene) (Status, string) {
	dir, err := os.Open("/")
	if err != nil {
		return Failed, err.Error()
	}
	defer dir.Close()
	t := s.newTrial()
	t.do("nothing")
	if o := s.attempt(ctx, t); o.verdict.Kind != verdictGot { // the control
		return ControlFailed, fmt.Sprintf("without it: %v %v %s", o.refused, o.broke, o.told())
	}
	t.stdin = dir
	if o := s.attempt(ctx, t); !errors.Is(o.refused, shared.ErrInvalidSpec) {
		return Leaked, fmt.Sprintf("it was taken, or refused in another way: %v", o.refused)
	}
	return Held, ""
}

// secretInArgv looks at all command lines of the host while a command runs that
// has a secret in its environment.
func secretInArgv(ctx context.Context, s *scene) (Status, string) {
	t := s.newTrial()
	t.setenv("TOKEN", s.canary)
	found := ""
	o := s.attemptWhile(ctx, t, func() {
		found = searchProc("cmdline", s.canary)
	})
	if o.verdict.Kind != verdictGot {
		return Failed, fmt.Sprintf("%v %v %s", o.refused, o.broke, o.told())
	}
	if found != "" {
		return Leaked, found
	}
	// The control: the same search finds the victim's argument.
	v, err := s.suite.victim()
	if err != nil {
		return Failed, err.Error()
	}
	if searchProc("cmdline", v.canary) == "" {
		return ControlFailed, "the search does not find an argument that is there"
	}
	return Held, ""
}

// inProc lists the processes that /proc shows.
func inProc() []string {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	var list []string
	for _, dir := range dirs {
		if strings.Trim(filepath.Base(dir), "0123456789") == "" {
			list = append(list, dir)
		}
	}
	return list
}
