package actor

import (
	"errors"
	"io"
	"math/rand/v2"
	"os"
)

// NewPattern returns n bytes in which no two blocks are alike, always the same for a seed.
func NewPattern(seed byte, n int64) io.Reader {
	return io.LimitReader(rand.NewChaCha8([32]byte{seed}), n)
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
