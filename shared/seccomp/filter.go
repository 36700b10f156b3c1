package seccomp

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/net/bpf"
)

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

// Filter is a program for one architecture.
type Filter struct {
	arch    arch
	rules   []rule // none in one of Tracing
	program []bpf.RawInstruction
}

// New makes the filter for one of Go's architectures: amd64 or arm64.
func New(goarch string, o Options) (Filter, error) {
	for _, a := range arches {
		if a.goarch != goarch {
			continue
		}
		rules := rules(o)
		program, err := compile(a, rules)
		return Filter{a, rules, program}, err
	}
	return Filter{}, fmt.Errorf("there is no system call filter for %s: only for amd64 and arm64", goarch)
}

// Tracing makes the program that stops a traced command at the calls of package traced, for
// one of Go's architectures. It is loaded on top of a filter of New, and refuses nothing: of
// two filters the kernel takes the stricter answer, and a refusal is stricter than a stop.
func Tracing(goarch string) (Filter, error) {
	for _, a := range arches {
		if a.goarch == goarch {
			program, err := compileTracing(a)
			return Filter{arch: a, program: program}, err
		}
	}
	return Filter{}, fmt.Errorf("there is no tracing for %s: only for amd64 and arm64", goarch)
}

// Bytes is the program as the kernel of its architecture reads it: an array of
// struct sock_filter.
func (f Filter) Bytes() []byte {
	b := make([]byte, 0, 8*len(f.program))
	for _, i := range f.program {
		// Both architectures are little-endian.
		b = binary.LittleEndian.AppendUint16(b, i.Op)
		b = append(b, i.Jt, i.Jf)
		b = binary.LittleEndian.AppendUint32(b, i.K)
	}
	return b
}
