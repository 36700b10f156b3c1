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
func workspaceAs(kind shared.Access) func(*scene.Scene, *scene.Trial) {
	return func(_ *scene.Scene, t *scene.Trial) { t.Spec.Table[0].Access = kind }
}

// showIfThere shows a path read-only while something is there, so that a second
// command starts whatever the first has done.
func showIfThere(path string, then func(*scene.Scene, *scene.Trial)) func(*scene.Scene, *scene.Trial) {
	return func(s *scene.Scene, t *scene.Trial) {
		t.Add(shared.Entry{Source: s.Path(path), Path: s.Path(path), Access: shared.ReadOnly, Missing: shared.MissingIgnore})
		then(s, t)
	}
}

// unchanged returns an error unless a file of the scene has the canary.
func unchanged(name string) func(*scene.Scene) error {
	return func(s *scene.Scene) error {
		got, err := os.ReadFile(s.Path(name))
		if err == nil && string(got) != s.Canary {
			err = fmt.Errorf("%s was changed on the host: %q", name, got)
		}
		return err
	}
}

// makeDir plants an empty directory.
func makeDir(name string) func(*scene.Scene) error {
	return func(s *scene.Scene) error { return os.Mkdir(s.Path(name), 0o700) }
}

// tempSize limits what private file systems hold.
func tempSize(bytes uint64) func(*scene.Scene, *scene.Trial) {
	return func(_ *scene.Scene, t *scene.Trial) { t.Spec.Limits.TempSize = bytes }
}

