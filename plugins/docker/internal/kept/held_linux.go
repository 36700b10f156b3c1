package kept

import (
	"io"
	"sync"
	"time"

	"github.com/sbxhost/sbxhost/internal/engine/containerinit"
	"github.com/sbxhost/sbxhost/internal/engine/sandboxinit"
	"github.com/sbxhost/sbxhost/plugins/docker/internal/vessel"
	"github.com/sbxhost/sbxhost/shared/cmdengine"
)

// A Held is a vessel in which one command runs after another, or beside it.
type Held struct {
	*vessel.Vessel
	MadeFrom ingredients
	// lasting says that the vessel outlives this process, and place is the file on which its life
	// depends.
	lasting bool
	Place   string

	mu      sync.Mutex
	number  uint64
	ends    map[uint64]chan struct{}
	users   int
	used    bool // another one than its maker was in it
	retired bool // to be removed with its last user
}

// Hold begins to let commands into a vessel, which lasts as long as a file or, if l is nil, as long
// as it is held. found says that it existed before.
func Hold(v *vessel.Vessel, m ingredients, l *SessionContainer, found bool) *Held {
	h := &Held{Vessel: v, MadeFrom: m, ends: map[uint64]chan struct{}{}, lasting: l != nil, Place: l.Place(), used: found}
	go h.read()
	return h
}

// read receives the ends of commands from the keeper. The keeper's own end is the end of everything
// inside.
func (h *Held) read() {
	message := make([]byte, containerinit.HandoverSize)
	for {
		if _, err := io.ReadFull(h.Line.Conn, message); err != nil {
			break
		}
		h.mu.Lock()
		number := containerinit.Ended(message)
		if end := h.ends[number]; end != nil {
			close(end)
			delete(h.ends, number)
		}
		h.mu.Unlock()
	}
	h.Retire()
}

// Enter counts one more user, unless the vessel is about to go.
func (h *Held) Enter() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.retired {
		return false
	}
	h.users++
	return true
}

func (h *Held) Leave() {
	h.mu.Lock()
	h.users--
	last := h.retired && h.users == 0
	h.mu.Unlock()
	if last {
		h.letGo()
	}
}

// letGo releases a vessel that nobody needs any more.
func (h *Held) letGo() {
	if h.lasting {
		h.Part()
		return
	}
	h.Remove()
}

// Retire admits nobody any more; the vessel goes with its last user.
func (h *Held) Retire() {
	h.mu.Lock()
	again, empty := h.retired, h.users == 0
	h.retired = true
	h.mu.Unlock()
	if !again && empty {
		h.letGo()
	}
}

// Reused reports whether another command was in it before.
func (h *Held) Reused() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	before := h.used
	h.used = true
	return before
}

// Announce returns the number of the next command, and a channel that is closed at its end.
func (h *Held) Announce() (uint64, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.number++
	end := make(chan struct{})
	h.ends[h.number] = end
	return h.number, end
}

// Await waits for the end of one command and all that it started.
func (h *Held) Await(end <-chan struct{}, conn *sandboxinit.Conn) {
	if _, err := conn.Wait(); err != nil {
		// Its init died before it could report, or end its command's processes.
		h.Retire()
		h.Kill()
		h.AwaitGone()
		return
	}
	select {
	case <-end:
	case <-h.Gone:
	case <-time.After(cmdengine.Patience):
		h.Retire()
		h.Kill()
		h.AwaitGone()
	}
}
