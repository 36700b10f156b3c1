package seccomp

// Options permit calls that only some definitions or engines permit. The zero value permits none of
// them. An engine whose commands have a network of their own sets UnixSockets. It sets Owners if
// other users have no number in its sandboxes.
type Options struct {
	// Ptrace lets debuggers work: ptrace, process_vm_readv and _writev, kcmp, and
	// a personality without address randomisation.
	Ptrace bool
	// UnixSockets permits commands to make unix sockets. Without it they can make only connected
	// pairs of stream and seqpacket sockets.
	UnixSockets bool
	// NestedUserNamespaces permits commands to make and enter namespaces, and to mount in them.
	NestedUserNamespaces bool
	// NoNetwork refuses all sockets except unix ones, for a command that shares a network that it
	// must not reach.
	NoNetwork bool
	// Unhidden is for a command from which neither a mount nor a namespace hides the host's files
	// and processes. It refuses calls that rules about paths do not cover: to change owners and
	// extended attributes, to open a file for ioctl alone, and to limit other processes.
	Unhidden bool
	// Owners are the users and groups that can get files, where other users may have no number. For
	// other users the kernel answers EINVAL, but programs such as fakeroot tolerate only EPERM. Nil
	// leaves the answer to the kernel. So does NestedUserNamespaces, because users have other
	// numbers in them.
	Owners *Owners
	// NoTruncation refuses to truncate a file that is not open for writing, for a command whose
	// rules about paths do not cover that.
	NoTruncation bool
}

// Owners are a user and groups. A command without capabilities can give its files to no others.
type Owners struct {
	UID  uint32
	GIDs []uint32 // none, or more than [MaxGroups]: the kernel decides
}

// MaxGroups is how many groups a filter compares.
const MaxGroups = 32
