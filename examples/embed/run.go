package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode"

	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/shared"
)

// errStepFailed is returned when a step failed; its end has been told.
var errStepFailed = errors.New("a step failed")

// grace is how long a step may act on SIGTERM when the program is interrupted,
// unless that is done a second time.
var grace = 3 * time.Second

// run runs the steps. A step begins when those that it needs have succeeded, and
// is left out when one has not.
func (p *plan) run(ctx, kill context.Context, h *host.Host, c *console) error {
	// What cannot work is found before anything has run.
	for _, s := range p.steps {
		if err := h.Check(ctx, s.sandbox); err != nil {
			return fmt.Errorf("step %q: %w", s.name, err)
		}
	}
	var all sync.WaitGroup
	for _, s := range p.steps {
		all.Go(func() {
			defer close(s.done)
			s.err = s.run(ctx, kill, h, c)
		})
	}
	all.Wait()
	for _, s := range p.steps {
		if s.err != nil {
			return errStepFailed
		}
	}
	return nil
}

func (s *step) run(ctx, kill context.Context, h *host.Host, c *console) error {
	for _, needed := range s.needs {
		<-needed.done
		if needed.err != nil {
			c.say(s.name, "left out, for %s did not succeed", needed.name)
			return errStepFailed
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	c.say(s.name, "begins")
	begun := time.Now()
	cmd := h.Command(ctx, s.sandbox, s.argv...)
	output := c.lines(s.name)
	cmd.Stdout, cmd.Stderr = output, output
	// Ctrl-C asks first, and a second one does not wait for the answer.
	cmd.Cancel = func() error {
		if kill.Err() != nil {
			return cmd.Signal(syscall.SIGKILL)
		}
		return cmd.Signal(syscall.SIGTERM)
	}
	cmd.WaitDelay = grace
	defer context.AfterFunc(kill, func() { _ = cmd.Signal(syscall.SIGKILL) })()
	cmd.Events = func(e shared.Event) {
		if e.Kind == shared.EventDegraded || e.Kind == shared.EventProgress {
			c.say(s.name, "%s", e.Message)
		}
	}
	err := cmd.Run()
	output.Flush()
	c.say(s.name, "%s after %v, in %s", outcome(err), time.Since(begun).Round(time.Millisecond), cmd.Report().Engine)
	return err
}

// outcome tells a command's failure from that of its sandbox.
func outcome(err error) string {
	if err == nil {
		return "succeeded"
	}
	if exit, ok := errors.AsType[*host.ExitError](err); ok {
		return "failed: " + exit.Error()
	}
	return "could not be run: " + err.Error()
}

// console is a stream that several steps write to, a line at a time.
type console struct {
	mu  sync.Mutex
	out io.Writer
}

func (c *console) say(step, format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Fprintf(c.out, "%s: %s\n", step, fmt.Sprintf(format, args...))
}

// lines gives a writer that puts the step's name before each line.
func (c *console) lines(step string) *prefixed { return &prefixed{console: c, prefix: step + " | "} }

// prefixed is the output of one step. Stdout and stderr are the same writer, so
// that one call at a time comes in.
type prefixed struct {
	console *console
	prefix  string
	partial []byte
}

// maxLine bounds a line, which would otherwise be as long as a step likes.
const maxLine = 64 << 10

// Write implements io.Writer.
func (p *prefixed) Write(data []byte) (int, error) {
	p.partial = append(p.partial, data...)
	for {
		line, rest, found := bytes.Cut(p.partial, []byte("\n"))
		if !found && len(p.partial) < maxLine {
			return len(data), nil
		}
		p.line(line)
		p.partial = bytes.Clone(rest)
		if !found {
			p.partial = nil
		}
	}
}

// Flush writes what has no end of line.
func (p *prefixed) Flush() {
	if len(p.partial) > 0 {
		p.line(p.partial)
		p.partial = nil
	}
}

func (p *prefixed) line(line []byte) {
	p.console.mu.Lock()
	defer p.console.mu.Unlock()
	fmt.Fprintf(p.console.out, "%s%s\n", p.prefix, visible(line))
}

// visible writes out control characters. A step that can move the cursor can
// write over its own name, and over what others have said.
func visible(line []byte) string {
	var b strings.Builder
	for _, r := range string(bytes.TrimSuffix(line, []byte("\r"))) { // what is not UTF-8 becomes U+FFFD
		if r == '\t' || !unicode.IsControl(r) {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, "\\x%02x", r)
		}
	}
	return b.String()
}
