package enginetest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/enginetest/actor"
)

// showing grants a path, as it is or writable.
func showing(path string, kind shared.Access) func(*scene, *trial) {
	return func(s *scene, t *trial) { t.show(s.fill(path)[0], kind) }
}

// linkTo plants a symlink below the scene's directory.
func linkTo(target, name string) func(*scene) error {
	return func(s *scene) error { return os.Symlink(s.fill(target)[0], s.path(name)) }
}

// planting writes the canary into a file below the scene's directory.
func planting(name string) func(*scene) error {
	return func(s *scene) error { return s.write(name, s.canary) }
}

// plantIn puts the canary into a directory that is the host's alone to see; its path
// is {planted}.
func plantIn(dir string) func(*scene) error {
	return func(s *scene) error {
		s.values["planted"] = filepath.Join(dir, "sbxhost-probe-"+s.suite.random)
		f, err := os.CreateTemp(dir, "sbxhost-probe-")
		if err != nil {
			return &absentError{err.Error()}
		}
		s.cleanup(func() { os.Remove(f.Name()) })
		s.values["planted"] = f.Name()
		defer f.Close()
		_, err = f.WriteString(s.canary)
		return err
	}
}

// inHostView tries it in the host's view.
func inHostView(_ *scene, t *trial) { t.Spec.Filesystem = shared.FilesystemHost }

