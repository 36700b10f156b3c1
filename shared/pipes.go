package shared

import (
	"context"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// chunkSize is how much streamed stdio one message carries at most.
	chunkSize = 128 << 10
	// outputIdle is how long after a command's end its output may be silent and
	// still open, as it is when a process in the background has it.
	outputIdle = 100 * time.Millisecond
)

// pipes are an engine's files for a command whose stdio is streamed, seen from
// this side. A nil *pipes has none.
type pipes struct {
	stdin   *stdinPipe
	outputs [2]*outputPipe // stdout, stderr
	ended   chan struct{}
	endOnce sync.Once
}

type stdinPipe struct {
	w       *os.File
	claimed atomic.Bool
}

type outputPipe struct {
	r        *os.File
	capacity int
	claimed  atomic.Bool
	finished chan struct{}
}

// stdio bits of RunRequest.stdio_present.
const (
	hasStdin = 1 << iota
	hasStdout
	hasStderr
	stderrIsStdout
	stdioBits // the first unknown one
)

// newPipes makes the pipes that present asks for and gives the command's ends.
func newPipes(present uint32) (_ *pipes, command Stdio, err error) {
	p := &pipes{ended: make(chan struct{})}
	defer func() {
		if err != nil {
			p.close()
			for _, f := range []*os.File{command.Stdin, command.Stdout, command.Stderr} {
				if f != nil {
					f.Close()
				}
			}
		}
	}()
	if present&hasStdin != 0 {
		p.stdin = &stdinPipe{}
		if command.Stdin, p.stdin.w, err = os.Pipe(); err != nil {
			p.stdin = nil
			return nil, command, err
		}
	}
	output := func(i int) (*os.File, error) {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		p.outputs[i] = &outputPipe{r: r, capacity: growPipe(r), finished: make(chan struct{})}
		return w, nil
	}
	if present&hasStdout != 0 {
		if command.Stdout, err = output(0); err != nil {
			return nil, command, err
		}
	}
	switch {
	case present&stderrIsStdout != 0 && command.Stdout != nil:
		command.Stderr = command.Stdout
	case present&hasStderr != 0:
		if command.Stderr, err = output(1); err != nil {
			return nil, command, err
		}
	}
	return p, command, nil
}

// commandEnded releases whoever feeds the command, and lets those who fetch
// its output take what is left.
func (p *pipes) commandEnded() {
	if p == nil {
		return
	}
	p.endOnce.Do(func() {
		close(p.ended)
		for _, o := range p.outputs {
			if o != nil {
				o.r.SetReadDeadline(time.Now().Add(outputIdle))
			}
		}
	})
}

func (p *pipes) hasEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// drained waits until each output has been fetched.
func (p *pipes) drained(ctx context.Context) error {
	if p == nil {
		return nil
	}
	for _, o := range p.outputs {
		if o == nil {
			continue
		}
		select {
		case <-o.finished:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (p *pipes) close() {
	if p == nil {
		return
	}
	p.commandEnded()
	if p.stdin != nil {
		p.stdin.w.Close()
	}
	for _, o := range p.outputs {
		if o != nil {
			o.r.Close()
		}
	}
}
