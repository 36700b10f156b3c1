package probes

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/enginetest/internal/actor"
	"github.com/sbxhost/sbxhost/shared/enginetest/internal/scene"
)

// writable makes the entry that a trial has added last writable.
func writable(_ *scene.Scene, t *scene.Trial) {
	t.Spec.Table[len(t.Spec.Table)-1].Access = shared.ReadWrite
}

// workspaceAs shows the workspace in another way.
func workspaceAs(kind shared.Access) change {
	return func(_ *scene.Scene, t *scene.Trial) { t.Spec.Table[0].Access = kind }
}

// showIfThere shows a path read-only while something is there, so that a second
// command starts whatever the first has done.
func showIfThere(path string) change {
	return adding(shared.Entry{Source: path, Path: path, Access: shared.ReadOnly, Missing: shared.MissingIgnore})
}

// makeDir plants an empty directory.
func makeDir(name string) preparation {
	return func(s *scene.Scene) { s.Must(os.Mkdir(s.Path(name), 0o700)) }
}

// writeProbes are about what a command can change.
func writeProbes() []Probe {
	readOnly := func(id, title, act string) Probe {
		return Probe{ID: id, Title: title, show: "{shown}", act: act, grant: writable}
	}
	capOf := func(id, place string, trial change) Probe {
		return Probe{ID: id, Title: "more than the cap of " + place, Features: shared.Features{shared.FeatureLimitTempSize},
			act: "fill " + place + " 16777216", trial: changes(limiting(shared.Limits{TempSize: 8 << 20}), trial), grant: limiting(shared.Limits{TempSize: 64 << 20})}
	}
	outside := showing("{outside}", shared.ReadWrite)
	ofSharedMemory := capOf("write.46", "/dev/shm", nil)
	ofSharedMemory.Only = OnlyLinux
	ofHome := capOf("write.85", "{dir}/home", inHome)
	ofHome.prepare = makeDir("home")
	return []Probe{
		{ID: "write.01", Title: "a file that no mount shows", act: "append {outside}/secret", grant: outside},
		{ID: "write.02", Title: "the same through a symlink in the workspace", prepare: linkTo("{outside}", "ws/link"),
			act: "append {ws}/link/secret", grant: outside},
		readOnly("write.03", "an existing file of a read-only mount", "append {shown}/file"),
		readOnly("write.04", "a new file in a read-only mount", "create {shown}/new"),
		readOnly("write.05", "removing from a read-only mount", "unlink {shown}/file"),
		readOnly("write.06", "renaming in a read-only mount", "rename {shown}/file {shown}/moved"),
		readOnly("write.07", "linking in a read-only mount", "link {shown}/file {shown}/linked"),
		readOnly("write.08", "truncating in a read-only mount", "truncate {shown}/file"),
		readOnly("write.09", "modes in a read-only mount", "chmod {shown}/file 0600"),
		readOnly("write.10", "times in a read-only mount", "times {shown}/file"),
		readOnly("write.11", "directories in a read-only mount", "mkdir {shown}/new"),
		{ID: "write.12", Title: "unnamed files in a read-only mount", Only: OnlyLinux, Maybe: true, show: "{shown}", act: "tmpfile {shown}", grant: writable},
		{ID: "write.13", Title: "extended attributes in a read-only mount", Only: OnlyLinux, Maybe: true, show: "{shown}",
			act: "do setxattr {shown}/file user.sbxhost x 1 0", grant: writable},
		{ID: "write.14", Title: "a read-only file by its descriptor in /proc", Only: OnlyLinux, show: "{shown}",
			act: "do openat -100 {shown}/file 0 then append /proc/self/fd/$result", grant: writable},
		{ID: "write.15", Title: "remounting a read-only mount", Only: OnlyLinux, show: "{shown}", Privileged: true, Maybe: true,
			// Outside it is no mount: it is made one first.
			act: "-do mount {shown} {shown} 0 0x1000 0 then do mount 0 {shown} 0 0x1020 0 then create {shown}/remounted then -do umount2 {shown} 2"},
		{ID: "write.16", Title: "a read-only mount inside the writable workspace", show: "{ws}/sub", act: "append {ws}/sub/deep/file", grant: writable},
		{ID: "write.81", Title: "a read-only file in a writable mount in a read-only one in the workspace", show: "{ws}/sub",
			trial: changes(showing("{ws}/sub/deep", shared.ReadWrite), showing("{ws}/sub/deep/file", shared.ReadOnly)), act: "append {ws}/sub/deep/file", grant: writable},
		{ID: "write.80", Title: "what is shown read-only at another path", trial: elsewhere("{ws}/sub"), act: "append {ws}/sub/file", grant: writable},
		{ID: "write.17", Title: "renaming such a mount away", show: "{ws}/sub/deep", act: "rename {ws}/sub/deep {ws}/sub/moved", grant: unprotected},
		{ID: "write.18", Title: "renaming an ancestor of such a mount away, to put another there", show: "{ws}/sub/deep",
			act: "rename {ws}/sub {ws}/away then mkdir {ws}/sub then mkdir {ws}/sub/deep then create {ws}/sub/deep/made", grant: unprotected},
		{ID: "write.74", Title: "a protected directory whose parent an earlier command has renamed",
			trial: changes(showIfThere("{ws}/sub/deep"), first("rename {ws}/sub {ws}/away")), act: "append {ws}/away/deep/file", grant: unprotected},
		{ID: "write.75", Title: "a protected file whose directory an earlier command has renamed",
			trial: changes(showIfThere("{ws}/sub/deep/file"), first("rename {ws}/sub/deep {ws}/sub/away")), act: "append {ws}/sub/away/file", grant: unprotected},
		{ID: "write.76", Title: "another file renamed over a protected one", show: "{ws}/sub/deep/file",
			act: "rename {ws}/file {ws}/sub/deep/file", grant: unprotected},
		{ID: "write.77", Title: "a single file that is protected", show: "{ws}/sub/deep/file", act: "append {ws}/sub/deep/file", grant: writable},
		{ID: "write.19", Title: "the workspace itself, when it is shown read-only", trial: workspaceAs(shared.ReadOnly),
			act: "create {ws}/new", grant: workspaceAs(shared.ReadWrite)},
		{ID: "write.20", Title: "a writable mount inside a read-only one can be written", Works: true,
			trial: changes(workspaceAs(shared.ReadOnly), showing("{ws}/sub", shared.ReadWrite)), act: "create {ws}/sub/new"},
		{ID: "write.21", Title: "the workspace can be written", Works: true, act: "create {ws}/new", after: func(s *scene.Scene) error {
			_, err := os.Stat(s.Path("ws/new"))
			return err
		}},
		maybe("write.22", "programs and settings of the system",
			"create-remove /usr/sbxhost-probe /etc/sbxhost-probe /bin/sbxhost-probe /sbxhost-probe /opt/sbxhost-probe"),
		maybe("write.23", "the same in the host's view",
			"create-remove /usr/sbxhost-probe-2 /etc/sbxhost-probe-2 /var/sbxhost-probe-2 /sbxhost-probe-2 /srv/sbxhost-probe-2", inHostView),
		{ID: "write.89", Title: "a file that no mount shows, in the host's view", trial: inHostView, act: "append {outside}/secret", grant: outside},
		{ID: "write.24", Title: "memory without a cap: /, /dev and /run", Only: OnlyLinux, act: "create-uncapped /new /dev/new /run/new /var/new",
			grant: does("create-remove {ws}/new")},
		linux("write.25", "core_pattern", "rewrite /proc/sys/kernel/core_pattern"),
		linux("write.26", "settings of the kernel", "rewrite /proc/sys/kernel/hostname /proc/sys/kernel/modprobe /proc/sys/vm/overcommit_memory /proc/sys/fs/suid_dumpable"),
		linux("write.27", "settings of the network", "rewrite /proc/sys/net/ipv4/ip_forward /proc/sys/net/core/somaxconn", onHostNetwork),
		linux("write.28", "sysrq and other triggers", "open-write /proc/sysrq-trigger /proc/irq/default_smp_affinity /proc/mtrr /proc/acpi/wakeup"),
		linux("write.29", "control groups", "open-write $(/sys/fs/cgroup/*) $(/sys/fs/cgroup/*/*) $(/sys/fs/cgroup/*/*/*/cgroup.procs)"),
		linux("write.30", "the kernel's files in /sys", "open-write $(/sys/kernel/*) $(/sys/kernel/mm/*/*)"),
		{ID: "write.31", Title: "setuid bits by chmod", act: "chmod {ws}/file 4755"},
		{ID: "write.32", Title: "setgid bits by chmod", act: "chmod {ws}/file 2755"},
		{ID: "write.33", Title: "setuid bits at creation", act: "create-mode {ws}/new 4755"},
		{ID: "write.34", Title: "setuid bits by fchmod, fchmodat and fchmodat2", Only: OnlyLinux,
			act: "-do fchmodat -100 {ws}/file 0o4755 then -do fchmodat2 -100 {ws}/file 0o4755 0x100 then -do openat -100 {ws}/file 0 then -do fchmod $result 0o4755 then has-mode {ws}/file 4755"},
		{ID: "write.35", Title: "setgid bits at creation", act: "create-mode {ws}/new 2755"},
		linux("write.36", "character devices", "do mknodat -100 {ws}/null 0o20600 0x103"),
		linux("write.88", "the device that a rename leaves", "create {ws}/new then do renameat2 -100 {ws}/new -100 {ws}/moved 4"),
		linux("write.37", "block devices", "do mknodat -100 {ws}/disk 0o60600 0x3007e7"),
		{ID: "write.87", Title: "the mode of a device that is listed", Only: OnlyLinux, prepare: haveFuse, Refusal: true, Maybe: true, trial: withFuse,
			act: "chmod " + fuse + " {mode}"},
		{ID: "write.38", Title: "fifos can be made", Works: true, act: "mkfifo {ws}/pipe"},
		linux("write.39", "files of other users", "chown {ws}/file"),
		linux("write.40", "immutable files", `do openat -100 {ws}/file 0 then do ioctl $result 0x401c5820 \x08 then do ioctl $result 0x401c5820 \x00`),
		{ID: "write.41", Title: "/tmp can be written and is private, and so are /var/tmp and /dev/shm where they are there", Works: true,
			trial: first("create /var/tmp/mine-{unique} /dev/shm/mine-{unique}"), act: "create /tmp/mine-{unique} then read /tmp/mine-{unique}", after: notOnHost(temporary)},
		{ID: "write.42", Title: "the home can be written and is private", Works: true, Unmodelled: decidedByEngine, prepare: makeDir("home"),
			trial: inHome, act: "create $home/made then read $home/made", after: notOnHost("{dir}/home/made")},
		{ID: "write.43", Title: "a tmpfs mount can be written and is private", Works: true, trial: tmpfs,
			act: "create {ws}/sub/made then read {ws}/sub/made", after: notOnHost("{ws}/sub/made")},
		{ID: "write.44", Title: "an overlay can be written and leaves its source alone", Works: true, prepare: makeDir("session"), trial: overlaid, act: "create {ws}/made then read {ws}/made", after: notOnHost("{ws}/made")},
		capOf("write.45", "/tmp", nil),
		ofSharedMemory,
		capOf("write.84", "/var/tmp", nil),
		ofHome,
		capOf("write.86", "{ws}/sub", tmpfs),
		{ID: "write.47", Title: "a hard link from a read-only mount into the workspace", show: "{shown}", act: "link {shown}/file {ws}/linked"},
	}
}

