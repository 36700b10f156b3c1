package main

import (
	"fmt"
	"slices"
	"sync"
	"unicode/utf8"
)

// Bounds of the kept parts of an output: its beginning, for a command's first words, and its end.
const (
	maxHead = 64 << 10
	maxTail = 1 << 20
	// maxReply bounds the part of an output in one answer, and usualReply is the bound unless an
	// agent asks for more: an agent pays for each word.
	maxReply   = 64 << 10
	usualReply = 16 << 10
)

// capture keeps a bounded part of a command's output, whatever the command writes.
type capture struct {
	mu      sync.Mutex
	kept    []byte        // the first maxHead bytes and, after a gap, the end
	gap     int64         // bytes that are not kept any more
	changed chan struct{} // closed, and made anew, when there is more
}

func newCapture() *capture { return &capture{changed: make(chan struct{})} }

func (c *capture) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept = append(c.kept, p...)
	if lost := len(c.kept) - maxHead - maxTail; lost > maxTail {
		c.kept = slices.Delete(c.kept, maxHead, maxHead+lost)
		c.gap += int64(lost)
	}
	close(c.changed)
	c.changed = make(chan struct{})
	return len(p), nil
}

func (c *capture) total() int64 { return int64(len(c.kept)) + c.gap }

// written returns how many bytes were written, and a channel that is closed when there are more.
func (c *capture) written() (total int64, changed <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.total(), c.changed
}

// excerpt is a part of an output.
type excerpt struct {
	Text  string `json:"text"`  // the output; bytes that are no UTF-8 are replaced
	From  int64  `json:"from"`  // the offset of its first byte
	Next  int64  `json:"next"`  // the offset to go on from
	Total int64  `json:"total"` // bytes that were written until now
	Cut   string `json:"cut"`   // what is left out; empty where nothing is
}

// from returns what follows an offset, as far as it is kept and fits into one answer. An incomplete
// character at the end waits for the next answer, if its rest can still come.
func (c *capture) from(offset int64, ended bool, most int) excerpt {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := excerpt{From: min(offset, c.total()), Total: c.total()}
	at, end := e.From, len(c.kept)
	switch {
	case c.gap == 0:
	case at < maxHead:
		end = maxHead
	default:
		if left := maxHead + c.gap - at; left > 0 {
			e.Cut = fmt.Sprintf("%d bytes before these are not kept any more", left)
			e.From += left
		}
		at = e.From - c.gap
	}
	text := c.kept[at:end]
	more := len(text) > most
	text = text[:min(len(text), most)]
	whole := trimPartialRune(text)
	if more && len(whole) > 0 || !ended && e.From+int64(len(text)) == e.Total { // the rest can still come
		text = whole
	}
	e.Text, e.Next = valid(text), e.From+int64(len(text))
	if left := e.Total - e.Next; left >= utf8.UTFMax && e.Cut == "" {
		e.Cut = fmt.Sprintf("%d bytes follow: ask for the output from offset %d", left, e.Next)
	}
	return e
}

// ends returns the beginning and the end of an output. Processes that the command left running may
// still write.
func (c *capture) ends(most int) excerpt {
	c.mu.Lock()
	total, first, last := c.total(), slices.Clone(c.kept[:min(len(c.kept), most/2)]), slices.Clone(c.kept[max(0, len(c.kept)-most/2):])
	c.mu.Unlock()
	if total <= int64(most) {
		return c.from(0, true, most)
	}
	first = trimPartialRune(first)
	for len(last) > 0 && !utf8.RuneStart(last[0]) && len(last) > most/2-utf8.UTFMax {
		last = last[1:]
	}
	left := total - int64(len(first)+len(last))
	return excerpt{Text: valid(first) + fmt.Sprintf("\n... %d bytes are left out ...\n", left) + valid(last), Next: total, Total: total,
		Cut: fmt.Sprintf("%d bytes in the middle: ask for the output from offset %d", left, len(first))}
}

// trimPartialRune leaves out a character at the end that has only begun.
func trimPartialRune(b []byte) []byte {
	for i := 1; i < utf8.UTFMax && i <= len(b); i++ {
		if last := b[len(b)-i:]; utf8.RuneStart(last[0]) {
			if !utf8.FullRune(last) {
				return b[:len(b)-i]
			}
			break
		}
	}
	return b
}
