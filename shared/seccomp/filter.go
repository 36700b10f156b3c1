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
func New(goarch string, o Options) (f Filter, err error) {
	if f.arch, err = archOf(goarch); err == nil {
		f.rules = rules(o)
		f.program, err = compile(f.arch, f.rules)
	}
	return f, err
}

// Tracing makes the program that stops a traced command at the calls of package traced, for
// one of Go's architectures. It is loaded on top of a filter of New, and refuses nothing: of
// two filters the kernel takes the stricter answer, and a refusal is stricter than a stop.
func Tracing(goarch string) (f Filter, err error) {
	if f.arch, err = archOf(goarch); err == nil {
		f.program, err = compileTracing(f.arch)
	}
	return f, err
}

func archOf(goarch string) (arch, error) {
	for _, a := range arches {
		if a.goarch == goarch {
			return a, nil
		}
	}
	return arch{}, fmt.Errorf("there is no system call filter for %s: only for amd64 and arm64", goarch)
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
