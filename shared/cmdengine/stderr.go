package cmdengine

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"time"
	"unicode"
)

const (
	// maxStderr bounds the kept text of a launcher's stderr, in bytes.
	maxStderr = 16 << 10
	// pipeSize is the default capacity of a pipe, in bytes.
	pipeSize = 64 << 10
	// stderrPatience is the time to read the rest of the pipe after the launcher's end.
	stderrPatience = 200 * time.Millisecond
)

// tail keeps the end of what is written to a pipe.
type tail struct {
	r     *os.File
	done  chan struct{}
	bytes []byte
}

// newTail returns the end of the pipe to write to; the caller closes it.
func newTail() (*tail, *os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	t := &tail{r: r, done: make(chan struct{})}
	go t.read()
	return t, w, nil
}

func (t *tail) read() {
	defer close(t.done)
	chunk := make([]byte, 4<<10)
	for {
		n, err := t.r.Read(chunk)
		t.keep(chunk[:n])
		if errors.Is(err, os.ErrDeadlineExceeded) {
			t.keep(t.waiting())
		}
		if err != nil {
			return
		}
	}
}

func (t *tail) keep(chunk []byte) {
	t.bytes = append(t.bytes, chunk...)
	if over := len(t.bytes) - maxStderr; over > 0 {
		t.bytes = append(t.bytes[:0], t.bytes[over:]...)
	}
}

// waiting reads the pipe once, because a process may fill it forever. Go's Read returns nothing
// after its deadline, and on a busy machine the deadline can pass before Read begins.
func (t *tail) waiting() []byte {
	chunk := make([]byte, pipeSize)
	conn, err := t.r.SyscallConn()
	if err != nil {
		return nil
	}
	var n int
	if conn.Control(func(fd uintptr) { n, err = syscall.Read(int(fd), chunk) }) != nil || err != nil {
		return nil
	}
	return chunk[:n]
}

// finish returns the kept text, when no more can come, or when somebody has held the pipe open for
// too long.
func (t *tail) finish() string {
	if t == nil {
		return ""
	}
	t.r.SetReadDeadline(time.Now().Add(stderrPatience))
	<-t.done
	t.r.Close()
	return string(t.bytes)
}

// maxQuote is what an error quotes of each end of a long stderr, in bytes: a crash prints its cause
// first, a chatty launcher last.
const maxQuote = 1 << 10

// quote makes one line of a launcher's output that is safe to show: it repeats paths, which may
// contain anything.
func quote(stderr string) string {
	line := strings.ReplaceAll(strings.TrimSpace(stderr), "\n", "; ")
	if len(line) > 2*maxQuote {
		line = line[:maxQuote] + " ... " + line[len(line)-maxQuote:]
	}
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, line)
}