// leftoverProbes are about what an engine itself makes on the host, and about
// paths that are swapped while it looks.
func leftoverProbes() []Probe {
	return []Probe{
		{ID: "write.60", Title: "a command that writes nothing leaves the workspace as it was", Works: true, prepare: rememberTree,
			hide: "{ws}/.env {ws}/keys", show: "{ws}/sub/deep", trial: first("nothing"), act: "nothing", after: treeUnchanged},
		{ID: "write.61", Title: "hiding a path that is not there leaves no stub", Works: true, prepare: rememberTree,
			hide: "{ws}/missing {ws}/none/missing", trial: first("nothing"), act: "nothing", after: treeUnchanged},
		{ID: "write.64", Title: "a hidden file cannot be written", prepare: rememberTree, hide: "{ws}/.env", act: "read {ws}/.env then append {ws}/.env", after: treeUnchanged},
		hidden("write.65", "a hidden file cannot be removed", "{ws}/.env", "unlink {ws}/.env"),
		hidden("write.66", "nothing can be made in a hidden directory", "{ws}/keys", "create {ws}/keys/new"),
		{ID: "write.83", Title: "nor beside what is shown in one", show: "{ws}/dir/sub", hide: "{ws}/dir", act: "create {ws}/dir/new"},
		{ID: "write.67", Title: "a destination beneath a symlink of the workspace makes nothing elsewhere", Refusal: true, Works: true,
			prepare: linkTo("{outside}", "ws/evil"), trial: elsewhere("{ws}/evil/made"), act: "nothing", after: notOnHost("{outside}/made")},
		{ID: "write.68", Title: "nor does one beneath a symlink to a launcher's own view of the host", Refusal: true, Works: true,
			prepare: all(linkTo("/oldroot{outside}", "ws/evil"), linkTo("/newroot{outside}", "ws/evil2")),
			trial:   changes(elsewhere("{ws}/evil/made"), elsewhere("{ws}/evil2/made")), act: "nothing", after: notOnHost("{outside}/made")},
		{ID: "write.69", Title: "a destination that is a symlink of the workspace is not followed", Refusal: true, Works: true,
			prepare: all(makeDir("outside/dir"), linkTo("{outside}/dir", "ws/evil")), trial: elsewhere("{ws}/evil/made"), act: "nothing", after: notOnHost("{outside}/dir/made")},
		{ID: "write.70", Title: "a source that became a symlink after Open", Unmodelled: decidedByEngine, custom: swappedSource},
		{ID: "write.71", Title: "a source that becomes a symlink while commands start", Unmodelled: decidedByEngine,
			Features: shared.Features{shared.FeatureSourceFD}, custom: racedSource},
		{ID: "write.72", Title: "a missing destination in the workspace leaves no stub", Refusal: true, Works: true,
			trial: elsewhere("{ws}/new/place"), act: "nothing", after: notOnHost("{ws}/new")},
		{ID: "write.73", Title: "nothing stays mounted on the host", Only: OnlyLinux, Works: true, show: "{shown}", act: "nothing", after: func(s *scene.Scene) error {
			mounts, err := os.ReadFile("/proc/self/mountinfo")
			if err == nil && strings.Contains(string(mounts), s.Dir) {
				err = errors.New("a mount of the scene is in the host's mountinfo")
			}
			return err
		}},
	}
}

