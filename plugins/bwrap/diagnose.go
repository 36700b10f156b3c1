package bwrap

import (
	"fmt"
	"strings"

	"github.com/sbxhost/sbxhost/internal/engine/nsengine"
	"github.com/sbxhost/sbxhost/shared"
)

const (
	fixAppArmor = "as root, allow bwrap in AppArmor: write `abi <abi/4.0>, profile bwrap /usr/bin/bwrap flags=(unconfined) { userns, }` to /etc/apparmor.d/bwrap (the path that is used here) and run: apparmor_parser -r /etc/apparmor.d/bwrap"
	fixOld      = "install bubblewrap 0.10.0 or later, or an older one with the security update of 2024, which has --bind-fd"
)

// findings are bubblewrap's texts for what this machine lacks or refuses. After one that ends with
// ": " there is an errno.
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
		"creation of new user namespaces was not disabled as requested",
	}
}

const (
	exceeded   = "Creating new namespace failed: nesting depth or /proc/sys/user/max_*_namespaces exceeded (ENOSPC)"
	maxFinding = 400 // bytes; a finding contains no path, and the rest of a long line is cut off
)

// proves reports whether bubblewrap's output proves that this machine lacks or refuses something,
// so that it would fail again. Everything else may be a shortage, which a command in another
// sandbox can cause. Commands name files, and messages contain the names, so a finding must be the
// whole line.
func proves(stderr string, k nsengine.Kernel) bool {
	line, ok := strings.CutPrefix(strings.TrimSuffix(stderr, "\n"), "bwrap: ")
	if !ok || len(line) > maxFinding || strings.Contains(line, "\n") {
		return false
	}
	if line == exceeded {
		return k.MaxNamespaces == "0"
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

// diagnose explains bubblewrap's output before it gave up. It is pure.
func diagnose(stderr string, k nsengine.Kernel) *shared.Error {
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
		if k.MaxNamespaces == "0" {
			e.Message = "user namespaces are switched off: user.max_user_namespaces is 0"
		}
		e.Hint = nsengine.FixMaxNamespaces

	case !proven && (has("Can't find source path") || has("Can't get type of source") || has("Race condition binding dirfd") ||
		has("Can't bind mount") || has("Can't mkdir") || has("Can't create file at") || has("Can't make symlink")):
		// About one path of this sandbox, not about the machine.
		e.Message = "bwrap could not make the view: " + said
		e.Kind = shared.ErrInvalidSpec
		if has("Permission denied") || has("Operation not permitted") {
			e.Kind = shared.ErrDenied
		}

	case said == "":
		e.Message = "bwrap ended without a message before the command was started"
	case !proven:
		e.Message = "bwrap: " + said

	case has("Unknown option"):
		e.Message = "this bubblewrap is too old: " + said
		e.Hint = fixOld

	case has("does not support user namespaces"):
		e.Message = "the kernel has no user namespaces"
		e.Hint = "use a kernel that is built with CONFIG_USER_NS"

	case has("creating new namespace"), has("create new namespace"), has("Creating new namespace failed"):
		e.Message, e.Hint = k.Refused(fixAppArmor)

	case has("unshare user ns"):
		// The second namespace, in which the first forbids a third. Its maker is an ordinary user
		// to the kernel, also for root.
		inner := k
		inner.Root = false
		e.Message, e.Hint = inner.Refused(fixAppArmor)
		if k.Root && k.UnprivilegedClone == "0" {
			e.Message = "root may make a user namespace, and none in it: kernel.unprivileged_userns_clone is 0"
		}

	case has("Can't mount proc on"), has("cannot open /proc/sys/user/max_user_namespaces"):
		e.Message, e.Hint = k.NoFreshProc()

	case has("pivot_root"):
		e.Message, e.Hint = nsengine.NoPivot, nsengine.FixNoPivot

	case has("setuid mode"), has("Unexpected setuid user"):
		e.Message = "this bubblewrap is setuid"
		e.Hint = fixSetuid

	case has("Unexpected capabilities but not setuid"):
		e.Message = "the engine process, or the bwrap file, has capabilities without being root"
		e.Hint = "start sbxhost without ambient capabilities, and remove the file's capabilities with setcap -r"

	case has("was not disabled as requested"):
		e.Message = "the kernel cannot switch off nested user namespaces"
		e.Hint = "use a kernel of version 4.9 or later"

	default: // setting up a map, a mount, the loopback device
		// The kernel made the namespace, but without rights: AppArmor and confined containers deny
		// it like this.
		k.MaxNamespaces, k.UnprivilegedClone = "", ""
		e.Message, e.Hint = k.Refused(fixAppArmor)
	}
	return e
}

// lastLine is the last line, without bubblewrap's name, safe for a message.
func lastLine(stderr string) string {
	lines := strings.Split(strings.TrimSpace(stderr), "\n")
	last := strings.TrimPrefix(strings.TrimSpace(lines[len(lines)-1]), "bwrap: ")
	// Paths in it can contain terminal commands.
	quoted := fmt.Sprintf("%+q", last)
	if quoted == `"`+last+`"` {
		return last
	}
	return quoted
}