// readProbes are about what of the host can be read.
func readProbes() []probe {
	showOutside := showing("{outside}", shared.ReadOnly)
	readPlanted := words{"read-canary", "{canary}", "{planted}"}
	listing := func(dir string) words { return words{"list", dir, "{dir}", "{kit}"} }
	return []probe{
		{id: "read.01", title: "a file that no mount shows", act: words{"read-canary", "{canary}", "{outside}/secret"}, grant: showOutside},
		{id: "read.02", title: "the same through ..", act: words{"read-canary", "{canary}", "{ws}/../outside/secret"}, grant: showOutside},
		{id: "read.03", title: "the same through a symlink in the workspace", prepare: linkTo("{outside}", "ws/link"),
			act: words{"read-canary", "{canary}", "{ws}/link/secret"}, grant: showOutside},
		{id: "read.04", title: "the neighbours of the workspace", act: words{"list", "{dir}", "{ws}", "{kit}"}, grant: showing("{dir}", shared.ReadOnly)},
		{id: "read.05", title: "a directory whose name begins with the workspace's", prepare: planting("ws-evil/secret"),
			act: words{"read-canary", "{canary}", "{ws}-evil/secret"}, grant: showing("{ws}-evil", shared.ReadOnly)},
		{id: "read.06", title: "password hashes", only: onlyLinux, act: words{"read", "/etc/shadow", "/etc/gshadow"}, maybe: true},
		{id: "read.07", title: "the homes of the host", act: listing("/home"), maybe: true},
		{id: "read.08", title: "root's home", only: onlyLinux, act: listing("/root"), maybe: true},
		{id: "read.09", title: "the caller's own home", act: listing("{home}"), maybe: true},
		{id: "read.10", title: "/run", only: onlyLinux, act: listing("/run"), maybe: true},
		{id: "read.11", title: "/run of the host's view", only: onlyLinux, prepare: plantIn("/run"), trial: inHostView, act: readPlanted},
		{id: "read.12", title: "/var/log and /var/lib", act: words{"read", "/var/log", "/var/lib"}, maybe: true},
		{id: "read.13", title: "the host's /tmp", prepare: plantIn("/tmp"), act: readPlanted},
		{id: "read.14", title: "the host's /tmp in the host's view", prepare: plantIn("/tmp"), trial: inHostView, act: readPlanted},
		{id: "read.15", title: "the host's /var/tmp", prepare: plantIn("/var/tmp"), trial: inHostView, act: readPlanted},
		{id: "read.16", title: "the host's /dev/shm", only: onlyLinux, prepare: plantIn("/dev/shm"), trial: inHostView, act: readPlanted},
		{id: "read.17", title: "block devices", only: onlyLinux, act: words{"block-devices"}, maybe: true},
		{id: "read.18", title: "memory and port devices", only: onlyLinux, maybe: true,
			act: words{"open", "/dev/mem", "/dev/kmem", "/dev/port", "/dev/kmsg", "/dev/nvram", "/dev/fuse", "/dev/kvm", "/dev/net/tun"}},
		{id: "read.19", title: "/sys", only: onlyLinux, act: words{"read", "/sys/kernel", "/sys/class", "/sys/devices", "/sys/module", "/sys/fs/ext4"}, maybe: true},
		{id: "read.20", title: "the kernel's log by system call", only: onlyLinux, act: words{"syslog"}, maybe: true},
		{id: "read.21", title: "the kernel's log and memory by file", only: onlyLinux, act: words{"read", "/proc/kmsg", "/dev/kmsg", "/proc/kcore"}, maybe: true},
		{id: "read.22", title: "command lines of the host's processes", only: onlyLinux, prepare: needVictim, act: words{"proc-search", "cmdline", "{victim}"}},
		{id: "read.23", title: "environments of the host's processes", only: onlyLinux, prepare: needVictim, act: words{"proc-search", "environ", "{victim}"}},
		{id: "read.24", title: "the host's tree by /proc/PID/root", only: onlyLinux, prepare: needVictim, act: words{"proc-search", "root", "{victim}"}},
		{id: "read.25", title: "the host's tree by /proc/PID/cwd", only: onlyLinux, prepare: needVictim, act: words{"proc-search", "cwd", "{victim}"}},
		{id: "read.26", title: "open files of the host's processes", only: onlyLinux, prepare: needVictim, act: words{"proc-search", "fd", "{victim}"}},
		{id: "read.27", title: "files that are open in the engine's process", only: onlyLinux, prepare: inheritDirectory, act: words{"inherited", "{canary}"}},
		{id: "read.29", title: "files by their handle", only: onlyLinux, prepare: takeHandle, act: words{"handle", "{ws}", "{handle}", "{canary}"}, maybe: true},
		{id: "read.30", title: "the host's identity files", only: onlyLinux,
			act: words{"read", "/etc/machine-id", "/etc/sudoers", "/etc/ssh/sshd_config", "/etc/ssl/private", "/etc/fstab"}, maybe: true},
		{id: "read.31", title: "other trees of the host", act: words{"read", "/boot", "/mnt", "/media", "/srv", "/var/spool", "/var/cache"}, maybe: true},
		{id: "read.32", title: "what an earlier command left in /tmp", act: words{"read", "/tmp/left-{unique}"}, trial: func(s *scene, t *trial) {
			t.first = [][]string{{"create", t.act[1]}}
		}, grant: func(s *scene, t *trial) {
			t.first = nil
			t.do("write-then-read", t.act[1])
		}, after: notOnHost("/tmp/left-{unique}")},
		{id: "read.33", title: "the home directory that the private one takes the place of", prepare: planting("home/secret"),
			act: words{"read-canary", "{canary}", "{dir}/home/secret"}, trial: func(s *scene, t *trial) {
				inHostView(s, t)
				t.Spec.Home = s.path("home")
			}, grant: showing("{dir}/home/secret", shared.ReadOnly)},
		{id: "read.34", title: "values of variables in command lines on the host", only: onlyLinux, custom: secretInArgv},
		{id: "read.35", title: "the init's environment, memory and files", only: onlyLinux, act: words{"peek", "1"},
			grant: func(_ *scene, t *trial) { t.do("peek", "child") }},
		{id: "read.37", title: "whether a file that no mount shows is there", act: words{"stat", "{outside}/secret"}, grant: showOutside},
		{id: "read.36", title: "the host's root by .. from every directory, and by chroot", only: onlyLinux, act: words{"chroot-escape", "{canary}", "{outside}/secret"}},
	}
}

// secretInArgv looks at all command lines of the host while a command runs that
// has a secret in its environment.
func secretInArgv(s *scene) {
	t := s.newTrial()
	t.setenv("TOKEN", s.canary)
	found := ""
	o := s.attemptWhile(t, func() {
		found = actor.Find("cmdline", s.canary)
	})
	if o.verdict.Kind != actor.Got {
		s.failf("%v %v %s", o.refused, o.broke, o.told())
	}
	if found != "" {
		s.end(Leaked, "%s", found)
	}
	// The control: the same search finds the victim's argument.
	s.must(needVictim(s))
	if actor.Find("cmdline", s.values["victim"]) == "" {
		s.end(ControlFailed, "the search does not find an argument that is there")
	}
}

func hostHas(path string) error {
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("it is on the host: %s", path)
	}
	return nil
}

// notOnHost finds what was made on the host, and removes it.
func notOnHost(paths ...string) func(*scene) error {
	return func(s *scene) error {
		var errs []error
		for _, path := range s.fill(paths...) {
			if err := hostHas(path); err != nil {
				errs = append(errs, err)
				os.Remove(path)
			}
		}
		return errors.Join(errs...)
	}
}
