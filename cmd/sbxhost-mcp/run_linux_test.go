package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func TestRun(t *testing.T) {
	t.Parallel()
	b := newBench(t, plain)
	c := b.client(t)
	out := c.run(script(`echo out; echo err >&2; pwd; echo made >file; exit 3`))
	if out.Outcome != "exited" || *out.ExitCode != 3 || out.Stdout.Text != "out\n"+b.work+"\n" || out.Stderr.Text != "err\n" || out.Running || out.Sandbox != "fast" || out.DurationMS < 0 || out.Usage == nil {
		t.Errorf("%+v", out)
	}
	if text, err := os.ReadFile(b.work + "/file"); err != nil || string(text) != "made\n" {
		t.Errorf("what it wrote: %q, %v", text, err)
	}
	if out := c.run(script("git init -q harmless && git init -q acts && git -C acts config core.fsmonitor ./evil")); len(out.Repositories) != 1 || out.Repositories[0].Path != b.work+"/acts" {
		t.Errorf("%+v", out.Repositories)
	}
	if out := c.run(map[string]any{"command": []string{"printf", "%s|", "a b", "$HOME", "*"}, "directory": "sub"}); out.Stdout.Text != "a b|$HOME|*|" {
		t.Errorf("%+v", out)
	}
	if out := c.run(map[string]any{"script": "pwd", "directory": b.work + "/sub/../sub"}); out.Stdout.Text != b.work+"/sub\n" {
		t.Errorf("%+v", out)
	}
	if out := c.run(script("kill -TERM $$")); out.Outcome != "signaled" || *out.Signal != "SIGTERM" || out.ExitCode != nil {
		t.Errorf("%+v", out)
	}
	if out := c.run(map[string]any{"script": "sleep 1000", "timeout": 1e-10}); out.Outcome != "timed_out" {
		t.Errorf("a timeout of less than a nanosecond: %+v", out)
	}
	if out := c.run(map[string]any{"script": "sleep 1000", "timeout": 0.3}); out.Outcome != "timed_out" || !out.TimedOut {
		t.Errorf("%+v", out)
	}
	out, refusal := call[runResult](c, "run", map[string]any{"command": []string{"no-such-program"}})
	if refusal == "" || out.Outcome != "failed" || !strings.Contains(out.Error, "not found") {
		t.Errorf("%+v, %s", out, refusal)
	}
}

// An output is bounded in memory and in the answer, and what is left out is told.
func TestHugeOutput(t *testing.T) {
	t.Parallel()
	c := newBench(t, plain).client(t)
	out := c.run(script(`echo first; head -c 5000000 /dev/zero | tr '\0' x; echo; echo last; printf '\377\303' >&2`))
	if o := out.Stdout; o.Total != 5000012 || len(o.Text) > maxReply+100 || !strings.HasPrefix(o.Text, "first\nxx") || !strings.HasSuffix(o.Text, "x\nlast\n") || !strings.Contains(o.Cut, "bytes in the middle") {
		t.Errorf("%d bytes, %.20q..., %+v", len(o.Text), o.Text, o.Cut)
	}
	if o := out.Stderr; o.Text != "\uFFFD" || o.Total != 2 {
		t.Errorf("what is no text: %+v", o)
	}
	// All that is kept can be had, piece by piece.
	offset, lost, got := int64(0), 0, int64(0)
	for {
		more, refusal := call[runResult](c, "output", map[string]any{"id": out.ID, "stdout_offset": offset, "stderr_offset": 1000000})
		if refusal != "" {
			t.Fatal(refusal)
		}
		if strings.Contains(more.Stdout.Cut, "not kept") {
			lost++
		}
		got += int64(len(more.Stdout.Text))
		if more.Stdout.Next <= offset {
			break
		}
		offset = more.Stdout.Next
	}
	if offset != 5000012 || lost != 1 || got < maxHead+maxTail || got > maxHead+2*maxTail {
		t.Errorf("to %d, %d bytes, %d gaps", offset, got, lost)
	}
}

