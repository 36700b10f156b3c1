package enginetest

import (
	"errors"
	"os"
	"strings"
	"syscall"

	"github.com/sbxhost/sbxhost/shared"
)

// namespace is a probe that a namespace is not the host's.
func namespace(id, name string) probe {
	return probe{id: id, title: "the host's " + name + " namespace", only: onlyLinux, maybe: true,
		prepare: linkOfNamespace(name), act: words{"namespace", name, "{namespace}"}}
}

// linkOfNamespace finds the host's own; it is {namespace}.
func linkOfNamespace(name string) func(*scene) error {
	return func(s *scene) error {
		link, err := os.Readlink("/proc/self/ns/" + name)
		if err != nil {
			link = "none"
		}
		s.values["namespace"] = link
		return nil
	}
}

// limiting sets limits.
func limiting(limits shared.Limits) func(*scene, *trial) {
	return func(_ *scene, t *trial) { t.Spec.Limits = limits }
}

// processProbes are about what a command is among the host's processes.
func processProbes() []probe {
	linux := func(id, title string, act ...string) probe {
		return probe{id: id, title: title, only: onlyLinux, maybe: true, act: act}
	}
	privileged := func(id, title string, act ...string) probe {
		return probe{id: id, title: title, only: onlyLinux, maybe: true, act: act, control: controlPrivileged}
	}
	limit := func(id, title string, feature shared.Feature, limits, granted shared.Limits, act ...string) probe {
		return probe{id: id, title: title, unmodelled: decidedByLimits, features: []shared.Feature{feature}, trial: limiting(limits), act: act, grant: limiting(granted)}
	}
	return []probe{
		namespace("proc.01", "pid"),
		namespace("proc.02", "ipc"),
		namespace("proc.03", "uts"),
		namespace("proc.04", "mnt"),
		namespace("proc.05", "user"),
		namespace("proc.06", "cgroup"),
		namespace("proc.07", "net"),
		linux("proc.08", "the host's processes in /proc", "processes", "20"),
		{id: "proc.09", title: "signals to the host's processes", only: onlyLinux, prepare: needVictim, act: words{"signal", "{victim's pid}", "0"}},
		privileged("proc.10", "capabilities", "capabilities"),
		{id: "proc.11", title: "a bounding set that is not empty", only: onlyLinux, maybe: true, prepare: linkOfNamespace("user"),
			act: words{"bounding", "{namespace}"}},
		linux("proc.12", "new privileges by executing a file", "status-not", "NoNewPrivs", "1"),
		linux("proc.13", "system calls without a filter", "status-not", "Seccomp", "2"),
		linux("proc.14", "becoming another user", "setuid", "1"),
		linux("proc.15", "other groups", "setgroups", "12345"),
		privileged("proc.16", "a new root directory", "chroot", "{ws}"),
		linux("proc.17", "a nested user namespace by clone", "clone", "user"),
		linux("proc.18", "a nested user namespace by unshare", "unshare", "user"),
		privileged("proc.19", "another mount namespace", "unshare", "mnt"),
		privileged("proc.20", "another network namespace", "unshare", "net"),
		privileged("proc.21", "another pid namespace", "clone", "pid"),
		privileged("proc.22", "entering a namespace", "setns", "net"),
		privileged("proc.23", "mounting a tmpfs", "mount", "tmpfs", "{ws}/sub"),
		privileged("proc.24", "mounting /proc anew", "mount", "proc", "{ws}/sub"),
		privileged("proc.25", "binding a directory elsewhere", "mount", "bind", "{ws}/sub", "{ws}/keys"),
		{id: "proc.26", title: "killing the init", only: onlyLinux, prepare: linkOfNamespace("pid"), act: words{"kill-init", "{namespace}"},
			grant: func(_ *scene, t *trial) { t.do("kill-child") }},
		{id: "proc.27", title: "tracing the init", only: onlyLinux, maybe: true, act: words{"trace", "1"},
			control: controlOutside, grant: func(_ *scene, t *trial) { t.do("trace", "child") }},
		{id: "proc.28", title: "shared memory of the host by its key", only: onlyLinux, prepare: makeSharedMemory, act: words{"shm", "{key}"}},
		{id: "proc.29", title: "message queues of the host by their key", only: onlyLinux, prepare: makeMessageQueue, act: words{"msg", "{key}"}},
		{id: "proc.30", title: "the host's name", only: onlyLinux, trial: func(_ *scene, t *trial) {
			name, _ := os.Hostname()
			t.do("hostname", name)
		}, maybe: true},
		{id: "proc.31", title: "the controlling terminal of whoever started it", only: onlyLinux, act: words{"read-tty"},
			grant: func(_ *scene, t *trial) { t.tty = true }},
		{id: "proc.32", title: "core dumps", only: onlyLinux, custom: coreDump},
		linux("proc.33", "a score that spares it from the out-of-memory killer", "oom-score", "-500"),
		linux("proc.34", "a higher priority", "priority", "-5"),
		limit("proc.35", "more processes than the limit", shared.FeatureLimitPIDs, shared.Limits{PIDs: 40}, shared.Limits{PIDs: 2000}, "spawn", "80"),
		limit("proc.36", "more memory than the limit, in one process", shared.FeatureLimitMemory,
			shared.Limits{Memory: 256 << 20}, shared.Limits{Memory: 2 << 30}, "allocate", "1", "400"),
		limit("proc.37", "more memory than the limit, in many processes", shared.FeatureLimitMemory,
			shared.Limits{Memory: 256 << 20}, shared.Limits{Memory: 2 << 30}, "allocate", "8", "50"),
		limit("proc.38", "more open files than the limit", shared.FeatureLimitOpenFiles, shared.Limits{OpenFiles: 64}, shared.Limits{OpenFiles: 256}, "open-files", "100"),
		{id: "proc.39", title: "more processor time than the limit", unmodelled: decidedByLimits, features: []shared.Feature{shared.FeatureLimitCPUs},
			trial: limiting(shared.Limits{CPUs: 0.5}), act: words{"burn", "1200ms", "900ms"}, grant: func(_ *scene, t *trial) {
				t.Spec.Limits.CPUs = 4
				t.do("burn", "30s", "900ms") // on a machine that has much else to do
			}},
		privileged("proc.40", "raising a limit of resources", "raise-limit"),
		{id: "proc.41", title: "what another user than the one it is to run as may do", unmodelled: "credentials decide it, and no profile",
			features: []shared.Feature{shared.FeatureUser}, custom: asAnotherUser},
	}
}

