package proc

import (
	"io"
	"os"
	"strings"
	"syscall"
	"unicode"
)

// A Log is a file in memory for the output of a child, which must not wait for a reader. Nil is empty.
type Log struct{ *os.File }

// maxLog bounds a log, in bytes: later writes fail.
const maxLog = 1 << 20

// NewLog makes a log.
func NewLog() (*Log, error) {
	size := uint64(maxLog)
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit) == nil {
		size = min(size, uint64(limit.Cur))
	}
	f, err := NewMemory("log", int64(size))
	return &Log{f}, err
}

// Text returns the output, and closes the log.
func (l *Log) Text() string {
	if l == nil {
		return ""
	}
	defer l.Close()
	written, err := l.Seek(0, io.SeekCurrent) // the writers' offset too
	if err != nil {
		return ""
	}
	text, _ := io.ReadAll(io.NewSectionReader(l, 0, written))
	return string(text)
}

// MaxQuote is what [Quote] leaves of each end of a long text, in bytes: a crash prints its cause first,
// a chatty launcher last.
const MaxQuote = 1 << 10

// Quote makes one line of a program's output that is safe to show: it repeats paths, which may
// contain anything.
func Quote(output string) string {
	line := strings.ReplaceAll(strings.TrimSpace(output), "\n", "; ")
	if len(line) > 2*MaxQuote {
		line = line[:MaxQuote] + " ... " + line[len(line)-MaxQuote:]
	}
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, line)
}
