package enginetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/sbxhost/sbxhost/shared"
)

// namespace is a probe that a namespace is not the host's.
func namespace(id, name string) probe {
	return probe{id: id, title: "the host's " + name + " namespace", only: onlyLinux, maybe: true,
		trial: func(_ *scene, t *trial) {
			link, err := os.Readlink("/proc/self/ns/" + name)
			if err != nil {
				link = "none"
			}
			t.do("namespace", name, link)
		}}
}

// processProbes are about what a command is among the host's processes.
func processProbes() []probe {
	return []probe{
		namespace("proc.01", "pid"),
		namespace("proc.02", "ipc"),
		namespace("proc.03", "uts"),
		namespace("proc.04", "mnt"),
		namespace("proc.05", "user"),
		namespace("proc.06", "cgroup"),
		namespace("proc.07", "net"),
		{id: "proc.08", title: "the host's processes in /proc", only: onlyLinux, trial: doing("processes", "20"), maybe: true},
		{id: "proc.09", title: "signals to the host's processes", only: onlyLinux, trial: func(s *scene, t *trial) {
			v, err := s.suite.victim()
			if err != nil {
				t.do("no victim: " + err.Error())
				return
			}
			t.do("signal", strconv.Itoa(v.pid), "0")
		}},
		{id: "proc.10", title: "capabilities", only: onlyLinux, trial: doing("capabilities"), control: controlPrivileged, maybe: true},
		{id: "proc.11", title: "a bounding set that is not empty", only: onlyLinux, trial: doing("status-not", "CapBnd", "0000000000000000"), maybe: true},
		{id: "proc.12", title: "new privileges by executing a file", only: onlyLinux, trial: doing("status-not", "NoNewPrivs", "1"), maybe: true},
		{id: "proc.13", title: "system calls without a filter", only: onlyLinux, trial: doing("status-not", "Seccomp", "2"), maybe: true},
		{id: "proc.14", title: "becoming another user", only: onlyLinux, trial: doing("setuid", "1"), maybe: true},
		{id: "proc.15", title: "other groups", only: onlyLinux, trial: doing("setgroups", "12345"), maybe: true},
		{id: "proc.16", title: "a new root directory", only: onlyLinux, trial: func(s *scene, t *trial) { t.do("chroot", s.ws) }, control: controlPrivileged, maybe: true},
		{id: "proc.17", title: "a nested user namespace by clone", only: onlyLinux, trial: doing("clone", "user"), maybe: true},
		{id: "proc.18", title: "a nested user namespace by unshare", only: onlyLinux, trial: doing("unshare", "user"), maybe: true},
		{id: "proc.19", title: "another mount namespace", only: onlyLinux, trial: doing("unshare", "mnt"), control: controlPrivileged, maybe: true},
		{id: "proc.20", title: "another network namespace", only: onlyLinux, trial: doing("unshare", "net"), control: controlPrivileged, maybe: true},
		{id: "proc.21", title: "another pid namespace", only: onlyLinux, trial: doing("clone", "pid"), control: controlPrivileged, maybe: true},
		{id: "proc.22", title: "entering a namespace", only: onlyLinux, trial: doing("setns", "net"), control: controlPrivileged, maybe: true},
		{id: "proc.23", title: "mounting a tmpfs", only: onlyLinux, trial: func(s *scene, t *trial) { t.do("mount", "tmpfs", s.path("ws/sub")) }, control: controlPrivileged, maybe: true},
		{id: "proc.24", title: "mounting /proc anew", only: onlyLinux, trial: func(s *scene, t *trial) { t.do("mount", "proc", s.path("ws/sub")) }, control: controlPrivileged, maybe: true},
		{id: "proc.25", title: "binding a directory elsewhere", only: onlyLinux, trial: func(s *scene, t *trial) { t.do("mount", "bind", s.path("ws/sub"), s.path("ws/keys")) },
			control: controlPrivileged, maybe: true},
		{id: "proc.26", title: "killing the init", only: onlyLinux, trial: func(_ *scene, t *trial) {
			link, err := os.Readlink("/proc/self/ns/pid")
			if err != nil {
				link = "unknown"
			}
			t.do("kill-init", link)
		}, control: controlGranted, grant: func(_ *scene, t *trial) { t.do("kill-child") }},
		{id: "proc.27", title: "tracing the init", only: onlyLinux, maybe: true, trial: doing("trace", "1"),
			control: controlOutside, grant: func(_ *scene, t *trial) { t.do("trace", "child") }},
		{id: "proc.28", title: "shared memory of the host by its key", only: onlyLinux, prepare: makeSharedMemory,
			trial: func(s *scene, t *trial) { t.do("shm", s.values["shmkey"]) }},
		{id: "proc.29", title: "message queues of the host by their key", only: onlyLinux, prepare: makeMessageQueue,
			trial: func(s *scene, t *trial) { t.do("msg", s.values["msgkey"]) }},
		{id: "proc.30", title: "the host's name", only: onlyLinux, trial: func(_ *scene, t *trial) {
			name, _ := os.Hostname()
			t.do("hostname", name)
		}, maybe: true},
		{id: "proc.31", title: "the controlling terminal of whoever started it", only: onlyLinux, trial: doing("read-tty"),
			control: controlGranted, grant: func(_ *scene, t *trial) { t.tty = true }},
		{id: "proc.32", title: "core dumps", only: onlyLinux, custom: coreDump},
		{id: "proc.33", title: "a score that spares it from the out-of-memory killer", only: onlyLinux, trial: doing("oom-score", "-500"), control: controlOutside, maybe: true},
		{id: "proc.34", title: "a higher priority", only: onlyLinux, trial: doing("priority", "-5"), maybe: true},
		{id: "proc.35", title: "more processes than the limit", unmodelled: decidedByLimits, features: []shared.Feature{shared.FeatureLimitPIDs}, trial: func(_ *scene, t *trial) {
			t.Spec.Limits.PIDs = 40
			t.do("spawn", "80")
		}, control: controlGranted, grant: func(_ *scene, t *trial) { t.Spec.Limits.PIDs = 2000 }},
		{id: "proc.36", title: "more memory than the limit, in one process", unmodelled: decidedByLimits, features: []shared.Feature{shared.FeatureLimitMemory}, trial: func(_ *scene, t *trial) {
			t.Spec.Limits.Memory = 256 << 20
			t.do("allocate", "1", "400")
		}, control: controlGranted, grant: func(_ *scene, t *trial) { t.Spec.Limits.Memory = 2 << 30 }},
		{id: "proc.37", title: "more memory than the limit, in many processes", unmodelled: decidedByLimits, features: []shared.Feature{shared.FeatureLimitMemory}, trial: func(_ *scene, t *trial) {
			t.Spec.Limits.Memory = 256 << 20
			t.do("allocate", "8", "50")
		}, control: controlGranted, grant: func(_ *scene, t *trial) { t.Spec.Limits.Memory = 2 << 30 }},
		{id: "proc.38", title: "more open files than the limit", unmodelled: decidedByLimits, features: []shared.Feature{shared.FeatureLimitOpenFiles}, trial: func(_ *scene, t *trial) {
			t.Spec.Limits.OpenFiles = 64
			t.do("open-files", "100")
		}, control: controlGranted, grant: func(_ *scene, t *trial) { t.Spec.Limits.OpenFiles = 256 }},
		{id: "proc.39", title: "more processor time than the limit", unmodelled: decidedByLimits, features: []shared.Feature{shared.FeatureLimitCPUs}, trial: func(_ *scene, t *trial) {
			t.Spec.Limits.CPUs = 0.1
			t.do("burn", "1s", "250ms")
		}, control: controlGranted, grant: func(_ *scene, t *trial) {
			t.Spec.Limits.CPUs = 4
			t.do("burn", "30s", "250ms") // on a machine that has much else to do
		}},
		{id: "proc.40", title: "raising a limit of resources", only: onlyLinux, trial: doing("raise-limit"), control: controlPrivileged, maybe: true},
		{id: "proc.41", title: "what another user than the one it is to run as may do", unmodelled: "credentials decide it, and no profile",
			features: []shared.Feature{shared.FeatureUser}, custom: asAnotherUser},
	}
}

