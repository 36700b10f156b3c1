package docker

import (
	"io"
	"sync"
	"time"

	"github.com/sbxhost/sbxhost/shared/cmdengine"
	"github.com/sbxhost/sbxhost/shared/containerinit"
	"github.com/sbxhost/sbxhost/shared/sandboxinit"
)

// A held is a vessel in which one command runs after another, or beside it.
type held struct {
	*vessel
	made made
	// lasting says that it is left as it is and not removed, and place which file
	// it lasts by.
	lasting bool
	place   string

	mu      sync.Mutex
	number  uint64
	ends    map[uint64]chan struct{}
	users   int
	used    bool // not by the one for whom it was made alone
	retired bool // to be removed with its last user
}

// read takes the keeper's word for the ends of commands. Its own end is that of
// everything inside.
func (h *held) read() {
	message := make([]byte, containerinit.HandoverSize)
	for {
		if _, err := io.ReadFull(h.line.conn, message); err != nil {
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
	h.retire()
}

// enter counts a user more, unless the vessel is about to go.
func (h *held) enter() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.retired {
		return false
	}
	h.users++
	return true
}

func (h *held) leave() {
	h.mu.Lock()
	h.users--
	last := h.retired && h.users == 0
	h.mu.Unlock()
	if last {
		h.letGo()
	}
}

// letGo is for a vessel that nobody needs any more.
func (h *held) letGo() {
	if h.lasting {
		h.part()
		return
	}
	h.remove()
}

// retire lets nobody in any more; the vessel goes with its last user.
func (h *held) retire() {
	h.mu.Lock()
	again, empty := h.retired, h.users == 0
	h.retired = true
	h.mu.Unlock()
	if !again && empty {
		h.letGo()
	}
}

// reused reports whether another command was in it before.
func (h *held) reused() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	before := h.used
	h.used = true
	return before
}

// announce gives the number of the next handover and what is closed at its end.
func (h *held) announce() (uint64, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.number++
	end := make(chan struct{})
	h.ends[h.number] = end
	return h.number, end
}

// await waits for the end of one command and all that it started.
func (h *held) await(end <-chan struct{}, conn *sandboxinit.Conn) {
	if _, err := conn.Wait(); err != nil {
		// Its init did not live to tell, nor to see to its command's end.
		h.retire()
		h.kill()
		h.awaitGone()
		return
	}
	t := time.NewTimer(cmdengine.Patience)
	defer t.Stop()
	select {
	case <-end:
	case <-h.gone:
	case <-t.C:
		h.retire()
		h.kill()
		h.awaitGone()
	}
}