func TestBackground(t *testing.T) {
	t.Parallel()
	b := newBench(t, plain)
	c := b.client(t)
	out := c.run(map[string]any{"script": `echo begun; while ! test -e go; do sleep 0.01; done; echo on; sleep 1000 & wait`, "background": true})
	if !out.Running || out.Outcome != "" {
		t.Errorf("%+v", out)
	}
	next := func(offset int64, want string) int64 {
		t.Helper()
		text := ""
		for text != want {
			more, refusal := call[runResult](c, "output", map[string]any{"id": out.ID, "stdout_offset": offset, "wait": 30})
			if refusal != "" || !more.Running || more.Stdout.Next == offset {
				t.Fatalf("%+v, %s", more, refusal)
			}
			text, offset = text+more.Stdout.Text, more.Stdout.Next
		}
		return offset
	}
	offset := next(0, "begun\n")
	if err := os.WriteFile(b.work+"/go", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	next(offset, "on\n")
	if _, refusal := call[denialResult](c, "explain_denial", map[string]any{"id": out.ID}); !strings.Contains(refusal, "still runs") {
		t.Errorf("of what runs: %q", refusal)
	}
	early := c.run(map[string]any{"script": "sleep 1000", "background": true})
	if ended, refusal := call[runResult](c, "stop", map[string]any{"id": early.ID}); refusal != "" || ended.Running || ended.Outcome != "stopped" && ended.Outcome != "signaled" {
		t.Errorf("stopped at once: %+v, %s", ended, refusal)
	}
	ended, refusal := call[runResult](c, "stop", map[string]any{"id": out.ID})
	if refusal != "" || ended.Running || ended.Outcome != "signaled" || *ended.Signal != "SIGTERM" || ended.Stdout.Text != "begun\non\n" {
		t.Errorf("%+v, %s", ended, refusal)
	}
	if again, refusal := call[runResult](c, "stop", map[string]any{"id": out.ID}); refusal != "" || again.Outcome != "signaled" {
		t.Errorf("again: %+v, %s", again, refusal)
	}
}

// A command that ignores SIGTERM ends, too.
func TestStopKills(t *testing.T) {
	t.Parallel()
	c := newBench(t, plain).client(t)
	out := c.run(map[string]any{"script": `trap "" TERM; echo ready; while :; do sleep 0.1; done`, "background": true})
	if more, refusal := call[runResult](c, "output", map[string]any{"id": out.ID, "wait": 30}); refusal != "" || more.Stdout.Text != "ready\n" {
		t.Fatalf("%+v, %s", more, refusal)
	}
	if ended, refusal := call[runResult](c, "stop", map[string]any{"id": out.ID}); refusal != "" || ended.Outcome != "signaled" || *ended.Signal != "SIGKILL" {
		t.Errorf("%+v, %s", ended, refusal)
	}
}

// A request that the client cancels ends its command, and no other.
func TestCancellationAndProgress(t *testing.T) {
	t.Parallel()
	b := newBench(t, plain)
	c := b.client(t)
	ctx, cancel := context.WithCancel(t.Context())
	params := &mcp.CallToolParams{Name: "run", Arguments: script(`trap 'echo >ended; exit' TERM; echo x; echo >begun; while :; do sleep 0.1; done`)}
	params.SetProgressToken("p")
	ended := make(chan error)
	go func() {
		_, err := c.CallTool(ctx, params)
		ended <- err
	}()
	await(t, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return slices.ContainsFunc(c.progress, func(line string) bool { return strings.Contains(line, "2 bytes of output") })
	})
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the client has %v", err)
	}
	await(t, func() bool { _, err := os.Stat(b.work + "/ended"); return err == nil })
	if out := c.run(script("echo on")); out.Stdout.Text != "on\n" {
		t.Errorf("then: %+v", out)
	}
}

// Where a sandbox keeps processes, the next command reaches what one has left running, whose
// output is still to be had.
func TestKeptProcesses(t *testing.T) {
	t.Parallel()
	b := newBench(t, `
sandbox "dev" {
  engine = "native"
  session {
    processes = true
  }
}
`)
	c := b.client(t)
	out := c.run(script("mkfifo /tmp/f; (read line </tmp/f; echo got $line) & echo started"))
	if out.Stdout.Text != "started\n" || out.Running {
		t.Fatalf("%+v", out)
	}
	c.run(script("echo hello >/tmp/f"))
	await(t, func() bool {
		more, refusal := call[runResult](c, "output", map[string]any{"id": out.ID, "stdout_offset": out.Stdout.Next})
		return refusal == "" && more.Stdout.Text == "got hello\n"
	})
}

// Each answer brings a reader of an output further, also where a character is not kept completely.
func TestOutputGoesOn(t *testing.T) {
	t.Parallel()
	c := newCapture()
	c.Write(append(bytes.Repeat([]byte("a"), maxHead-1), "é"...))
	c.Write(bytes.Repeat([]byte("é"), 3*maxTail))
	for _, most := range []int{1, maxReply} {
		for offset := int64(maxHead - 2); offset < maxHead+2; {
			e := c.from(offset, false, most)
			if e.Next <= offset {
				t.Fatalf("in pieces of %d: %+v", most, e)
			}
			offset = e.Next
		}
	}
	if e := c.from(c.total()-1, false, maxReply); e.Next != e.Total { // of the last character, nothing is missing
		t.Errorf("%+v", e)
	}
	c.Write([]byte("é")[:1])
	if e := c.from(c.total()-1, false, maxReply); e.Next != e.Total-1 || e.Text != "" {
		t.Errorf("the rest can still come: %+v", e)
	}
}

func TestNothingStartsAfterClose(t *testing.T) {
	t.Parallel()
	s := newServer(t.Context(), &permissions{})
	s.close()
	if err := s.add(&job{}); err == nil {
		t.Error("a command was added")
	}
}
