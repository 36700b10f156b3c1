package holder

import (
	"encoding/binary"
	"errors"
	"syscall"
)

// A message is a big-endian uint32 length of the payload, a byte of kind, a byte
// with the number of descriptors that come with it, and the payload. Both ends
// are of one release: a version is refused, never negotiated.
const wireVersion = 5

type messageKind byte

const (
	msgHello   messageKind = 'H' // holder -> client, first: version
	msgOverlay messageKind = 'L' // client -> holder: request, source
	msgRun     messageKind = 'R' // client -> holder: request, umask, namespaces, plan, argv; files
	msgDone    messageKind = 'D' // holder -> client: request, pid; for a run, the pidfd
	msgFailed  messageKind = 'E' // holder -> client: request, index, errno, call, reason, shared
	msgExit    messageKind = 'X' // holder -> client: request, wait status
	msgSame    messageKind = 'S' // client -> holder: request, that of a run
	msgMended  messageKind = 'M' // holder -> client: request, whether it is the same, plan
)

const (
	headerSize = 6
	maxPayload = 8 << 20
	maxFiles   = 250 // the kernel passes 253 at once
	maxOps     = 50_000
	maxWords   = 10_000
)

// sandboxNamespaces are those that a sandbox can have for itself: CLONE_NEWNS, NEWCGROUP,
// NEWUTS, NEWIPC, NEWPID and NEWNET.
const sandboxNamespaces = 1<<17 | 1<<25 | 1<<26 | 1<<27 | 1<<29 | 1<<30

var errProtocol = errors.New("malformed message on the holder's socket")

func message(k messageKind, files int) []byte {
	b := make([]byte, headerSize, 256)
	b[4], b[5] = byte(k), byte(files)
	return b
}

// finish fills in the length.
func finish(b []byte) []byte {
	binary.BigEndian.PutUint32(b, uint32(len(b)-headerSize))
	return b
}

func putInt(b []byte, v uint32) []byte { return binary.BigEndian.AppendUint32(b, v) }

func putString(b []byte, s string) []byte {
	return append(putInt(b, uint32(len(s))), s...)
}

// decoder reads a payload. After the first error everything reads as zero.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) take(n uint32) []byte {
	if uint64(n) > uint64(len(d.b)) {
		d.b, d.bad = nil, true
		return nil
	}
	b := d.b[:n]
	d.b = d.b[n:]
	return b
}

func (d *decoder) int() uint32 {
	if b := d.take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (d *decoder) string() string { return string(d.take(d.int())) }

func (d *decoder) flag() bool {
	v := d.int()
	d.bad = d.bad || v > 1
	return v == 1
}

// done is the verdict on a payload that has been read.
func (d *decoder) done() error {
	if d.bad || len(d.b) > 0 {
		return errProtocol
	}
	return nil
}

func encodePlan(ops []Op) []byte {
	n := 4
	for _, o := range ops {
		n += 21 + len(o.Source) + len(o.Dest)
	}
	b := putInt(make([]byte, 0, n), uint32(len(ops)))
	for _, o := range ops {
		b = append(b, byte(o.Kind))
		b = putString(putString(b, o.Source), o.Dest)
		b = binary.BigEndian.AppendUint64(putInt(b, o.Perms), o.Size)
	}
	return b
}

func decodePlan(b []byte) ([]Op, error) {
	d := decoder{b: b}
	n := d.int()
	if n > maxOps || uint64(n)*21 > uint64(len(b)) {
		return nil, errProtocol
	}
	ops := make([]Op, n)
	for i := range ops {
		o := &ops[i]
		if k := d.take(1); k != nil {
			o.Kind = Kind(k[0])
		}
		o.Source, o.Dest, o.Perms = d.string(), d.string(), d.int()
		o.Size = uint64(d.int())<<32 | uint64(d.int())
		if o.Kind >= kinds {
			return nil, errProtocol
		}
	}
	return ops, d.done()
}

// A run is the request to start an init.
type run struct {
	request uint32
	umask   uint32 // of the init, and so of the command
	plan    string // encoded: equal plans are equal strings
	argv    []string

	namespaces uint32 // of its sandbox
}

func encodeRun(r *run, files int) []byte {
	b := putInt(putInt(putInt(message(msgRun, files), r.request), r.umask), r.namespaces)
	b = putInt(putString(b, r.plan), uint32(len(r.argv)))
	for _, w := range r.argv {
		b = putString(b, w)
	}
	return finish(b)
}

func decodeRun(b []byte) (*run, error) {
	d := decoder{b: b}
	r := &run{request: d.int(), umask: d.int(), namespaces: d.int(), plan: d.string()}
	n := d.int()
	if n > maxWords || uint64(n)*4 > uint64(len(d.b)) {
		return nil, errProtocol
	}
	for range n {
		r.argv = append(r.argv, d.string())
	}
	if len(r.argv) == 0 || r.umask > 0o777 || r.namespaces&^sandboxNamespaces != 0 {
		return nil, errProtocol
	}
	return r, d.done()
}

func encodeFailed(request uint32, e *MountError) []byte {
	return finish(append(putInt(message(msgFailed, 0), request), e.Encode()...))
}

func decodeFailed(b []byte) (request uint32, e *MountError, err error) {
	d := decoder{b: b}
	request = d.int()
	if d.bad {
		return 0, nil, errProtocol
	}
	e, err = DecodeError(d.b)
	return request, e, err
}

// Encode gives e as a message holds it.
func (e *MountError) Encode() []byte {
	shared := uint32(0)
	if e.Shared {
		shared = 1
	}
	b := putInt(putInt(nil, uint32(int32(e.Index))), uint32(e.Errno))
	return putInt(putString(putString(b, e.Call), e.Reason), shared)
}

// DecodeError is the reverse of Encode.
func DecodeError(b []byte) (*MountError, error) {
	d := decoder{b: b}
	e := &MountError{Index: int(int32(d.int())), Errno: syscall.Errno(d.int()), Call: d.string(), Reason: d.string(), Shared: d.flag()}
	return e, d.done()
}

func encodeInts(k messageKind, files int, v ...uint32) []byte {
	b := message(k, files)
	for _, n := range v {
		b = putInt(b, n)
	}
	return finish(b)
}

func decodeInts(b []byte, v ...*uint32) error {
	d := decoder{b: b}
	for _, p := range v {
		*p = d.int()
	}
	return d.done()
}

func encodeMended(request uint32, same bool, steps []Op) []byte {
	b := putInt(message(msgMended, 0), request)
	if same {
		b = append(putInt(b, 1), encodePlan(steps)...)
	} else {
		b = putInt(b, 0)
	}
	return finish(b)
}

// decodeMended gives the plan as it came: it is for an init.
func decodeMended(b []byte) (request uint32, same bool, steps Plan, err error) {
	d := decoder{b: b}
	request, same = d.int(), d.flag()
	if d.bad {
		return 0, false, Plan{}, errProtocol
	}
	if same {
		_, err = decodePlan(d.b)
	}
	return request, same, Plan{string(d.b)}, err
}

func encodeOverlay(request uint32, source string) []byte {
	return finish(putString(putInt(message(msgOverlay, 0), request), source))
}

func decodeOverlay(b []byte) (request uint32, source string, err error) {
	d := decoder{b: b}
	request, source = d.int(), d.string()
	return request, source, d.done()
}
