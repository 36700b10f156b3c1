package probes

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/enginetest/internal/actor"
	"github.com/sbxhost/sbxhost/shared/enginetest/internal/scene"
)

// showing shows a path, with an access.
func showing(path string, kind shared.Access) change {
	return func(s *scene.Scene, t *scene.Trial) { t.Show(s.Fill(path)[0], kind) }
}

// linkTo plants a symlink below the scene's directory.
func linkTo(target, name string) preparation {
	return func(s *scene.Scene) { s.Must(os.Symlink(s.Fill(target)[0], s.Path(name))) }
}

// planting writes the canary into a file below the scene's directory.
func planting(name string) preparation {
	return func(s *scene.Scene) { s.Must(s.Write(name, s.Canary)) }
}

// plantIn puts the canary into a directory that only the host may see; its path is {planted}.
func plantIn(dir string) preparation {
	return func(s *scene.Scene) {
		s.Values["planted"] = filepath.Join(dir, "sbxhost-probe-"+s.Kit.Random)
		f, err := os.CreateTemp(dir, "sbxhost-probe-")
		s.Needs(err == nil, "%v", err)
		s.Cleanup(func() { os.Remove(f.Name()) })
		s.Values["planted"] = f.Name()
		defer f.Close()
		_, err = f.WriteString(s.Canary)
		s.Must(err)
	}
}

// planted is a probe of a file in such a directory.
func planted(id, title, only, dir string, trial change) Probe {
	return Probe{ID: id, Title: title, Only: only, prepare: plantIn(dir), trial: trial, act: "read-canary {canary} {planted}"}
}

// adding adds an entry.
func adding(e shared.Entry) change {
	return func(s *scene.Scene, t *scene.Trial) {
		paths := s.Fill(e.Source, e.Path)
		e := e
		e.Source, e.Path = paths[0], paths[1]
		t.Add(e)
	}
}

// elsewhere shows {shown} at another path.
func elsewhere(path string) change {
	return adding(shared.Entry{Source: "{shown}", Path: path, Access: shared.ReadOnly})
}

// tmpfs covers a directory of the workspace.
var tmpfs = adding(shared.Entry{Path: "{ws}/sub", Access: shared.Private})

// inHome has a private home, at {dir}/home.
func inHome(s *scene.Scene, t *scene.Trial) {
	t.Spec.Home = s.Path("home")
	t.Setenv("HOME", t.Spec.Home)
}

// inSession has a directory for a session, which must be there.
func inSession(s *scene.Scene, t *scene.Trial) {
	t.Spec.Session = shared.Session{ID: "enginetest-" + s.Kit.Random + s.Canary, Dir: s.Path("session")}
}

// inNoSession has each command keep nothing for the next.
func inNoSession(_ *scene.Scene, t *scene.Trial) { t.Spec.Session = shared.Session{} }

// inHostView makes the trial use the host's view.
func inHostView(_ *scene.Scene, t *scene.Trial) { t.Spec.Filesystem = shared.FilesystemHost }

// fuse is a device that machines have, and that a sandbox has only if its Spec lists it.
const fuse = "/dev/fuse"

// haveFuse needs the device. {mode} is the device's mode in the form of the action chmod.
func haveFuse(s *scene.Scene) {
	info, err := os.Stat(fuse)
	s.Needs(err == nil && info.Mode()&os.ModeCharDevice != 0, "the machine has no %s", fuse)
	s.Values["mode"] = fmt.Sprintf("%04o", info.Mode().Perm())
}

// openFuse needs a device that can be opened.
func openFuse(s *scene.Scene) {
	f, err := os.Open(fuse)
	s.Needs(err == nil, "%v", err)
	s.Must(f.Close())
	haveFuse(s)
}

// withFuse lists the device.
func withFuse(_ *scene.Scene, t *scene.Trial) { t.Spec.Devices = []string{fuse} }

