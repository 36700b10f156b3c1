package nsengine

import (
	"os"
	"strings"
)

// A Kernel has the facts that decide whether user namespaces are possible here. The strings are
// contents of files, empty if there is no such file.
type Kernel struct {
	UnprivilegedClone string // /proc/sys/kernel/unprivileged_userns_clone
	MaxNamespaces     string // /proc/sys/user/max_user_namespaces
	AppArmorRestrict  string // /proc/sys/kernel/apparmor_restrict_unprivileged_userns
	Container         bool   // this machine is itself a container
	Sandbox           bool   // this process is in a sandbox of this project
	Root              bool   // the caller is uid 0
}

// LookAtKernel looks at this machine.
func LookAtKernel() Kernel {
	return Kernel{
		UnprivilegedClone: content("/proc/sys/kernel/unprivileged_userns_clone"),
		MaxNamespaces:     content("/proc/sys/user/max_user_namespaces"),
		AppArmorRestrict:  content("/proc/sys/kernel/apparmor_restrict_unprivileged_userns"),
		Root:              os.Geteuid() == 0,
		Sandbox:           InSandbox(),
		Container:         ContainerMark() != "",
	}
}

// ContainerMark is the file by which this machine is known to be a container; empty if it is none.
func ContainerMark() string {
	for _, mark := range [...]string{"/.dockerenv", "/run/.containerenv", "/run/systemd/container"} {
		if _, err := os.Lstat(mark); err == nil {
			return mark
		}
	}
	return ""
}

// InSandbox reports whether the first process here is the init of a sandbox.
func InSandbox() bool { return content("/proc/1/comm") == "sbxhost-init" }

func content(path string) string {
	b, _ := os.ReadFile(path)
	return strings.TrimSpace(string(b))
}

// The fix for each cause.
const (
	FixMaxNamespaces = "as root: sysctl -w user.max_user_namespaces=15000, and keep it in /etc/sysctl.d"
	FixContainer     = "start the outer container with --security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined (podman: --security-opt unmask=ALL; Kubernetes: procMount: Unmasked), or use an engine that needs no namespaces"
	FixSandbox       = "set config { nested_userns = true } in the definition of the sandbox around it"
	FixModule        = "look for a seccomp filter or a security module (AppArmor, SELinux) that denies it: grep Seccomp /proc/self/status, dmesg, the audit log"
	fixClone         = "as root: sysctl -w kernel.unprivileged_userns_clone=1, and keep it in /etc/sysctl.d"
)

// Refused says why this kernel refuses user namespaces, and the fix; appArmor is the fix for
// AppArmor. It is pure.
func (k Kernel) Refused(appArmor string) (reason, fix string) {
	switch {
	case k.Sandbox && k.Root:
		// Since Linux 5.12, to map uid 0 needs CAP_SETFCAP, which no command has.
		return "this is inside a sandbox, where root has no rights in namespaces of its own", "run the sandbox around it as an ordinary user, with config { nested_userns = true }"
	case k.Sandbox:
		return "this is inside a sandbox whose commands may not make namespaces", FixSandbox
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

// NoFreshProc says why a new namespace cannot have a /proc. It is pure.
func (k Kernel) NoFreshProc() (reason, fix string) {
	reason = "a fresh /proc cannot be mounted, because part of the one here is hidden or read-only"
	if k.Container {
		reason += ", as in containers"
	}
	return reason, FixContainer
}

// Other texts of engines about a kernel.
const (
	NoPivot    = "the root directory here cannot be replaced, as in an initial ramdisk or a chroot"
	FixNoPivot = "run on a root file system that is a mount of its own"
)
