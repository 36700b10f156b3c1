package bwrap

import (
	"fmt"
	"strings"

	"github.com/sbxhost/sbxhost/shared"
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
	fixAppArmor    = "as root, allow bwrap in AppArmor: write `abi <abi/4.0>, profile bwrap /usr/bin/bwrap flags=(unconfined) { userns, }` to /etc/apparmor.d/bwrap (the path that is used here) and run: apparmor_parser -r /etc/apparmor.d/bwrap"
	fixContainer   = "start the outer container with --security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined (podman: --security-opt unmask=ALL; Kubernetes: procMount: Unmasked), or use an engine that needs no namespaces"
	fixOld         = "install bubblewrap 0.8.0 or later"
)

// findings are bubblewrap's words for what this machine lacks or refuses. Those that
// end with ": " are followed by an errno.
func findings() []string {
	return []string{
		"Unknown option --",
		"No permissions to creating new namespace, ", "No permissions to create new namespace, ",
		"Creating new namespace failed, likely because the kernel does not support user namespaces.",
		"Creating new namespace failed: ", "unshare user ns: ",
		"setting up uid map: ", "setting up gid map: ", "error writing to setgroups: ",
		"loopback: ", "Failed to make / slave: ", "Failed to mount tmpfs: ", "Failed to make old root rprivate: ",
		"Can't mount proc on /newroot/proc: ", "cannot open /proc/sys/user/max_user_namespaces: ",
		"pivot_root: ", "pivot_root(/newroot): ",
		"The --size option is not permitted in setuid mode", "Unexpected setuid user ", "Unexpected capabilities but not setuid, ",
		"Unable to set up system call filtering as requested: prctl(PR_SET_SECCOMP) reported EINVAL.",
		"creation of new user namespaces was not disabled as requested",
	}
}

const (
	exceeded   = "Creating new namespace failed: nesting depth or /proc/sys/user/max_*_namespaces exceeded (ENOSPC)"
	maxFinding = 400 // bytes; a finding has no path in it, and the rest of a long line is cut off
)

// proves reports whether what bubblewrap wrote says what this machine lacks or
// refuses, so that it would fail again. Everything else may be a shortage, which a
// command in another sandbox can bring about. Commands name files, and the names are
// in messages: a finding is the only line, from its beginning.
func proves(stderr string, k kernel) bool {
	line, ok := strings.CutPrefix(strings.TrimSuffix(stderr, "\n"), "bwrap: ")
	if !ok || len(line) > maxFinding || strings.Contains(line, "\n") {
		return false
	}
	if line == exceeded {
		return k.maxNamespaces == "0"
	}
	for _, begins := range findings() {
		rest, ok := strings.CutPrefix(line, begins)
		if !ok {
			continue
		}
		if !strings.HasSuffix(begins, ": ") {
			return true
		}
		for _, refusal := range [...]string{"Operation not permitted", "Permission denied", "Read-only file system", "Invalid argument"} {
			if rest == refusal || strings.HasSuffix(rest, ": "+refusal) {
				return true
			}
		}
	}
	return false
}

