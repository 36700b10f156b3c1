package enginetest

import (
	"fmt"
	"os"

	"github.com/sbxhost/sbxhost/shared"
)

// writable makes the entry that a trial has added last writable.
func writable(_ *scene, t *trial) { t.Spec.Table[len(t.Spec.Table)-1].Access = shared.ReadWrite }

// workspaceAs shows the workspace in another way.
func workspaceAs(kind shared.Access) func(*scene, *trial) {
	return func(_ *scene, t *trial) { t.Spec.Table[0].Access = kind }
}

// showIfThere shows a path read-only while something is there, so that a second
// command starts whatever the first has done.
func showIfThere(path string, then func(*scene, *trial)) func(*scene, *trial) {
	return func(s *scene, t *trial) {
		t.add(shared.Entry{Source: s.path(path), Path: s.path(path), Access: shared.ReadOnly, Missing: shared.MissingIgnore})
		then(s, t)
	}
}

// unchanged says that a file of the scene holds its canary.
func unchanged(name string) func(*scene) error {
	return func(s *scene) error {
		got, err := os.ReadFile(s.path(name))
		if err == nil && string(got) != s.canary {
			err = fmt.Errorf("%s was changed on the host: %q", name, got)
		}
		return err
	}
}

// makeDir plants an empty directory.
func makeDir(name string) func(*scene) error {
	return func(s *scene) error { return os.Mkdir(s.path(name), 0o700) }
}

// tempSize limits what private file systems hold.
func tempSize(bytes uint64) func(*scene, *trial) {
	return func(_ *scene, t *trial) { t.Spec.Limits.TempSize = bytes }
}

