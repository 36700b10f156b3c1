package shared

import (
	"context"
	"os"
	"sync"
	"time"
)

// ChannelEnv names the environment variable that tells an engine process the
// number of the descriptor that is its end of the channel.
const ChannelEnv = "SBXHOST_CHANNEL"

// The channel is one end each of a pair of connected stream sockets. It has
// two uses. The host sends the files of a command's stdio over it, each set
// under a random token that the command's request then names. And its end of
// file tells the engine that the host is gone, however the host died: no other
// process has a copy of the host's end.
//
// One message is a token with one to three descriptors attached to its first
// byte. The same token again, with none, takes the descriptors back.

const (
	tokenSize      = 16
	maxDescriptors = 3

	// maxParked bounds the sets that wait for the request that names them, so
	// that a host which never sends one cannot exhaust the engine's
	// descriptors; the oldest goes first.
	maxParked = 256
	// parkedFor is how long a set waits.
	parkedFor = 30 * time.Second
	// claimFor is how long a request waits for its set, which was sent first.
	claimFor = 10 * time.Second
	// abandonFor bounds the wait for an engine that is stopped.
	abandonFor = time.Second
)

type token [tokenSize]byte

// A parcel is one received message. files is nil when descriptors got lost on
// the way, as they do in a process that has too many open.
type parcel struct {
	token token
	files []*os.File
}

func (p *parcel) close() {
	for _, f := range p.files {
		f.Close()
	}
}

// An assembler cuts the stream of bytes and descriptors into messages. Its
// input never holds bytes of two messages.
type assembler struct {
	token token
	have  int
	fds   []int
	lost  bool
}

// want is how many bytes the message lacks.
func (a *assembler) want() int { return tokenSize - a.have }

// feed takes what one read gave and reports whether the message is complete.
func (a *assembler) feed(data []byte, fds []int, lost bool) bool {
	a.have += copy(a.token[a.have:], data)
	a.fds = append(a.fds, fds...)
	a.lost = a.lost || lost
	return a.have == tokenSize
}

// take gives the complete message and begins the next one.
func (a *assembler) take() (t token, fds []int, lost bool) {
	t, fds, lost = a.token, a.fds, a.lost || len(a.fds) == 0 || len(a.fds) > maxDescriptors
	*a = assembler{}
	return t, fds, lost
}

// An inbox keeps received parcels until they are claimed. Parcel and claim may
// come in either order, for they travel by different sockets.
type inbox struct {
	mu      sync.Mutex
	parked  map[token]parcel
	order   []token // of parked, oldest first; may name claimed ones
	waiting map[token]chan parcel
	closed  bool
	ended   chan struct{}
}

func newInbox() *inbox {
	return &inbox{
		parked:  make(map[token]parcel),
		waiting: make(map[token]chan parcel),
		ended:   make(chan struct{}),
	}
}

// put parks p or hands it to the claim that waits for it.
func (b *inbox) put(p parcel) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, dup := b.parked[p.token]; dup || b.closed {
		if p.files == nil {
			b.drop(p.token) // taken back
		}
		p.close()
		return
	}
	if w, ok := b.waiting[p.token]; ok {
		delete(b.waiting, p.token)
		w <- p
		return
	}
	b.parked[p.token] = p
	b.order = append(b.order, p.token)
	for len(b.order) > maxParked {
		b.drop(b.order[0])
		b.order = b.order[1:]
	}
	time.AfterFunc(parkedFor, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.drop(p.token)
	})
}

// drop closes what is parked under t; the caller holds the lock.
func (b *inbox) drop(t token) {
	if p, ok := b.parked[t]; ok {
		delete(b.parked, t)
		p.close()
	}
}

// claim gives the files sent under t, which become the caller's.
func (b *inbox) claim(ctx context.Context, t token, n int) ([]*os.File, error) {
	p, err := b.wait(ctx, t)
	if err != nil {
		return nil, err
	}
	if p.files == nil {
		return nil, &Error{
			Kind:    ErrUnavailable,
			Message: "the stdio descriptors did not fit into the engine process",
			Hint:    "raise its limit of open files (ulimit -n)",
		}
	}
	if len(p.files) != n {
		p.close()
		return nil, invalid("stdio", "%d descriptors were announced and %d sent", n, len(p.files))
	}
	return p.files, nil
}

func (b *inbox) wait(ctx context.Context, t token) (parcel, error) {
	b.mu.Lock()
	if p, ok := b.parked[t]; ok {
		delete(b.parked, t)
		b.mu.Unlock()
		return p, nil
	}
	if b.closed {
		b.mu.Unlock()
		return parcel{}, errChannelEnded()
	}
	if _, dup := b.waiting[t]; dup {
		b.mu.Unlock()
		return parcel{}, invalid("stdio", "two commands name the same descriptors")
	}
	w := make(chan parcel, 1)
	b.waiting[t] = w
	b.mu.Unlock()

	timeout := time.NewTimer(claimFor)
	defer timeout.Stop()
	var err error
	select {
	case p := <-w:
		return p, nil
	case <-b.ended:
		err = errChannelEnded()
	case <-ctx.Done():
		err = ctx.Err()
	case <-timeout.C:
		err = &Error{Kind: ErrBroken, Message: "the stdio descriptors did not arrive"}
	}
	b.mu.Lock()
	delete(b.waiting, t)
	b.mu.Unlock()
	select {
	case p := <-w: // delivered in the meantime
		p.close()
	default:
	}
	return parcel{}, err
}

func errChannelEnded() error {
	return &Error{Kind: ErrBroken, Message: "the channel to the host has ended"}
}

// close refuses further parcels and closes those that nobody claimed.
func (b *inbox) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return
	}
	b.closed = true
	close(b.ended)
	for t := range b.parked {
		b.drop(t)
	}
}
