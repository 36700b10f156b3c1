package enginetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/sbxhost/sbxhost/shared"
)

// onShown tries something on the directory that is shown read-only; the control
// shows it writable.
func onShown(action string, args func(dir string) []string) (try, grant func(*scene, *trial)) {
	return func(s *scene, t *trial) {
			t.show(s.shown, shared.ReadOnly)
			t.do(action, args(s.shown)...)
		}, func(_ *scene, t *trial) {
			t.Spec.Table[len(t.Spec.Table)-1].Access = shared.ReadWrite
		}
}

// readOnly is a probe of the read-only mount.
func readOnly(id, title string, action string, args func(dir string) []string) probe {
	p := probe{id: id, title: title, control: controlGranted}
	p.trial, p.grant = onShown(action, args)
	return p
}

// unchanged says that a file of the scene holds what was planted.
func unchanged(name, want string) func(*scene, *outcome) error {
	return func(s *scene, _ *outcome) error {
		got, err := os.ReadFile(s.path(name))
		if err != nil {
			return err
		}
		if string(got) != want {
			return fmt.Errorf("%s was changed on the host: %q", name, got)
		}
		return nil
	}
}

// unprotected takes the entry away that a trial has shown last.
func unprotected(_ *scene, t *trial) { t.Spec.Table = t.Spec.Table[:len(t.Spec.Table)-1] }

