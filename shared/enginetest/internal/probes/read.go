package probes

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/enginetest/internal/actor"
	"github.com/sbxhost/sbxhost/shared/enginetest/internal/scene"
)

// showing shows a path, with an access.
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

// plantIn puts the canary into a directory that only the host may see; its path is {planted}.
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

// inHostView makes the trial use the host's view.
func inHostView(_ *scene.Scene, t *scene.Trial) { t.Spec.Filesystem = shared.FilesystemHost }

// fuse is a device that machines have, and that a sandbox has only if its Spec lists it.
const fuse = "/dev/fuse"

// haveFuse returns an error without the device. {mode} is the device's mode in the form of the
// action chmod.
func haveFuse(s *scene.Scene) error {
	info, err := os.Stat(fuse)
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return scene.AbsentError("the machine has no " + fuse)
	}
	s.Values["mode"] = fmt.Sprintf("%04o", info.Mode().Perm())
	return nil
}

// openFuse returns an error without the device, or if it cannot be opened.
func openFuse(s *scene.Scene) error {
	f, err := os.Open(fuse)
	if err != nil {
		return scene.AbsentError(err.Error())
	}
	return errors.Join(f.Close(), haveFuse(s))
}

// withFuse lists the device.
func withFuse(_ *scene.Scene, t *scene.Trial) { t.Spec.Devices = []string{fuse} }

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
		{ID: "read.10", Title: "/run", Only: OnlyLinux, act: words{"read", "/run/systemd", "/run/dbus", "/run/udev", "/run/mount", "/run/docker.sock", "/run/utmp"}, Maybe: true},
		{ID: "read.11", Title: "/run of the host's view", Only: OnlyLinux, prepare: plantIn("/run"), trial: inHostView, act: readPlanted},
		{ID: "read.12", Title: "logs and data of services", act: words{"read", "/var/log", "/var/lib/systemd", "/var/lib/dbus", "/var/lib/private", "/var/lib/postgresql", "/var/lib/docker"}, Maybe: true},
		{ID: "read.13", Title: "the host's /tmp", prepare: plantIn("/tmp"), act: readPlanted},
		{ID: "read.14", Title: "the host's /tmp in the host's view", prepare: plantIn("/tmp"), trial: inHostView, act: readPlanted},
		{ID: "read.38", Title: "the host's /var/tmp", prepare: plantIn("/var/tmp"), act: readPlanted},
		{ID: "read.39", Title: "the host's /dev/shm", Only: OnlyLinux, prepare: plantIn("/dev/shm"), act: readPlanted},
		{ID: "read.15", Title: "the host's /var/tmp in the host's view", prepare: plantIn("/var/tmp"), trial: inHostView, act: readPlanted},
		{ID: "read.16", Title: "the host's /dev/shm in the host's view", Only: OnlyLinux, prepare: plantIn("/dev/shm"), trial: inHostView, act: readPlanted},
		{ID: "read.17", Title: "block devices", Only: OnlyLinux, act: words{"block-devices"}, Maybe: true},
		{ID: "read.18", Title: "memory and port devices", Only: OnlyLinux, Maybe: true,
			act: words{"open", "/dev/mem", "/dev/kmem", "/dev/port", "/dev/kmsg", "/dev/nvram", "/dev/fuse", "/dev/kvm", "/dev/net/tun"}},
		{ID: "read.19", Title: "devices, modules and control groups in /sys", Only: OnlyLinux, act: words{"read", "/sys/class", "/sys/bus", "/sys/block", "/sys/module", "/sys/firmware", "/sys/fs/ext4", "/sys/fs/cgroup", "/sys/devices/virtual"}, Maybe: true},
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
		{ID: "read.32", Title: "what an earlier command left in /tmp, /var/tmp and /dev/shm", act: append(words{"read"}, temporary...), trial: leftEarlier, grant: writtenNow, after: notOnHost(temporary...)},
		{ID: "read.76", Title: "what an earlier command left in the home", Unmodelled: decidedByEngine, prepare: makeDir("home"), act: words{"read-home", "left"}, trial: func(s *scene.Scene, t *scene.Trial) {
			t.Spec.Home, t.Spec.Session = s.Path("home"), shared.Session{} // which would keep it
			t.Setenv("HOME", t.Spec.Home)
			t.First = [][]string{{"write-home", "left"}}
		}, grant: func(_ *scene.Scene, t *scene.Trial) {
			t.First = nil
			t.Do("write-home", "left")
		}, after: notOnHost("{dir}/home/left")},
		{ID: "read.79", Title: "what an earlier command left in a tmpfs mount", act: words{"read", "{ws}/sub/left"}, trial: func(s *scene.Scene, t *scene.Trial) {
			t.Spec.Session = shared.Session{}
			t.Add(shared.Entry{Path: s.Path("ws/sub"), Access: shared.Private})
			t.First = [][]string{{"create", s.Path("ws/sub/left")}}
		}, grant: unprotected},
		{ID: "read.83", Title: "what an earlier command of its session left in the home can be read", Unmodelled: decidedByEngine, Works: true, prepare: func(s *scene.Scene) error {
			return errors.Join(makeDir("home")(s), makeDir("session")(s))
		}, act: words{"read-home", "left"}, trial: func(s *scene.Scene, t *scene.Trial) {
			t.Spec.Home, t.Spec.Session = s.Path("home"), shared.Session{ID: "enginetest-home-" + s.Kit.Random, Dir: s.Path("session")}
			t.Setenv("HOME", t.Spec.Home)
			t.First = [][]string{{"write-home", "left"}}
		}},
		{ID: "read.81", Title: "files in a new home", Unmodelled: decidedByEngine, prepare: planting("home/secret"), act: words{"list-home"}, trial: func(s *scene.Scene, t *scene.Trial) {
			t.Spec.Home = s.Path("home")
			t.Setenv("HOME", t.Spec.Home)
		}, grant: func(s *scene.Scene, t *scene.Trial) {
			t.Command.Env[len(t.Command.Env)-1] = "HOME=" + s.WS
		}},
		{ID: "read.72", Title: "the host's files can be read in the host's view", Works: true, prepare: func(s *scene.Scene) error {
			if paths.InsideAny([]string{"/tmp", "/var/tmp", "/run"}, s.Dir) {
				return scene.AbsentError("the kit has no place but for temporary files")
			}
			return nil
		}, trial: inHostView, act: words{"read-canary", "{canary}", "{outside}/secret"}},
		{ID: "read.73", Title: "what is shown at another path can be read there", Works: true, trial: func(s *scene.Scene, t *scene.Trial) {
			t.Add(shared.Entry{Source: s.Shown, Path: s.Path("ws/sub"), Access: shared.ReadOnly})
		}, act: words{"read", "{ws}/sub/sub/file"}},
		{ID: "read.74", Title: "what an overlay shows can be read", Works: true, prepare: makeDir("session"), trial: overlaid, act: words{"read", "{ws}/file"}},
		{ID: "read.75", Title: "what lies beneath a tmpfs mount", trial: func(s *scene.Scene, t *scene.Trial) {
			t.Add(shared.Entry{Path: s.Path("ws/keys"), Access: shared.Private})
		}, act: words{"read-canary", "{canary}", "{ws}/keys/key"}, grant: unprotected},
		{ID: "read.33", Title: "the home directory that the private one takes the place of", prepare: planting("home/secret"),
			act: words{"read-canary", "{canary}", "{dir}/home/secret"}, trial: func(s *scene.Scene, t *scene.Trial) {
				inHostView(s, t)
				t.Spec.Home = s.Path("home")
			}, grant: showing("{dir}/home/secret", shared.ReadOnly)},
		{ID: "read.34", Title: "values of variables in command lines on the host", Only: OnlyLinux, custom: secretInArgv},
		{ID: "read.35", Title: "the init's environment, memory and files", Only: OnlyLinux, act: words{"peek", "1"},
			grant: func(_ *scene.Scene, t *scene.Trial) { t.Do("peek", "child") }},
		{ID: "read.77", Title: "a device that is listed can be opened", Only: OnlyLinux, prepare: openFuse, Works: true, Refusal: true, trial: withFuse, act: words{"open", fuse}},
		{ID: "read.78", Title: "a device that is not", Only: OnlyLinux, Features: []shared.Feature{shared.FeatureMetadata}, prepare: haveFuse, act: words{"stat", fuse}},
		{ID: "read.37", Title: "whether a file that no mount shows is there", act: words{"stat", "{outside}/secret"}, grant: showOutside},
		{ID: "read.36", Title: "the host's root by .. from every directory, and by chroot", Only: OnlyLinux, act: words{"chroot-escape", "{canary}", "{outside}/secret"}},
	}
}

