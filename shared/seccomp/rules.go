package seccomp

import "strings"

// errno is a number that is the same on both architectures.
type errno uint16

const (
	eperm  errno = 1
	enosys errno = 38
)

func (e errno) String() string {
	if e == enosys {
		return "ENOSYS"
	}
	return "EPERM"
}

// A rule refuses calls: those for which every test holds, or all of them if it has no tests. A call
// is refused if any of its rules refuses it.
type rule struct {
	why   string
	deny  errno
	calls []string
	tests []test
}

// A test compares the low half of one argument. Of every argument that is tested here, the kernel
// uses only this half.
type test struct {
	arg   int
	name  string // for people
	op    op
	mask  uint32
	value uint32
}

type op uint8

const (
	equal    op = iota // arg & mask == value
	notEqual           // arg & mask != value
)

const all = ^uint32(0)

// Values of the kernel's interface that are the same on both architectures.
const (
	tiocsti   = 0x5412
	tioclinux = 0x541c

	cloneNewTime = 0x00000080 // only for unshare: clone has the exit signal in these bits
	// CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET.
	cloneNew = 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000

	personalityQuery = 0xffffffff
	addrNoRandomize  = 0x0040000

	afUnix, afInet, afInet6, afNetlink = 1, 2, 10, 16

	sockType                               = 0xf // the other bits of the argument are flags
	sockDgram, sockRaw, sockPacket         = 2, 3, 10
	setIDs                                 = 0o6000
	fileType, characterDevice, blockDevice = 0o170000, 0o020000, 0o060000
	renameWhiteout                         = 4
	openCreates                            = 0o100 | 0o20000000 // O_CREAT, __O_TMPFILE
	openAccess, openTruncates              = 0o3, 0o1000        // O_ACCMODE, of which 0 is O_RDONLY, and O_TRUNC
)