// asAnotherUser has a command run as somebody of whom nobody has heard, by files: in a
// namespace of users the command's own view of who it is proves nothing. An engine
// that is not root must refuse.
func asAnotherUser(ctx context.Context, s *scene) (Status, string) {
	user := &shared.User{UID: 41234, GID: 42345, Groups: []uint32{43456}}
	t := s.newTrial()
	t.Spec.User = user
	if os.Geteuid() != 0 {
		o := s.attempt(ctx, t)
		if o.refused == nil {
			return Leaked, "an engine that is not root takes the name of another user"
		}
		return s.judgeRefusal(o.refused)
	}
	// Not in the scene, which may lie where that user cannot go.
	dir, err := os.MkdirTemp("/var/tmp", dirPrefix)
	if err != nil {
		return Failed, err.Error()
	}
	s.cleanup(func() { removeTree(dir) })
	err = errors.Join(os.Chmod(dir, 0o755), os.Mkdir(dir+"/ws", 0o755), os.Chown(dir+"/ws", int(user.UID), int(user.GID)))
	for name, gid := range map[string]int{"root's": os.Getegid(), "a member's": int(user.Groups[0])} {
		file := dir + "/ws/" + strings.Fields(name)[0]
		err = errors.Join(err, os.WriteFile(file, []byte(name+" "+s.canary+"\n"), 0o600), os.Chown(file, 0, gid), os.Chmod(file, 0o640))
	}
	if err != nil {
		return Failed, "preparing: " + err.Error()
	}
	// Nothing of the kit's own, which that user may not reach either.
	t.Spec.Table = []shared.Entry{{Source: dir + "/ws", Path: dir + "/ws", Access: shared.ReadWrite, Why: "workspace"}}
	t.Command.Dir = dir + "/ws"
	t.argv = []string{"/bin/sh", "-c", `cat "root's"; cat a; : >made`}
	o := s.attempt(ctx, t)
	if errors.Is(o.refused, shared.ErrUnsupported) {
		return NotApplicable, "the engine refuses it on this machine: " + o.refused.Error()
	}
	if err := errors.Join(o.refused, o.broke); err != nil {
		return Failed, err.Error()
	}
	made, err := os.Stat(dir + "/ws/made")
	if err != nil {
		return Failed, fmt.Sprintf("it could not write to its own directory: %v; stderr: %s", err, tail(o.stderr))
	}
	owner := made.Sys().(*syscall.Stat_t)
	switch {
	case owner.Uid != user.UID || owner.Gid != user.GID:
		return Leaked, fmt.Sprintf("its file belongs to user %d and group %d", owner.Uid, owner.Gid)
	case strings.Contains(string(o.stdout), "root's "+s.canary):
		return Leaked, "it is in the engine's own group"
	case !strings.Contains(string(o.stdout), "a member's "+s.canary):
		return Failed, "it is not in its supplementary group: " + tail(o.stderr)
	}
	// The control: the engine's own user can.
	t.Spec.User = nil
	if o = s.attempt(ctx, t); !strings.Contains(string(o.stdout), "root's "+s.canary) {
		return ControlFailed, fmt.Sprintf("the engine's own user cannot read the file either: %v; stderr: %s", errors.Join(o.refused, o.broke), tail(o.stderr))
	}
	return Held, ""
}

