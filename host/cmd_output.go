//go:build unix

package host

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/sbxhost/sbxhost/internal/stdio"
)

// Output runs the command and returns its standard output. If Stderr was nil, an *ExitError has its
// standard error.
func (c *Cmd) Output() ([]byte, error) {
	if c.Stdout != nil {
		return nil, errors.New("host: Stdout already set")
	}
	var stdout bytes.Buffer
	c.Stdout = &stdout
	var stderr *stdio.Ends
	if c.Stderr == nil && !c.TTY {
		stderr = &stdio.Ends{Limit: 32 << 10}
		c.Stderr = stderr
	}
	err := c.Run()
	if exit, ok := errors.AsType[*ExitError](err); ok && stderr != nil {
		exit.Stderr = stderr.Bytes()
	}
	return stdout.Bytes(), err
}

// CombinedOutput runs the command and returns its standard output and standard error, mixed as they
// came.
func (c *Cmd) CombinedOutput() ([]byte, error) {
	if c.Stdout != nil {
		return nil, errors.New("host: Stdout already set")
	}
	if c.Stderr != nil {
		return nil, errors.New("host: Stderr already set")
	}
	var out bytes.Buffer
	c.Stdout = &out
	if !c.TTY {
		c.Stderr = &out
	}
	err := c.Run()
	return out.Bytes(), err
}

// StdinPipe returns a pipe to the command's standard input. Wait closes it; close it earlier to end
// the command's input.
func (c *Cmd) StdinPipe() (io.WriteCloser, error) {
	read, write, err := c.pipe("Stdin", c.Stdin != nil, true)
	if err != nil {
		return nil, err
	}
	c.Stdin = read
	return write, nil
}

// StdoutPipe returns a pipe from the command's standard output. Read it to its end before Wait,
// which closes it; do not use it with Run, or with TTY.
func (c *Cmd) StdoutPipe() (io.ReadCloser, error) {
	return c.outputPipe("Stdout", &c.Stdout)
}

// StderrPipe is StdoutPipe for the command's standard error.
func (c *Cmd) StderrPipe() (io.ReadCloser, error) {
	return c.outputPipe("Stderr", &c.Stderr)
}

func (c *Cmd) outputPipe(stream string, w *io.Writer) (io.ReadCloser, error) {
	read, write, err := c.pipe(stream, *w != nil, false)
	if err != nil {
		return nil, err
	}
	*w = write
	return read, nil
}

func (c *Cmd) pipe(stream string, set, input bool) (read, write *os.File, err error) {
	switch {
	case set:
		return nil, nil, fmt.Errorf("host: %s already set", stream)
	case c.startCalled.Load(): // nobody would close the pipe
		return nil, nil, fmt.Errorf("host: %sPipe after process started", stream)
	}
	return c.files.Pipe(input)
}

// Run starts the command and waits for its end. The error is nil for exit status 0, and an
// *ExitError for any other end of the command. Every other error is the sandbox's: the command did
// not run, or its sandbox broke.
func (c *Cmd) Run() error {
	if err := c.Start(); err != nil {
		return err
	}
	return c.Wait()
}