// writeProbes are about what a command can change.
func writeProbes() []Probe {
	readOnly := func(id, title string, act ...string) Probe {
		return Probe{ID: id, Title: title, show: words{"{shown}"}, act: act, grant: writable}
	}
	// onLinux limits a probe to Linux; maybe says that not every file system there has what it
	// needs.
	onLinux := func(p Probe, maybe bool) Probe {
		p.Only, p.Maybe = OnlyLinux, maybe
		return p
	}
	capOf := func(id, place string, trial func(*scene.Scene, *scene.Trial)) Probe {
		p := Probe{ID: id, Title: "more than the cap of " + place, Features: []shared.Feature{shared.FeatureLimitTempSize},
			act: words{"fill", place, "16777216"}, grant: tempSize(64 << 20), trial: func(s *scene.Scene, t *scene.Trial) {
				tempSize(8<<20)(s, t)
				if trial != nil {
					trial(s, t)
				}
			}}
		if place == "/dev/shm" {
			p.Only = OnlyLinux
		}
		return p
	}
	return []Probe{
		{ID: "write.01", Title: "a file that no mount shows", act: words{"append", "{outside}/secret"}, grant: showing("{outside}", shared.ReadWrite)},
		{ID: "write.02", Title: "the same through a symlink in the workspace", prepare: linkTo("{outside}", "ws/link"),
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
		{ID: "write.15", Title: "remounting a read-only mount", Only: OnlyLinux, show: words{"{shown}"}, act: words{"remount", "{shown}"}, control: ControlPrivileged, Maybe: true},
		{ID: "write.16", Title: "a read-only mount inside the writable workspace", show: words{"{ws}/sub"}, act: words{"append", "{ws}/sub/deep/file"}, grant: writable},
		{ID: "write.81", Title: "a read-only file in a writable mount in a read-only one in the workspace", show: words{"{ws}/sub"}, trial: func(s *scene.Scene, t *scene.Trial) {
			t.Show(s.Path("ws/sub/deep"), shared.ReadWrite)
			t.Show(s.Path("ws/sub/deep/file"), shared.ReadOnly)
		}, act: words{"append", "{ws}/sub/deep/file"}, grant: writable},
		{ID: "write.80", Title: "what is shown read-only at another path", trial: func(s *scene.Scene, t *scene.Trial) {
			t.Add(shared.Entry{Source: s.Shown, Path: s.Path("ws/sub"), Access: shared.ReadOnly})
		}, act: words{"append", "{ws}/sub/file"}, grant: writable},
		{ID: "write.17", Title: "renaming such a mount away", show: words{"{ws}/sub/deep"}, act: words{"rename", "{ws}/sub/deep", "{ws}/sub/moved"}, grant: unprotected},
		{ID: "write.18", Title: "renaming an ancestor of such a mount away, to put another there", show: words{"{ws}/sub/deep"},
			act: words{"swap-parent", "{ws}/sub", "{ws}/sub/deep/made"}, grant: unprotected},
		{ID: "write.74", Title: "a protected directory whose parent an earlier command has renamed",
			trial: showIfThere("ws/sub/deep", first("rename", "{ws}/sub", "{ws}/away")), act: words{"append", "{ws}/away/deep/file"}, grant: unprotected},
		{ID: "write.75", Title: "a protected file whose directory an earlier command has renamed",
			trial: showIfThere("ws/sub/deep/file", first("rename", "{ws}/sub/deep", "{ws}/sub/away")), act: words{"append", "{ws}/sub/away/file"}, grant: unprotected},
		{ID: "write.76", Title: "another file renamed over a protected one", show: words{"{ws}/sub/deep/file"},
			act: words{"rename", "{ws}/file", "{ws}/sub/deep/file"}, grant: unprotected},
		{ID: "write.77", Title: "a single file that is protected", show: words{"{ws}/sub/deep/file"}, act: words{"append", "{ws}/sub/deep/file"}, grant: writable},
		{ID: "write.19", Title: "the workspace itself, when it is shown read-only", trial: workspaceAs(shared.ReadOnly),
			act: words{"create", "{ws}/new"}, grant: workspaceAs(shared.ReadWrite)},
		{ID: "write.20", Title: "a writable mount inside a read-only one can be written", Works: true, trial: func(s *scene.Scene, t *scene.Trial) {
			workspaceAs(shared.ReadOnly)(s, t)
			t.Show(s.Path("ws/sub"), shared.ReadWrite)
		}, act: words{"create", "{ws}/sub/new"}},
		{ID: "write.21", Title: "the workspace can be written", Works: true, act: words{"create", "{ws}/new"}, after: func(s *scene.Scene) error {
			_, err := os.Stat(s.Path("ws/new"))
			return err
		}},
		{ID: "write.22", Title: "programs and settings of the system", Maybe: true,
			act: words{"create-remove", "/usr/sbxhost-probe", "/etc/sbxhost-probe", "/bin/sbxhost-probe", "/sbxhost-probe", "/opt/sbxhost-probe"}},
		{ID: "write.23", Title: "the same in the host's view", Maybe: true, trial: inHostView,
			act: words{"create-remove", "/usr/sbxhost-probe-2", "/etc/sbxhost-probe-2", "/var/sbxhost-probe-2", "/sbxhost-probe-2", "/srv/sbxhost-probe-2"}},
		{ID: "write.24", Title: "memory without a cap: /, /dev and /run", Only: OnlyLinux, act: words{"create-uncapped", "/new", "/dev/new", "/run/new", "/var/new"},
			grant: func(s *scene.Scene, t *scene.Trial) { t.Do("create-remove", s.Path("ws/new")) }},
		{ID: "write.25", Title: "core_pattern", Only: OnlyLinux, act: words{"rewrite", "/proc/sys/kernel/core_pattern"}, Maybe: true},
		{ID: "write.26", Title: "settings of the kernel", Only: OnlyLinux,
			act: words{"rewrite", "/proc/sys/kernel/hostname", "/proc/sys/kernel/modprobe", "/proc/sys/vm/overcommit_memory", "/proc/sys/fs/suid_dumpable"}, Maybe: true},
		{ID: "write.27", Title: "settings of the network", Only: OnlyLinux, trial: onHostNetwork,
			act: words{"rewrite", "/proc/sys/net/ipv4/ip_forward", "/proc/sys/net/core/somaxconn"}, Maybe: true},
		{ID: "write.28", Title: "sysrq and other triggers", Only: OnlyLinux,
			act: words{"open-write", "/proc/sysrq-trigger", "/proc/irq/default_smp_affinity", "/proc/mtrr", "/proc/acpi/wakeup"}, Maybe: true},
		{ID: "write.29", Title: "control groups", Only: OnlyLinux, act: words{"open-write-below", "/sys/fs/cgroup"}, Maybe: true},
		{ID: "write.30", Title: "the kernel's files in /sys", Only: OnlyLinux, act: words{"open-write-below", "/sys/kernel"}, Maybe: true},
		{ID: "write.31", Title: "setuid bits by chmod", act: words{"chmod", "{ws}/file", "4755"}},
		{ID: "write.32", Title: "setgid bits by chmod", act: words{"chmod", "{ws}/file", "2755"}},
		{ID: "write.33", Title: "setuid bits at creation", act: words{"create-mode", "{ws}/new", "4755"}},
		{ID: "write.34", Title: "setuid bits by fchmod, fchmodat and fchmodat2", Only: OnlyLinux, act: words{"chmod-others", "{ws}/file"}},
		{ID: "write.35", Title: "setgid bits at creation", act: words{"create-mode", "{ws}/new", "2755"}},
		{ID: "write.36", Title: "character devices", Only: OnlyLinux, act: words{"mknod", "{ws}/null", "char"}, Maybe: true},
		{ID: "write.37", Title: "block devices", Only: OnlyLinux, act: words{"mknod", "{ws}/disk", "block"}, Maybe: true},
		{ID: "write.87", Title: "the mode of a device that is listed", Only: OnlyLinux, prepare: haveFuse, Refusal: true, Maybe: true, trial: withFuse,
			act: words{"chmod", fuse, "{mode}"}, control: controlOutside},
		{ID: "write.38", Title: "fifos can be made", Works: true, act: words{"mkfifo", "{ws}/pipe"}},
		{ID: "write.39", Title: "files of other users", Only: OnlyLinux, act: words{"chown", "{ws}/file"}, Maybe: true},
		{ID: "write.40", Title: "immutable files", Only: OnlyLinux, act: words{"immutable", "{ws}/file"}, Maybe: true},
		{ID: "write.41", Title: "/tmp can be written and is private, and so are /var/tmp and /dev/shm where they are there", Works: true,
			trial: first(append(words{"create"}, temporary[1:]...)...), act: words{"write-then-read", temporary[0]}, after: notOnHost(temporary...)},
		{ID: "write.42", Title: "the home can be written and is private", Works: true, Unmodelled: decidedByEngine, prepare: makeDir("home"),
			trial: func(s *scene.Scene, t *scene.Trial) {
				t.Spec.Home = s.Path("home")
				t.Setenv("HOME", t.Spec.Home)
			}, act: words{"write-home", "made"}, after: notOnHost("{dir}/home/made")},
		{ID: "write.43", Title: "a tmpfs mount can be written and is private", Works: true,
			trial: func(s *scene.Scene, t *scene.Trial) {
				t.Add(shared.Entry{Path: s.Path("ws/sub"), Access: shared.Private})
			},
			act: words{"write-then-read", "{ws}/sub/made"}, after: notOnHost("{ws}/sub/made")},
		{ID: "write.44", Title: "an overlay can be written and leaves its source alone", Works: true, prepare: makeDir("session"), trial: overlaid, act: words{"write-then-read", "{ws}/made"}, after: notOnHost("{ws}/made")},
		capOf("write.45", "/tmp", nil),
		capOf("write.46", "/dev/shm", nil),
		capOf("write.84", "/var/tmp", nil),
		capOf("write.85", "{dir}/home", func(s *scene.Scene, t *scene.Trial) { t.Spec.Home = s.Path("home") }),
		capOf("write.86", "{ws}/sub", func(s *scene.Scene, t *scene.Trial) {
			t.Add(shared.Entry{Path: s.Path("ws/sub"), Access: shared.Private})
		}),
		{ID: "write.47", Title: "a hard link from a read-only mount into the workspace", show: words{"{shown}"}, act: words{"link", "{shown}/file", "{ws}/linked"}},
	}
}

// leftoverProbes are about what an engine itself makes on the host, and about
// paths that are swapped while it looks.
func leftoverProbes() []Probe {
	hides := []shared.Feature{shared.FeatureHidden, shared.FeatureNested}
	// mountedAt mounts what is shown elsewhere, below the scene's directory.
	mountedAt := func(places ...string) func(*scene.Scene, *scene.Trial) {
		return func(s *scene.Scene, t *scene.Trial) {
			for _, place := range places {
				t.Add(shared.Entry{Source: s.Shown, Path: s.Path(place), Access: shared.ReadOnly})
			}
		}
	}
	return []Probe{
		{ID: "write.60", Title: "a command that writes nothing leaves the workspace as it was", Unmodelled: decidedByEngine, Features: hides, custom: func(s *scene.Scene) {
			leavesNothing(s, func(t *scene.Trial) {
				t.Hide(s.Path("ws/.env"))
				t.Hide(s.Path("ws/keys"))
				t.Show(s.Path("ws/sub/deep"), shared.ReadOnly)
			})
		}},
		{ID: "write.61", Title: "hiding a path that is not there leaves no stub", Unmodelled: decidedByEngine, Features: hides, custom: func(s *scene.Scene) {
			leavesNothing(s, func(t *scene.Trial) {
				t.Hide(s.Path("ws/missing"))
				t.Hide(s.Path("ws/none/missing"))
			})
		}},
		{ID: "write.64", Title: "a hidden file cannot be written", hide: words{"{ws}/.env"}, act: words{"append-regular", "{ws}/.env"}, grant: unhidden, after: unchanged("ws/.env")},
		{ID: "write.65", Title: "a hidden file cannot be removed", hide: words{"{ws}/.env"}, act: words{"unlink", "{ws}/.env"}, grant: unhidden},
		{ID: "write.66", Title: "nothing can be made in a hidden directory", hide: words{"{ws}/keys"}, act: words{"create", "{ws}/keys/new"}, grant: unhidden},
		{ID: "write.83", Title: "nor beside what is shown in one", show: words{"{ws}/dir/sub"}, hide: words{"{ws}/dir"}, act: words{"create", "{ws}/dir/new"}, grant: unhidden},
		{ID: "write.67", Title: "a destination beneath a symlink of the workspace makes nothing elsewhere", Refusal: true, Works: true,
			prepare: linkTo("{outside}", "ws/evil"), trial: mountedAt("ws/evil/made"), act: words{"nothing"}, after: notOnHost("{outside}/made")},
		{ID: "write.68", Title: "nor does one beneath a symlink to a launcher's own view of the host", Refusal: true, Works: true,
			prepare: func(s *scene.Scene) error {
				return errors.Join(linkTo("/oldroot{outside}", "ws/evil")(s), linkTo("/newroot{outside}", "ws/evil2")(s))
			},
			trial: mountedAt("ws/evil/made", "ws/evil2/made"), act: words{"nothing"}, after: notOnHost("{outside}/made")},
		{ID: "write.69", Title: "a destination that is a symlink of the workspace is not followed", Refusal: true, Works: true,
			prepare: func(s *scene.Scene) error {
				return errors.Join(makeDir("outside/dir")(s), linkTo("{outside}/dir", "ws/evil")(s))
			},
			trial: mountedAt("ws/evil/made"), act: words{"nothing"}, after: notOnHost("{outside}/dir/made")},
		{ID: "write.70", Title: "a source that became a symlink after Open", Unmodelled: decidedByEngine, custom: swappedSource},
		{ID: "write.71", Title: "a source that becomes a symlink while commands start", Unmodelled: decidedByEngine,
			Features: []shared.Feature{shared.FeatureSourceFD}, custom: racedSource},
		{ID: "write.72", Title: "a missing destination in the workspace leaves no stub", Refusal: true, Works: true,
			trial: mountedAt("ws/new/place"), act: words{"nothing"}, after: notOnHost("{ws}/new")},
		{ID: "write.73", Title: "nothing stays mounted on the host", Only: OnlyLinux, Works: true, show: words{"{shown}"}, act: words{"nothing"}, after: func(s *scene.Scene) error {
			mounts, err := os.ReadFile("/proc/self/mountinfo")
			if err == nil && strings.Contains(string(mounts), s.Dir) {
				err = errors.New("a mount of the scene is in the host's mountinfo")
			}
			return err
		}},
	}
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

// leavesNothing compares the whole scene before and after two commands that do
// nothing; the control is a command that does something.
func leavesNothing(s *scene.Scene, change func(*scene.Trial)) {
	before := tree(s)
	t := s.Trying("nothing")
	change(t)
	s.Done(t)
	s.Done(t)
	if found := difference(before, tree(s)); found != "" {
		s.End(scene.Leaked, "the tree was changed: %s", found)
	}
	s.Done(s.Trying("create", s.Path("ws/made")))
	if difference(before, tree(s)) == "" {
		s.End(scene.ControlFailed, "what a command makes is not noticed")
	}
}

// difference returns a difference between two trees, or "".
func difference(before, after map[string]string) string {
	for path, now := range after {
		if before[path] != now {
			return fmt.Sprintf("%s is now %s", path, now)
		}
	}
	for path := range before {
		if _, ok := after[path]; !ok {
			return path + " is missing"
		}
	}
	return ""
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
	if o := s.Start(s.Ctx, sandbox, t); o.Verdict.Kind == actor.Got {
		s.End(scene.Leaked, "%s", o.Output())
	} else if o.Refused == nil && o.Verdict.Kind == actor.Broken {
		s.Failf("%s", o.Output())
	}
	// The control: the same read, granted.
	granted := s.Trying("read-canary", s.Canary, s.Path("outside/secret"))
	granted.Show(s.Outside, shared.ReadOnly)
	if o := s.Attempt(granted); o.Verdict.Kind != actor.Got {
		s.End(scene.ControlFailed, "%s", o.Output())
	}
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
