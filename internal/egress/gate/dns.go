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
	edns    bool
	asked   dnsmessage.Question
	name    string // in the form of egress.Canonical; empty if no host can have it
}

// parseQuestion reads a message. If the rules cannot answer it, reply is the answer; a nil reply
// means no answer at all.
func parseQuestion(message []byte) (q question, reply []byte, ok bool) {
	var p dnsmessage.Parser
	header, err := p.Start(message)
	if err != nil || header.Response {
		return q, nil, false // answers to answers could go on forever
	}
	q.id, q.desired = header.ID, header.RecursionDesired
	if header.OpCode != 0 {
		return q, q.answerUnparsed(dnsmessage.RCodeNotImplemented), false
	}
	if q.asked, err = p.Question(); err != nil {
		return q, q.answerUnparsed(dnsmessage.RCodeFormatError), false
	}
	if _, err := p.Question(); err != dnsmessage.ErrSectionDone {
		return q, q.answerUnparsed(dnsmessage.RCodeFormatError), false
	}
	if p.SkipAllAnswers() != nil || p.SkipAllAuthorities() != nil {
		return q, q.answerUnparsed(dnsmessage.RCodeFormatError), false
	}
	for {
		more, err := p.AdditionalHeader()
		if err == dnsmessage.ErrSectionDone {
			break
		}
		if err != nil || p.SkipAdditional() != nil || more.Type == dnsmessage.TypeOPT && q.edns {
			return q, q.answerUnparsed(dnsmessage.RCodeFormatError), false
		}
		if more.Type == dnsmessage.TypeOPT {
			q.edns = true
			if version := more.TTL >> 16 & 0xff; version != 0 {
				const badVersion = 16
				return q, q.reply(badVersion, netip.Addr{}), false
			}
		}
	}
	if q.asked.Class != dnsmessage.ClassINET {
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

// answerUnparsed answers a message that could not be read to its end.
func (q question) answerUnparsed(code dnsmessage.RCode) []byte {
	b := dnsmessage.NewBuilder(nil, q.header(code))
	message, _ := b.Finish() // it fails only if nothing was begun
	return message
}

func (q question) header(code dnsmessage.RCode) dnsmessage.Header {
	return dnsmessage.Header{ID: q.id, Response: true, RecursionDesired: q.desired, RecursionAvailable: true, RCode: code & 0xf}
}

// reply answers with an address, or without one if addr is zero. It is never longer than a client
// without EDNS accepts (512 bytes).
func (q question) reply(code dnsmessage.RCode, addr netip.Addr) []byte {
	b := dnsmessage.NewBuilder(nil, q.header(code))
	b.EnableCompression()
	err := b.StartQuestions()
	if err == nil {
		err = b.Question(q.asked)
	}
	if err == nil && addr.IsValid() {
		if err = b.StartAnswers(); err == nil {
			err = b.AResource(dnsmessage.ResourceHeader{Name: q.asked.Name, Class: dnsmessage.ClassINET, TTL: lifetime}, dnsmessage.AResource{A: addr.As4()})
		}
	}
	if err == nil && q.edns {
		var h dnsmessage.ResourceHeader
		if err = h.SetEDNS0(datagram, code, false); err == nil {
			if err = b.StartAdditionals(); err == nil {
				err = b.OPTResource(h, dnsmessage.OPTResource{})
			}
		}
	}
	if err != nil {
		return nil
	}
	message, _ := b.Finish()
	return message
}
