package gitindex

import (
	"fmt"
	"hash/maphash"
	"io"
	"slices"
	"sync"
)

// A look is what readTo has read of a file, in its order, and the result, which depends on nothing else.
type look struct {
	io.ReaderAt
	sum   maphash.Hash // with a seed that no command knows
	parts [][2]int64   // offsets and lengths
	index Index
	ok    bool
}

func (l *look) ReadAt(p []byte, at int64) (n int, err error) {
	n, err = l.ReaderAt.ReadAt(p, at)
	l.parts = append(l.parts, [2]int64{at, int64(len(p))})
	fmt.Fprintln(&l.sum, n)
	l.sum.Write(p[:n])
	return n, err
}

// maxLooks is how many looks are remembered, each with at most maxLinkBytes; at an index with fewer than
// minLength bytes, none.
const (
	maxLooks  = 16
	minLength = 64 << 10
)

var memory struct {
	sync.Mutex
	looks map[string]*look
}

// ReadAgain is Read, without Entries, for a file that is looked at before and after each command: it takes
// a tenth of the time if the file has the same bytes, whatever its times say.
func ReadAgain(path string, r io.ReaderAt, length int64, size int) (Index, bool) {
	key := fmt.Sprint(length, size, path)
	memory.Lock()
	before := memory.looks[key]
	memory.Unlock()
	if before != nil {
		now := look{ReaderAt: r}
		now.sum.SetSeed(before.sum.Seed())
		for _, part := range before.parts {
			now.ReadAt(make([]byte, part[1]), part[0])
		}
		if now.sum.Sum64() == before.sum.Sum64() {
			return before.index, before.ok
		}
	}
	now := &look{ReaderAt: r}
	now.index, now.ok = readTo(io.Discard, now, length, size)
	now.index.Links = slices.Clip(now.index.Links) // several callers have it
	if now.ReaderAt = nil; length >= minLength {
		memory.Lock()
		defer memory.Unlock()
		if memory.looks == nil || len(memory.looks) >= maxLooks {
			memory.looks = map[string]*look{}
		}
		memory.looks[key] = now
	}
	return now.index, now.ok
}
