package gate

import (
	"bytes"
	"net/netip"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// ask is a question as a resolver sends it.
func ask(t testing.TB, name string, kind dnsmessage.Type, change func(*dnsmessage.Message)) []byte {
	t.Helper()
	m := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: 0xabcd, RecursionDesired: true},
		Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName(name), Type: kind, Class: dnsmessage.ClassINET}},
	}
	if change != nil {
		change(&m)
	}
	b, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func edns(version uint8) func(*dnsmessage.Message) {
	return func(m *dnsmessage.Message) {
		h := dnsmessage.ResourceHeader{Name: dnsmessage.MustNewName("."), Type: dnsmessage.TypeOPT, Class: 4096, TTL: uint32(version) << 16}
		m.Additionals = append(m.Additionals, dnsmessage.Resource{Header: h, Body: &dnsmessage.OPTResource{}})
	}
}

func TestQuestions(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		message []byte
		name    string // the question's, if it is one
		code    int    // of the reply; -1 is silence
	}{
		"a question":          {ask(t, "A.example.", dnsmessage.TypeA, nil), "a.example", 0},
		"with EDNS":           {ask(t, "a_b.example.", dnsmessage.TypeAAAA, edns(0)), "a_b.example", 0},
		"no host's name":      {ask(t, "a b.example.", dnsmessage.TypeA, nil), "", 0},
		"EDNS 1":              {ask(t, "a.example.", dnsmessage.TypeA, edns(1)), "a.example", 0},
		"half a record":       {ask(t, "a.example.", dnsmessage.TypeA, edns(0))[:30], "a.example", 0},
		"two questions":       {ask(t, "a.example.", dnsmessage.TypeA, func(m *dnsmessage.Message) { m.Questions = append(m.Questions, m.Questions[0]) }), "", 1},
		"no question":         {ask(t, "a.example.", dnsmessage.TypeA, func(m *dnsmessage.Message) { m.Questions = nil }), "", 1},
		"a change":            {ask(t, "a.example.", dnsmessage.TypeA, func(m *dnsmessage.Message) { m.OpCode = 5 }), "", 5},
		"another class":       {ask(t, "a.example.", dnsmessage.TypeA, func(m *dnsmessage.Message) { m.Questions[0].Class = dnsmessage.ClassCHAOS }), "", 5},
		"an answer":           {ask(t, "a.example.", dnsmessage.TypeA, func(m *dnsmessage.Message) { m.Response = true }), "", -1},
		"nothing":             {nil, "", -1},
		"half a header":       {make([]byte, 11), "", -1},
		"half a name":         {ask(t, "a.example.", dnsmessage.TypeA, nil)[:20], "", 1},
		"no class":            {ask(t, "a.example.", dnsmessage.TypeA, nil)[:25], "", 1},
		"a pointer to itself": {append(append([]byte{0xab, 0xcd, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0}, 0xc0, 12), 0, 1, 0, 1), "", 1},
		"a dot in a label":    {append([]byte{0xab, 0xcd, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0}, "\x09a.example\x00\x00\x01\x00\x01"...), "", 1},
	} {
		q, reply, ok := parseQuestion(test.message)
		if ok != (test.code == 0) || q.name != test.name && ok {
			t.Errorf("%s: %+v, %v", name, q, ok)
		}
		if ok {
			continue
		}
		if test.code < 0 {
			if reply != nil {
				t.Errorf("%s: %x", name, reply)
			}
			continue
		}
		checkReply(t, name, reply, test.code, netip.Addr{})
	}
}

// checkReply holds a message against what it should say.
func checkReply(t *testing.T, what string, reply []byte, code int, addr netip.Addr) (m dnsmessage.Message) {
	t.Helper()
	if err := m.Unpack(reply); err != nil || len(reply) > 512 {
		t.Errorf("%s: %v: %x", what, err, reply)
		return m
	}
	if int(m.RCode) != code || len(m.Additionals) != 0 || m.ID != 0xabcd || !m.Response || !m.RecursionAvailable || !m.RecursionDesired || m.Truncated {
		t.Errorf("%s: %+v, want code %d", what, m, code)
	}
	if !addr.IsValid() {
		if len(m.Answers) != 0 {
			t.Errorf("%s: %v", what, m.Answers)
		}
		return m
	}
	if a, ok := m.Answers[0].Body.(*dnsmessage.AResource); len(m.Answers) != 1 || !ok || netip.AddrFrom4(a.A) != addr || m.Answers[0].Header.TTL != lifetime || m.Answers[0].Header.Name != m.Questions[0].Name {
		t.Errorf("%s: %v", what, m.Answers)
	}
	return m
}

func TestReply(t *testing.T) {
	t.Parallel()
	addr := netip.MustParseAddr("198.18.1.0")
	long := "abcdefghijklmnopqrstuvwxyz-abcdefghijklmnopqrstuvwxyz-abcdefghi."
	for _, name := range []string{"A.eXample.", long + long + long + long[5:54] + "."} {
		for what, change := range map[string]func(*dnsmessage.Message){"plain": nil, "edns": edns(0)} {
			q, _, ok := parseQuestion(ask(t, name, dnsmessage.TypeA, change))
			if !ok {
				t.Fatal(name)
			}
			m := checkReply(t, what, q.reply(dnsmessage.RCodeSuccess, addr), 0, addr)
			if len(m.Questions) != 1 || m.Questions[0].Name.String() != name { // in its own case
				t.Errorf("%v", m.Questions)
			}
			checkReply(t, what, q.reply(dnsmessage.RCodeNameError, netip.Addr{}), 3, netip.Addr{})
		}
	}
}

// FuzzQuestion: whatever comes, a reply is a reply to it, short, and names nobody else.
func FuzzQuestion(f *testing.F) {
	f.Add(ask(f, "A.example.", dnsmessage.TypeA, nil))
	f.Add(ask(f, "a.example.", dnsmessage.TypeHTTPS, edns(0)))
	f.Add(ask(f, "a.example.", dnsmessage.TypeA, edns(1)))
	f.Fuzz(func(t *testing.T, b []byte) {
		q, reply, ok := parseQuestion(b)
		if ok {
			reply = q.reply(dnsmessage.RCodeSuccess, netip.MustParseAddr("198.18.1.0"))
			if reply == nil {
				t.Error("no reply")
			}
		}
		if reply == nil {
			return
		}
		var m dnsmessage.Message
		if err := m.Unpack(reply); err != nil || !bytes.Equal(reply[:2], b[:2]) || !m.Response || len(reply) > 600 {
			t.Errorf("%x: %v", reply, err)
		}
	})
}
