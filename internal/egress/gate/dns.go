package gate

import (
	"net/netip"
	"strings"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/sbxhost/sbxhost/internal/egress"
)

const (
	// lifetime is how many seconds a program may keep a name's address. The address never changes,
	// but a new question makes the gate look up the real addresses again.
	lifetime = 30
	// datagram is how many bytes of a UDP message the gate reads (RFC 9715). A question is shorter.
	datagram = 1232
)

// A question is a message that asks for one thing.
type question struct {
	id      uint16
	desired bool // recursion
	asked   dnsmessage.Question
	name    string // in the form of egress.Canonical; empty if no host can have it
}

// parseQuestion reads a message. If the rules cannot answer it, reply is the answer; a nil reply
// means no answer at all. It does not read what follows the question, such as a client's offer of
// longer answers (EDNS): none is long, and clients do without (RFC 6891, 7).
func parseQuestion(message []byte) (q question, reply []byte, ok bool) {
	var p dnsmessage.Parser
	header, err := p.Start(message)
	if err != nil || header.Response {
		return q, nil, false // answers to answers could go on forever
	}
	q.id, q.desired = header.ID, header.RecursionDesired
	q.asked, err = p.Question()
	if _, second := p.Question(); err != nil || second != dnsmessage.ErrSectionDone {
		return q, q.reply(dnsmessage.RCodeFormatError, netip.Addr{}), false
	}
	if header.OpCode != 0 || q.asked.Class != dnsmessage.ClassINET {
		return q, q.reply(dnsmessage.RCodeRefused, netip.Addr{}), false
	}
	q.name, _ = egress.Canonical(q.asked.Name.String())
	return q, nil, true
}

// reverse reports whether a question asks for the name of an address. Programs ask that in passing.
func (q question) reverse() bool {
	name := strings.ToLower(q.asked.Name.String())
	return strings.HasSuffix(name, ".in-addr.arpa.") || strings.HasSuffix(name, ".ip6.arpa.")
}

// reply answers with an address, or without one if addr is zero. It is never longer than a client
// without EDNS accepts (512 bytes). Before the question is known, it answers without it.
func (q question) reply(code dnsmessage.RCode, addr netip.Addr) []byte {
	m := dnsmessage.Message{Header: dnsmessage.Header{ID: q.id, Response: true, RecursionDesired: q.desired, RecursionAvailable: true, RCode: code}}
	if q.asked.Name.Length > 0 {
		m.Questions = []dnsmessage.Question{q.asked}
	}
	if addr.IsValid() {
		header := dnsmessage.ResourceHeader{Name: q.asked.Name, Class: dnsmessage.ClassINET, TTL: lifetime}
		m.Answers = []dnsmessage.Resource{{Header: header, Body: &dnsmessage.AResource{A: addr.As4()}}}
	}
	message, err := m.Pack()
	if err != nil {
		return nil
	}
	return message
}
