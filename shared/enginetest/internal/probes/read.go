package probes

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/enginetest/internal/actor"
	"github.com/sbxhost/sbxhost/shared/enginetest/internal/scene"
)

// showing grants a path, as it is or writable.
func showing(path string, kind shared.Access) func(*scene.Scene, *scene.Trial) {
	return func(s *scene.Scene, t *scene.Trial) { t.Show(s.Fill(path)[0], kind) }
}

// linkTo plants a symlink below the scene's directory.
func linkTo(target, name string) func(*scene.Scene) error {
	return func(s *scene.Scene) error { return os.Symlink(s.Fill(target)[0], s.Path(name)) }
}

// planting writes the canary into a file below the scene's directory.
func planting(name string) func(*scene.Scene) error {
	return func(s *scene.Scene) error { return s.Write(name, s.Canary) }
}

// plantIn puts the canary into a directory that is the host's alone to see; its path
// is {planted}.
func plantIn(dir string) func(*scene.Scene) error {
	return func(s *scene.Scene) error {
		s.Values["planted"] = filepath.Join(dir, "sbxhost-probe-"+s.Kit.Random)
		f, err := os.CreateTemp(dir, "sbxhost-probe-")
		if err != nil {
			return scene.AbsentError(err.Error())
		}
		s.Cleanup(func() { os.Remove(f.Name()) })
		s.Values["planted"] = f.Name()
		defer f.Close()
		_, err = f.WriteString(s.Canary)
		return err
	}
}

// inHostView tries it in the host's view.
func inHostView(_ *scene.Scene, t *scene.Trial) { t.Spec.Filesystem = shared.FilesystemHost }

