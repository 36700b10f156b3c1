package seccomp

import (
	"encoding/binary"
	"fmt"
	"testing"

	"golang.org/x/net/bpf"
)

// What the kernel's header calls the results, here in the test's own words.
const (
	allowed  = "allow"
	killed   = "kill process"
	isEPERM  = "EPERM"
	isENOSYS = "ENOSYS"
)

const x86, aarch, i386, arm = 0xc000003e, 0xc00000b7, 0x40000003, 0x40000028

// a call is what the kernel shows to a filter.
type call struct {
	number, arch uint32
	args         [6]uint64
}

// machine runs a filter as the kernel would.
func machine(t testing.TB, f Filter) func(call) string {
	t.Helper()
	// From the bytes, since they are what the kernel is given.
	var program []bpf.Instruction
	raw := f.Bytes()
	for ; len(raw) >= 8; raw = raw[8:] {
		program = append(program, bpf.RawInstruction{
			Op: binary.LittleEndian.Uint16(raw), Jt: raw[2], Jf: raw[3], K: binary.LittleEndian.Uint32(raw[4:]),
		}.Disassemble())
	}
	if len(raw) != 0 {
		t.Fatalf("%d bytes too many", len(raw))
	}
	vm, err := bpf.NewVM(program)
	if err != nil {
		t.Fatal(err)
	}
	return func(c call) string {
		// The emulator loads words in the network's order, and the kernel in
		// its own: so each is stored in the former, in the places that they
		// have in little-endian memory.
		data := make([]byte, 64)
		put := binary.BigEndian.PutUint32
		put(data[0:], c.number)
		put(data[4:], c.arch)
		for i, a := range c.args {
			put(data[16+8*i:], uint32(a))
			put(data[20+8*i:], uint32(a>>32))
		}
		ret, err := vm.Run(data)
		if err != nil {
			t.Fatal(err)
		}
		switch uint32(ret) {
		case 0x7fff0000:
			return allowed
		case 0x80000000:
			return killed
		case 0x00050001:
			return isEPERM
		case 0x00050026:
			return isENOSYS
		}
		return fmt.Sprintf("%#x", ret)
	}
}

func filter(t testing.TB, goarch string, o Options) Filter {
	t.Helper()
	f, err := New(goarch, o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// every calls fn for all options on all architectures.
func every(t *testing.T, fn func(t *testing.T, goarch string, o Options)) {
	for _, goarch := range []string{"amd64", "arm64"} {
		for bits := range uint8(16) {
			o := Options{Ptrace: bits&1 != 0, UnixSockets: bits&2 != 0, NestedUserNamespaces: bits&4 != 0, Owners: ownersOf(bits >> 3)}
			t.Run(fmt.Sprintf("%s/%+v,%+v", goarch, o, o.Owners), func(t *testing.T) { fn(t, goarch, o) })
		}
	}
}

// ownersOf gives owners for a few numbers, and none for even ones.
func ownersOf(n uint8) *Owners {
	if n&1 == 0 {
		return nil
	}
	return &Owners{UID: 5, GIDs: []uint32{5, 10, 38}[:n>>1&3]}
}

func auditOf(goarch string) uint32 {
	if goarch == "arm64" {
		return aarch
	}
	return x86
}