// diagnose explains what bubblewrap wrote before it gave up. It is pure.
func diagnose(stderr string, k kernel) *shared.Error {
	said := lastLine(stderr)
	e := &shared.Error{Kind: shared.ErrUnavailable}
	has := func(text string) bool { return strings.Contains(stderr, text) }
	proven := proves(stderr, k)
	if proven {
		e.Kind = shared.ErrUnusable
	}
	switch {
	case has("max_*_namespaces exceeded"):
		e.Message = "the kernel allows no more namespaces"
		if k.maxNamespaces == "0" {
			e.Message = "user namespaces are switched off: user.max_user_namespaces is 0"
		}
		e.Hint = fixSysctlMax

	case !proven && (has("Can't find source path") || has("Can't get type of source") ||
		has("Can't bind mount") || has("Can't mkdir") || has("Can't create file at") || has("Can't make symlink")):
		// About one path of this sandbox, not about the machine.
		e.Message = "bwrap could not make the view: " + said
		e.Kind = shared.ErrInvalidSpec
		if has("Permission denied") || has("Operation not permitted") {
			e.Kind = shared.ErrDenied
		}

	case said == "":
		e.Message = "bwrap ended without a word before the command was started"
	case !proven:
		e.Message = "bwrap: " + said

	case has("Unknown option"):
		e.Message = "this bubblewrap is too old: " + said
		e.Hint = fixOld

	case has("does not support user namespaces"):
		e.Message = "the kernel has no user namespaces"
		e.Hint = "use a kernel that is built with CONFIG_USER_NS"

	case has("creating new namespace"), has("create new namespace"), has("Creating new namespace failed"):
		e.Message, e.Hint = namespaceRefused(k)

	case has("unshare user ns"):
		// The second namespace, which the first forbids to make a third. Whoever
		// makes it is an ordinary user to the kernel, root too.
		inner := k
		inner.root = false
		e.Message, e.Hint = namespaceRefused(inner)
		if k.root && k.unprivilegedClone == "0" {
			e.Message = "root may make a user namespace, and none in it: kernel.unprivileged_userns_clone is 0"
		}

	case has("Can't mount proc on"), has("cannot open /proc/sys/user/max_user_namespaces"):
		e.Message = "a fresh /proc cannot be mounted, because part of the one here is hidden or read-only"
		if k.container {
			e.Message += ", as containers do it"
		}
		e.Hint = fixContainer

	case has("pivot_root"):
		e.Message = "the root directory here cannot be replaced, as in an initial ramdisk or a chroot"
		e.Hint = "run on a root file system that is a mount of its own"

	case has("setuid mode"), has("Unexpected setuid user"):
		e.Message = "this bubblewrap is setuid"
		e.Hint = fixSetuid

	case has("Unexpected capabilities but not setuid"):
		e.Message = "the engine process, or the bwrap file, has capabilities without being root"
		e.Hint = "start sbxhost without ambient capabilities, and remove those of the file: setcap -r on it"

	case has("PR_SET_SECCOMP"):
		e.Message = "the kernel takes no system call filters"
		e.Hint = "use a kernel that is built with CONFIG_SECCOMP_FILTER"

	case has("was not disabled as requested"):
		e.Message = "the kernel does not let nested user namespaces be switched off"
		e.Hint = "use a kernel of version 4.9 or later"

	default: // setting up a map, a mount, the loopback device
		// The namespace was made, and gave no rights: that is how AppArmor
		// denies it, and how confined containers do.
		e.Message = "the kernel gives no rights in new user namespaces"
		switch {
		case k.apparmorRestrict == "1" && !k.container:
			e.Message = "AppArmor restricts user namespaces here (kernel.apparmor_restrict_unprivileged_userns is 1)"
			e.Hint = fixAppArmor
		case k.container:
			e.Message = "the container around this process refuses mounts in new namespaces"
			e.Hint = fixContainer
		default:
			e.Hint = "look for a security module (AppArmor, SELinux) that denies it: dmesg, or the audit log"
		}
	}
	return e
}

func namespaceRefused(k kernel) (reason, fix string) {
	switch {
	case k.maxNamespaces == "0":
		return "user namespaces are switched off: user.max_user_namespaces is 0", fixSysctlMax
	case k.unprivilegedClone == "0" && !k.root:
		return "ordinary users may not make user namespaces: kernel.unprivileged_userns_clone is 0", fixSysctlClone
	case k.container:
		return "the container around this process refuses new namespaces", fixContainer
	case k.apparmorRestrict == "1":
		return "AppArmor restricts user namespaces here (kernel.apparmor_restrict_unprivileged_userns is 1)", fixAppArmor
	}
	return "the kernel refuses new namespaces", "look for a seccomp filter or a security module that denies it: grep Seccomp /proc/self/status, dmesg"
}

// lastLine is the last thing that was said, without bubblewrap's own name and
// fit to be part of a message.
func lastLine(stderr string) string {
	lines := strings.Split(strings.TrimSpace(stderr), "\n")
	last := strings.TrimPrefix(strings.TrimSpace(lines[len(lines)-1]), "bwrap: ")
	// Paths in it can hold what a terminal would obey.
	quoted := fmt.Sprintf("%+q", last)
	if quoted == `"`+last+`"` {
		return last
	}
	return quoted
}