// readProbes are about what of the host can be read.
func readProbes() []Probe {
	showOutside := showing("{outside}", shared.ReadOnly)
	readPlanted := words{"read-canary", "{canary}", "{planted}"}
	listing := func(dir string) words { return words{"list", dir, "{dir}", "{kit}"} }
	return []Probe{
		{ID: "read.01", Title: "a file that no mount shows", act: words{"read-canary", "{canary}", "{outside}/secret"}, grant: showOutside},
		{ID: "read.02", Title: "the same through ..", act: words{"read-canary", "{canary}", "{ws}/../outside/secret"}, grant: showOutside},
		{ID: "read.03", Title: "the same through a symlink in the workspace", prepare: linkTo("{outside}", "ws/link"),
			act: words{"read-canary", "{canary}", "{ws}/link/secret"}, grant: showOutside},
		{ID: "read.04", Title: "the neighbours of the workspace", act: words{"list", "{dir}", "{ws}", "{kit}"}, grant: showing("{dir}", shared.ReadOnly)},
		{ID: "read.05", Title: "a directory whose name begins with the workspace's", prepare: planting("ws-evil/secret"),
			act: words{"read-canary", "{canary}", "{ws}-evil/secret"}, grant: showing("{ws}-evil", shared.ReadOnly)},
		{ID: "read.06", Title: "password hashes", Only: OnlyLinux, act: words{"read", "/etc/shadow", "/etc/gshadow"}, Maybe: true},
		{ID: "read.07", Title: "the homes of the host", act: listing("/home"), Maybe: true},
		{ID: "read.08", Title: "root's home", Only: OnlyLinux, act: listing("/root"), Maybe: true},
		{ID: "read.09", Title: "the caller's own home", act: listing("{home}"), Maybe: true},
		{ID: "read.10", Title: "/run", Only: OnlyLinux, act: listing("/run"), Maybe: true},
		{ID: "read.11", Title: "/run of the host's view", Only: OnlyLinux, prepare: plantIn("/run"), trial: inHostView, act: readPlanted},
		{ID: "read.12", Title: "/var/log and /var/lib", act: words{"read", "/var/log", "/var/lib"}, Maybe: true},
		{ID: "read.13", Title: "the host's /tmp", prepare: plantIn("/tmp"), act: readPlanted},
		{ID: "read.14", Title: "the host's /tmp in the host's view", prepare: plantIn("/tmp"), trial: inHostView, act: readPlanted},
		{ID: "read.15", Title: "the host's /var/tmp", prepare: plantIn("/var/tmp"), trial: inHostView, act: readPlanted},
		{ID: "read.16", Title: "the host's /dev/shm", Only: OnlyLinux, prepare: plantIn("/dev/shm"), trial: inHostView, act: readPlanted},
		{ID: "read.17", Title: "block devices", Only: OnlyLinux, act: words{"block-devices"}, Maybe: true},
		{ID: "read.18", Title: "memory and port devices", Only: OnlyLinux, Maybe: true,
			act: words{"open", "/dev/mem", "/dev/kmem", "/dev/port", "/dev/kmsg", "/dev/nvram", "/dev/fuse", "/dev/kvm", "/dev/net/tun"}},
		{ID: "read.19", Title: "/sys", Only: OnlyLinux, act: words{"read", "/sys/kernel", "/sys/class", "/sys/devices", "/sys/module", "/sys/fs/ext4"}, Maybe: true},
		{ID: "read.20", Title: "the kernel's log by system call", Only: OnlyLinux, act: words{"syslog"}, Maybe: true},
		{ID: "read.21", Title: "the kernel's log and memory by file", Only: OnlyLinux, act: words{"read", "/proc/kmsg", "/dev/kmsg", "/proc/kcore"}, Maybe: true},
		{ID: "read.22", Title: "command lines of the host's processes", Only: OnlyLinux, prepare: scene.NeedVictim, act: words{"proc-search", "cmdline", "{victim}"}},
		{ID: "read.23", Title: "environments of the host's processes", Only: OnlyLinux, prepare: scene.NeedVictim, act: words{"proc-search", "environ", "{victim}"}},
		{ID: "read.24", Title: "the host's tree by /proc/PID/root", Only: OnlyLinux, prepare: scene.NeedVictim, act: words{"proc-search", "root", "{victim}"}},
		{ID: "read.25", Title: "the host's tree by /proc/PID/cwd", Only: OnlyLinux, prepare: scene.NeedVictim, act: words{"proc-search", "cwd", "{victim}"}},
		{ID: "read.26", Title: "open files of the host's processes", Only: OnlyLinux, prepare: scene.NeedVictim, act: words{"proc-search", "fd", "{victim}"}},
		{ID: "read.27", Title: "files that are open in the engine's process", Only: OnlyLinux, prepare: inheritDirectory, act: words{"inherited", "{canary}"}},
		{ID: "read.29", Title: "files by their handle", Only: OnlyLinux, prepare: takeHandle, act: words{"handle", "{ws}", "{handle}", "{canary}"}, Maybe: true},
		{ID: "read.30", Title: "the host's identity files", Only: OnlyLinux,
			act: words{"read", "/etc/machine-id", "/etc/sudoers", "/etc/ssh/sshd_config", "/etc/ssl/private", "/etc/fstab"}, Maybe: true},
		{ID: "read.31", Title: "other trees of the host", act: words{"read", "/boot", "/mnt", "/media", "/srv", "/var/spool", "/var/cache"}, Maybe: true},
		{ID: "read.32", Title: "what an earlier command left in /tmp", act: words{"read", "/tmp/left-{unique}"}, trial: func(s *scene.Scene, t *scene.Trial) {
			t.First = [][]string{{"create", t.Act[1]}}
		}, grant: func(s *scene.Scene, t *scene.Trial) {
			t.First = nil
			t.Do("write-then-read", t.Act[1])
		}, after: notOnHost("/tmp/left-{unique}")},
		{ID: "read.33", Title: "the home directory that the private one takes the place of", prepare: planting("home/secret"),
			act: words{"read-canary", "{canary}", "{dir}/home/secret"}, trial: func(s *scene.Scene, t *scene.Trial) {
				inHostView(s, t)
				t.Spec.Home = s.Path("home")
			}, grant: showing("{dir}/home/secret", shared.ReadOnly)},
		{ID: "read.34", Title: "values of variables in command lines on the host", Only: OnlyLinux, custom: secretInArgv},
		{ID: "read.35", Title: "the init's environment, memory and files", Only: OnlyLinux, act: words{"peek", "1"},
			grant: func(_ *scene.Scene, t *scene.Trial) { t.Do("peek", "child") }},
		{ID: "read.37", Title: "whether a file that no mount shows is there", act: words{"stat", "{outside}/secret"}, grant: showOutside},
		{ID: "read.36", Title: "the host's root by .. from every directory, and by chroot", Only: OnlyLinux, act: words{"chroot-escape", "{canary}", "{outside}/secret"}},
	}
}

// secretInArgv looks at all command lines of the host while a command runs that
// has a secret in its environment.
func secretInArgv(s *scene.Scene) {
	t := s.NewTrial()
	t.Setenv("TOKEN", s.Canary)
	found := ""
	r, w := s.Pipe()
	t.Stdin = r
	t.Do("hold")
	t.During = func(shared.Process) {
		found = actor.Find("cmdline", s.Canary)
		w.Close()
	}
	o := s.Attempt(t)
	if o.Verdict.Kind != actor.Got {
		s.Failf("%v %v %s", o.Refused, o.Broke, o.Told())
	}
	if found != "" {
		s.End(scene.Leaked, "%s", found)
	}
	// The control: the same search finds the victim's argument.
	s.Must(scene.NeedVictim(s))
	if actor.Find("cmdline", s.Values["victim"]) == "" {
		s.End(scene.ControlFailed, "the search does not find an argument that is there")
	}
}

// notOnHost finds what was made on the host, and removes it.
func notOnHost(paths ...string) func(*scene.Scene) error {
	return func(s *scene.Scene) error {
		var errs []error
		for _, path := range s.Fill(paths...) {
			if err := scene.HostHas(path); err != nil {
				errs = append(errs, err)
				os.Remove(path)
			}
		}
		return errors.Join(errs...)
	}
}
