package probes

import "github.com/sbxhost/sbxhost/shared/enginetest/internal/scene"

// filtered is a probe of a system call that no command needs and that has been
// the way out of a sandbox before. Its control is the same call outside.
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