// writeProbes are about what a command can change.
func writeProbes() []probe {
	readOnly := func(id, title string, act ...string) probe {
		return probe{id: id, title: title, show: words{"{shown}"}, act: act, grant: writable}
	}
	// onLinux is of what only Linux has, or not every file system there.
	onLinux := func(p probe, maybe bool) probe {
		p.only, p.maybe = onlyLinux, maybe
		return p
	}
	capped := []shared.Feature{shared.FeatureLimitTempSize}
	return []probe{
		{id: "write.01", title: "a file that no mount shows", act: words{"append", "{outside}/secret"}, grant: showing("{outside}", shared.ReadWrite)},
		{id: "write.02", title: "the same through a symlink in the workspace", prepare: linkTo("{outside}", "ws/link"),
			act: words{"append", "{ws}/link/secret"}, grant: showing("{outside}", shared.ReadWrite)},
		readOnly("write.03", "an existing file of a read-only mount", "append", "{shown}/file"),
		readOnly("write.04", "a new file in a read-only mount", "create", "{shown}/new"),
		readOnly("write.05", "removing from a read-only mount", "unlink", "{shown}/file"),
		readOnly("write.06", "renaming in a read-only mount", "rename", "{shown}/file", "{shown}/moved"),
		readOnly("write.07", "linking in a read-only mount", "link", "{shown}/file", "{shown}/linked"),
		readOnly("write.08", "truncating in a read-only mount", "truncate", "{shown}/file"),
		readOnly("write.09", "modes in a read-only mount", "chmod", "{shown}/file", "0600"),
		readOnly("write.10", "times in a read-only mount", "times", "{shown}/file"),
		readOnly("write.11", "directories in a read-only mount", "mkdir", "{shown}/new"),
		onLinux(readOnly("write.12", "unnamed files in a read-only mount", "tmpfile", "{shown}"), true),
		onLinux(readOnly("write.13", "extended attributes in a read-only mount", "setxattr", "{shown}/file"), true),
		onLinux(readOnly("write.14", "a read-only file by its descriptor in /proc", "reopen-path", "{shown}/file"), false),
		{id: "write.15", title: "remounting a read-only mount", only: onlyLinux, show: words{"{shown}"}, act: words{"remount", "{shown}"}, control: controlPrivileged, maybe: true},
		{id: "write.16", title: "a read-only mount inside the writable workspace", show: words{"{ws}/sub"}, act: words{"append", "{ws}/sub/deep/file"}, grant: writable},
		{id: "write.17", title: "renaming such a mount away", show: words{"{ws}/sub/deep"}, act: words{"rename", "{ws}/sub/deep", "{ws}/sub/moved"}, grant: unprotected},
		{id: "write.18", title: "renaming an ancestor of such a mount away, to put another there", show: words{"{ws}/sub/deep"},
			act: words{"swap-parent", "{ws}/sub", "{ws}/sub/deep/made"}, grant: unprotected},
		{id: "write.74", title: "a protected directory whose parent an earlier command has renamed",
			trial: showIfThere("ws/sub/deep", first("rename", "{ws}/sub", "{ws}/away")), act: words{"append", "{ws}/away/deep/file"}, grant: unprotected},
		{id: "write.75", title: "a protected file whose directory an earlier command has renamed",
			trial: showIfThere("ws/sub/deep/file", first("rename", "{ws}/sub/deep", "{ws}/sub/away")), act: words{"append", "{ws}/sub/away/file"}, grant: unprotected},
		{id: "write.76", title: "another file renamed over a protected one", show: words{"{ws}/sub/deep/file"},
			act: words{"rename", "{ws}/file", "{ws}/sub/deep/file"}, grant: unprotected},
		{id: "write.77", title: "a single file that is protected", show: words{"{ws}/sub/deep/file"}, act: words{"append", "{ws}/sub/deep/file"}, grant: writable},
		{id: "write.19", title: "the workspace itself, when it is shown read-only", trial: workspaceAs(shared.ReadOnly),
			act: words{"create", "{ws}/new"}, grant: workspaceAs(shared.ReadWrite)},
		{id: "write.20", title: "a writable mount inside a read-only one can be written", works: true, trial: func(s *scene, t *trial) {
			workspaceAs(shared.ReadOnly)(s, t)
			t.show(s.path("ws/sub"), shared.ReadWrite)
		}, act: words{"create", "{ws}/sub/new"}},
		{id: "write.21", title: "the workspace can be written", works: true, act: words{"create", "{ws}/new"}, after: func(s *scene) error {
			_, err := os.Stat(s.path("ws/new"))
			return err
		}},
		{id: "write.22", title: "programs and settings of the system", maybe: true,
			act: words{"create-remove", "/usr/sbxhost-probe", "/etc/sbxhost-probe", "/bin/sbxhost-probe", "/sbxhost-probe", "/opt/sbxhost-probe"}},
		{id: "write.23", title: "the same in the host's view", maybe: true, trial: inHostView,
			act: words{"create-remove", "/usr/sbxhost-probe-2", "/etc/sbxhost-probe-2", "/var/sbxhost-probe-2", "/sbxhost-probe-2", "/srv/sbxhost-probe-2"}},
		{id: "write.24", title: "memory without a cap: /, /dev and /run", only: onlyLinux, act: words{"create-uncapped", "/new", "/dev/new", "/run/new", "/var/new"},
			grant: func(s *scene, t *trial) { t.do("create-remove", s.path("ws/new")) }},
		{id: "write.25", title: "core_pattern", only: onlyLinux, act: words{"rewrite", "/proc/sys/kernel/core_pattern"}, maybe: true},
		{id: "write.26", title: "settings of the kernel", only: onlyLinux,
			act: words{"rewrite", "/proc/sys/kernel/hostname", "/proc/sys/kernel/modprobe", "/proc/sys/vm/overcommit_memory", "/proc/sys/fs/suid_dumpable"}, maybe: true},
		{id: "write.27", title: "settings of the network", only: onlyLinux, trial: onHostNetwork,
			act: words{"rewrite", "/proc/sys/net/ipv4/ip_forward", "/proc/sys/net/core/somaxconn"}, maybe: true},
		{id: "write.28", title: "sysrq and other triggers", only: onlyLinux,
			act: words{"open-write", "/proc/sysrq-trigger", "/proc/irq/default_smp_affinity", "/proc/mtrr", "/proc/acpi/wakeup"}, maybe: true},
		{id: "write.29", title: "control groups", only: onlyLinux, act: words{"open-write-below", "/sys/fs/cgroup"}, maybe: true},
		{id: "write.30", title: "the kernel's files in /sys", only: onlyLinux, act: words{"open-write-below", "/sys/kernel"}, maybe: true},
		{id: "write.31", title: "setuid bits by chmod", act: words{"chmod", "{ws}/file", "4755"}},
		{id: "write.32", title: "setgid bits by chmod", act: words{"chmod", "{ws}/file", "2755"}},
		{id: "write.33", title: "setuid bits at creation", act: words{"create-mode", "{ws}/new", "4755"}},
		{id: "write.34", title: "setuid bits by fchmod, fchmodat and fchmodat2", only: onlyLinux, act: words{"chmod-others", "{ws}/file"}},
		{id: "write.35", title: "setgid bits at creation", act: words{"create-mode", "{ws}/new", "2755"}},
		{id: "write.36", title: "character devices", only: onlyLinux, act: words{"mknod", "{ws}/null", "char"}, maybe: true},
		{id: "write.37", title: "block devices", only: onlyLinux, act: words{"mknod", "{ws}/disk", "block"}, maybe: true},
		{id: "write.38", title: "fifos can be made", works: true, act: words{"mkfifo", "{ws}/pipe"}},
		{id: "write.39", title: "files of other users", only: onlyLinux, act: words{"chown", "{ws}/file"}, maybe: true},
		{id: "write.40", title: "immutable files", only: onlyLinux, act: words{"immutable", "{ws}/file"}, maybe: true},
		{id: "write.41", title: "/tmp can be written and is private", works: true, act: words{"write-then-read", "/tmp/mine-{unique}"}, after: notOnHost("/tmp/mine-{unique}")},
		{id: "write.42", title: "the home can be written and is private", works: true, unmodelled: decidedByEngine, prepare: makeDir("home"),
			trial: func(s *scene, t *trial) {
				t.Spec.Home = s.path("home")
				t.setenv("HOME", t.Spec.Home)
			}, act: words{"write-home", "made"}, after: notOnHost("{dir}/home/made")},
		{id: "write.43", title: "a tmpfs mount can be written and is private", works: true,
			trial: func(s *scene, t *trial) { t.add(shared.Entry{Path: s.path("ws/sub"), Access: shared.Private}) },
			act:   words{"write-then-read", "{ws}/sub/made"}, after: notOnHost("{ws}/sub/made")},
		{id: "write.44", title: "an overlay can be written and leaves its source alone", works: true, prepare: makeDir("session"), trial: func(s *scene, t *trial) {
			workspaceAs(shared.Overlay)(s, t)
			t.Spec.Session = shared.Session{ID: "enginetest-" + s.suite.random, Dir: s.path("session")}
		}, act: words{"write-then-read", "{ws}/made"}, after: notOnHost("{ws}/made")},
		{id: "write.45", title: "more than the cap of /tmp", features: capped, trial: tempSize(8 << 20), act: words{"fill", "/tmp", "16777216"}, grant: tempSize(64 << 20)},
		{id: "write.46", title: "more than the cap of /dev/shm", only: onlyLinux, features: capped, trial: tempSize(8 << 20),
			act: words{"fill", "/dev/shm", "16777216"}, grant: tempSize(64 << 20)},
		{id: "write.47", title: "a hard link from a read-only mount into the workspace", show: words{"{shown}"}, act: words{"link", "{shown}/file", "{ws}/linked"}},
	}
}
