package holder

import (
	"errors"
	"math/rand/v2"
	"os"
	"path"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/proc"
)

// Make makes an init's sandbox from the copy of a tree that the init is in, and makes tree 0 the root
// directory. The init is pid 1 there, or a member of a pid namespace that is not the machine's, and
// has [initCaps] over the namespaces, which it must drop afterwards. If the init were in a namespace
// of its starter, or were not pid 1, it would remove the root directory of a whole machine. stdio are
// the init's descriptors, and overlays is the first of those of [OwnOverlays]. An init that is alone
// makes these overlays, and the tree, before. Make returns the socket of box.Resets, or -1.
func Make(box Sandbox, stdio []int, overlays int, alone *StandaloneBuilder) (resets int, err error) {
	if os.Getpid() != 1 && !(box.Member && below()) {
		return -1, mountError("making the sandbox", errors.New("this is not pid 1"))
	}
	if err := apart(box.Starter); err != nil {
		return -1, err
	}
	steps, err := box.Steps.ops()
	if err != nil {
		return -1, mountError("reading the steps of a sandbox", err)
	}
	b := newBuilder(nil, stdio)
	defer b.close()
	if alone == nil {
		for i, source := range OwnOverlays(steps) {
			b.overlays[source] = overlays + i
		}
	} else {
		b.overlays = alone.overlays
		if err := alone.build(box.Tree); err != nil {
			return -1, err
		}
	}
	if err := b.open(); err != nil {
		return -1, err
	}
	// Later mounts are this sandbox's own; restored mounts of the tree come to it.
	if err := unix.MountSetattr(unix.AT_FDCWD, Trees, unix.AT_RECURSIVE, &unix.MountAttr{Propagation: unix.MS_SLAVE}); err != nil {
		return -1, mountError("following the mounts of a tree", err)
	}
	umask := unix.Umask(0) // the command's
	err = b.steps(steps)
	unix.Umask(umask)
	if err == nil {
		b.groups(box.Groups)
		err = setUpNamespaces(box)
	}
	if os.Getpid() == 1 {
		randomizePids()
	}
	if err != nil {
		return -1, err
	}
	resets = -1
	if box.Resets {
		// Later the init has no right to open it. The gate does without a socket that it cannot
		// have.
		if fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.IPPROTO_TCP); err == nil {
			resets = fd
		}
	}
	return resets, pivot()
}

// randomizePids makes the numbers of the pid namespace begin at random. Otherwise all commands would
// have the same numbers, from 2 on, and so the same names in the workspace for files that programs
// name by number. It changes nothing if /proc/sys is read-only.
func randomizePids() {
	fd, err := unix.Open("/proc/sys/kernel/ns_last_pid", unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	// Five digits at most, and below 32768: that is safe for programs of any age.
	_, _ = unix.Write(fd, strconv.AppendInt(nil, 1000+rand.Int64N(30_000), 10))
}

// below reports whether this process is in a pid namespace below that of the host's /proc.
func below() bool {
	status, err := os.ReadFile("/proc/self/status")
	return err == nil && len(strings.Fields(proc.StatusField(string(status), "NSpid"))) > 1
}

// setUpNamespaces sets the host name and the loopback of new namespaces.
func setUpNamespaces(box Sandbox) error {
	if box.Namespaces&unix.CLONE_NEWUTS != 0 {
		// A name that resolves in every /etc/hosts and reveals nothing of the host.
		if err := unix.Sethostname([]byte("localhost")); err != nil {
			return mountError("sethostname", err)
		}
	}
	if box.Namespaces&unix.CLONE_NEWNET == 0 {
		return nil
	}
	return mountError("bringing up the loopback interface", loopbackUp())
}

// apart fails if this process is in a namespace of its starter, whose [OwnNamespaces] starter lists.
// While a namespace exists, no other one has its name.
func apart(starter []string) error {
	own, err := OwnNamespaces()
	if err != nil {
		return mountError("looking at the namespaces", err)
	}
	for i, name := range namespaceNames {
		if len(starter) != len(own) || starter[i] == own[i] || !strings.HasPrefix(starter[i], name+":[") {
			return mountError("looking at the namespaces", errors.New("the "+name+" namespace is not this process's own"))
		}
	}
	return nil
}

// OwnNamespaces names the mount and the user namespace of this process, for [Make] to compare.
func OwnNamespaces() (list []string, err error) {
	for _, name := range namespaceNames {
		link, err := os.Readlink("/proc/self/ns/" + name)
		if err != nil {
			return nil, err
		}
		list = append(list, link)
	}
	return list, nil
}

// initCaps are an init's capabilities over its namespaces until they are complete, and until its
// command has its own, with locked mounts.
var initCaps = append([]uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_NET_RAW}, LockingCaps...)

