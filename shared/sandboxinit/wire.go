package sandboxinit

import (
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"syscall"

	"github.com/sbxhost/sbxhost/shared/holder"
)

// A message is a big-endian uint32 length of the payload, one byte of kind, and
// the payload: fixed-size integers, strings with a uint32 length, lists with a
// uint32 count. Both ends are of one build or of one release, so there is a
// version to refuse, and none to negotiate.
const wireVersion = 6

type kind byte

const (
	kindSandbox  kind = 'M' // engine -> init, before the command, of one that makes its sandbox
	kindComplete kind = 'P' // engine -> init, after that: steps to repeat; stdin, stdout, stderr
	kindCommand  kind = 'C' // engine -> init, first and once
	kindSignal   kind = 'S' // engine -> init
	kindKill     kind = 'K' // engine -> init
	kindStarted  kind = 'R' // init -> engine, first
	kindRefused  kind = 'E' // init -> engine, instead of the other two
	kindUnmade   kind = 'U' // likewise: the sandbox could not be made
	kindStatus   kind = 'X' // init -> engine, last
)

const (
	headerSize = 5
	maxCommand = 16 << 20  // a command's payload
	maxStrings = 1_000_000 // in one command
	// maxReport bounds what the engine reads into memory for an init that the
	// command has taken over. A path is at most 4 KiB.
	maxReport = 16 << 10
	// maxRequest is for what follows the command.
	maxRequest = 64
)

// ErrProtocol is wrapped by errors about messages that no init sends.
var ErrProtocol = errors.New("malformed message on the control socket")

func protocolError(what string) error { return &wireError{what} }

type wireError struct{ what string }

func (e *wireError) Error() string { return ErrProtocol.Error() + ": " + e.what }
func (e *wireError) Unwrap() error { return ErrProtocol }

// readMessage reads one message whose payload is at most limit bytes. The error
// is io.EOF only at a message boundary.
func readMessage(r io.Reader, limit int) (kind, []byte, error) {
	var header [headerSize]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return 0, nil, err
	}
	n := binary.BigEndian.Uint32(header[:4])
	if uint64(n) > uint64(limit) {
		return 0, nil, protocolError("message too long")
	}
	payload := make([]byte, n)
	if _, err := io.ReadFull(r, payload); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return 0, nil, err
	}
	return kind(header[4]), payload, nil
}

// message returns an encoder with room for n bytes of payload.
func message(k kind, n int) encoder {
	b := make([]byte, headerSize, headerSize+n)
	b[4] = byte(k)
	return encoder{b}
}

type encoder struct{ b []byte }

func (e *encoder) u8(v byte)    { e.b = append(e.b, v) }
func (e *encoder) u32(v uint32) { e.b = binary.BigEndian.AppendUint32(e.b, v) }
func (e *encoder) u64(v uint64) { e.b = binary.BigEndian.AppendUint64(e.b, v) }

func (e *encoder) flag(v bool) {
	if v {
		e.u8(1)
	} else {
		e.u8(0)
	}
}

func (e *encoder) str(s string) {
	e.u32(uint32(len(s)))
	e.b = append(e.b, s...)
}

func (e *encoder) list(l []string) {
	e.u32(uint32(len(l)))
	for _, s := range l {
		e.str(s)
	}
}

// done fills in the length.
func (e *encoder) done() []byte {
	binary.BigEndian.PutUint32(e.b, uint32(len(e.b)-headerSize))
	return e.b
}

// decoder reads a payload. After the first error everything reads as zero.
type decoder struct {
	b   []byte
	err error
}

func (d *decoder) fail(what string) {
	if d.err == nil {
		d.err = protocolError(what)
	}
	d.b = nil
}

func (d *decoder) take(n int) []byte {
	if n > len(d.b) {
		d.fail("cut short")
		return nil
	}
	b := d.b[:n]
	d.b = d.b[n:]
	return b
}

