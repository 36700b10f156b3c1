package shared

import (
	"bytes"
	"testing"

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