// rules are the policy. The calls that programs make most often, and whose arguments matter, come
// first: the kernel caches the answer for a call whose arguments do not matter.
func rules(o Options) []rule {
	mode := func(arg int) test { return test{arg, "mode", notEqual, setIDs, 0} }
	creating := func(arg int) test { return test{arg, "flags", notEqual, openCreates, 0} }
	family := func(o op, f uint32) test { return test{0, "family", o, all, f} }
	kind := func(t uint32) test { return test{1, "type", equal, sockType, t} }

	const (
		whySetID      = "set-user-id and set-group-id bits, which would outlive the sandbox"
		whyDevice     = "device nodes, which outlive the sandbox"
		whyInput      = "input for the terminal's other users"
		whyFamily     = "families of sockets that reach the hypervisor, raw frames, the kernel's cipher code, or little tested protocols"
		whyRaw        = "raw packets"
		whyNamespaces = "namespaces in which the command would have capabilities (nested_userns)"
		whyMounts     = "the mount family (nested_userns)"
		whyProcesses  = "other processes' memory and registers (ptrace)"
		whyUnix       = "unix sockets (unix_sockets)"
		whyUnixPair   = "a pair of datagram sockets can still send to others (unix_sockets)"
		whyPersona    = "personalities that weaken address randomisation or protections of memory"
		whyKernel     = "kernel code that is a frequent way out of sandboxes"
		whyLog        = "the kernel's log"
		whyHandles    = "files that no path of the view leads to"
		whyFallback   = "arguments lie in memory, where no filter sees them; programs fall back on the older call"
		whyRing       = "its operations pass no filter"
		whyNetwork    = "networks, of which the command has none of its own"
		whyForeign    = "users and groups that have no number here, for which programs do not expect EINVAL"
		whyOwners     = "owners and attributes of files, which no rule about paths keeps"
		whyIoctl      = "files that are open for ioctl alone, of which Landlock asks no right, whatever they are truncated to"
		whyLimits     = "limits of other processes, which end them like signals"
		whyTruncate   = "truncation, which this kernel's rules about paths do not keep"
	)
	var p policy
	p.refuse(whySetID, "openat", creating(2), mode(3))
	p.refuse(whySetID, "open", creating(1), mode(2))
	p.refuse(whyInput, "ioctl", test{1, "request", equal, all, tiocsti})
	p.refuse(whyInput, "ioctl", test{1, "request", equal, all, tioclinux})
	p.refuse(whySetID, "creat chmod fchmod", mode(1))
	p.refuse(whySetID, "fchmodat fchmodat2", mode(2))
	for i, call := range [...]string{"mknod", "mknodat"} {
		p.refuse(whySetID, call, mode(1+i))
		p.refuse(whyDevice, call, test{1 + i, "mode", equal, fileType, characterDevice})
		p.refuse(whyDevice, call, test{1 + i, "mode", equal, fileType, blockDevice})
	}
	p.refuse(whyFamily, "socket socketpair", family(notEqual, afUnix), family(notEqual, afInet), family(notEqual, afInet6), family(notEqual, afNetlink))
	// Netlink sockets are raw by custom, and a raw one is harmless.
	p.refuse(whyRaw, "socket", family(notEqual, afNetlink), kind(sockRaw))
	// The old name of AF_PACKET.
	p.refuse(whyRaw, "socket", kind(sockPacket))
	if !o.UnixSockets {
		p.refuse(whyUnix, "socket", family(equal, afUnix))
		// A connected stream cannot be connected again, and its pair harms nobody.
		p.refuse(whyUnixPair, "socketpair", family(equal, afUnix), kind(sockDgram))
		p.refuse(whyUnixPair, "socketpair", family(equal, afUnix), kind(sockRaw))
	}
	if o.NoNetwork {
		p.refuse(whyNetwork, "socket socketpair", family(notEqual, afUnix))
	}
	if o.NoTruncation {
		p.refuse(whyTruncate, "openat", test{2, "flags", notEqual, openTruncates, 0}, test{2, "flags", equal, openAccess, 0})
		p.refuse(whyTruncate, "open", test{1, "flags", notEqual, openTruncates, 0}, test{1, "flags", equal, openAccess, 0})
		p.refuse(whyTruncate, "truncate")
	}
	if o.Unhidden {
		p.refuse(whyIoctl, "openat", test{2, "flags", equal, openAccess, openAccess})
		p.refuse(whyIoctl, "open", test{1, "flags", equal, openAccess, openAccess})
		p.refuse(whyLimits, "prlimit64", test{0, "pid", notEqual, all, 0})
		p.refuse(whyOwners, "chown fchown fchownat lchown setxattr lsetxattr fsetxattr setxattrat "+
			"removexattr lremovexattr fremovexattr removexattrat file_setattr")
	}
	if o.Owners != nil && !o.Unhidden && !o.NestedUserNamespaces {
		p.foreign(o.Owners, whyForeign)
	}
	persona := []test{{0, "persona", notEqual, all, 0}, {0, "persona", notEqual, all, personalityQuery}}
	if o.Ptrace {
		// Debuggers start their programs in this way.
		persona = append(persona, test{0, "persona", notEqual, all, addrNoRandomize})
	}
	p.refuse(whyPersona, "personality", persona...)
	if !o.NestedUserNamespaces {
		p.refuse(whyNamespaces, "clone", test{0, "flags", notEqual, cloneNew, 0})
		p.refuse(whyNamespaces, "unshare", test{0, "flags", notEqual, cloneNew | cloneNewTime, 0})
		p.refuse(whyNamespaces, "setns")
		// An overlay, which needs a namespace, makes such devices too.
		p.refuse(whyDevice, "renameat2", test{4, "flags", notEqual, renameWhiteout, 0})
		p.refuse(whyMounts, "mount umount2 pivot_root chroot mount_setattr move_mount "+
			"open_tree open_tree_attr fsopen fsconfig fsmount fspick")
	}
	if !o.Ptrace {
		p.refuse(whyProcesses, "ptrace process_vm_readv process_vm_writev kcmp")
	}
	p.refuse("files that other processes have open", "pidfd_getfd")
	p.refuse(whyKernel, "bpf userfaultfd perf_event_open add_key request_key keyctl "+
		"kexec_load kexec_file_load init_module finit_module delete_module")
	p.refuse(whyLog, "syslog")
	p.refuse(whyHandles, "open_by_handle_at")
	p.add(whyFallback, enosys, "clone3 openat2", nil)
	p.add(whyRing, enosys, "io_uring_setup io_uring_enter io_uring_register", nil)
	return p
}

// A policy is a list of rules.
type policy []rule

// add adds a rule for calls, whose names have spaces between them.
func (p *policy) add(why string, deny errno, calls string, tests []test) {
	*p = append(*p, rule{why, deny, strings.Fields(calls), tests})
}

func (p *policy) refuse(why, calls string, tests ...test) { p.add(why, eperm, calls, tests) }

// foreign refuses to give files to others. A number whose bits are all one leaves the owner unchanged.
func (p *policy) foreign(o *Owners, why string) {
	of := func(calls string, arg int, name string, own ...uint32) {
		tests := []test{{arg, name, notEqual, all, all}}
		for _, id := range own {
			tests = append(tests, test{arg, name, notEqual, all, id})
		}
		p.refuse(why, calls, tests...)
	}
	for _, family := range [...]struct {
		calls string
		user  int
	}{{"chown fchown lchown", 1}, {"fchownat", 2}} {
		of(family.calls, family.user, "user", o.UID)
		if len(o.GIDs) > 0 && len(o.GIDs) <= MaxGroups {
			of(family.calls, family.user+1, "group", o.GIDs...)
		}
	}
}