func (d *decoder) u8() byte {
	if b := d.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *decoder) u32() uint32 {
	if b := d.take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (d *decoder) u64() uint64 {
	if b := d.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

func (d *decoder) flag() bool {
	v := d.u8()
	if v > 1 {
		d.fail("a flag is neither 0 nor 1")
	}
	return v == 1
}

func (d *decoder) str() string {
	n := d.u32()
	if uint64(n) > uint64(len(d.b)) {
		d.fail("cut short")
		return ""
	}
	return string(d.take(int(n)))
}

func (d *decoder) list() []string {
	n := d.u32()
	// Each string takes four bytes at least: a count cannot ask for more
	// memory than a few times what was sent.
	if n > maxStrings || uint64(n)*4 > uint64(len(d.b)) {
		d.fail("too many strings")
		return nil
	}
	if n == 0 {
		return nil
	}
	l := make([]string, n)
	for i := range l {
		l[i] = d.str()
	}
	return l
}

func (d *decoder) end() error {
	if d.err == nil && len(d.b) > 0 {
		d.fail("trailing bytes")
	}
	return d.err
}

func encodeCommand(c *Command) ([]byte, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	size := 64 + len(c.Script) + len(c.Dir) + len(c.Fresh) + 20*len(c.Rlimits) + len(c.Filter)
	for _, s := range c.Args {
		size += 4 + len(s)
	}
	for _, s := range c.Env {
		size += 4 + len(s)
	}
	for _, m := range c.Mounts {
		size += 21 + len(m.Path)
	}
	if size > maxCommand {
		return nil, errors.New("command: args, env and script are over 16 MiB")
	}
	if c.strings() > maxStrings {
		return nil, errors.New("command: more than 1000000 args and variables")
	}
	e := message(kindCommand, size)
	e.u8(wireVersion)
	e.list(c.Args)
	e.str(c.Script)
	e.list(c.Env)
	e.str(c.Dir)
	e.flag(c.TTY)
	e.flag(c.Scope)
	e.flag(c.Crowded)
	e.u32(uint32(len(c.Rlimits)))
	for _, l := range c.Rlimits {
		e.u32(uint32(l.Resource))
		e.u64(l.Soft)
		e.u64(l.Hard)
	}
	e.str(string(c.Filter))
	e.str(c.Fresh)
	e.u32(uint32(len(c.Mounts)))
	for _, m := range c.Mounts {
		e.str(m.Path)
		e.flag(m.Links)
		e.u64(m.Dev)
		e.u64(m.Ino)
	}
	return e.done(), nil
}

func decodeCommand(payload []byte) (*Command, error) {
	d := decoder{b: payload}
	if d.u8() != wireVersion {
		d.fail("engine and init are of different versions")
	}
	c := &Command{
		Args:   d.list(),
		Script: d.str(),
		Env:    d.list(),
		Dir:    d.str(),
		TTY:    d.flag(),
		Scope:  d.flag(),

		Crowded: d.flag(),
	}
	n := d.u32()
	if n > maxRlimits {
		d.fail("too many rlimits")
		n = 0
	}
	for range n {
		c.Rlimits = append(c.Rlimits, Rlimit{
			Resource: int(d.u32()),
			Soft:     d.u64(),
			Hard:     d.u64(),
		})
	}
	c.Rlimits = slices.Clip(c.Rlimits)
	if filter := d.str(); filter != "" {
		c.Filter = []byte(filter)
	}
	c.Fresh = d.str()
	if n = d.u32(); n > maxStrings || uint64(n)*21 > uint64(len(d.b)) {
		d.fail("too many mounts")
		n = 0
	}
	for range n {
		c.Mounts = append(c.Mounts, Mount{d.str(), d.flag(), d.u64(), d.u64()})
	}
	if c.strings() > maxStrings {
		d.fail("too many strings")
	}
	if err := d.end(); err != nil {
		return nil, err
	}
	if err := c.validate(); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *Command) strings() int {
	return len(c.Args) + len(c.Env) + len(c.Mounts)
}

const maxSignal = 64

func encodeSignal(n int) []byte {
	e := message(kindSignal, 1)
	e.u8(byte(n))
	return e.done()
}

func decodeSignal(payload []byte) (int, error) {
	d := decoder{b: payload}
	n := int(d.u8())
	if n < 1 || n > maxSignal {
		d.fail("no such signal")
	}
	return n, d.end()
}

func encodeSandbox(sandbox []byte) []byte {
	e := message(kindSandbox, len(sandbox))
	e.b = append(e.b, sandbox...)
	return e.done()
}

func encodeComplete(mended []byte) []byte {
	e := message(kindComplete, len(mended))
	e.b = append(e.b, mended...)
	return e.done()
}

func encodeUnmade(failed *holder.MountError) []byte {
	text := failed.Encode()
	e := message(kindUnmade, len(text))
	e.b = append(e.b, text...)
	return e.done()
}

func encodeKill() []byte {
	e := message(kindKill, 0)
	return e.done()
}

func encodeStarted(scoped bool) []byte {
	e := message(kindStarted, 1)
	e.flag(scoped)
	return e.done()
}

func decodeStarted(payload []byte) (scoped bool, err error) {
	d := decoder{b: payload}
	scoped = d.flag()
	return scoped, d.end()
}

func encodeRefused(x *ExecError) []byte {
	e := message(kindRefused, 16+len(x.Op)+len(x.Path))
	e.str(x.Op)
	// A name longer than any path cannot be found; its beginning tells which.
	e.str(x.Path[:min(len(x.Path), maxReport/2)])
	e.u32(uint32(x.Errno))
	return e.done()
}

func decodeRefused(payload []byte) (*ExecError, error) {
	d := decoder{b: payload}
	x := &ExecError{Op: d.str(), Path: d.str(), Errno: syscall.Errno(d.u32())}
	// MAX_ERRNO. Zero would be an error that says "errno 0".
	if !knownOp(x.Op) || x.Errno < 1 || x.Errno > 4095 {
		d.fail("no such exec error")
	}
	if err := d.end(); err != nil {
		return nil, err
	}
	return x, nil
}

func encodeStatus(s Status) []byte {
	e := message(kindStatus, 11)
	if s.Signal != 0 {
		e.u8(0)
	} else {
		e.u8(byte(s.Code))
	}
	e.u8(byte(s.Signal))
	e.flag(s.CoreDumped)
	e.u64(s.Left)
	return e.done()
}

func decodeStatus(payload []byte) (Status, error) {
	d := decoder{b: payload}
	s := Status{Code: int(d.u8()), Signal: int(d.u8()), CoreDumped: d.flag(), Left: d.u64()}
	switch {
	case s.Signal > 127, s.Signal != 0 && s.Code != 0, s.Signal == 0 && s.CoreDumped:
		d.fail("no such wait status")
	case s.Signal != 0:
		s.Code = -1
	}
	if err := d.end(); err != nil {
		return Status{}, err
	}
	return s, nil
}
