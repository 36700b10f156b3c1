package shared

import (
	"bytes"
	"errors"
	"io"
	"os"
	"testing"
	"time"

	pb "github.com/sbxhost/sbxhost/shared/enginepb"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// Whatever valid bytes carry a chunk, the codec reads them as protobuf does,
// and what it writes protobuf reads.
func FuzzCodec(f *testing.F) {
	f.Add([]byte{0x0a, 0x03, 'a', 'b', 'c'}, uint8(1))
	f.Add([]byte{0x0a, 0x01, 'a', 0x0a, 0x01, 'b'}, uint8(2)) // twice: the last one counts
	f.Add([]byte{0x12, 0x01, 'a', 0x0a, 0x01, 'b'}, uint8(3)) // an unknown field
	f.Add([]byte{0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}, uint8(0))
	f.Add([]byte{0x0a}, uint8(0))
	f.Add([]byte{}, uint8(0))
	f.Fuzz(func(t *testing.T, b []byte, cut uint8) {
		var want pb.OutputReply
		wantErr := proto.Unmarshal(b, &want)
		at := min(int(cut), len(b))
		in := mem.BufferSlice{mem.SliceBuffer(b[:at]), mem.SliceBuffer(b[at:])}
		got := outputChunk{OutputReply: &pb.OutputReply{Data: make([]byte, 1, 4)}}
		err := newCodec().Unmarshal(in, &got)
		if (err == nil) != (wantErr == nil) || err == nil && !bytes.Equal(got.Data, want.Data) {
			t.Fatalf("%x: got %x, %v; want %x, %v", b, got.Data, err, want.Data, wantErr)
		}

		var chunks chunkPool
		buf, data, _ := chunks.fill(func(p []byte) (int, error) { return copy(p, b), nil })
		if buf == nil {
			return
		}
		out, err := newCodec().Marshal(&stdinChunk{&pb.StdinRequest{Data: data}, buf})
		if err != nil {
			t.Fatal(err)
		}
		var sent pb.StdinRequest
		if err := proto.Unmarshal(out.Materialize(), &sent); err != nil || !bytes.Equal(sent.Data, b[:len(data)]) {
			t.Fatalf("%x became %x, %v", b, sent.Data, err)
		}
		out.Free()
		buf.Free()
	})
}

// Where nothing can be read, no buffer is given, whatever the reason.
func TestFillFrom(t *testing.T) {
	t.Parallel()
	r, w := pipe(t)
	defer r.Close()
	var chunks chunkPool
	read := func() (string, error) {
		buf, data, err := chunks.fillFrom(r)
		text := string(data)
		if (buf != nil) != (len(data) > 0) {
			t.Errorf("a buffer is there: %v; %d bytes are", buf != nil, len(data))
		}
		if buf != nil {
			buf.Free()
		}
		return text, err
	}
	if err := r.SetReadDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if got, err := read(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("past the deadline: %q, %v", got, err)
	}
	r.SetReadDeadline(time.Time{})
	go io.WriteString(w, "text")
	if got, err := read(); got != "text" || err != nil {
		t.Errorf("text: %q, %v", got, err)
	}
	w.Close()
	if got, err := read(); got != "" || err != io.EOF {
		t.Errorf("the end: %q, %v", got, err)
	}
	dir, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	if _, _, err := chunks.fillFrom(dir); err == nil {
		t.Error("a directory was read")
	}
}
