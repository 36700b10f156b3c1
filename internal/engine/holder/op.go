package holder

import (
	"strings"
	"syscall"

	"github.com/sbxhost/sbxhost/internal/frame"
)

// Kind is the kind of a step: of an engine's plan, of a tree, and of a [Sandbox].
type Kind uint8

const (
	// Root makes the directory Dest and a mount of it, for further steps.
	Root Kind = iota
	// Bind shows Source, with the mounts beneath it.
	Bind
	// ReadOnlyBind is Bind without write access.
	ReadOnlyBind
	// Overlay shows the session's overlay of Source.
	Overlay
	// Home shows memory that belongs to the session: the same for each equal Source (any name),
	// Perms and Size.
	Home
	// Directory makes a missing directory; Perms apply.
	Directory
	// File makes a copy of the regular file Source, with Perms.
	File
	// Text makes a file with the bytes of Source, with Perms.
	Text
	// Symlink makes a link with the text Source.
	Symlink
	// ReadOnly makes the mount at Dest read-only, but not those beneath.
	ReadOnly
	// Pin binds the directory Dest onto itself, so that nobody can rename it. In a plan, Source is
	// its path on the host.
	Pin
	// HideFile and HideDirectory cover Dest with something unreadable.
	HideFile
	HideDirectory
	// Devices makes memory at Dest with the devices that every program may use and their links;
	// with a Size, also a file "console" as the mount point of a terminal.
	Devices
	// Device shows the device Source, usable.
	Device
	// Memory mounts empty memory on Dest; Perms and Size apply. MountPoints is Memory in which
	// nothing but mount points is made, before a later ReadOnly.
	Memory
	MountPoints
	// Processes makes a procfs, of the sandbox's own processes, at Dest.
	Processes

	// The following steps are only for a [Sandbox].

	// OwnOverlay shows an overlay of Source that belongs to the sandbox, and ends with it.
	OwnOverlay
	// Move shows the tree Source, a path in the trees' own space, at Dest.
	Move
	// Seal makes Dest and all beneath it read-only, with a mount over it.
	Seal
	// Pseudoterminals makes a devpts at Dest.
	Pseudoterminals
	// Console shows the terminal that is the init's stdout at Dest.
	Console
	// Missing is only for a planner: Dest must be hidden, but does not exist.
	Missing
	kinds
)

// String is the kind's name for people.
func (k Kind) String() string {
	return [...]string{"root", "bind", "ro-bind", "overlay", "home", "dir", "file", "text", "symlink", "remount-ro", "pin", "mask", "mask", "dev", "device", "tmpfs", "tmpfs", "proc",
		"own-overlay", "move", "seal", "pts", "console", "hide"}[k]
}

// An Op is one step. Source is a path of the host, absolute and without symlinks; Dest is a path
// inside or, for a holder, in the trees' own space, such as "/0/usr". Perms and Size apply if the
// Kind says so.
type Op struct {
	Kind   Kind
	Source string
	Dest   string
	Perms  uint32
	Size   uint64

	// The rest is the planner's, and not sent.

	Why      string // the attribute or rule that asked for it
	Ignore   bool   // a path to hide may be missing
	FromSpec bool   // from the Spec: other commands may be able to change Dest or Source
}

// Hides reports whether the step hides what is at Dest.
func (o *Op) Hides() bool { return o.Kind == Missing || o.Kind == HideFile || o.Kind == HideDirectory }

// A Plan is an encoded list of steps. Equal ones are one prepared tree.
type Plan string

// NewPlan encodes steps.
func NewPlan(ops []Op) Plan { return Plan(frame.Payload((*steps)(&ops))) }

// ops decodes them; an empty plan has none.
func (p Plan) ops() (ops []Op, err error) {
	if p != "" {
		err = frame.Decode([]byte(p), (*steps)(&ops))
	}
	return ops, err
}

// Fields implements [frame.Message]; the steps are checked when they are made.
func (p *Plan) Fields(c *frame.Codec) { c.Text((*string)(p)) }

// A Sandbox is what an init has for itself; see [Make].
type Sandbox struct {
	// Starter are the [OwnNamespaces] of its starter, which the init must not be in.
	Starter []string
	// Namespaces are the CLONE_NEW* flags of its new namespaces, besides a mount namespace.
	Namespaces uint32
	// Steps are made in its own mount namespace, a copy of the tree's, in which "/0" then becomes
	// the root directory.
	Steps Plan
	// Tree is for a [StandaloneInit], which makes its own tree.
	Tree Plan
	// Member says that it is in the pid namespace of others ([Start]).
	Member bool
	// Resets opens a raw socket in its network namespace, which sees incoming TCP: with it the gate
	// sees which connections the kernel refuses.
	Resets bool
	// Groups are the hierarchies of the control groups that enforce its command's limits, which it
	// is in by then: "cgroup2", or controllers of version 1 such as "cpu,cpuacct".
	Groups []string
}

func (b *Sandbox) Fields(c *frame.Codec) {
	c.Texts(&b.Starter)
	frame.Int(c, &b.Namespaces)
	b.Steps.Fields(c)
	b.Tree.Fields(c)
	c.Flag(&b.Member)
	c.Flag(&b.Resets)
	c.Texts(&b.Groups)
	if b.Namespaces&^sandboxNamespaces != 0 {
		c.Fail("no such namespaces")
	}
}

// Trees is the directory in which an init finds the trees: Dest "/0" is at Trees + "/0".
const Trees = "/.tree"

// Null is a file that nobody can read or write, to hide others with.
const Null = "/.null"

// Host is the directory in which an init finds the host's file system.
const Host = "/.host"

// CallClone is the Call of a MountError about the start of a holder, in namespaces of its own.
const CallClone = "starting a process in new namespaces"

// A MountError names the step that failed.
type MountError struct {
	Index  int    // of the step in its list
	Call   string // the system call, or its purpose
	Reason string
	Errno  syscall.Errno // zero if the kernel did not refuse it
	Shared bool          // the step is one of the tree, not of a sandbox
}

func (e *MountError) Error() string { return e.Call + ": " + e.Reason }

// OfMachine reports whether the error is about something that every sandbox needs of the machine,
// and not about a path, or the contents of a session's directory.
func (e *MountError) OfMachine() bool {
	if e.Call == CallClone {
		return true
	}
	for _, call := range [...]string{
		"making the mounts slaves", "mounting the root", "pivot_root", "unmounting the old root", "unshare", "mount_setattr", "sethostname",
		"bringing up the loopback interface", "dropping capabilities", "limiting capabilities",
		"fsopen ", "fsconfig ", "fsmount ",
	} {
		if strings.HasPrefix(e.Call, call) {
			return e.Index < 0 || strings.HasSuffix(call, " ")
		}
	}
	return false
}

// Unwrap returns the number, if there is one.
func (e *MountError) Unwrap() error {
	if e.Errno == 0 {
		return nil
	}
	return e.Errno
}
