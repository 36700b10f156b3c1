// Package frame is the form of the messages between an engine, the holder of a session and an init:
// a big-endian uint32 with the payload's length, one byte with the kind, and the payload. Each
// message describes its payload once, for both directions. Both sides are of one release: they
// refuse another version, and never negotiate.
//
// The package uses only the standard library and x/sys: it is part of the init's lean binary.
package frame

import (
	"encoding/binary"
	"errors"
	"io"
)

// HeaderSize is the length of the header before a payload, in bytes.
const HeaderSize = 5

// MaxItems is how many items each list may have.
const MaxItems = 1_000_000

// MaxFiles is how many descriptors one message may have: the kernel passes 253.
const MaxFiles = 250

// ErrMalformed is wrapped by the errors about messages that no honest side sends.
var ErrMalformed = errors.New("malformed message")

type malformedError struct{ what string }

func (e *malformedError) Error() string { return ErrMalformed.Error() + ": " + e.what }
func (e *malformedError) Unwrap() error { return ErrMalformed }

// Malformed returns an error that says what is wrong with a message.
func Malformed(what string) error { return &malformedError{what} }

// A Message gives a [Codec] its fields, in order.
type Message interface{ Fields(*Codec) }

// A Codec writes the fields of a message, or reads them. After the first error, it reads every
// field as zero.
type Codec struct {
	b       []byte
	reading bool
	err     error
}

// Encode returns a whole message.
func Encode(kind byte, m Message) []byte {
	c := Codec{b: make([]byte, HeaderSize, 512)}
	m.Fields(&c)
	binary.BigEndian.PutUint32(c.b, uint32(len(c.b)-HeaderSize))
	c.b[4] = kind
	return c.b
}

// Payload returns the fields without a header.
func Payload(m Message) []byte {
	var c Codec
	m.Fields(&c)
	return c.b
}

// Decode reads a payload completely.
func Decode(payload []byte, m Message) error {
	c := Codec{b: payload, reading: true}
	m.Fields(&c)
	if c.err == nil && len(c.b) > 0 {
		c.Fail("trailing bytes")
	}
	return c.err
}

// Read reads one message with a payload of at most limit bytes. The error is io.EOF only between
// messages.
func Read(r io.Reader, limit int) (kind byte, payload []byte, err error) {
	var header [HeaderSize]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return 0, nil, err
	}
	n := binary.BigEndian.Uint32(header[:4])
	if uint64(n) > uint64(limit) {
		return 0, nil, Malformed("too long")
	}
	payload = make([]byte, n)
	if _, err := io.ReadFull(r, payload); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return 0, nil, err
	}
	return header[4], payload, nil
}

// Expect reads the one message that can come now.
func Expect(r io.Reader, kind byte, limit int, m Message) error {
	got, payload, err := Read(r, limit)
	if err != nil {
		return err
	}
	if got != kind {
		return Malformed("out of turn")
	}
	return Decode(payload, m)
}

// Fail makes the result of a read an error. An invalid message must not be written.
func (c *Codec) Fail(what string) {
	if c.err == nil {
		c.err = Malformed(what)
	}
	c.b = nil
}

func (c *Codec) take(n int) []byte {
	if n > len(c.b) {
		c.Fail("cut short")
		return nil
	}
	b := c.b[:n]
	c.b = c.b[n:]
	return b
}

// Byte is a field of one byte.
func Byte[T ~uint8 | ~int](c *Codec, v *T) {
	if !c.reading {
		c.b = append(c.b, byte(*v))
	} else if b := c.take(1); b != nil {
		*v = T(b[0])
	}
}

// Int is a field of 32 bits.
func Int[T ~int | ~int32 | ~uint32 | ~uintptr](c *Codec, v *T) {
	if !c.reading {
		c.b = binary.BigEndian.AppendUint32(c.b, uint32(*v))
	} else if b := c.take(4); b != nil {
		*v = T(int32(binary.BigEndian.Uint32(b)))
	}
}

// Long is a field of 64 bits.
func (c *Codec) Long(v *uint64) {
	if !c.reading {
		c.b = binary.BigEndian.AppendUint64(c.b, *v)
	} else if b := c.take(8); b != nil {
		*v = binary.BigEndian.Uint64(b)
	}
}

// Flag is a field of one byte, 0 or 1.
func (c *Codec) Flag(v *bool) {
	b := byte(0)
	if *v {
		b = 1
	}
	if Byte(c, &b); b > 1 {
		c.Fail("a flag is neither 0 nor 1")
	}
	if c.reading { // another goroutine may use the written value, too
		*v = b == 1
	}
}

// Text is a field of any length.
func (c *Codec) Text(v *string) {
	n := uint32(len(*v))
	Int(c, &n)
	switch {
	case !c.reading:
		c.b = append(c.b, *v...)
	case uint64(n) > uint64(len(c.b)):
		c.Fail("cut short")
	default:
		*v = string(c.take(int(n)))
	}
}

// Bytes is [Codec.Text] for bytes; an empty field is nil.
func (c *Codec) Bytes(v *[]byte) {
	text := string(*v)
	if c.Text(&text); c.reading && text != "" {
		*v = []byte(text)
	}
}

// Texts is a list of [Codec.Text].
func (c *Codec) Texts(v *[]string) { List(c, v, 4, c.Text) }

// List is a field of any number of items, each with at least size bytes: so a count cannot request
// more memory than a few times the sent bytes.
func List[T any](c *Codec, v *[]T, size int, item func(*T)) {
	n := uint32(len(*v))
	Int(c, &n)
	if c.reading {
		if n > MaxItems || uint64(n)*uint64(size) > uint64(len(c.b)) {
			c.Fail("too many items")
			n = 0
		}
		*v = nil
		if n > 0 {
			*v = make([]T, n)
		}
	}
	for i := range *v {
		item(&(*v)[i])
	}
}
