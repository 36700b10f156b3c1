package frame

import (
	"bytes"
	"errors"
	"io"
	"testing"
)

func TestRead(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		from []byte
		want error
	}{
		"4 GiB":       {[]byte{0xff, 0xff, 0xff, 0xff, 'X'}, ErrMalformed},
		"cut payload": {[]byte{0, 0, 0, 9, 'X', 1}, io.ErrUnexpectedEOF},
		"no payload":  {[]byte{0, 0, 0, 9, 'X'}, io.ErrUnexpectedEOF},
		"cut header":  {[]byte{0, 0}, io.ErrUnexpectedEOF},
		"nothing":     {nil, io.EOF},
		"a message":   {[]byte{0, 0, 0, 1, 'X', 7}, nil},
	} {
		kind, payload, err := Read(bytes.NewReader(c.from), 100)
		if !errors.Is(err, c.want) || err == nil && (kind != 'X' || !bytes.Equal(payload, []byte{7})) {
			t.Errorf("%s: %q, %v, %v", name, kind, payload, err)
		}
	}
}

// all has a field of each type.
type all struct {
	small int
	whole int
	long  uint64
	flag  bool
	text  string
	texts []string
	bytes []byte
}

func (a *all) Fields(c *Codec) {
	Byte(c, &a.small)
	Int(c, &a.whole)
	c.Long(&a.long)
	c.Flag(&a.flag)
	c.Text(&a.text)
	c.Texts(&a.texts)
	c.Bytes(&a.bytes)
}

func TestFields(t *testing.T) {
	t.Parallel()
	want := &all{255, -1, 1 << 63, true, "\xff", []string{"", "x"}, []byte{0}}
	payload := Payload(want)
	var got all
	if err := Decode(payload, &got); err != nil || string(Payload(&got)) != string(payload) || got.whole != -1 || len(got.texts) != 2 {
		t.Errorf("%+v, %v", got, err)
	}
	for n := range payload {
		if err := Decode(payload[:n], &all{}); !errors.Is(err, ErrMalformed) {
			t.Errorf("the first %d of %d bytes: %v", n, len(payload), err)
		}
	}
	if err := Decode(append(payload, 0), &all{}); !errors.Is(err, ErrMalformed) {
		t.Errorf("a byte more: %v", err)
	}
}

func FuzzFields(f *testing.F) {
	f.Add(Payload(&all{}))
	f.Add(Payload(&all{texts: []string{"a", "b"}}))
	f.Fuzz(func(t *testing.T, payload []byte) {
		var a all
		if Decode(payload, &a) == nil && string(Payload(&a)) != string(payload) {
			t.Errorf("%+v is not %q", a, payload)
		}
	})
}