// LockingCaps are for a user namespace in which all users keep their numbers, also root.
var LockingCaps = []uintptr{unix.CAP_SETUID, unix.CAP_SETGID, unix.CAP_SETFCAP}

// pivot makes tree 0 the root directory.
func pivot() error {
	if err := unix.Chdir(Trees + "/0"); err != nil {
		return mountError("chdir", err)
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return mountError("pivot_root", err)
	}
	// The old root now lies over the new one.
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return mountError("unmounting the old root", err)
	}
	return mountError("chdir", unix.Chdir("/"))
}

// groups shows the control groups that enforce the command's limits, each as the top of its
// hierarchy: language runtimes find their limits there. Nothing of other groups shows. If the
// kernel does not permit the mounts, it shows none; the limits are enforced nevertheless.
func (b *builder) groups(names []string) {
	const dest = "0/sys/fs/cgroup"
	if len(names) == 0 {
		return
	}
	runtime.LockOSThread() // the namespace belongs to a thread
	defer runtime.UnlockOSThread()
	if unix.Unshare(unix.CLONE_NEWCGROUP) != nil {
		return
	}
	const attributes = locked | unix.MOUNT_ATTR_NOEXEC | unix.MOUNT_ATTR_RDONLY
	if names[0] == "cgroup2" {
		b.mount(dest, "cgroup2", attributes)
		return
	}
	top, err := b.memory(dest, 0o755, 64<<10)
	if err != nil {
		return
	}
	defer unix.Close(top)
	for _, name := range names {
		var options []string
		for controller := range strings.SplitSeq(name, ",") {
			options = append(options, controller, "")
		}
		b.mount(dest+"/"+name, "cgroup", attributes, options...)
	}
	unix.MountSetattr(top, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
}

// console gives a name to the command's terminal, which belongs to a devpts that the sandbox does not
// have.
func (b *builder) console(dest string) error {
	if len(b.stdio) < 2 {
		return mountError("looking for the terminal", unix.EBADF)
	}
	var want, have unix.Stat_t
	if err := unix.Fstat(b.stdio[1], &want); err != nil {
		return mountError("fstat", err)
	}
	name, err := os.Readlink(Host + fdPath + strconv.Itoa(b.stdio[1]))
	if err != nil {
		return mountError("looking for the terminal", err)
	}
	fd, err := openBeneath(b.host, strings.TrimPrefix(path.Clean(name), "/"))
	if err != nil {
		return nil // perhaps of another container: it has no name here
	}
	defer unix.Close(fd)
	if err := unix.Fstat(fd, &have); err != nil || have.Dev != want.Dev || have.Ino != want.Ino {
		return nil
	}
	return b.cloneTo(dest, fd, "", false, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC)
}

// loopbackUp is for a network namespace without anything else.
func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	ifreq, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	ifreq.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifreq)
}

// forInits limits what this thread executes, as any user, to initCaps.
func forInits() error {
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return err
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var have [2]unix.CapUserData
	if err := unix.Capget(&header, &have[0]); err != nil {
		return err
	}
	have[0].Inheritable, have[1].Inheritable = 0, 0
	for _, c := range initCaps {
		have[c/32].Inheritable |= 1 << (c % 32)
	}
	if err := unix.Capset(&header, &have[0]); err != nil {
		return err
	}
	return proc.EmptyBounds()
}
