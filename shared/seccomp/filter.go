package seccomp

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/net/bpf"
)

// Options are what a definition may let through. The zero value lets nothing of it through: an
// engine whose commands have a network of their own sets UnixSockets, and Owners if other users
// have no number in its sandboxes.
type Options struct {
	// Ptrace lets debuggers work: ptrace, process_vm_readv and _writev, kcmp, and
	// a personality without address randomisation.
	Ptrace bool
	// UnixSockets lets unix sockets be made. Without it only connected pairs of
	// stream and seqpacket sockets can be.
	UnixSockets bool
	// NestedUserNamespaces lets namespaces be made and entered, and mounts in them.
	NestedUserNamespaces bool
	// NoNetwork refuses all sockets but unix ones, for a command that shares a network
	// which it is not to reach.
	NoNetwork bool
	// Unhidden is for a command from which no mount and no namespace keeps the host's files and
	// processes. It refuses what rules about paths do not see: to change owners and extended
	// attributes, to open a file for ioctl alone, and to limit other processes.
	Unhidden bool
	// Owners are those whom files can be given to, where other users may have no number: the kernel
	// answers EINVAL for these, and programs such as fakeroot forgive EPERM alone. Nil leaves it to the
	// kernel, and so do NestedUserNamespaces, in which users have other numbers.
	Owners *Owners
	// NoTruncation refuses to truncate a file that is not open for writing, likewise.
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
