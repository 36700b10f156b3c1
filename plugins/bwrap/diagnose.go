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

// A finding is bubblewrap's text for what this machine lacks or refuses, so that it would fail again.
type finding struct {
	begins  string // if it ends with ": ", an errno follows
	explain func(k nsengine.Kernel, line string) (message, hint string)
}

func findings() []finding {
	fixed := func(message, hint string) func(nsengine.Kernel, string) (string, string) {
		return func(nsengine.Kernel, string) (string, string) { return message, hint }
	}
	refused := func(k nsengine.Kernel, _ string) (string, string) { return k.Refused(fixAppArmor) }
	// The kernel made the namespace, but without rights: AppArmor and confined containers deny it
	// like this.
	noRights := func(k nsengine.Kernel, _ string) (string, string) {
		k.MaxNamespaces, k.UnprivilegedClone = "", ""
		return k.Refused(fixAppArmor)
	}
	noProc := func(k nsengine.Kernel, _ string) (string, string) { return k.NoFreshProc() }
	noPivot := fixed(nsengine.NoPivot, nsengine.FixNoPivot)
	setuid := fixed("this bubblewrap is setuid", fixSetuid)
	return []finding{
		{"Unknown option --", func(_ nsengine.Kernel, line string) (string, string) {
			return "this bubblewrap is too old: " + lastLine(line), fixOld
		}},
		{"No permissions to creating new namespace, ", refused},
		{"No permissions to create new namespace, ", refused},
		{"Creating new namespace failed, likely because the kernel does not support user namespaces.",
			fixed("the kernel has no user namespaces", "use a kernel that is built with CONFIG_USER_NS")},
		{"Creating new namespace failed: ", refused},
		{"unshare user ns: ", func(k nsengine.Kernel, _ string) (string, string) {
			// The second namespace, in which the first forbids a third. Its maker is an ordinary user
			// to the kernel, also for root.
			inner := k
			inner.Root = false
			message, hint := inner.Refused(fixAppArmor)
			if k.Root && k.UnprivilegedClone == "0" {
				message = "root may make a user namespace, and none in it: kernel.unprivileged_userns_clone is 0"
			}
			return message, hint
		}},
		{"setting up uid map: ", noRights},
		{"setting up gid map: ", noRights},
		{"error writing to setgroups: ", noRights},
		{"loopback: ", noRights},
		{"Failed to make / slave: ", noRights},
		{"Failed to mount tmpfs: ", noRights},
		{"Failed to make old root rprivate: ", noRights},
		{"Can't mount proc on /newroot/proc: ", noProc},
		{"cannot open /proc/sys/user/max_user_namespaces: ", noProc},
		{"pivot_root: ", noPivot},
		{"pivot_root(/newroot): ", noPivot},
		{"The --size option is not permitted in setuid mode", setuid},
		{"Unexpected setuid user ", setuid},
		{"Unexpected capabilities but not setuid, ", fixed("the engine process, or the bwrap file, has capabilities without being root",
			"start sbxhost without ambient capabilities, and remove the file's capabilities with setcap -r")},
		{"creation of new user namespaces was not disabled as requested",
			fixed("the kernel cannot switch off nested user namespaces", "use a kernel of version 4.9 or later")},
	}
}

const (
	exceeded   = "Creating new namespace failed: nesting depth or /proc/sys/user/max_*_namespaces exceeded (ENOSPC)"
	maxFinding = 400 // bytes; a finding contains no path, and the rest of a long line is cut off
)

// matches reports whether a line is the finding. Everything else may be a shortage, which a command in
// another sandbox can cause.
func (f finding) matches(line string) bool {
	rest, ok := strings.CutPrefix(line, f.begins)
	if !ok || !strings.HasSuffix(f.begins, ": ") {
		return ok
	}
	for _, refusal := range [...]string{"Operation not permitted", "Permission denied", "Read-only file system", "Invalid argument"} {
		if rest == refusal || strings.HasSuffix(rest, ": "+refusal) {
			return true
		}
	}
	return false
}

// diagnose explains bubblewrap's output before it gave up. It is pure.
func diagnose(stderr string, k nsengine.Kernel) *shared.Error {
	// Commands name files, and messages contain the names, so a finding must be the whole output.
	line, ok := strings.CutPrefix(strings.TrimSuffix(stderr, "\n"), "bwrap: ")
	if ok && len(line) <= maxFinding && !strings.Contains(line, "\n") {
		for _, f := range findings() {
			if f.matches(line) {
				message, hint := f.explain(k, line)
				return &shared.Error{Kind: shared.ErrUnusable, Message: message, Hint: hint}
			}
		}
	}
	e := &shared.Error{Kind: shared.ErrUnavailable, Message: "bwrap: " + lastLine(stderr)}
	has := func(text string) bool { return strings.Contains(stderr, text) }
	switch {
	case line == exceeded && k.MaxNamespaces == "0":
		e.Kind, e.Message, e.Hint = shared.ErrUnusable, "user namespaces are switched off: user.max_user_namespaces is 0", nsengine.FixMaxNamespaces
	case line == exceeded:
		e.Message, e.Hint = "the kernel allows no more namespaces", nsengine.FixMaxNamespaces
	case has("Can't find source path"), has("Can't get type of source"), has("Race condition binding dirfd"),
		has("Can't bind mount"), has("Can't mkdir"), has("Can't create file at"), has("Can't make symlink"):
		// About one path of this sandbox, not about the machine.
		e.Kind, e.Message = shared.ErrInvalidSpec, "bwrap could not make the view: "+lastLine(stderr)
		if has("Permission denied") || has("Operation not permitted") {
			e.Kind = shared.ErrDenied
		}
	case strings.TrimSpace(stderr) == "":
		e.Message = "bwrap ended without a message before the command was started"
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
