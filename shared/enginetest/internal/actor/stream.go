package actor

import (
	"errors"
	"io"
	"os"
)

// pattern is a stream of bytes in which no two blocks are alike.
type pattern struct {
	state uint64
	left  int64
}

func NewPattern(seed uint64, n int64) *pattern { return &pattern{seed*2 + 1, n} }

func (p *pattern) Read(b []byte) (int, error) {
	if p.left == 0 {
		return 0, io.EOF
	}
	n := int(min(int64(len(b)), p.left))
	for i := range b[:n] {
		p.state = p.state*6364136223846793005 + 1442695040888963407
		b[i] = byte(p.state >> 56)
	}
	p.left -= int64(n)
	return n, nil
}

// stream writes N bytes of a pattern to stdout and another to stderr, at once, and nothing else.
func stream(args []string) (string, error) {
	n := int64(number(args[0]))
	failed := make(chan error, 1)
	go func() {
		_, err := io.Copy(os.Stderr, NewPattern(2, n))
		failed <- err
	}()
	_, err := io.Copy(os.Stdout, NewPattern(1, n))
	tried(errors.Join(err, <-failed))
	os.Exit(0)
	return "", nil
}