// temporary are files in the directories for temporary ones.
var temporary = words{"/tmp/mine-{unique}", "/var/tmp/mine-{unique}", "/dev/shm/mine-{unique}"}

// leftEarlier makes an earlier command write the file that the trial's command reads.
func leftEarlier(_ *scene.Scene, t *scene.Trial) {
	t.First = [][]string{append([]string{"create"}, t.Act[1:]...)}
}

// writtenNow makes the same command write and read the file.
func writtenNow(_ *scene.Scene, t *scene.Trial) {
	t.First = nil
	t.Do("write-then-read", t.Act[1])
}

// overlaid shows the workspace as an overlay.
func overlaid(s *scene.Scene, t *scene.Trial) {
	workspaceAs(shared.Overlay)(s, t)
	t.Spec.Session = shared.Session{ID: "enginetest-" + s.Kit.Random + s.Canary, Dir: s.Path("session")}
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
		s.Failf("%v %v %s", o.Refused, o.Broke, o.Output())
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

// notOnHost finds the files that a command made on the host, and removes them.
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

// unhidden shows the hidden path.
func unhidden(_ *scene.Scene, t *scene.Trial) {
	t.Spec.Table = slices.DeleteFunc(t.Spec.Table, func(e shared.Entry) bool { return e.Access == shared.Hidden })
}

// unprotected removes the last entry that a trial has added.
func unprotected(_ *scene.Scene, t *scene.Trial) { t.Spec.Table = t.Spec.Table[:len(t.Spec.Table)-1] }

// first makes an earlier command do something.
func first(act ...string) func(*scene.Scene, *scene.Trial) {
	return func(s *scene.Scene, t *scene.Trial) { t.First = [][]string{s.Fill(act...)} }
}

// hiddenProbes are about paths that a command must neither read nor write.
func hiddenProbes() []Probe {
	read := func(paths ...string) words { return append(words{"read-canary", "{canary}"}, paths...) }
	env, keys, deep := words{"{ws}/.env"}, words{"{ws}/keys"}, words{"{ws}/dir/sub/secret"}
	// dir is hidden, and dir/sub shown in it.
	dir, sub := words{"{ws}/dir"}, words{"{ws}/dir/sub"}
	odd := "ws/-a\n\"b'\\ \xff"
	overVarLib := func(s *scene.Scene, t *scene.Trial) {
		inHostView(s, t)
		t.Add(shared.Entry{Path: "/var/lib", Access: shared.Private, Why: "a home"})
	}
	return []Probe{
		{ID: "read.40", Title: "a hidden file", hide: env, act: read("{ws}/.env"), grant: unhidden},
		{ID: "read.41", Title: "a file in a hidden directory", hide: keys, act: read("{ws}/keys/key"), grant: unhidden},
		{ID: "read.42", Title: "the names in a hidden directory", hide: keys, act: words{"list", "{ws}/keys"}, grant: unhidden},
		{ID: "read.43", Title: "a hidden file through a symlink", prepare: linkTo(".env", "ws/alias"), hide: env, act: read("{ws}/alias"), grant: unhidden},
		{ID: "read.44", Title: "what a hidden symlink leads to", prepare: linkTo("keys/key", "ws/alias"), hide: words{"{ws}/alias"}, act: read("{ws}/keys/key"), grant: unhidden},
		{ID: "read.45", Title: "a hidden file through ..", hide: env, act: read("{ws}/sub/../.env", "{ws}/./sub/deep/../../.env"), grant: unhidden},
		{ID: "read.46", Title: "a hidden file through /proc/self", Only: OnlyLinux, hide: env,
			act: read("/proc/self/root{ws}/.env", "/proc/self/cwd/.env", "/proc/thread-self/cwd/.env"), grant: unhidden},
		{ID: "read.47", Title: "a hidden file by another name, renamed", hide: env, act: words{"rename-read", "{ws}/.env", "{ws}/moved", "{ws}/moved"}, grant: unhidden},
		{ID: "read.48", Title: "a hidden file by another name, linked", hide: env, act: words{"link-read", "{ws}/.env", "{ws}/linked"}, grant: unhidden},
		{ID: "read.49", Title: "a hidden file after its directory was renamed", hide: deep,
			act: words{"rename-read", "{ws}/dir/sub", "{ws}/dir/other", "{ws}/dir/other/secret"}, grant: unhidden},
		{ID: "read.50", Title: "the same from the next command", hide: deep, trial: first("rename", "{ws}/dir/sub", "{ws}/dir/other"),
			act: read("{ws}/dir/other/secret"), grant: unhidden},
		{ID: "read.51", Title: "the same after an ancestor was renamed", hide: deep, trial: first("rename", "{ws}/dir", "{ws}/away"),
			act: read("{ws}/away/sub/secret"), grant: unhidden},
		{ID: "read.52", Title: "an ancestor of what is hidden renamed and put back otherwise", hide: deep,
			act: words{"swap-parent", "{ws}/dir", "{ws}/dir/sub/secret"}, grant: unhidden},
		{ID: "read.53", Title: "a hidden file after what hides it was unmounted", Only: OnlyLinux, hide: env,
			act: words{"unmount-read", "{ws}/.env", "{canary}"}, grant: unhidden},
		{ID: "read.54", Title: "the same in a nested user namespace", Only: OnlyLinux, hide: env,
			act: words{"nested-unmount-read", "{ws}/.env", "{canary}"}, Maybe: true},
		{ID: "read.55", Title: "beneath what is hidden by a bind that is not recursive", Only: OnlyLinux, hide: env,
			act: words{"nested-bind-read", "{ws}", ".env", "{canary}"}, Maybe: true},
		{ID: "read.56", Title: "a hidden directory whose mode is changed", hide: keys, act: words{"chmod-read", "{ws}/keys", "{ws}/keys/key"}, grant: unhidden},
		{ID: "read.57", Title: "a hidden file in a read-only mount", prepare: planting("shown/.env"), show: words{"{shown}"}, hide: words{"{shown}/.env"},
			act: read("{shown}/.env"), grant: unhidden},
		{ID: "read.58", Title: "a file beside what is shown in a hidden directory", prepare: planting("ws/dir/beside"), show: sub, hide: dir,
			act: read("{ws}/dir/beside"), grant: unhidden},
		{ID: "read.59", Title: "hidden paths with odd names", prepare: planting(odd + "/x"), hide: words{"{dir}/" + odd},
			act: read("{dir}/" + odd + "/x"), Refusal: true, grant: unhidden},
		{ID: "read.60", Title: "a hidden fifo", prepare: func(s *scene.Scene) error { return syscall.Mkfifo(s.Path("ws/fifo"), 0o600) },
			hide: words{"{ws}/fifo"}, act: words{"is-fifo", "{ws}/fifo"}, grant: unhidden},
		{ID: "read.61", Title: "three hundred hidden files, one among them", prepare: func(s *scene.Scene) error {
			for i := range 300 {
				if err := s.Write("ws/many/"+digits(i), s.Canary); err != nil {
					return err
				}
			}
			return nil
		}, trial: func(s *scene.Scene, t *scene.Trial) {
			for i := range 300 {
				t.Hide(s.Path("ws/many", digits(i)))
			}
		}, act: read("{ws}/many/" + digits(150)), grant: unhidden},
		{ID: "read.62", Title: "beside what is hidden everything can be read", Works: true, hide: env, act: words{"read", "{ws}/file"}},
		{ID: "read.63", Title: "what is shown in a hidden directory can be read", Works: true, show: sub, hide: dir, act: words{"read", "{ws}/dir/sub/secret"}},
		{ID: "read.64", Title: "what is hidden in what is shown in a hidden directory", show: sub, hide: append(dir, deep...),
			act: read("{ws}/dir/sub/secret"), grant: unhidden},
		{ID: "read.67", Title: "a hidden file, from a terminal", hide: env, act: read("{ws}/.env"), trial: func(_ *scene.Scene, t *scene.Trial) { t.TTY = true }, grant: unhidden},
		{ID: "read.68", Title: "a hidden file, from a script", hide: env, act: read("{ws}/.env"), trial: func(_ *scene.Scene, t *scene.Trial) { t.Script = true }, grant: unhidden},
		{ID: "read.69", Title: "a hidden file, with the host's network", hide: env, act: read("{ws}/.env"), trial: onHostNetwork, grant: unhidden},
		{ID: "read.70", Title: "a hidden file, in the host's view", hide: env, act: read("{ws}/.env"), trial: inHostView, grant: unhidden},
		{ID: "read.71", Title: "a hidden file, in a session", prepare: makeDir("session"), hide: env, act: read("{ws}/.env"), trial: func(s *scene.Scene, t *scene.Trial) {
			t.Spec.Session = shared.Session{ID: "enginetest-hidden-" + s.Kit.Random, Dir: s.Path("session")}
		}, grant: unhidden},
		{ID: "read.65", Title: "the names in a directory of the host's view that memory covers", Only: OnlyLinux, trial: overVarLib,
			act: words{"list", "/var/lib"}, grant: unprotected},
		{ID: "read.66", Title: "what is shown in a directory of the host's view that memory covers can be read", Only: OnlyLinux, Works: true, trial: func(s *scene.Scene, t *scene.Trial) {
			overVarLib(s, t)
			t.Add(shared.Entry{Path: "/var/lib/sbxhost-probe/shown", Source: s.Shown, Access: shared.ReadOnly})
		}, act: words{"read", "/var/lib/sbxhost-probe/shown/file"}},
	}
}
