package shared

import (
	"encoding/binary"
	"io"
	"sync"

	pb "github.com/sbxhost/sbxhost/shared/enginepb"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // registers the codec used beneath
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// A codec is gRPC's own for protobuf but for the messages that carry streamed
// stdio: their one field goes to and from a buffer without the three copies
// and the zeroing of fresh memory that are half the cost of a stream. What is
// on the wire is the same, and a peer with gRPC's codec notices nothing.
type codec struct {
	encoding.CodecV2
}

func newCodec() codec { return codec{encoding.GetCodecV2("proto")} }

// A chunk is a message of the type M whose single set field is data. As M is
// embedded, it is a message for any other codec as well.
type chunk interface {
	proto.Message
	field() byte
	sent() mem.Buffer // what it is sent from; nil for one to receive into
	data() *[]byte
}

type outputChunk struct {
	*pb.OutputReply
	buf mem.Buffer
}

func (c *outputChunk) field() byte      { return 1 }
func (c *outputChunk) sent() mem.Buffer { return c.buf }
func (c *outputChunk) data() *[]byte    { return &c.OutputReply.Data }

type stdinChunk struct {
	*pb.StdinRequest
	buf mem.Buffer
}

func (c *stdinChunk) field() byte      { return 2 }
func (c *stdinChunk) sent() mem.Buffer { return c.buf }
func (c *stdinChunk) data() *[]byte    { return &c.StdinRequest.Data }

const wireBytes = 2 // protobuf's wire type of a length and as many bytes

func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	m, ok := v.(chunk)
	if !ok || m.sent() == nil {
		return c.CodecV2.Marshal(v)
	}
	body := m.sent()
	header := binary.AppendUvarint([]byte{m.field()<<3 | wireBytes}, uint64(body.Len()))
	body.Ref()
	return mem.BufferSlice{mem.SliceBuffer(header), body}, nil
}

// Unmarshal fills a chunk's own slice, which the next message overwrites.
func (c codec) Unmarshal(in mem.BufferSlice, v any) error {
	m, ok := v.(chunk)
	if !ok {
		return c.CodecV2.Unmarshal(in, v)
	}
	to := m.data()
	r := in.Reader()
	defer r.Close()
	tag, err := r.ReadByte()
	if err != nil { // the empty message
		*to = (*to)[:0]
		return nil
	}
	size, err := binary.ReadUvarint(r)
	if tag != m.field()<<3|wireBytes || err != nil || size != uint64(r.Remaining()) {
		return c.CodecV2.Unmarshal(in, v) // valid, maybe, but not what we send
	}
	if uint64(cap(*to)) < size {
		*to = make([]byte, size)
	}
	*to = (*to)[:size]
	_, err = io.ReadFull(r, *to)
	return err
}

// chunkPool is a gRPC buffer pool of buffers of chunkSize.
type chunkPool struct{ pool sync.Pool }

// Get gives a buffer of chunkSize, whatever is asked for.
func (p *chunkPool) Get(int) *[]byte {
	if b, ok := p.pool.Get().(*[]byte); ok {
		*b = (*b)[:chunkSize]
		return b
	}
	b := make([]byte, chunkSize)
	return &b
}

// Put takes back a buffer of Get.
func (p *chunkPool) Put(b *[]byte) {
	if cap(*b) >= chunkSize {
		p.pool.Put(b)
	}
}

// fill reads into a buffer of the pool with read; the caller frees the result,
// which is nil where nothing was read. A read that waits has a buffer for as
// long: read should rather give an error.
func (p *chunkPool) fill(read func([]byte) (int, error)) (mem.Buffer, []byte, error) {
	b := p.Get(chunkSize)
	n, err := read(*b)
	if n <= 0 {
		p.Put(b)
		return nil, nil, err
	}
	*b = (*b)[:n]
	return mem.NewBuffer(b, p), *b, err
}