// asAnotherUser has a command run as somebody of whom nobody has heard, by files: in a
// namespace of users the command's own view of who it is proves nothing. An engine
// that is not root must refuse.
func asAnotherUser(s *scene) {
	user := &shared.User{UID: 41234, GID: 42345, Groups: []uint32{43456}}
	t := s.newTrial()
	t.Spec.User = user
	if os.Geteuid() != 0 {
		o := s.attempt(t)
		if o.refused == nil {
			s.end(Leaked, "an engine that is not root takes the name of another user")
		}
		s.wants("Open", o.refused, shared.ErrInvalidSpec, shared.ErrUnsupported, shared.ErrDenied, shared.ErrUnavailable)
		s.end(Held, "refused: %v", o.refused)
	}
	// Not in the scene, which may lie where that user cannot go.
	dir, err := os.MkdirTemp("/var/tmp", dirPrefix)
	s.must(err)
	s.cleanup(func() { removeTree(dir) })
	s.must(errors.Join(os.Chmod(dir, 0o755), os.Mkdir(dir+"/ws", 0o755), os.Chown(dir+"/ws", int(user.UID), int(user.GID))))
	for name, gid := range map[string]int{"root's": os.Getegid(), "a member's": int(user.Groups[0])} {
		file := dir + "/ws/" + strings.Fields(name)[0]
		s.must(errors.Join(os.WriteFile(file, []byte(name+" "+s.canary+"\n"), 0o600), os.Chown(file, 0, gid), os.Chmod(file, 0o640)))
	}
	// Nothing of the kit's own, which that user may not reach either.
	t.Spec.Table = []shared.Entry{{Source: dir + "/ws", Path: dir + "/ws", Access: shared.ReadWrite, Why: "workspace"}}
	t.Command.Dir = dir + "/ws"
	t.Command.Args = []string{"/bin/sh", "-c", `cat "root's"; cat a; : >made`}
	if s.session != "" {
		t.Spec.Session.Dir = dir + "/session"
		s.must(os.Mkdir(t.Spec.Session.Dir, 0o755))
	}
	o := s.attempt(t)
	if errors.Is(o.refused, shared.ErrUnsupported) {
		s.end(NotApplicable, "the engine refuses it on this machine: %v", o.refused)
	}
	s.must(errors.Join(o.refused, o.broke))
	made, err := os.Stat(dir + "/ws/made")
	if err != nil {
		s.failf("it could not write to its own directory: %v; stderr: %s", err, tail(o.stderr))
	}
	owner := made.Sys().(*syscall.Stat_t)
	switch {
	case owner.Uid != user.UID || owner.Gid != user.GID:
		s.end(Leaked, "its file belongs to user %d and group %d", owner.Uid, owner.Gid)
	case strings.Contains(o.stdout, "root's "+s.canary):
		s.end(Leaked, "it is in the engine's own group")
	case !strings.Contains(o.stdout, "a member's "+s.canary):
		s.failf("it is not in its supplementary group: %s", tail(o.stderr))
	}
	// The control: the engine's own user can.
	t.Spec.User = nil
	if o = s.attempt(t); !strings.Contains(o.stdout, "root's "+s.canary) {
		s.end(ControlFailed, "the engine's own user cannot read the file either: %v; stderr: %s", errors.Join(o.refused, o.broke), tail(o.stderr))
	}
}

// coreDump has a command end by a signal that dumps core.
func coreDump(s *scene) {
	o := s.attempt(s.trying("die", "6"))
	s.must(errors.Join(o.refused, o.broke))
	if o.Status.Signal != 6 {
		s.end(ControlFailed, "it did not die by SIGABRT: %v", o.Status)
	}
	names, err := os.ReadDir(s.ws)
	s.must(err)
	for _, name := range names {
		if strings.HasPrefix(name.Name(), "core") {
			s.end(Leaked, "a core file in the workspace: %s", name.Name())
		}
	}
	if o.Status.CoreDumped {
		s.end(Leaked, "the kernel dumped core, to where core_pattern says")
	}
}