// readProbes are about what of the host can be read.
func readProbes() []Probe {
	showOutside := showing("{outside}", shared.ReadOnly)
	const ofRun = "read /run/systemd /run/dbus /run/udev /run/mount /run/docker.sock /run/utmp"
	search := func(id, title, where string) Probe {
		return Probe{ID: id, Title: title, Only: OnlyLinux, prepare: scene.NeedVictim, act: "search {victim} /proc/[0-9]*/" + where}
	}
	const readOutside = "read-canary {canary} {outside}/secret"
	byDescriptors, upwards := "do openat 3 secret 0", "read-canary {canary}"
	for fd := 4; fd < 256; fd++ {
		byDescriptors += fmt.Sprintf(" or do openat %d secret 0", fd)
	}
	from := []string{"/", ".", "/proc/self/cwd", "/tmp", "/proc", "/dev"}
	for _, dir := range from {
		upwards += " " + dir + strings.Repeat("/..", 20) + "{outside}/secret"
	}
	for _, dir := range from { // with a root of its own that the directory lies outside of
		upwards += " or do openat -100 " + dir + " 0 then -do chroot /tmp then -do fchdir $result then read-canary {canary} " + strings.Repeat("../", 20) + ".{outside}/secret"
	}
	return []Probe{
		{ID: "read.01", Title: "a file that no mount shows", act: readOutside, grant: showOutside},
		{ID: "read.02", Title: "the same through ..", act: "read-canary {canary} {ws}/../outside/secret", grant: showOutside},
		{ID: "read.03", Title: "the same through a symlink in the workspace", prepare: linkTo("{outside}", "ws/link"),
			act: "read-canary {canary} {ws}/link/secret", grant: showOutside},
		{ID: "read.04", Title: "the neighbours of the workspace", act: "list {dir} {ws} {kit}", grant: showing("{dir}", shared.ReadOnly)},
		{ID: "read.05", Title: "a directory whose name begins with the workspace's", prepare: planting("ws-evil/secret"),
			act: "read-canary {canary} {ws}-evil/secret", grant: showing("{ws}-evil", shared.ReadOnly)},
		linux("read.06", "password hashes", "read /etc/shadow /etc/gshadow"),
		maybe("read.07", "the homes of the host", "list /home {dir} {kit}"),
		linux("read.08", "root's home", "list /root {dir} {kit}"),
		maybe("read.09", "the caller's own home", "list {home} {dir} {kit}"),
		linux("read.10", "/run", ofRun),
		planted("read.11", "/run of the host's view", OnlyLinux, "/run", inHostView),
		linux("read.83", "what services have in /run of the host's view", ofRun, inHostView),
		maybe("read.12", "logs and data of services", "read /var/log /var/lib/systemd /var/lib/dbus /var/lib/private /var/lib/postgresql /var/lib/docker"),
		planted("read.13", "the host's /tmp", "", "/tmp", nil),
		planted("read.14", "the host's /tmp in the host's view", "", "/tmp", inHostView),
		planted("read.38", "the host's /var/tmp", "", "/var/tmp", nil),
		planted("read.39", "the host's /dev/shm", OnlyLinux, "/dev/shm", nil),
		planted("read.15", "the host's /var/tmp in the host's view", "", "/var/tmp", inHostView),
		planted("read.16", "the host's /dev/shm in the host's view", OnlyLinux, "/dev/shm", inHostView),
		linux("read.17", "block devices", "block-devices"),
		linux("read.18", "memory and port devices", "open /dev/mem /dev/kmem /dev/port /dev/kmsg /dev/nvram /dev/fuse /dev/kvm /dev/net/tun"),
		linux("read.19", "devices, modules and control groups in /sys", "read /sys/class /sys/bus /sys/block /sys/module /sys/firmware /sys/fs/ext4 /sys/fs/cgroup /sys/devices/virtual"),
		linux("read.20", "the kernel's log by system call", "do syslog 3 x 200"),
		linux("read.21", "the kernel's log and memory by file", "read /proc/kmsg /dev/kmsg /proc/kcore"),
		search("read.22", "command lines of the host's processes", "cmdline"),
		search("read.23", "environments of the host's processes", "environ"),
		search("read.24", "the host's tree by /proc/PID/root", "root{victim-dir}/{victim}"),
		search("read.25", "the host's tree by /proc/PID/cwd", "cwd/{victim}"),
		search("read.26", "open files of the host's processes", "fd/*"),
		{ID: "read.27", Title: "files that are open in the engine's process", Only: OnlyLinux, prepare: inheritDirectory, act: byDescriptors},
		{ID: "read.29", Title: "files by their handle", Only: OnlyLinux, prepare: takeHandle, Maybe: true,
			act: "do openat -100 {ws} 0 then do open_by_handle_at $result {handle} 0 then read-canary {canary} /proc/self/fd/$result"},
		linux("read.30", "the host's identity files", "read /etc/machine-id /etc/sudoers /etc/ssh/sshd_config /etc/ssl/private /etc/fstab"),
		maybe("read.31", "other trees of the host", "read /boot /mnt /media /srv /var/spool /var/cache"),
		{ID: "read.32", Title: "what an earlier command left in /tmp, /var/tmp and /dev/shm", act: "read " + temporary,
			trial: first("create " + temporary), grant: does("create /tmp/mine-{unique} then read /tmp/mine-{unique}"), after: notOnHost(temporary)},
		{ID: "read.76", Title: "what an earlier command left in the home", Unmodelled: decidedByEngine, prepare: makeDir("home"), act: "read $home/left",
			trial: changes(inHome, inNoSession, first("create $home/left")), grant: does("create $home/left then read $home/left"), after: notOnHost("{dir}/home/left")},
		{ID: "read.79", Title: "what an earlier command left in a tmpfs mount", act: "read {ws}/sub/left",
			trial: changes(tmpfs, inNoSession, first("create {ws}/sub/left")), grant: unprotected},
		{ID: "read.81", Title: "files in a new home", Unmodelled: decidedByEngine, prepare: planting("home/secret"), act: "list $home", trial: inHome,
			grant: func(s *scene.Scene, t *scene.Trial) { t.Command.Env[len(t.Command.Env)-1] = "HOME=" + s.WS }},
		{ID: "read.72", Title: "the host's files can be read in the host's view", Works: true, prepare: func(s *scene.Scene) {
			s.Needs(!paths.InsideAny([]string{"/tmp", "/var/tmp", "/run"}, s.Dir), "the kit has no place but for temporary files")
		}, trial: inHostView, act: readOutside},
		{ID: "read.73", Title: "what is shown at another path can be read there", Works: true, trial: elsewhere("{ws}/sub"), act: "read {ws}/sub/sub/file"},
		{ID: "read.74", Title: "what an overlay shows can be read", Works: true, prepare: makeDir("session"), trial: overlaid, act: "read {ws}/file"},
		{ID: "read.75", Title: "what lies beneath a tmpfs mount", trial: adding(shared.Entry{Path: "{ws}/keys", Access: shared.Private}),
			act: "read-canary {canary} {ws}/keys/key", grant: unprotected},
		{ID: "read.33", Title: "the home directory that the private one takes the place of", prepare: planting("home/secret"),
			act: "read-canary {canary} {dir}/home/secret", trial: changes(inHostView, inHome), grant: showing("{dir}/home/secret", shared.ReadOnly)},
		{ID: "read.34", Title: "values of variables in command lines on the host", Only: OnlyLinux, custom: secretInArgv},
		{ID: "read.35", Title: "the init's environment, memory and files", Only: OnlyLinux, act: "reach /proc/1/environ /proc/1/mem /proc/1/exe $(/proc/1/fd/*)",
			grant: does("reach /proc/$child/environ /proc/$child/mem /proc/$child/exe $(/proc/$child/fd/*)")},
		{ID: "read.77", Title: "a device that is listed can be opened", Only: OnlyLinux, prepare: openFuse, Works: true, Refusal: true, trial: withFuse, act: "open " + fuse},
		{ID: "read.78", Title: "a device that is not", Only: OnlyLinux, Features: shared.Features{shared.FeatureMetadata}, prepare: haveFuse, act: "stat " + fuse},
		{ID: "read.37", Title: "whether a file that no mount shows is there", act: "stat {outside}/secret", grant: showOutside},
		{ID: "read.36", Title: "the host's root by .. from every directory, and by chroot", Only: OnlyLinux, act: upwards},
	}
}

