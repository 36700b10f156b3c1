package gate

import (
	"sync"
	"time"

	"github.com/sbxhost/sbxhost/internal/egress"
)

// log has who is told of decisions.
type log struct {
	mu      sync.Mutex
	hearers map[*hearer]bool
	stop    *time.Timer // nil where nothing is to be told later
}

// A hearer is told of decisions. What a command tries for ever, and does not work, it is told
// once; what works is summed up, since each decision costs as much as a short connection.
type hearer struct {
	report   func(egress.Decision)
	reported map[egress.Decision]bool
	more     uint64                               // refusals past those
	sums     map[egress.Decision]*egress.Decision // what is to be told yet
}

// flushAfter is how long what works is summed up for.
const flushAfter = 200 * time.Millisecond

// Hear has tell told of decisions from now on, one at a time, until stop, or until the gate is
// closed. What is refused, or does not work, it is told the first time alone, and of a bounded number
// of different ones; the rest is counted. Connections that work are summed up for a fifth of a second.
// Once stop has returned, it was told of all that a command could know of before.
func (g *Gate) Hear(tell func(egress.Decision)) (stop func()) {
	h := &hearer{report: tell, reported: map[egress.Decision]bool{}, sums: map[egress.Decision]*egress.Decision{}}
	l := &g.log
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hearers[h] = true
	return func() {
		g.resets.read()
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.hearers[h] {
			delete(l.hearers, h)
			h.end()
		}
	}
}

func (g *Gate) decided(d egress.Decision) {
	d.Connections = 1
	d.Name, d.Reason = clip(d.Name), clip(d.Reason)
	l := &g.log
	l.mu.Lock()
	defer l.mu.Unlock()
	for h := range l.hearers {
		if d.Reason != "" {
			h.refused(d, g.bounds.reported)
		} else if h.sum(d); l.stop == nil {
			l.stop = time.AfterFunc(flushAfter, l.flush)
		}
	}
}

// clip shortens a text of a decision.
func clip(text string) string {
	if len(text) > maxText {
		return text[:maxText] + "..."
	}
	return text
}

// sum adds what works.
func (h *hearer) sum(d egress.Decision) {
	key := egress.Decision{Name: d.Name, Port: d.Port, Address: d.Address}
	sum := h.sums[key]
	if sum == nil {
		if len(h.sums) >= maxSums {
			h.flush()
		}
		h.sums[key] = &d
		return
	}
	sum.Connections++
	sum.Sent += d.Sent
	sum.Received += d.Received
	sum.Duration += d.Duration
}

// refused is about what does not work, or is not allowed.
func (h *hearer) refused(d egress.Decision, most int) {
	key := egress.Decision{Name: d.Name, Port: d.Port, Allowed: d.Allowed, Reason: d.Reason}
	switch {
	case h.reported[key]:
		return
	case len(h.reported) < most:
		h.reported[key] = true
	default:
		if h.more++; h.more > 1 {
			return // they are told at the end
		}
		d = unlisted(1)
	}
	h.report(d)
}

// missed counts refusals that nobody has seen. Some kernels count each twice.
func (g *Gate) missed(count uint64) {
	l := &g.log
	l.mu.Lock()
	defer l.mu.Unlock()
	for h := range l.hearers {
		if h.more += count; h.more == count {
			h.report(unlisted(1))
		}
	}
}

// unlisted are refusals that are counted alone.
func unlisted(count uint64) egress.Decision {
	return egress.Decision{Reason: "further refusals are not listed", Connections: count}
}

// flush tells what has been summed up.
func (h *hearer) flush() {
	for _, sum := range h.sums {
		h.report(*sum)
	}
	clear(h.sums)
}

// end tells what is left.
func (h *hearer) end() {
	h.flush()
	if h.more > 1 {
		h.report(unlisted(h.more - 1))
	}
}

// flush tells everybody what has been summed up.
func (l *log) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stop = nil
	for h := range l.hearers {
		h.flush()
	}
}

// close comes when nothing happens any more.
func (l *log) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stop != nil {
		l.stop.Stop()
	}
	for h := range l.hearers {
		h.end()
	}
	clear(l.hearers)
}
