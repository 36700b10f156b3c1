package gate

import (
	"net/netip"
	"strings"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/sbxhost/sbxhost/internal/egress"
)

const (
	// lifetime is for how many seconds a name's address may be kept. It never changes, but
	// whoever asks again has the real addresses looked up again.
	lifetime = 30
	// datagram is how much of a message by UDP is read (RFC 9715). A question is shorter.
	datagram = 1232
)

// A question is a message that asks for one thing.
type question struct {
	id      uint16
	desired bool // recursion
	edns    bool
	asked   dnsmessage.Question
	name    string // as egress.Canonical has it, empty for what no host is called
}

// parseQuestion reads a message. If it cannot be answered from the rules, reply is what to
// say to it; nil is nothing at all.
func parseQuestion(message []byte) (q question, reply []byte, ok bool) {
	var p dnsmessage.Parser
	header, err := p.Start(message)
	if err != nil || header.Response {
		return q, nil, false // an answer to an answer could go on for ever
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

// reverse is true of a question which name an address has. Programs ask that by the way.
func (q question) reverse() bool {
	name := strings.ToLower(q.asked.Name.String())
	return strings.HasSuffix(name, ".in-addr.arpa.") || strings.HasSuffix(name, ".ip6.arpa.")
}

// answerUnparsed answers what could not be read to its end.
func (q question) answerUnparsed(code dnsmessage.RCode) []byte {
	b := dnsmessage.NewBuilder(nil, q.header(code))
	message, _ := b.Finish() // it fails only where nothing was begun
	return message
}

func (q question) header(code dnsmessage.RCode) dnsmessage.Header {
	return dnsmessage.Header{ID: q.id, Response: true, RecursionDesired: q.desired, RecursionAvailable: true, RCode: code & 0xf}
}

// reply answers with an address, or with none if that is the zero one. It is never longer
// than a client without EDNS takes (512 bytes).
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
