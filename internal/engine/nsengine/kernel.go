package nsengine

import (
	"os"
	"strings"
)

// A Kernel is what bears on whether user namespaces can be made here. The strings
// are the contents of files, empty where there is no such file.
type Kernel struct {
	UnprivilegedClone string // /proc/sys/kernel/unprivileged_userns_clone
	MaxNamespaces     string // /proc/sys/user/max_user_namespaces
	AppArmorRestrict  string // /proc/sys/kernel/apparmor_restrict_unprivileged_userns
	Container         bool   // this machine is itself a container
	Sandbox           bool   // this process is in a sandbox of this project's
	Root              bool   // the caller is uid 0
}

// LookAtKernel looks at this machine.
func LookAtKernel() Kernel {
	k := Kernel{
		UnprivilegedClone: content("/proc/sys/kernel/unprivileged_userns_clone"),
		MaxNamespaces:     content("/proc/sys/user/max_user_namespaces"),
		AppArmorRestrict:  content("/proc/sys/kernel/apparmor_restrict_unprivileged_userns"),
		Root:              os.Geteuid() == 0,
		Sandbox:           InSandbox(),
	}
	for _, mark := range [...]string{"/.dockerenv", "/run/.containerenv"} {
		if _, err := os.Lstat(mark); err == nil {
			k.Container = true
		}
	}
	return k
}

// InSandbox reports whether the first process here is the init of a sandbox.
func InSandbox() bool { return content("/proc/1/comm") == "sbxhost-init" }

func content(path string) string {
	b, _ := os.ReadFile(path)
	return strings.TrimSpace(string(b))
}

// What helps, by what is in the way.
const (
	FixMaxNamespaces = "as root: sysctl -w user.max_user_namespaces=15000, and keep it in /etc/sysctl.d"
	FixContainer     = "start the outer container with --security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined (podman: --security-opt unmask=ALL; Kubernetes: procMount: Unmasked), or use an engine that needs no namespaces"
	FixSandbox       = "say config { nested_userns = true } in the definition of the sandbox around it"
	FixModule        = "look for a seccomp filter or a security module (AppArmor, SELinux) that denies it: grep Seccomp /proc/self/status, dmesg, the audit log"
	fixClone         = "as root: sysctl -w kernel.unprivileged_userns_clone=1, and keep it in /etc/sysctl.d"
)

// Refused says why this kernel refuses user namespaces, and what helps; appArmor is what
// helps against AppArmor. It is pure.
func (k Kernel) Refused(appArmor string) (reason, fix string) {
	switch {
	case k.Sandbox && k.Root:
		// Since Linux 5.12 it takes CAP_SETFCAP to map uid 0, which no command has.
		return "this is inside a sandbox, where root has no rights in namespaces of its own", "run the sandbox around it as an ordinary user, with config { nested_userns = true }"
	case k.Sandbox:
		return "this is inside a sandbox, which lets its commands make no namespaces", FixSandbox
	case k.MaxNamespaces == "0":
		return "user namespaces are switched off: user.max_user_namespaces is 0", FixMaxNamespaces
	case k.UnprivilegedClone == "0" && !k.Root:
		return "ordinary users may not make user namespaces: kernel.unprivileged_userns_clone is 0", fixClone
	case k.Container:
		return "the container around this process refuses new namespaces, or mounts in them", FixContainer
	case k.AppArmorRestrict == "1":
		return "AppArmor restricts user namespaces here (kernel.apparmor_restrict_unprivileged_userns is 1)", appArmor
	}
	return "the kernel refuses new namespaces, or gives no rights in them", FixModule
}

// NoFreshProc says why there can be no /proc in a new namespace. It is pure.
func (k Kernel) NoFreshProc() (reason, fix string) {
	reason = "a fresh /proc cannot be mounted, because part of the one here is hidden or read-only"
	if k.Container {
		reason += ", as containers do it"
	}
	return reason, FixContainer
}

// What else engines say of a kernel.
const (
	NoPivot    = "the root directory here cannot be replaced, as in an initial ramdisk or a chroot"
	FixNoPivot = "run on a root file system that is a mount of its own"
)