// writeProbes are about what a command can change.
func writeProbes() []probe {
	file := func(dir string) []string { return []string{dir + "/file"} }
	inWS := func(action string, elements ...string) func(*scene, *trial) {
		return func(s *scene, t *trial) {
			t.do(action, append([]string{s.path("ws", elements[0])}, elements[1:]...)...)
		}
	}
	return []probe{
		{id: "write.01", title: "a file that no mount shows", trial: func(s *scene, t *trial) { t.do("append", s.path("outside/secret")) },
			control: controlGranted, grant: func(s *scene, t *trial) { t.show(s.outside, shared.ReadWrite) }},
		{id: "write.02", title: "the same through a symlink in the workspace", prepare: func(s *scene) error { return os.Symlink(s.outside, s.path("ws/link")) },
			trial:   func(s *scene, t *trial) { t.do("append", s.path("ws/link/secret")) },
			control: controlGranted, grant: func(s *scene, t *trial) { t.show(s.outside, shared.ReadWrite) }},
		readOnly("write.03", "an existing file of a read-only mount", "append", file),
		readOnly("write.04", "a new file in a read-only mount", "create", func(d string) []string { return []string{d + "/new"} }),
		readOnly("write.05", "removing from a read-only mount", "unlink", file),
		readOnly("write.06", "renaming in a read-only mount", "rename", func(d string) []string { return []string{d + "/file", d + "/moved"} }),
		readOnly("write.07", "linking in a read-only mount", "link", func(d string) []string { return []string{d + "/file", d + "/linked"} }),
		readOnly("write.08", "truncating in a read-only mount", "truncate", file),
		readOnly("write.09", "modes in a read-only mount", "chmod", func(d string) []string { return []string{d + "/file", "0600"} }),
		readOnly("write.10", "times in a read-only mount", "times", file),
		readOnly("write.11", "directories in a read-only mount", "mkdir", func(d string) []string { return []string{d + "/new"} }),
		func() probe {
			p := readOnly("write.12", "unnamed files in a read-only mount", "tmpfile", func(d string) []string { return []string{d} })
			p.only, p.maybe = onlyLinux, true
			return p
		}(),
		func() probe {
			p := readOnly("write.13", "extended attributes in a read-only mount", "setxattr", file)
			p.only, p.maybe = onlyLinux, true
			return p
		}(),
		func() probe {
			p := readOnly("write.14", "a read-only file by its descriptor in /proc", "reopen-path", file)
			p.only = onlyLinux
			return p
		}(),
		{id: "write.15", title: "remounting a read-only mount", only: onlyLinux, trial: func(s *scene, t *trial) {
			t.show(s.shown, shared.ReadOnly)
			t.do("remount", s.shown)
		}, control: controlPrivileged, maybe: true},
		{id: "write.16", title: "a read-only mount inside the writable workspace", trial: func(s *scene, t *trial) {
			t.show(s.path("ws/sub"), shared.ReadOnly)
			t.do("append", s.path("ws/sub/deep/file"))
		}, control: controlGranted, grant: func(_ *scene, t *trial) { t.Spec.Table[len(t.Spec.Table)-1].Access = shared.ReadWrite }},
		{id: "write.17", title: "renaming such a mount away", trial: func(s *scene, t *trial) {
			t.show(s.path("ws/sub/deep"), shared.ReadOnly)
			t.do("rename", s.path("ws/sub/deep"), s.path("ws/sub/moved"))
		}, control: controlGranted, grant: unprotected},
		{id: "write.18", title: "renaming an ancestor of such a mount away, to put another there", trial: func(s *scene, t *trial) {
			t.show(s.path("ws/sub/deep"), shared.ReadOnly)
			t.do("swap-parent", s.path("ws/sub"), s.path("ws/sub/deep/made"))
		}, control: controlGranted, grant: unprotected},
		{id: "write.74", title: "a protected directory whose parent an earlier command has renamed", trial: func(s *scene, t *trial) {
			t.showIfThere(s.path("ws/sub/deep"))
			t.first = [][]string{{"rename", s.path("ws/sub"), s.path("ws/away")}}
			t.do("append", s.path("ws/away/deep/file"))
		}, control: controlGranted, grant: unprotected},
		{id: "write.75", title: "a protected file whose directory an earlier command has renamed", trial: func(s *scene, t *trial) {
			t.showIfThere(s.path("ws/sub/deep/file"))
			t.first = [][]string{{"rename", s.path("ws/sub/deep"), s.path("ws/sub/away")}}
			t.do("append", s.path("ws/sub/away/file"))
		}, control: controlGranted, grant: unprotected},
		{id: "write.76", title: "another file renamed over a protected one", trial: func(s *scene, t *trial) {
			t.show(s.path("ws/sub/deep/file"), shared.ReadOnly)
			t.do("rename", s.path("ws/file"), s.path("ws/sub/deep/file"))
		}, control: controlGranted, grant: unprotected},
		{id: "write.19", title: "the workspace itself, when it is shown read-only", trial: func(s *scene, t *trial) {
			t.Spec.Table[0].Access = shared.ReadOnly
			t.do("create", s.path("ws/new"))
		}, control: controlGranted, grant: func(_ *scene, t *trial) { t.Spec.Table[0].Access = shared.ReadWrite }},
		{id: "write.20", title: "a writable mount inside a read-only one can be written", works: true, trial: func(s *scene, t *trial) {
			t.Spec.Table[0].Access = shared.ReadOnly
			t.show(s.path("ws/sub"), shared.ReadWrite)
			t.do("create", s.path("ws/sub/new"))
		}},
		{id: "write.21", title: "the workspace can be written", works: true, trial: inWS("create", "new"), after: func(s *scene, o *outcome) error {
			_, err := os.Stat(s.path("ws/new"))
			return err
		}},
		{id: "write.22", title: "programs and settings of the system", maybe: true,
			trial: doing("create-remove", "/usr/sbxhost-probe", "/etc/sbxhost-probe", "/bin/sbxhost-probe", "/sbxhost-probe", "/opt/sbxhost-probe")},
		{id: "write.23", title: "the same in the host's view", maybe: true, trial: func(_ *scene, t *trial) {
			t.Spec.Filesystem = shared.FilesystemHost
			t.do("create-remove", "/usr/sbxhost-probe-2", "/etc/sbxhost-probe-2", "/var/sbxhost-probe-2", "/sbxhost-probe-2", "/srv/sbxhost-probe-2")
		}},
		{id: "write.24", title: "memory without a cap: /, /dev and /run", only: onlyLinux, trial: doing("create-uncapped", "/new", "/dev/new", "/run/new", "/var/new"),
			control: controlGranted, grant: func(_ *scene, t *trial) { t.do("create-remove", "/tmp/new") }},
		{id: "write.25", title: "core_pattern", only: onlyLinux, trial: doing("rewrite", "/proc/sys/kernel/core_pattern"), control: controlOutside, maybe: true},
		{id: "write.26", title: "settings of the kernel", only: onlyLinux,
			trial:   doing("rewrite", "/proc/sys/kernel/hostname", "/proc/sys/kernel/modprobe", "/proc/sys/vm/overcommit_memory", "/proc/sys/fs/suid_dumpable"),
			control: controlOutside, maybe: true},
		{id: "write.27", title: "settings of the network", only: onlyLinux, trial: func(_ *scene, t *trial) {
			t.Spec.Network.Mode = shared.NetworkHost
			t.do("rewrite", "/proc/sys/net/ipv4/ip_forward", "/proc/sys/net/core/somaxconn")
		}, control: controlOutside, maybe: true},
		{id: "write.28", title: "sysrq and other triggers", only: onlyLinux, trial: doing("open-write", "/proc/sysrq-trigger", "/proc/irq/default_smp_affinity", "/proc/mtrr", "/proc/acpi/wakeup"),
			control: controlOutside, maybe: true},
		{id: "write.29", title: "control groups", only: onlyLinux, trial: doing("open-write-below", "/sys/fs/cgroup"), control: controlOutside, maybe: true},
		{id: "write.30", title: "the kernel's files in /sys", only: onlyLinux, trial: doing("open-write-below", "/sys/kernel"), control: controlOutside, maybe: true},
		{id: "write.31", title: "setuid bits by chmod", trial: inWS("chmod", "file", "4755")},
		{id: "write.32", title: "setgid bits by chmod", trial: inWS("chmod", "file", "2755")},
		{id: "write.33", title: "setuid bits at creation", trial: inWS("create-mode", "new", "4755")},
		{id: "write.34", title: "setuid bits by fchmod, fchmodat and fchmodat2", only: onlyLinux, trial: inWS("chmod-others", "file")},
		{id: "write.35", title: "setgid bits at creation", trial: inWS("create-mode", "new", "2755")},
		{id: "write.36", title: "character devices", only: onlyLinux, trial: inWS("mknod", "null", "char"), control: controlOutside, maybe: true},
		{id: "write.37", title: "block devices", only: onlyLinux, trial: inWS("mknod", "disk", "block"), control: controlOutside, maybe: true},
		{id: "write.38", title: "fifos can be made", works: true, trial: inWS("mkfifo", "pipe")},
		{id: "write.39", title: "files of other users", only: onlyLinux, trial: inWS("chown", "file"), control: controlOutside, maybe: true},
		{id: "write.40", title: "immutable files", only: onlyLinux, trial: inWS("immutable", "file"), control: controlOutside, maybe: true},
		{id: "write.41", title: "/tmp can be written and is private", works: true, trial: func(s *scene, t *trial) { t.do("write-then-read", "/tmp/mine-"+s.suite.random) },
			after: func(s *scene, o *outcome) error { return notOnHost("/tmp/mine-"+s.suite.random)(s, o) }},
		{id: "write.42", title: "the home can be written and is private", works: true, prepare: func(s *scene) error { return os.Mkdir(s.path("home"), 0o700) },
			trial: func(s *scene, t *trial) {
				t.Spec.Home = s.path("home")
				t.do("write-then-read", s.path("home/made"))
			}, after: func(s *scene, _ *outcome) error { return hostHas(s.path("home/made")) }},
		{id: "write.43", title: "a tmpfs mount can be written and is private", works: true, trial: func(s *scene, t *trial) {
			t.Spec.Table = append(t.Spec.Table, shared.Entry{Path: s.path("ws/sub"), Access: shared.Private, Why: "bind_paths[1]"})
			t.do("write-then-read", s.path("ws/sub/made"))
		}, after: func(s *scene, _ *outcome) error { return hostHas(s.path("ws/sub/made")) }},
		{id: "write.44", title: "an overlay can be written and leaves its source alone", works: true, trial: func(s *scene, t *trial) {
			t.Spec.Table[0].Access = shared.Overlay
			t.Spec.Session = shared.Session{ID: "enginetest-" + s.suite.random, Dir: s.path("session")}
			t.do("write-then-read", s.path("ws/made"))
		}, prepare: func(s *scene) error { return os.Mkdir(s.path("session"), 0o700) },
			after: func(s *scene, _ *outcome) error { return hostHas(s.path("ws/made")) }},
		{id: "write.45", title: "more than the cap of /tmp", features: []shared.Feature{shared.FeatureLimitTempSize}, trial: func(_ *scene, t *trial) {
			t.Spec.Limits.TempSize = 8 << 20
			t.do("fill", "/tmp", "16777216")
		}, control: controlGranted, grant: func(_ *scene, t *trial) { t.Spec.Limits.TempSize = 64 << 20 }},
		{id: "write.46", title: "more than the cap of /dev/shm", only: onlyLinux, features: []shared.Feature{shared.FeatureLimitTempSize}, trial: func(_ *scene, t *trial) {
			t.Spec.Limits.TempSize = 8 << 20
			t.do("fill", "/dev/shm", "16777216")
		}, control: controlGranted, grant: func(_ *scene, t *trial) { t.Spec.Limits.TempSize = 64 << 20 }},
		{id: "write.47", title: "a hard link from a read-only mount into the workspace", trial: func(s *scene, t *trial) {
			t.show(s.shown, shared.ReadOnly)
			t.do("link", s.path("shown/file"), s.path("ws/linked"))
		}, control: controlOutside},
	}
}

