package seccomp

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/net/bpf"
)

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