// rememberTree and treeUnchanged compare all files of the scene before and after its commands.
func rememberTree(s *scene.Scene) { s.Before = tree(s) }

func treeUnchanged(s *scene.Scene) error {
	after := tree(s)
	for path := range s.Before {
		if _, ok := after[path]; !ok {
			return fmt.Errorf("%s is missing", path)
		}
	}
	for path, now := range after {
		if s.Before[path] != now {
			return fmt.Errorf("%s is now %s", path, now)
		}
	}
	return nil
}

// tree describes all files below the scene's directory.
func tree(s *scene.Scene) map[string]string {
	found := map[string]string{}
	s.Must(filepath.WalkDir(s.Dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		var text []byte
		if info.Mode().IsRegular() {
			text, err = os.ReadFile(path)
		}
		found[path] = fmt.Sprintf("%v %q", info.Mode(), text)
		return err
	}))
	return found
}

// swappedSource replaces a mount's source by a symlink to the secret's directory
// between Open and Start.
func swappedSource(s *scene.Scene) {
	s.Must(s.Write("ws/source/secret", "harmless"))
	t := s.Trying("read-canary", s.Canary, s.Path("ws/source/secret"))
	t.Show(s.Path("ws/source"), shared.ReadOnly)
	sandbox := s.OpenAs(t.Sorted())
	s.Must(os.Rename(s.Path("ws/source"), s.Path("ws/old")))
	s.Must(os.Symlink(s.Outside, s.Path("ws/source")))
	o := s.Start(s.Ctx, sandbox, t)
	s.Expect(o.Verdict.Kind != actor.Got, scene.Leaked, "%s", o.Output())
	s.Demand(o.Refused != nil || o.Verdict.Kind != actor.Broken, "%s", o.Output())
	// The control: the same read, granted.
	granted := s.Trying("read-canary", s.Canary, s.Path("outside/secret"))
	granted.Show(s.Outside, shared.ReadOnly)
	o = s.Attempt(granted)
	s.Expect(o.Verdict.Kind == actor.Got, scene.ControlFailed, "%s", o.Output())
}

// racedSource swaps the source all the time while commands start.
func racedSource(s *scene.Scene) {
	const most = 60
	source, link := s.Path("ws/source"), s.Path("ws/swap")
	s.Must(errors.Join(s.Write("ws/source/secret", "harmless"), os.Symlink(s.Outside, link)))
	t := s.Trying("read-canary", s.Canary, filepath.Join(source, "secret"))
	t.Show(source, shared.ReadOnly)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				exchange(source, link)
			}
		}
	}()
	defer func() { close(stop); <-stopped }()
	rounds, ran := 0, 0
	for begin := time.Now(); rounds < most && time.Since(begin) < s.Limit/2; rounds++ {
		o := s.Attempt(t)
		switch {
		case o.Verdict.Kind == actor.Got:
			s.End(scene.Leaked, "after %d commands: %s", ran, o.Output())
		case o.Refused == nil:
			ran++
		}
		s.Must(s.Ctx.Err())
	}
	s.End(scene.Held, "%d of %d commands ran", ran, rounds)
}