func hostHas(path string) error {
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("it is on the host: %s", path)
	}
	return nil
}

// notOnHost finds what was made on the host, and removes it.
func notOnHost(paths ...string) func(*scene, *outcome) error {
	return func(*scene, *outcome) error {
		var errs []error
		for _, path := range paths {
			if err := hostHas(path); err != nil {
				errs = append(errs, err)
				os.Remove(path)
			}
		}
		return errors.Join(errs...)
	}
}

// treeOf is a picture of all that lies below a directory.
func treeOf(dir string) (string, error) {
	var out []byte
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		out = fmt.Appendf(out, "%s %v", path, info.Mode())
		if info.Mode().IsRegular() {
			f, err := os.Open(path)
			if err != nil {
				return err
			}
			text, err := io.ReadAll(io.LimitReader(f, 4096))
			f.Close()
			if err != nil {
				return err
			}
			out = fmt.Appendf(out, " %q", text)
		}
		out = append(out, '\n')
		return nil
	})
	return string(out), err
}

// runTrials runs one trial after the other; the error is of the first that fails.
func (s *scene) runTrials(ctx context.Context, trials ...*trial) error {
	for _, t := range trials {
		o := s.attempt(ctx, t)
		if err := errors.Join(o.refused, o.broke); err != nil {
			return err
		}
		if o.verdict.Kind == verdictBroken {
			return errors.New(o.told())
		}
	}
	return nil
}
