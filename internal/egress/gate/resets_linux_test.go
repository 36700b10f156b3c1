package gate

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"testing"

	"github.com/sbxhost/sbxhost/internal/egress"
)

// refusedAt connects where the kernel refuses it.
func refusedAt(t *testing.T, at netip.AddrPort) {
	t.Helper()
	if c, err := net.DialTCP("tcp", nil, net.TCPAddrFromAddrPort(at)); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("%v: %v, error %v", at, c, err)
	}
}

// A connection for which nobody listens is told before a command that has tried it can end.
func TestResets(t *testing.T) {
	if !inside(t) {
		return
	}
	w := newWorld(t, func(c *Config) { c.Resets = true }, "a.example:7000", "in.example:7000 private", "in.example:7001")
	w.answer("a.example", public)
	w.answer("in.example", "10.0.0.1")
	w.serve(public+":7000", echo)
	a, in := resolve(t, "a.example"), resolve(t, "in.example")
	own, err := net.Listen("tcp4", "0.0.0.0:8081")
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	for range 2 { // two commands, of which each hears of what is refused while it runs
		var told []egress.Decision
		stop := w.Hear(func(d egress.Decision) { told = append(told, d) })
		for range 3 {
			refusedAt(t, netip.AddrPortFrom(a, 8080))
			refusedAt(t, netip.AddrPortFrom(in, 7001))
			refusedAt(t, netip.MustParseAddrPort("198.18.7.7:22"))
			// These are no names.
			refusedAt(t, netip.MustParseAddrPort("127.0.0.1:9"))
			refusedAt(t, netip.MustParseAddrPort(Nameserver+":53"))
		}
		dialAddr(t, netip.AddrPortFrom(a, 8081)).Close() // its own
		exchange(t, dialAddr(t, netip.AddrPortFrom(a, 7000)), "hello", "hello")
		stop()
		told = slices.DeleteFunc(told, func(d egress.Decision) bool { return d.Reason == "" })
		want := []egress.Decision{
			{Name: "a.example", Port: 8080, Reason: "port 8080 is not in the rule", Connections: 1},
			{Name: "in.example", Port: 7001, Reason: "10.0.0.1 is private (RFC 1918)", Connections: 1},
			{Name: "198.18.7.7", Port: 22, Reason: "no name has this address", Connections: 1},
		}
		if !slices.Equal(told, want) {
			t.Errorf("told %+v, want %+v", told, want)
		}
	}
}

// What is lost, since nobody reads it in time, is counted, and so is what is not listed.
func TestResetsLost(t *testing.T) {
	if !inside(t) {
		return
	}
	w := newWorld(t, func(c *Config) { c.Resets = true }, "a.example:7000")
	w.answer("a.example", public)
	a := resolve(t, "a.example")
	var told []egress.Decision
	stop := w.Hear(func(d egress.Decision) { told = append(told, d) })
	all := 3 * atMost.reported
	w.resets.mu.Lock() // nobody reads
	for i := range all {
		refusedAt(t, netip.AddrPortFrom(a, uint16(10_000+i)))
	}
	w.resets.mu.Unlock()
	w.resets.read()
	refusedAt(t, netip.AddrPortFrom(a, 9)) // with the count of what was lost
	stop()
	var listed, counted uint64
	for _, d := range told {
		if d.Name == "a.example" {
			listed++
		} else if counted += d.Connections; d.Reason != "further refusals are not listed" {
			t.Errorf("%+v", d)
		}
	}
	// Some kernels count what is lost twice.
	if listed+counted < uint64(all+1) || counted > 2*uint64(all) || listed < 10 || counted < 10 {
		t.Errorf("%d were listed and %d counted, of %d", listed, counted, all+1)
	}
}
