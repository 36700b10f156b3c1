package gate

import (
	"sync"
	"time"

	"github.com/sbxhost/sbxhost/internal/egress"
)

// log has the receivers of decisions.
type log struct {
	mu      sync.Mutex
	hearers map[*hearer]bool
	stop    *time.Timer // nil if nothing must be reported later
}

// A hearer receives decisions. It gets each failure or refusal once, even if a command repeats it
// forever; successes are summed up, because each report costs as much as a short connection.
type hearer struct {
	report   func(egress.Decision)
	reported map[egress.Decision]bool
	more     uint64                               // refusals beyond those
	sums     map[egress.Decision]*egress.Decision // still to be reported
}

// flushAfter is for how long successes are summed up.
const flushAfter = 200 * time.Millisecond

// Hear calls report with each later decision, one at a time, until stop or until the gate is closed.
// It reports each refusal or failure only the first time, and a limited number of different ones;
// it counts the others. It sums up successful connections for a fifth of a second. When stop
// returns, report has received every decision that a command could have noticed.
func (g *Gate) Hear(report func(egress.Decision)) (stop func()) {
	h := &hearer{report: report, reported: map[egress.Decision]bool{}, sums: map[egress.Decision]*egress.Decision{}}
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

// sum adds a success.
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

// refused is for a refusal or a failure.
func (h *hearer) refused(d egress.Decision, most int) {
	key := egress.Decision{Name: d.Name, Port: d.Port, Allowed: d.Allowed, Reason: d.Reason}
	switch {
	case h.reported[key]:
		return
	case len(h.reported) < most:
		h.reported[key] = true
	default:
		if h.more++; h.more > 1 {
			return // reported at the end
		}
		d = unlisted(1)
	}
	h.report(d)
}

// missed counts refusals that the gate has not seen. Some kernels count each twice.
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

// unlisted counts refusals without their details.
func unlisted(count uint64) egress.Decision {
	return egress.Decision{Reason: "further refusals are not listed", Connections: count}
}

// flush reports the sums.
func (h *hearer) flush() {
	for _, sum := range h.sums {
		h.report(*sum)
	}
	clear(h.sums)
}

// end reports the rest.
func (h *hearer) end() {
	h.flush()
	if h.more > 1 {
		h.report(unlisted(h.more - 1))
	}
}

// flush reports the sums to everybody.
func (l *log) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stop = nil
	for h := range l.hearers {
		h.flush()
	}
}

// close is the last call, after all decisions.
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
