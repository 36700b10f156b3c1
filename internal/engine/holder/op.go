package holder

import (
	"strings"
	"syscall"

	"github.com/sbxhost/sbxhost/internal/frame"
)

// Kind is one step that makes a tree.
type Kind uint8

const (
	// Root makes the directory Dest and a mount of it, to which further steps add.
	Root Kind = iota
	// Bind shows Source, with what is mounted beneath it.
	Bind
	// ReadOnlyBind is Bind without the right to write.
	ReadOnlyBind
	// Overlay shows the overlay of Source, which belongs to the session.
	Overlay
	// Home shows memory that belongs to the session: the same for each equal
	// Source (any name), Perms and Size.
	Home
	// Directory makes an empty directory where there is none; Perms apply.
	Directory
	// File makes a copy of the regular file Source, with Perms.
	File
	// Text makes a file of the bytes of Source, with Perms.
	Text
	// Symlink makes a link with the text Source.
	Symlink
	// ReadOnly takes the right to write from the mount at Dest, not from those beneath.
	ReadOnly
	// Pin binds the directory Dest onto itself, so that it cannot be renamed.
	Pin
	// HideFile and HideDirectory lay something unreadable over Dest.
	HideFile
	HideDirectory
	// Devices makes memory at Dest with the devices that every program may use and
	// the links that go with them; with a Size, also a
	// file to mount a terminal on, "console".
	Devices
	// Device shows the device Source, which can be used there.
	Device
	// Memory mounts empty memory on Dest; Perms and Size apply. In a tree all commands share
	// it.
	Memory

	// What follows is for the steps of a [Sandbox] alone.

	// OwnOverlay shows an overlay of Source that is the sandbox's alone, and ends with it.
	OwnOverlay
	// Move shows the tree Source, a path in the trees' own space, at Dest.
	Move
	// Seal takes the right to write from Dest and all beneath it, by a mount over it.
	Seal
	// Processes makes a procfs, of the sandbox's own processes, at Dest.
	Processes
	// Pseudoterminals makes a devpts at Dest.
	Pseudoterminals
	// Console shows the terminal that is the init's stdout at Dest.
	Console
	kinds
)

// An Op is one step. Source is a path of the host, absolute and without symlinks;
// Dest is a path in the trees' own space, such as "/0/usr". Perms and Size
// apply where a Kind says so.
type Op struct {
	Kind   Kind
	Source string
	Dest   string
	Perms  uint32
	Size   uint64
}

// A Plan is a list of steps, ready to be sent.
type Plan struct{ encoded string }

// NewPlan encodes steps. Equal steps are one prepared tree.
func NewPlan(ops []Op) Plan { return Plan{string(encodePlan(ops))} }

// Fields implements [frame.Message]; the steps are checked when they are made.
func (p *Plan) Fields(c *frame.Codec) { c.Text(&p.encoded) }

// A Sandbox is what an init has for itself; see [Make].
type Sandbox struct {
	// Namespaces are the CLONE_NEW* flags of the namespaces that it is started in,
	// beside a mount namespace.
	Namespaces uint32
	// Steps are made in its own mount namespace, a copy of that of the tree, in which
	// "/0" becomes the root directory then.
	Steps Plan
	// Tree is that of an [Alone], which has it from nobody.
	Tree Plan
	// Member says that it is in the pid namespace of others ([Start]).
	Member bool
	// Resets has a raw socket opened in its network namespace, which sees what comes by TCP: who
	// passes its connections on sees by it what the kernel refuses.
	Resets bool
	// Groups are the hierarchies of the control groups that hold the limits of its command, in which it is
	// by then: "cgroup2", or controllers of version 1 such as "cpu,cpuacct".
	Groups []string
}

// Fields implements [frame.Message].
func (b *Sandbox) Fields(c *frame.Codec) {
	frame.Int(c, &b.Namespaces)
	c.Text(&b.Steps.encoded)
	c.Text(&b.Tree.encoded)
	c.Flag(&b.Member)
	c.Flag(&b.Resets)
	c.Texts(&b.Groups)
	if b.Namespaces&^sandboxNamespaces != 0 {
		c.Fail("no such namespaces")
	}
}

// Trees is the directory in which an init finds the trees: Dest "/0" is at
// Trees + "/0".
const Trees = "/.tree"

// Null is a file that can be neither read nor written, to hide others with.
const Null = "/.null"

// Host is the directory in which an init finds the host's file system.
const Host = "/.host"

// CallClone is the Call of a MountError about the start of a holder, in namespaces of
// its own.
const CallClone = "starting a process in new namespaces"

// A MountError says which step could not be done.
type MountError struct {
	Index  int    // of the step in its list
	Call   string // the system call, or what it was for
	Reason string
	Errno  syscall.Errno // zero where it was not the kernel that refused
	Shared bool          // it is one of the tree, not of a sandbox
}

func (e *MountError) Error() string { return e.Call + ": " + e.Reason }

// OfMachine reports whether the error is about what any sandbox needs of the machine,
// and not about a path, or about what lies in a session's directory.
func (e *MountError) OfMachine() bool {
	if e.Call == CallClone {
		return true
	}
	for _, call := range [...]string{
		"making the mounts slaves", "mounting the root", "pivot_root", "unmounting the old root", "unshare", "mount_setattr", "sethostname",
		"bringing up the loopback interface", "dropping capabilities", "limiting capabilities",
		"fsopen ", "fsconfig ", "creating a ", "fsmount ",
	} {
		if strings.HasPrefix(e.Call, call) {
			return e.Index < 0 || strings.HasSuffix(call, " ")
		}
	}
	return false
}

// Unwrap gives the number, where there is one.
func (e *MountError) Unwrap() error {
	if e.Errno == 0 {
		return nil
	}
	return e.Errno
}
