package native

import (
	"errors"
	"strings"
	"syscall"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/holder"
)

// kernel is what bears on whether user namespaces can be made here. The
// strings are the contents of files, empty where there is no such file.
type kernel struct {
	unprivilegedClone string // /proc/sys/kernel/unprivileged_userns_clone
	maxNamespaces     string // /proc/sys/user/max_user_namespaces
	apparmorRestrict  string // /proc/sys/kernel/apparmor_restrict_unprivileged_userns
	container         bool   // this machine is itself a container
	root              bool   // the caller is uid 0
}

const (
	fixSysctlMax   = "as root: sysctl -w user.max_user_namespaces=15000, and keep it in /etc/sysctl.d"
	fixSysctlClone = "as root: sysctl -w kernel.unprivileged_userns_clone=1, and keep it in /etc/sysctl.d"
	fixAppArmor    = "as root: load an AppArmor profile that gives this program user namespaces; `sbxhost doctor` prints it"
	fixContainer   = "start the outer container with --security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined (podman: --security-opt unmask=ALL; Kubernetes: procMount: Unmasked), or use an engine that needs no namespaces"
	fixModule      = "look for a seccomp filter or a security module (AppArmor, SELinux) that denies it: grep Seccomp /proc/self/status, dmesg, the audit log"
	fixKernel      = "use Linux 5.12 or later, or engine = \"bwrap\""
)

// diagnose explains why there is no holder, or no sandbox in one. Only what this
// machine lacks or refuses, and would again, is ErrUnusable: everything else may be a
// shortage, which a command in another sandbox can bring about. It is pure.
func diagnose(err error, k kernel) error {
	if _, ok := errors.AsType[*shared.Error](err); ok {
		return err
	}
	e := &shared.Error{Kind: shared.ErrUnavailable, Message: err.Error()}
	if errors.Is(err, holder.ErrLost) {
		e.Kind = shared.ErrBroken
		return e
	}
	failed, _ := errors.AsType[*holder.MountError](err)
	if failed == nil || !failed.OfMachine() {
		return e
	}
	unusable := func(message, fix string) {
		e.Kind, e.Message, e.Hint = shared.ErrUnusable, message, fix
	}
	switch failed.Errno {
	case syscall.ENOSPC:
		// Of a clone it is the limit of namespaces, of which 0 is nobody's doing but the
		// administrator's.
		if failed.Call == holder.CallClone && k.maxNamespaces == "0" {
			unusable("user namespaces are switched off: user.max_user_namespaces is 0", fixSysctlMax)
		} else if failed.Call == holder.CallClone {
			e.Message, e.Hint = "the kernel allows no more namespaces", fixSysctlMax
		}
	case syscall.ENOSYS:
		unusable("this kernel lacks a call that the engine needs: "+err.Error(), fixKernel)
	case syscall.EPERM, syscall.EACCES, syscall.EINVAL, syscall.EROFS:
		switch {
		case strings.HasSuffix(failed.Call, " proc"):
			message := "a fresh /proc cannot be mounted, because part of the one here is hidden or read-only"
			if k.container {
				message += ", as containers do it"
			}
			unusable(message, fixContainer)
		case failed.Call == "pivot_root":
			unusable("the root directory here cannot be replaced, as in an initial ramdisk or a chroot", "run on a root file system that is a mount of its own")
		case k.maxNamespaces == "0":
			unusable("user namespaces are switched off: user.max_user_namespaces is 0", fixSysctlMax)
		case k.unprivilegedClone == "0" && !k.root:
			unusable("ordinary users may not make user namespaces: kernel.unprivileged_userns_clone is 0", fixSysctlClone)
		case k.container:
			unusable("the container around this process refuses new namespaces, or mounts in them: "+err.Error(), fixContainer)
		case k.apparmorRestrict == "1":
			unusable("AppArmor restricts user namespaces here (kernel.apparmor_restrict_unprivileged_userns is 1)", fixAppArmor)
		default:
			unusable("the kernel refuses new namespaces, or gives no rights in them: "+err.Error(), fixModule)
		}
	}
	return e
}
