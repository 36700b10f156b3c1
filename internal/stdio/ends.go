package stdio

import "fmt"

// Ends keeps the beginning and the end of the bytes written to it.
type Ends struct {
	Limit   int // of each half, in bytes
	head    []byte
	tail    []byte
	skipped int64
}

func (m *Ends) Write(p []byte) (int, error) {
	n := len(p)
	if room := m.Limit - len(m.head); room > 0 {
		take := min(room, len(p))
		m.head = append(m.head, p[:take]...)
		p = p[take:]
	}
	m.tail = append(m.tail, p...)
	if over := len(m.tail) - m.Limit; over > 0 {
		m.skipped += int64(over)
		m.tail = append(m.tail[:0], m.tail[over:]...)
	}
	return n, nil
}

// Bytes returns the kept bytes, with a note of how many bytes are missing between them.
func (m *Ends) Bytes() []byte {
	out := append([]byte(nil), m.head...)
	if m.skipped > 0 {
		out = fmt.Appendf(out, "\n... omitting %d bytes ...\n", m.skipped)
	}
	return append(out, m.tail...)
}