// judgeRefusal is for what must be refused as such.
func (s *scene) judgeRefusal(err error) (Status, string) {
	for _, kind := range []error{shared.ErrInvalidSpec, shared.ErrUnsupported, shared.ErrDenied, shared.ErrUnavailable} {
		if errors.Is(err, kind) {
			return Held, "refused: " + err.Error()
		}
	}
	return Failed, "starting: " + err.Error()
}

// coreDump has a command end by a signal that dumps core.
func coreDump(ctx context.Context, s *scene) (Status, string) {
	t := s.newTrial()
	t.do("die", "6")
	o := s.attempt(ctx, t)
	if err := errors.Join(o.refused, o.broke); err != nil {
		return Failed, err.Error()
	}
	if o.result.Status.Signal != 6 {
		return ControlFailed, fmt.Sprintf("it did not die by SIGABRT: %v", o.result.Status)
	}
	names, err := os.ReadDir(s.ws)
	if err != nil {
		return Failed, err.Error()
	}
	for _, name := range names {
		if strings.HasPrefix(name.Name(), "core") {
			return Leaked, "a core file in the workspace: " + name.Name()
		}
	}
	if o.result.Status.CoreDumped {
		return Leaked, "the kernel dumped core, to where core_pattern says"
	}
	return Held, ""
}