// temporary are files in the directories for temporary ones.
const temporary = "/tmp/mine-{unique} /var/tmp/mine-{unique} /dev/shm/mine-{unique}"

// overlaid shows the workspace as an overlay.
var overlaid = changes(workspaceAs(shared.Overlay), inSession)

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
		found = actor.Search(s.Canary, "/proc/[0-9]*/cmdline")
		w.Close()
	}
	o := s.Attempt(t)
	s.Demand(o.Verdict.Kind == actor.Got, "%v %v %s", o.Refused, o.Broke, o.Output())
	s.Expect(found == "", scene.Leaked, "%s", found)
	// The control: the same search finds the victim's argument.
	scene.NeedVictim(s)
	found = actor.Search(s.Values["victim"], "/proc/[0-9]*/cmdline")
	s.Expect(found != "", scene.ControlFailed, "the search does not find an argument that is there")
}

// notOnHost finds the files that a command made on the host, and removes them.
func notOnHost(paths string) func(*scene.Scene) error {
	return func(s *scene.Scene) error {
		var errs []error
		for _, path := range s.Words(paths) {
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
func first(act string) change {
	return func(s *scene.Scene, t *scene.Trial) { t.First = append(t.First, s.Words(act)) }
}

// hidden is a probe of a hidden path, at which the action succeeds if it is not hidden.
func hidden(id, title, hide, act string, trial ...change) Probe {
	return Probe{ID: id, Title: title, hide: hide, act: act, trial: changes(trial...)}
}

// hiddenProbes are about paths that a command must neither read nor write.
func hiddenProbes() []Probe {
	const env, keys, deep, readEnv = "{ws}/.env", "{ws}/keys", "{ws}/dir/sub/secret", "read-canary {canary} {ws}/.env"
	// dir is hidden, and dir/sub shown in it.
	const dir, sub = "{ws}/dir", "{ws}/dir/sub"
	varLibCovered := changes(inHostView, adding(shared.Entry{Path: "/var/lib", Access: shared.Private, Why: "a home"}))
	return []Probe{
		hidden("read.40", "a hidden file", env, readEnv),
		hidden("read.41", "a file in a hidden directory", keys, "read-canary {canary} {ws}/keys/key"),
		hidden("read.42", "the names in a hidden directory", keys, "list {ws}/keys"),
		{ID: "read.43", Title: "a hidden file through a symlink", prepare: linkTo(".env", "ws/alias"), hide: env, act: "read-canary {canary} {ws}/alias"},
		{ID: "read.44", Title: "what a hidden symlink leads to", prepare: linkTo("keys/key", "ws/alias"), hide: "{ws}/alias", act: "read-canary {canary} {ws}/keys/key"},
		hidden("read.45", "a hidden file through ..", env, "read-canary {canary} {ws}/sub/../.env {ws}/./sub/deep/../../.env"),
		{ID: "read.46", Title: "a hidden file through /proc/self", Only: OnlyLinux, hide: env,
			act: "read-canary {canary} /proc/self/root{ws}/.env /proc/self/cwd/.env /proc/thread-self/cwd/.env"},
		hidden("read.47", "a hidden file by another name, renamed", env, "rename {ws}/.env {ws}/moved then read {ws}/moved"),
		hidden("read.48", "a hidden file by another name, linked", env, "link {ws}/.env {ws}/linked then read {ws}/linked"),
		hidden("read.49", "a hidden file after its directory was renamed", deep, "rename {ws}/dir/sub {ws}/dir/other then read {ws}/dir/other/secret"),
		hidden("read.50", "the same from the next command", deep, "read-canary {canary} {ws}/dir/other/secret", first("rename {ws}/dir/sub {ws}/dir/other")),
		hidden("read.51", "the same after an ancestor was renamed", deep, "read-canary {canary} {ws}/away/sub/secret", first("rename {ws}/dir {ws}/away")),
		hidden("read.52", "an ancestor of what is hidden renamed and put back otherwise", deep, "rename {ws}/dir {ws}/away then mkdir {ws}/dir then mkdir {ws}/dir/sub then create {ws}/dir/sub/secret"),
		{ID: "read.53", Title: "a hidden file after what hides it was unmounted", Only: OnlyLinux, hide: env,
			act: "-do umount2 {ws}/.env 2 then read-canary {canary} {ws}/.env"},
		{ID: "read.54", Title: "the same in a nested user namespace", Only: OnlyLinux, hide: env,
			act: "nested -do umount2 {ws}/.env 2 then read-canary {canary} {ws}/.env", Maybe: true},
		{ID: "read.55", Title: "beneath what is hidden by a bind that is not recursive", Only: OnlyLinux, hide: env,
			act: "nested do mount {ws} {ws}/sub 0 0x1000 0 then read-canary {canary} {ws}/sub/.env", Maybe: true},
		hidden("read.56", "a hidden directory whose mode is changed", keys, "-chmod {ws}/keys 0777 then read {ws}/keys/key"),
		{ID: "read.57", Title: "a hidden file in a read-only mount", prepare: planting("shown/.env"), show: "{shown}", hide: "{shown}/.env",
			act: "read-canary {canary} {shown}/.env"},
		{ID: "read.58", Title: "a file beside what is shown in a hidden directory", prepare: planting("ws/dir/beside"), show: sub, hide: dir,
			act: "read-canary {canary} {ws}/dir/beside"},
		{ID: "read.59", Title: "hidden paths with odd names", prepare: func(s *scene.Scene) {
			s.Values["odd"] = s.Path("ws/-a\n\"b'\\ \xff")
			s.Must(s.Write("ws/-a\n\"b'\\ \xff/x", s.Canary))
		}, hide: "{odd}", act: "read-canary {canary} {odd}/x", Refusal: true},
		{ID: "read.60", Title: "a hidden fifo", prepare: func(s *scene.Scene) { s.Must(syscall.Mkfifo(s.Path("ws/fifo"), 0o600)) },
			hide: "{ws}/fifo", act: "is-fifo {ws}/fifo"},
		{ID: "read.61", Title: "three hundred hidden files, one among them", prepare: func(s *scene.Scene) {
			for i := range 300 {
				s.Must(s.Write(fmt.Sprintf("ws/many/%04d", i), s.Canary))
			}
		}, trial: func(s *scene.Scene, t *scene.Trial) {
			for i := range 300 {
				t.Hide(s.Path(fmt.Sprintf("ws/many/%04d", i)))
			}
		}, act: "read-canary {canary} {ws}/many/0150", grant: unhidden},
		{ID: "read.62", Title: "beside what is hidden everything can be read", Works: true, hide: env, act: "read {ws}/file"},
		{ID: "read.63", Title: "what is shown in a hidden directory can be read", Works: true, show: sub, hide: dir, act: "read {ws}/dir/sub/secret"},
		{ID: "read.64", Title: "what is hidden in what is shown in a hidden directory", show: sub, hide: dir + " " + deep,
			act: "read-canary {canary} {ws}/dir/sub/secret"},
		hidden("read.67", "a hidden file, from a terminal", env, readEnv, onTerminal),
		hidden("read.68", "a hidden file, from a script", env, readEnv, func(_ *scene.Scene, t *scene.Trial) { t.Script = true }),
		hidden("read.69", "a hidden file, with the host's network", env, readEnv, onHostNetwork),
		hidden("read.70", "a hidden file, in the host's view", env, readEnv, inHostView),
		{ID: "read.71", Title: "a hidden file, in a session", prepare: makeDir("session"), hide: env, act: readEnv, trial: inSession},
		{ID: "read.65", Title: "the names in a directory of the host's view that memory covers", Only: OnlyLinux, trial: varLibCovered,
			act: "list /var/lib", grant: unprotected},
		{ID: "read.66", Title: "what is shown in a directory of the host's view that memory covers can be read", Only: OnlyLinux, Works: true,
			trial: changes(varLibCovered, elsewhere("/var/lib/sbxhost-probe/shown")), act: "read /var/lib/sbxhost-probe/shown/file"},
	}
}
