package probes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sbxhost/sbxhost/internal/engine/scratch"
	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/enginetest/internal/actor"
	"github.com/sbxhost/sbxhost/shared/enginetest/internal/scene"
)

// namespace is a probe that a namespace is not the host's.
func namespace(id, name string) Probe {
	return Probe{ID: id, Title: "the host's " + name + " namespace", Only: OnlyLinux, Maybe: true,
		prepare: linkOfNamespace(name), act: words{"namespace", name, "{namespace}"}}
}

// linkOfNamespace finds the host's own namespace, for {namespace}.
func linkOfNamespace(name string) func(*scene.Scene) error {
	return func(s *scene.Scene) error {
		link, err := os.Readlink("/proc/self/ns/" + name)
		if err != nil {
			link = "none"
		}
		s.Values["namespace"] = link
		return nil
	}
}

// limiting sets limits.
func limiting(limits shared.Limits) func(*scene.Scene, *scene.Trial) {
	return func(_ *scene.Scene, t *scene.Trial) { t.Spec.Limits = limits }
}

// processProbes are about a command among the host's processes.
func processProbes() []Probe {
	linux := func(id, title string, act ...string) Probe {
		return Probe{ID: id, Title: title, Only: OnlyLinux, Maybe: true, act: act}
	}
	privileged := func(id, title string, act ...string) Probe {
		return Probe{ID: id, Title: title, Only: OnlyLinux, Maybe: true, act: act, control: ControlPrivileged}
	}
	limit := func(id, title string, feature shared.Feature, limits, granted shared.Limits, act ...string) Probe {
		return Probe{ID: id, Title: title, Unmodelled: decidedByLimits, Features: []shared.Feature{feature}, trial: limiting(limits), act: act, grant: limiting(granted)}
	}
	return []Probe{
		namespace("proc.01", "pid"),
		namespace("proc.02", "ipc"),
		namespace("proc.03", "uts"),
		namespace("proc.04", "mnt"),
		namespace("proc.05", "user"),
		namespace("proc.06", "cgroup"),
		namespace("proc.07", "net"),
		linux("proc.08", "the host's processes in /proc", "processes", "20"),
		{ID: "proc.09", Title: "signals to the host's processes", Only: OnlyLinux, prepare: scene.NeedVictim, act: words{"signal", "{victim's pid}", "0"}},
		privileged("proc.10", "capabilities", "capabilities"),
		{ID: "proc.11", Title: "a bounding set that is not empty", Only: OnlyLinux, Maybe: true, prepare: linkOfNamespace("user"),
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
		{ID: "proc.26", Title: "killing the init", Only: OnlyLinux, prepare: linkOfNamespace("pid"), act: words{"kill-init", "{namespace}"},
			grant: func(_ *scene.Scene, t *scene.Trial) { t.Do("kill-child") }},
		{ID: "proc.27", Title: "tracing the init", Only: OnlyLinux, Maybe: true, act: words{"trace", "1"},
			control: controlOutside, grant: func(_ *scene.Scene, t *scene.Trial) { t.Do("trace", "child") }},
		{ID: "proc.28", Title: "shared memory of the host by its key", Only: OnlyLinux, prepare: makeSharedMemory, act: words{"shm", "{key}"}},
		{ID: "proc.29", Title: "message queues of the host by their key", Only: OnlyLinux, prepare: makeMessageQueue, act: words{"msg", "{key}"}},
		{ID: "proc.30", Title: "the host's name", Only: OnlyLinux, trial: func(_ *scene.Scene, t *scene.Trial) {
			name, _ := os.Hostname()
			t.Do("hostname", name)
		}, Maybe: true},
		{ID: "proc.31", Title: "the controlling terminal of whoever started it", Only: OnlyLinux, act: words{"read-tty"},
			grant: func(_ *scene.Scene, t *scene.Trial) { t.TTY = true }},
		{ID: "proc.32", Title: "core dumps", Only: OnlyLinux, custom: coreDump},
		linux("proc.33", "a score that spares it from the out-of-memory killer", "oom-score", "-500"),
		linux("proc.34", "a higher priority", "priority", "-5"),
		limit("proc.35", "more processes than the limit", shared.FeatureLimitPIDs, shared.Limits{PIDs: 40}, shared.Limits{PIDs: 2000}, "spawn", "80"),
		limit("proc.36", "more memory than the limit, in one process", shared.FeatureLimitMemory,
			shared.Limits{Memory: 256 << 20}, shared.Limits{Memory: 2 << 30}, "allocate", "1", "400"),
		limit("proc.37", "more memory than the limit, in many processes", shared.FeatureLimitMemory,
			shared.Limits{Memory: 256 << 20}, shared.Limits{Memory: 2 << 30}, "allocate", "8", "50"),
		limit("proc.38", "more open files than the limit", shared.FeatureLimitOpenFiles, shared.Limits{OpenFiles: 64}, shared.Limits{OpenFiles: 256}, "open-files", "100"),
		{ID: "proc.39", Title: "more processor time than the limit", Unmodelled: decidedByLimits, Features: []shared.Feature{shared.FeatureLimitCPUs},
			trial: limiting(shared.Limits{CPUs: 0.25}), act: words{"burn", "2s", "800ms"}, grant: func(_ *scene.Scene, t *scene.Trial) {
				t.Spec.Limits.CPUs = 4
				t.Do("burn", "50s", "800ms") // on a machine that has much else to do
			}},
		privileged("proc.40", "raising a limit of resources", "raise-limit"),
		{ID: "proc.41", Title: "what another user than the one it is to run as may do", Unmodelled: "credentials decide it, and no profile",
			Features: []shared.Feature{shared.FeatureUser}, custom: asAnotherUser},
		{ID: "proc.42", Title: "limits of the host's processes", Only: OnlyLinux, prepare: scene.NeedVictim, act: words{"limit", "{victim's pid}"}},
	}
}

// asAnotherUser runs a command as a user that the machine does not know, and checks the owner of
// files: in a user namespace, the command's own view of its user proves nothing. An engine that is
// not root must refuse.
func asAnotherUser(s *scene.Scene) {
	user := &shared.User{UID: 41234, GID: 42345, Groups: []uint32{43456}}
	t := s.NewTrial()
	t.Spec.User = user
	if os.Geteuid() != 0 {
		o := s.Attempt(t)
		if o.Refused == nil {
			s.End(scene.Leaked, "an engine that is not root takes the name of another user")
		}
		s.Wants("Open", o.Refused, shared.ErrInvalidSpec, shared.ErrUnsupported, shared.ErrDenied, shared.ErrUnavailable)
		s.End(scene.Held, "refused: %v", o.Refused)
	}
	// Not in the scene, which may lie where that user cannot go.
	own, err := scratch.New("/var/tmp", "probe", nil)
	s.Must(err)
	s.Cleanup(own.Remove)
	dir := own.Path
	s.Must(errors.Join(os.Chmod(dir, 0o755), os.Mkdir(dir+"/ws", 0o755), os.Chown(dir+"/ws", int(user.UID), int(user.GID))))
	for name, gid := range map[string]int{"root's": os.Getegid(), "a member's": int(user.Groups[0])} {
		file := dir + "/ws/" + strings.Fields(name)[0]
		s.Must(errors.Join(os.WriteFile(file, []byte(name+" "+s.Canary+"\n"), 0o600), os.Chown(file, 0, gid), os.Chmod(file, 0o640)))
	}
	// The table shows nothing of the kit's own, which that user may not reach either.
	t.Spec.Table = []shared.Entry{{Source: dir + "/ws", Path: dir + "/ws", Access: shared.ReadWrite, Why: "workspace"}}
	t.Command.Dir = dir + "/ws"
	t.Command.Args = []string{"/bin/sh", "-c", `cat "root's"; cat a; : >made`}
	if t.Spec.Session.Dir != "" {
		t.Spec.Session.Dir = dir + "/session"
		s.Must(os.Mkdir(t.Spec.Session.Dir, 0o755))
	}
	o := s.Attempt(t)
	if errors.Is(o.Refused, shared.ErrUnsupported) {
		s.End(scene.NotApplicable, "the engine refuses it on this machine: %v", o.Refused)
	}
	s.Must(errors.Join(o.Refused, o.Broke))
	made, err := os.Stat(dir + "/ws/made")
	if err != nil {
		s.Failf("it could not write to its own directory: %v; stderr: %s", err, scene.Tail(o.Stderr))
	}
	owner := made.Sys().(*syscall.Stat_t)
	switch {
	case owner.Uid != user.UID || owner.Gid != user.GID:
		s.End(scene.Leaked, "its file belongs to user %d and group %d", owner.Uid, owner.Gid)
	case strings.Contains(o.Stdout, "root's "+s.Canary):
		s.End(scene.Leaked, "it is in the engine's own group")
	case !strings.Contains(o.Stdout, "a member's "+s.Canary):
		s.Failf("it is not in its supplementary group: %s", scene.Tail(o.Stderr))
	}
	// The control: the engine's own user can.
	t.Spec.User = nil
	if o = s.Attempt(t); !strings.Contains(o.Stdout, "root's "+s.Canary) {
		s.End(scene.ControlFailed, "the engine's own user cannot read the file either: %v; stderr: %s", errors.Join(o.Refused, o.Broke), scene.Tail(o.Stderr))
	}
}

// coreDump ends a command by a signal that dumps core.
func coreDump(s *scene.Scene) {
	o := s.Attempt(s.Trying("die", "6"))
	s.Must(errors.Join(o.Refused, o.Broke))
	if o.Status.Signal != 6 {
		s.End(scene.ControlFailed, "it did not die by SIGABRT: %v", o.Status)
	}
	names, err := os.ReadDir(s.WS)
	s.Must(err)
	for _, name := range names {
		if strings.HasPrefix(name.Name(), "core") {
			s.End(scene.Leaked, "a core file in the workspace: %s", name.Name())
		}
	}
	if o.Status.CoreDumped {
		s.End(scene.Leaked, "the kernel dumped core, to where core_pattern says")
	}
}

// filtered is a probe of a system call that no command needs, and that was a way out of a sandbox
// before. Its control is the same call outside.
func filtered(id, title, call string, c control) Probe {
	return Probe{ID: id, Title: title, Only: OnlyLinux, Maybe: true, control: c, act: words{"call", call}}
}

// kernelProbes are about the kernel's interfaces.
func kernelProbes() []Probe {
	const out, priv = controlOutside, ControlPrivileged
	socket := func(id, title, kind string, c control) Probe {
		return Probe{ID: id, Title: title, Only: OnlyLinux, Maybe: true, control: c, act: words{"socket", kind}}
	}
	terminal := func(id, title, name string) Probe {
		return Probe{ID: id, Title: title, Only: OnlyLinux, Maybe: true, act: words{"terminal", name}, trial: func(_ *scene.Scene, t *scene.Trial) { t.TTY = true }}
	}
	return []Probe{
		terminal("kernel.01", "typing into the terminal (TIOCSTI)", "tiocsti"),
		terminal("kernel.02", "the same with high bits set in the request", "tiocsti-high"),
		terminal("kernel.03", "the console's selection (TIOCLINUX)", "tioclinux"),
		terminal("kernel.04", "the same with high bits set in the request", "tioclinux-high"),
		filtered("kernel.05", "tracing a process", "ptrace", out),
		filtered("kernel.06", "reading a process's memory", "process_vm_readv", out),
		filtered("kernel.07", "writing a process's memory", "process_vm_writev", out),
		filtered("kernel.08", "taking a descriptor of another process", "pidfd_getfd", out),
		filtered("kernel.09", "programs in the kernel (bpf)", "bpf", priv),
		filtered("kernel.10", "handling page faults (userfaultfd)", "userfaultfd", out),
		filtered("kernel.11", "performance counters", "perf_event_open", out),
		filtered("kernel.12", "keyrings (keyctl)", "keyctl", out),
		filtered("kernel.13", "keys (add_key)", "add_key", out),
		filtered("kernel.14", "keys (request_key)", "request_key", out),
		filtered("kernel.15", "another kernel (kexec_load)", "kexec_load", out),
		filtered("kernel.16", "another kernel (kexec_file_load)", "kexec_file_load", out),
		filtered("kernel.17", "modules (init_module)", "init_module", out),
		filtered("kernel.18", "modules (finit_module)", "finit_module", out),
		filtered("kernel.19", "modules (delete_module)", "delete_module", out),
		filtered("kernel.20", "io_uring", "io_uring_setup", out),
		filtered("kernel.21", "personality", "personality", out),
		filtered("kernel.22", "clone3, whose flags no filter can see", "clone3", out),
		filtered("kernel.23", "new mounts (open_tree)", "open_tree", priv),
		filtered("kernel.24", "new mounts (fsopen)", "fsopen", priv),
		filtered("kernel.25", "new mounts (move_mount)", "move_mount", priv),
		filtered("kernel.26", "mount attributes (mount_setattr)", "mount_setattr", priv),
		filtered("kernel.27", "another root (pivot_root)", "pivot_root", priv),
		filtered("kernel.28", "unmounting", "umount2", priv),
		filtered("kernel.29", "swap", "swapon", out),
		filtered("kernel.30", "rebooting", "reboot", out),
		filtered("kernel.31", "the clock", "adjtimex", out),
		filtered("kernel.32", "the host's name (sethostname)", "sethostname", priv),
		filtered("kernel.33", "process accounting", "acct", out),
		filtered("kernel.34", "ports (iopl)", "iopl", out),
		filtered("kernel.35", "system calls of the 32-bit entry", "int80-keyctl", out),
		filtered("kernel.36", "system calls of the x32 kind", "x32-keyctl", out),
		filtered("kernel.37", "x32 system calls that the filter allows by another number", "x32-getpid", out),
		filtered("kernel.38", "watching the whole file system (fanotify)", "fanotify_init", priv),
		socket("kernel.39", "sockets to virtual machines (AF_VSOCK)", "vsock", out),
		socket("kernel.40", "the kernel's cryptography (AF_ALG)", "alg", out),
		socket("kernel.41", "packet sockets (AF_PACKET)", "packet", priv),
		socket("kernel.42", "raw sockets", "raw", priv),
		socket("kernel.43", "bluetooth and other rare families", "rare", out),
	}
}

// lifetimeProbes are about what outlives a command. Each starts a process that
// has a session of its own, ignores signals and holds the command's output
// open, which is how it is noticed.
func lifetimeProbes() []Probe {
	survivor := func(id, title, kind string, end func(*scene.Trial)) Probe {
		return Probe{ID: id, Title: title, Unmodelled: decidedByEnd, custom: func(s *scene.Scene) { outlives(s, kind, end) }}
	}
	by := func(sig syscall.Signal) func(*scene.Trial) {
		return func(t *scene.Trial) {
			t.Awaited = true
			t.During = func(p shared.Process) { p.Signal(context.Background(), sig) }
		}
	}
	return []Probe{
		survivor("life.01", "a daemon after the command's exit", "exit", func(*scene.Trial) {}),
		survivor("life.02", "a daemon after the command's death by a signal", "die", func(*scene.Trial) {}),
		survivor("life.03", "a daemon after the timeout", "stay", func(t *scene.Trial) { t.Command.Timeout, t.Command.Grace = 300*time.Millisecond, 100*time.Millisecond }),
		survivor("life.04", "a daemon after SIGKILL", "stay", by(syscall.SIGKILL)),
		survivor("life.05", "a daemon after SIGTERM", "stay", by(syscall.SIGTERM)),
		survivor("life.06", "a stopped process after the command's exit", "stopped", func(*scene.Trial) {}),
		{ID: "life.07", Title: "a daemon after Close", Unmodelled: decidedByEnd, custom: outlivesClose},
		{ID: "life.08", Title: "handlers of SIGTERM run when the time is up", Unmodelled: decidedByEnd, Works: true, custom: handlerRuns},
	}
}

// outlives runs a command that leaves a process behind.
func outlives(s *scene.Scene, kind string, end func(*scene.Trial)) {
	t := s.Trying("daemon", kind, s.Canary)
	end(t)
	o := s.Attempt(t)
	// On a slow machine the command may end before it has left a process. Such an attempt proves
	// nothing.
	for ; o.Refused == nil && o.Broke == nil && o.Verdict.Kind == actor.Broken && t.Command.Timeout < actor.Timeout/2; o = s.Attempt(t) {
		t.Command.Timeout *= 4
	}
	checkSurvivor(s, o)
}

// checkSurvivor says what an attempt to leave a daemon behind means.
func checkSurvivor(s *scene.Scene, o *scene.Outcome) {
	s.Must(errors.Join(o.Refused, o.Broke))
	if o.Outlived {
		endSurvivors(s)
		s.End(scene.Leaked, "something still held its output when Wait had returned")
	}
	if o.Verdict.Kind == actor.Broken {
		s.Failf("there was no daemon: %s", o.Output())
	}
	// The control: without a sandbox the daemon stays.
	v := s.ActOutside(s.Trying("daemon", "exit", s.Canary), false)
	if v.Kind != actor.Got {
		s.End(scene.ControlFailed, "%s", v.Detail)
	}
	if err := endOutside(v.Detail); err != nil {
		s.End(scene.ControlFailed, "the daemon does not survive without a sandbox: %v", err)
	}
}

// endOutside kills the daemon whose number an action outside has reported.
func endOutside(told string) error {
	_, text, ok := strings.Cut(told, "pid ")
	text, _, _ = strings.Cut(text, " ")
	pid, err := strconv.Atoi(text)
	if !ok || err != nil || pid < 2 {
		return fmt.Errorf("no pid in %q", told)
	}
	return syscall.Kill(pid, syscall.SIGKILL)
}

func outlivesClose(s *scene.Scene) {
	t := s.Trying("daemon", "stay", s.Canary)
	sandbox := s.OpenAs(t.Sorted())
	closed := errors.New("the daemon was never there")
	t.Awaited = true
	t.During = func(shared.Process) { closed = sandbox.Close(context.WithoutCancel(s.Ctx)) }
	o := s.Start(s.Ctx, sandbox, t)
	s.Must(o.Refused)
	s.Must(closed)
	o.Broke = nil // as Close may have it
	checkSurvivor(s, o)
}

// endSurvivors kills the processes that leaked. It finds them by this scene's canary: their number
// inside may be another process's number outside.
func endSurvivors(s *scene.Scene) {
	for _, dir := range actor.Processes() {
		text, err := os.ReadFile(dir + "/cmdline")
		if err != nil || !bytes.Contains(text, []byte("survive")) || !bytes.Contains(text, []byte(s.Canary)) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// handlerRuns gives a command more time if, on a slow machine, it is killed before it has a
// handler.
func handlerRuns(s *scene.Scene) {
	t := s.Trying("handle-term")
	t.Command.Grace = actor.Timeout / 2
	for t.Command.Timeout = 500 * time.Millisecond; ; t.Command.Timeout *= 4 {
		o := s.Attempt(t)
		status, detail := (&Probe{Works: true}).judge(s, o)
		if status == scene.Held || o.Status.Signal != syscall.SIGTERM || t.Command.Timeout >= actor.Timeout/8 {
			s.End(status, "%s", detail)
		}
	}
}
