package bwrap

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/sbxhost/sbxhost/internal/engine/nsengine"
	"github.com/sbxhost/sbxhost/shared"
)

func TestDiagnose(t *testing.T) {
	t.Parallel()
	const refused = "bwrap: No permissions to creating new namespace, likely because the kernel does not allow non-privileged user namespaces. On e.g. debian this can be enabled with 'sysctl kernel.unprivileged_userns_clone=1'."
	for _, tt := range []struct {
		name, stderr string
		kernel       nsengine.Kernel
		reason, fix  string
		kind         error
	}{
		{"debian's switch", refused, nsengine.Kernel{UnprivilegedClone: "0", MaxNamespaces: "100"}, "kernel.unprivileged_userns_clone is 0", "kernel.unprivileged_userns_clone=1", nil},
		{"debian's switch, for root", "bwrap: unshare user ns: Operation not permitted", nsengine.Kernel{UnprivilegedClone: "0", MaxNamespaces: "100", Root: true}, "root may make a user namespace, and none in it: kernel.unprivileged_userns_clone is 0", "kernel.unprivileged_userns_clone=1", nil},
		{"the inner namespace", "bwrap: unshare user ns: Operation not permitted", nsengine.Kernel{UnprivilegedClone: "1", Container: true}, "the container around this process refuses", "security-opt", nil},
		{"newer wording", "bwrap: No permissions to create new namespace, likely because ...", nsengine.Kernel{UnprivilegedClone: "0"}, "kernel.unprivileged_userns_clone is 0", "sysctl", nil},
		{"seccomp of docker", refused, nsengine.Kernel{Container: true, MaxNamespaces: "100"}, "container", "seccomp=unconfined", nil},
		{"seccomp elsewhere", refused, nsengine.Kernel{}, "refuses new namespaces", "seccomp", nil},
		{"none left", "bwrap: Creating new namespace failed: nesting depth or /proc/sys/user/max_*_namespaces exceeded (ENOSPC)", nsengine.Kernel{MaxNamespaces: "0"}, "user.max_user_namespaces is 0", "sysctl -w user.max", nil},
		{"nesting", "bwrap: Creating new namespace failed: nesting depth or /proc/sys/user/max_*_namespaces exceeded (ENOSPC)", nsengine.Kernel{MaxNamespaces: "9"}, "no more namespaces", "sysctl", shared.ErrUnavailable},
		{"no support", "bwrap: Creating new namespace failed, likely because the kernel does not support user namespaces.  bwrap must be installed setuid on such systems.", nsengine.Kernel{}, "no user namespaces", "CONFIG_USER_NS", nil},
		{"ubuntu, uid map", "bwrap: setting up uid map: Permission denied", nsengine.Kernel{AppArmorRestrict: "1"}, "AppArmor", "/etc/apparmor.d/bwrap", nil},
		{"ubuntu, loopback", "bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted", nsengine.Kernel{AppArmorRestrict: "1"}, "AppArmor", "userns", nil},
		{"docker's apparmor", "bwrap: Failed to make / slave: Permission denied", nsengine.Kernel{Container: true, AppArmorRestrict: "1"}, "container", "apparmor=unconfined", nil},
		{"unknown module", "bwrap: setting up uid map: Permission denied", nsengine.Kernel{}, "no rights", "audit", nil},
		{"nested proc", "bwrap: Can't mount proc on /newroot/proc: Operation not permitted", nsengine.Kernel{Container: true}, "fresh /proc", "systempaths=unconfined", nil},
		{"read-only proc", "bwrap: cannot open /proc/sys/user/max_user_namespaces: Read-only file system", nsengine.Kernel{}, "fresh /proc", "Unmasked", nil},
		{"too old", "bwrap: Unknown option --disable-userns", nsengine.Kernel{}, "too old", "0.10.0", nil},
		{"setuid", "bwrap: The --size option is not permitted in setuid mode", nsengine.Kernel{}, "setuid", "chmod u-s", nil},
		{"capabilities", "bwrap: Unexpected capabilities but not setuid, old file caps config?", nsengine.Kernel{}, "capabilities", "setcap -r", nil},
		{"initrd", "bwrap: pivot_root: Invalid argument", nsengine.Kernel{}, "cannot be replaced", "mount", nil},
		{"source gone", "bwrap: Can't find source path /x: No such file or directory", nsengine.Kernel{}, "/x", "", shared.ErrInvalidSpec},
		{"source exchanged", "bwrap: Race condition binding dirfd: Invalid argument", nsengine.Kernel{}, "Race condition", "", shared.ErrInvalidSpec},
		{"source closed", "bwrap: Can't find source path /x: Permission denied", nsengine.Kernel{}, "/x", "", shared.ErrDenied},
		{"unheard of", "noise\nbwrap: something else\n", nsengine.Kernel{}, "bwrap: something else", "", shared.ErrUnavailable},
		{"silence", "", nsengine.Kernel{}, "without a message", "", shared.ErrUnavailable},
		{"terminal escapes", "bwrap: Can't find source path /\x1b[31m: No such file or directory", nsengine.Kernel{}, `\x1b[31m`, "", shared.ErrInvalidSpec},
	} {
		e := diagnose(tt.stderr, tt.kernel)
		if tt.kind == nil {
			tt.kind = shared.ErrUnusable
		}
		if !strings.Contains(e.Message, tt.reason) || !strings.Contains(e.Hint, tt.fix) || e.Kind != tt.kind || strings.Contains(e.Error(), "\x1b") {
			t.Errorf("%s: %v", tt.name, e)
		}
		if tt.fix != "" && e.Hint == "" {
			t.Errorf("%s: no fix", tt.name)
		}
	}
}

// A shortage is no finding about the machine, and neither is what a command has
// written into the name of a file.
func TestDiagnoseProvesNothing(t *testing.T) {
	t.Parallel()
	refused := "No permissions to create new namespace, likely because ..."
	var said []string
	for errno := syscall.Errno(1); errno < 134; errno++ {
		switch errno {
		case syscall.EPERM, syscall.EACCES, syscall.EROFS, syscall.EINVAL:
			continue
		}
		for _, f := range findings() {
			if strings.HasSuffix(f.begins, ": ") {
				said = append(said, f.begins+strerror(errno))
			}
		}
	}
	said = append(said,
		"Can't find source path /w/"+refused+": No such file or directory",
		"Can't bind mount /w/pivot_root: Invalid argument on /newroot/w: Cannot allocate memory",
		"Can't find source path /w/\nbwrap: "+refused,
		"noise\nbwrap: "+refused,
		refused+strings.Repeat("x", maxFinding),
		exceeded,
	)
	for _, line := range said {
		if e := diagnose("bwrap: "+line+"\n", nsengine.Kernel{MaxNamespaces: "9"}); errors.Is(e, shared.ErrUnusable) {
			t.Errorf("%q: %v", line, e)
		}
	}
	if e := diagnose(refused, nsengine.Kernel{}); errors.Is(e, shared.ErrUnusable) {
		t.Errorf("a tail: %v", e)
	}
}

// strerror is errno as the C library words it.
func strerror(errno syscall.Errno) string {
	s := errno.Error()
	return strings.ToUpper(s[:1]) + s[1:]
}

func FuzzDiagnose(f *testing.F) {
	f.Add("bwrap: x\x1b[0m\n")
	f.Add("\xff\n\n")
	f.Fuzz(func(t *testing.T, stderr string) {
		e := diagnose(stderr, nsengine.Kernel{})
		if e.Message == "" || strings.ContainsAny(e.Error(), "\x1b\n\r\x00") {
			t.Errorf("%q", e.Error())
		}
	})
}
