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

// linkOfNamespace finds the host's own namespace, for {namespace}.
func linkOfNamespace(name string) preparation {
	return func(s *scene.Scene) {
		link, err := os.Readlink("/proc/self/ns/" + name)
		if err != nil {
			link = "none"
		}
		s.Values["namespace"] = link
	}
}

// limiting sets limits.
func limiting(limits shared.Limits) change {
	return func(_ *scene.Scene, t *scene.Trial) { t.Spec.Limits = limits }
}

// onTerminal gives the command a terminal.
func onTerminal(_ *scene.Scene, t *scene.Trial) { t.TTY = true }

// maybe is a probe of what a machine may refuse to everybody. Its control runs outside.
func maybe(id, title, act string, trial ...change) Probe {
	return Probe{ID: id, Title: title, Maybe: true, act: act, trial: changes(trial...)}
}

// linux is one for Linux.
func linux(id, title, act string, trial ...change) Probe {
	p := maybe(id, title, act, trial...)
	p.Only = OnlyLinux
	return p
}

// privileged is one whose control has all capabilities.
func privileged(id, title, act string) Probe {
	p := linux(id, title, act)
	p.Privileged = true
	return p
}

// processProbes are about a command among the host's processes.
func processProbes() []Probe {
	namespace := func(id, name string) Probe {
		return Probe{ID: id, Title: "the host's " + name + " namespace", Only: OnlyLinux, Maybe: true,
			prepare: linkOfNamespace(name), act: "namespace " + name + " {namespace}"}
	}
	limit := func(id, title string, feature shared.Feature, limits, granted shared.Limits, act string) Probe {
		return Probe{ID: id, Title: title, Unmodelled: decidedByLimits, Features: shared.Features{feature}, trial: limiting(limits), act: act, grant: limiting(granted)}
	}
	notNone := func(set string) string { return "!read-canary " + set + ":{tab}0000000000000000 /proc/self/status" }
	const gains = "!read-canary NoNewPrivs:{tab}1 /proc/self/status"
	bounds := notNone("CapBnd") + " then "
	low, high := `\x00\x10`+strings.Repeat(`\x00`, 6), `\x00\x20`+strings.Repeat(`\x00`, 6) // as limits
	return []Probe{
		namespace("proc.01", "pid"),
		namespace("proc.02", "ipc"),
		namespace("proc.03", "uts"),
		namespace("proc.04", "mnt"),
		namespace("proc.05", "user"),
		namespace("proc.06", "cgroup"),
		namespace("proc.07", "net"),
		linux("proc.08", "the host's processes in /proc", "processes 20"),
		{ID: "proc.09", Title: "signals to the host's processes", Only: OnlyLinux, prepare: scene.NeedVictim, act: "do kill {pid} 0"},
		privileged("proc.10", "capabilities", notNone("CapEff")+" or "+notNone("CapPrm")+" or "+notNone("CapInh")+" or "+notNone("CapAmb")),
		{ID: "proc.11", Title: "a bounding set that is not empty", Only: OnlyLinux, Maybe: true, prepare: linkOfNamespace("user"), // Where it is the host's an ordinary user cannot empty it. Then it counts for nothing as long
			// as no privileges can be gained.
			act: bounds + "!namespace user {namespace} or " + bounds + "read-canary Uid:{tab}0{tab}0 /proc/self/status or " + bounds + gains},
		linux("proc.12", "new privileges by executing a file", gains),
		linux("proc.13", "system calls without a filter", "!read-canary Seccomp:{tab}2 /proc/self/status"),
		linux("proc.14", "becoming another user", "do setresuid 1 1 1"), // of one thread alone, which is enough to see
		linux("proc.15", "other groups", "do setgroups 0 0"),
		privileged("proc.16", "a new root directory", "do chroot {ws}"),
		linux("proc.17", "a nested user namespace by clone", "clone user"),
		linux("proc.18", "a nested user namespace by unshare", "unshare user"),
		privileged("proc.19", "another mount namespace", "unshare mnt"),
		privileged("proc.20", "another network namespace", "unshare net"),
		privileged("proc.21", "another pid namespace", "clone pid"),
		// The namespace that it is in already, for which the kernel asks the same capability.
		privileged("proc.22", "entering a namespace", "do openat -100 /proc/self/ns/net 0 then do setns $result 0"),
		privileged("proc.23", "mounting a tmpfs", "do mount tmpfs {ws}/sub tmpfs 0 0 then do umount2 {ws}/sub 2"),
		privileged("proc.24", "mounting /proc anew", "do mount proc {ws}/sub proc 0 0 then do umount2 {ws}/sub 2"),
		privileged("proc.25", "binding a directory elsewhere", "do mount {ws}/sub {ws}/keys 0 0x1000 0 then do umount2 {ws}/keys 2"),
		{ID: "proc.26", Title: "killing the init", Only: OnlyLinux, prepare: linkOfNamespace("pid"), act: "kill-init {namespace}", grant: does("do kill $child 9")},
		{ID: "proc.27", Title: "tracing the init", Only: OnlyLinux, Maybe: true, act: "do ptrace 0x4206 1 0 0", // PTRACE_SEIZE
			outside: true, grant: does("do ptrace 0x4206 $child 0 0")},
		{ID: "proc.28", Title: "shared memory of the host by its key", Only: OnlyLinux, prepare: makeSharedMemory, act: "do shmget {key} 0 0"},
		{ID: "proc.29", Title: "message queues of the host by their key", Only: OnlyLinux, prepare: makeMessageQueue, act: "do msgget {key} 0"},
		{ID: "proc.30", Title: "the host's name", Only: OnlyLinux, trial: func(_ *scene.Scene, t *scene.Trial) {
			name, _ := os.Hostname()
			t.Do("hostname", name)
		}, Maybe: true},
		{ID: "proc.31", Title: "the controlling terminal of whoever started it", Only: OnlyLinux, act: "open /dev/tty", grant: onTerminal},
		{ID: "proc.32", Title: "core dumps", Only: OnlyLinux, custom: coreDump},
		linux("proc.33", "a score that spares it from the out-of-memory killer", "write /proc/self/oom_score_adj -500"),
		linux("proc.34", "a higher priority", "do setpriority 0 0 -5"),
		limit("proc.35", "more processes than the limit", shared.FeatureLimitPIDs, shared.Limits{PIDs: 40}, shared.Limits{PIDs: 2000}, "spawn 80"),
		limit("proc.36", "more memory than the limit, in one process", shared.FeatureLimitMemory,
			shared.Limits{Memory: 256 << 20}, shared.Limits{Memory: 2 << 30}, "allocate 1 400"),
		limit("proc.37", "more memory than the limit, in many processes", shared.FeatureLimitMemory,
			shared.Limits{Memory: 256 << 20}, shared.Limits{Memory: 2 << 30}, "allocate 8 50"),
		limit("proc.38", "more open files than the limit", shared.FeatureLimitOpenFiles, shared.Limits{OpenFiles: 64}, shared.Limits{OpenFiles: 256}, "open-files 100"),
		{ID: "proc.39", Title: "more processor time than the limit", Unmodelled: decidedByLimits, Features: shared.Features{shared.FeatureLimitCPUs},
			// So little that a command without the limit gets more on a machine that has much else to do.
			trial: limiting(shared.Limits{CPUs: 0.05}), act: "burn 2s 200ms",
			grant: changes(limiting(shared.Limits{CPUs: 4}), does("burn 50s 200ms"))},
		privileged("proc.40", "raising a limit of resources", "-do prlimit64 0 4 "+low+low+" 0 then do prlimit64 0 4 "+low+high+" 0"),
		{ID: "proc.41", Title: "what another user than the one it is to run as may do", Unmodelled: "credentials decide it, and no profile",
			Features: shared.Features{shared.FeatureUser}, custom: asAnotherUser},
		// Of its processor time: no limit.
		{ID: "proc.42", Title: "limits of the host's processes", Only: OnlyLinux, prepare: scene.NeedVictim, act: "do prlimit64 {pid} 0 " + strings.Repeat(`\xff`, 16) + " 0"},
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
		t.Command.Args = []string{"true"}
		o := s.Attempt(t)
		s.Expect(o.Refused != nil, scene.Leaked, "an engine that is not root takes the name of another user")
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
	s.Needs(!errors.Is(o.Refused, shared.ErrUnsupported), "the engine refuses it on this machine: %v", o.Refused)
	s.Must(errors.Join(o.Refused, o.Broke))
	made, err := os.Stat(dir + "/ws/made")
	s.Demand(err == nil, "it could not write to its own directory: %v; stderr: %s", err, scene.Tail(o.Stderr))
	owner := made.Sys().(*syscall.Stat_t)
	s.Expect(owner.Uid == user.UID && owner.Gid == user.GID, scene.Leaked, "its file belongs to user %d and group %d", owner.Uid, owner.Gid)
	s.Expect(!strings.Contains(o.Stdout, "root's "+s.Canary), scene.Leaked, "it is in the engine's own group")
	s.Demand(strings.Contains(o.Stdout, "a member's "+s.Canary), "it is not in its supplementary group: %s", scene.Tail(o.Stderr))
	// The control: the engine's own user can.
	t.Spec.User = nil
	o = s.Attempt(t)
	s.Expect(strings.Contains(o.Stdout, "root's "+s.Canary), scene.ControlFailed, "the engine's own user cannot read the file either: %v; stderr: %s", errors.Join(o.Refused, o.Broke), scene.Tail(o.Stderr))
}

// coreDump ends a command by a signal that dumps core.
func coreDump(s *scene.Scene) {
	s.NeedsCores()
	t := s.NewTrial()
	t.Command.Args = []string{"/bin/sh", "-c", `ulimit -c "$(ulimit -H -c)"; kill -ABRT $$`}
	o := s.Attempt(t)
	s.Must(errors.Join(o.Refused, o.Broke))
	found, _ := filepath.Glob(s.Path("ws/core*"))
	s.Expect(o.Status.Signal == syscall.SIGABRT, scene.ControlFailed, "it did not die by SIGABRT: %v", o.Status)
	s.Expect(!o.Status.CoreDumped && len(found) == 0, scene.Leaked, "the kernel dumped core: %q", found)
}

// kernelProbes are about the kernel's interfaces: system calls that no command needs, and that were a way
// out of a sandbox before.
func kernelProbes() []Probe {
	return []Probe{
		linux("kernel.01", "typing into the terminal (TIOCSTI)", "call ioctl 0 0x5412 x", onTerminal),
		linux("kernel.02", "the same with high bits set in the request", "call ioctl 0 0x100005412 x", onTerminal), // the kernel looks at the lower half alone
		linux("kernel.03", "the console's selection (TIOCLINUX)", `call ioctl 0 0x541c \x06`, onTerminal),          // TIOCL_GETSHIFTSTATE, which changes nothing
		linux("kernel.04", "the same with high bits set in the request", `call ioctl 0 0x10000541c \x06`, onTerminal),
		linux("kernel.05", "tracing a process", "call ptrace 0x4206 $child 0 0"),
		linux("kernel.06", "reading a process's memory", "call process_vm_readv 0 0 0 0 0 0"), // of no length
		linux("kernel.07", "writing a process's memory", "call process_vm_writev 0 0 0 0 0 0"),
		linux("kernel.08", "taking a descriptor of another process", "call pidfd_getfd -1 0 0"),
		privileged("kernel.09", "programs in the kernel (bpf)", `call bpf 0 \x02\x00\x00\x00\x04\x00\x00\x00\x04\x00\x00\x00\x01 20`), // an array of one element
		linux("kernel.10", "handling page faults (userfaultfd)", "call userfaultfd 1"),
		linux("kernel.11", "performance counters", "call perf_event_open 0 0 -1 -1 0"),
		linux("kernel.12", "keyrings (keyctl)", "call keyctl 0 -2 1"),
		linux("kernel.13", "keys (add_key)", "call add_key user sbxhost-probe x 1 -2"),
		linux("kernel.14", "keys (request_key)", "call request_key user sbxhost-no-such-key 0 -2"),
		linux("kernel.15", "another kernel (kexec_load)", "call kexec_load 0 17 0 -1"), // more segments than there can be
		linux("kernel.16", "another kernel (kexec_file_load)", "call kexec_file_load -1 -1 0 0 -1"),
		linux("kernel.17", "modules (init_module)", "call init_module 0 0 x"),
		linux("kernel.18", "modules (finit_module)", "call finit_module -1 x -1"),
		linux("kernel.19", "modules (delete_module)", "call delete_module sbxhost-no-such-module 0x800"),
		linux("kernel.20", "io_uring", `call io_uring_setup 1 \x00`),
		linux("kernel.21", "personality", "call personality 0x40000"), // ADDR_NO_RANDOMIZE, for this process
		linux("kernel.22", "clone3, whose flags no filter can see", "call clone3 0 0"),
		privileged("kernel.23", "new mounts (open_tree)", "call open_tree -100 / 1"),
		privileged("kernel.24", "new mounts (fsopen)", "call fsopen tmpfs 1"),
		privileged("kernel.25", "new mounts (move_mount)", "call move_mount -100 / -100 / 0"),
		privileged("kernel.26", "mount attributes (mount_setattr)", `call mount_setattr -100 / 0 \x00 32`), // which changes nothing
		privileged("kernel.27", "another root (pivot_root)", "call pivot_root / /"),
		privileged("kernel.28", "unmounting", "call umount2 / 5"), // flags that exclude each other
		linux("kernel.29", "swap", "call swapon sbxhost-no-such-file 0"),
		linux("kernel.30", "rebooting", "call reboot 0 0 0 0"),
		linux("kernel.31", "the clock", `call adjtimex \x00\x40`),                          // ADJ_TICK, to a value that none may set
		privileged("kernel.32", "the host's name (sethostname)", "call sethostname x 100"), // too long
		linux("kernel.33", "process accounting", "call acct /no/such"),
		linux("kernel.34", "ports (iopl)", "call iopl 3"),
		linux("kernel.35", "system calls of the 32-bit entry", "int80"),
		linux("kernel.36", "system calls of the x32 kind", "call x32-keyctl 0 -2 1"),
		linux("kernel.37", "x32 system calls that the filter allows by another number", "call x32-getpid"),
		privileged("kernel.38", "watching the whole file system (fanotify)", "call fanotify_init 0 0"),
		// The kinds of sockets are family, type, protocol, as Linux numbers them.
		linux("kernel.39", "sockets to virtual machines (AF_VSOCK)", "do socket 40 1 0"),
		linux("kernel.40", "the kernel's cryptography (AF_ALG)", "do socket 38 5 0"),
		privileged("kernel.41", "packet sockets (AF_PACKET)", "do socket 17 3 0"),
		privileged("kernel.42", "raw sockets", "do socket 2 3 1 or do socket 10 3 58"),
		linux("kernel.43", "bluetooth and other rare families", "do socket 31 3 1 or do socket 29 3 1 or do socket 30 4 0 or "+
			"do socket 21 5 0 or do socket 44 3 0 or do socket 39 3 0 or do socket 15 3 2"),
	}
}

// lifetimeProbes are about what outlives a command. Each starts a process that
// has a session of its own, ignores signals and holds the command's output
// open, which is how it is noticed.
func lifetimeProbes() []Probe {
	survivor := func(id, title, kind string, end func(shared.Sandbox, *scene.Trial)) Probe {
		return Probe{ID: id, Title: title, Unmodelled: decidedByEnd, custom: func(s *scene.Scene) { outlives(s, kind, end) }}
	}
	by := func(sig syscall.Signal) func(shared.Sandbox, *scene.Trial) {
		return func(_ shared.Sandbox, t *scene.Trial) {
			t.During = func(p shared.Process) { p.Signal(context.Background(), sig) }
		}
	}
	return []Probe{
		survivor("life.01", "a daemon after the command's exit", "exit", nil),
		survivor("life.02", "a daemon after the command's death by a signal", "die", nil),
		survivor("life.03", "a daemon after the timeout", "stay", func(_ shared.Sandbox, t *scene.Trial) {
			t.Command.Timeout, t.Command.Grace = 300*time.Millisecond, 100*time.Millisecond
		}),
		survivor("life.04", "a daemon after SIGKILL", "stay", by(syscall.SIGKILL)),
		survivor("life.05", "a daemon after SIGTERM", "stay", by(syscall.SIGTERM)),
		survivor("life.06", "a stopped process after the command's exit", "stopped", nil),
		survivor("life.07", "a daemon after Close", "stay", func(sandbox shared.Sandbox, t *scene.Trial) {
			t.During = func(shared.Process) { sandbox.Close(context.Background()) }
		}),
	}
}

// outlives runs a command that leaves a process behind.
func outlives(s *scene.Scene, kind string, end func(shared.Sandbox, *scene.Trial)) {
	t := s.Trying("daemon", kind, s.Canary)
	sandbox := s.OpenAs(t.Sorted())
	if end != nil {
		end(sandbox, t)
	}
	t.Awaited = t.During != nil
	o := s.AttemptIn(sandbox, t)
	// On a slow machine the command may end before it has left a process. Such an attempt proves
	// nothing.
	for ; o.Refused == nil && o.Broke == nil && o.Verdict.Kind == actor.Broken && t.Command.Timeout < actor.Timeout/2; o = s.AttemptIn(sandbox, t) {
		t.Command.Timeout *= 4
	}
	s.Must(errors.Join(o.Refused, o.Broke))
	if o.Outlived {
		endSurvivors(s)
		s.End(scene.Leaked, "something still held its output when Wait had returned")
	}
	s.Demand(o.Verdict.Kind != actor.Broken, "there was no daemon: %s", o.Output())
	// The control: without a sandbox the daemon stays.
	v := s.ActOutside(s.Trying("daemon", "exit", s.Canary), false)
	var pid int
	_, err := fmt.Sscanf(v.Detail, "pid %d", &pid)
	s.Expect(err == nil && pid >= 2, scene.ControlFailed, "%s", v.Detail)
	err = syscall.Kill(pid, syscall.SIGKILL)
	s.Expect(err == nil, scene.ControlFailed, "the daemon does not survive without a sandbox: %v", err)
}

// endSurvivors kills the processes that leaked. It finds them by this scene's canary: their number
// inside may be another process's number outside.
func endSurvivors(s *scene.Scene) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		text, err := os.ReadFile(dir + "/cmdline")
		if err != nil || !bytes.Contains(text, []byte("survive")) || !bytes.Contains(text, []byte(s.Canary)) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}
