package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/sbxhost/sbxhost/host"
)

// outputTable compares how fast a command's output arrives.
type outputTable struct {
	Bytes int64       `json:"bytes"`
	Rows  []outputRow `json:"rows"`
}

type outputRow struct {
	Name  string  `json:"name"`
	Rate  float64 `json:"mb_per_s"` // of 10^6 bytes
	Ratio float64 `json:"ratio_to_pipe"`
}

const (
	nameOutputPipe     = "a pipe, no sandbox"
	nameOutputFile     = "library, descriptor"
	nameOutputStreamed = "library, streamed"
)

// rows are none of a table that was not made.
func (t *outputTable) rows() []outputRow {
	if t == nil {
		return nil
	}
	return t.Rows
}

func measureOutput(ctx context.Context, s *scene, rounds int, bytes int64) (outputTable, error) {
	ways := []struct {
		name string
		run  func(int64) (time.Duration, error)
	}{
		{nameOutputPipe, func(n int64) (time.Duration, error) { return pipeOutput(ctx, n) }},
		{nameOutputFile, func(n int64) (time.Duration, error) { return libraryOutput(ctx, s.warm, sandboxFast, n) }},
		{nameOutputStreamed, func(n int64) (time.Duration, error) { return libraryOutput(ctx, s.warm, sandboxStreamed, n) }},
	}
	rates := make([][]float64, len(ways))
	for round := range 1 + max(1, min(rounds/20, 9)) {
		for turn := range ways {
			i := (turn + round) % len(ways)
			n := bytes
			if round == 0 {
				n = min(bytes, 8<<20) // warm-up
			}
			took, err := ways[i].run(n)
			if err != nil {
				return outputTable{}, fmt.Errorf("%s: %w", ways[i].name, err)
			}
			if round > 0 {
				rates[i] = append(rates[i], float64(n)/1e6/took.Seconds())
			}
		}
	}
	t := outputTable{Bytes: bytes}
	for i, way := range ways {
		t.Rows = append(t.Rows, outputRow{Name: way.name, Rate: median(rates[i]), Ratio: ratio(median(rates[i]), median(rates[0]))})
	}
	return t, nil
}

// writer is a command that writes n bytes and does little else.
func writer(n int64) []string { return []string{"head", "-c", strconv.FormatInt(n, 10), "/dev/zero"} }

// pipeOutput takes the time of a command that nothing isolates.
func pipeOutput(ctx context.Context, n int64) (time.Duration, error) {
	return throughPipe(n, func(out *os.File) (func() error, error) {
		argv := writer(n)
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		cmd.Stdout, cmd.Stderr = out, os.Stderr
		return cmd.Wait, cmd.Start()
	})
}

// libraryOutput takes the time of one in a sandbox.
func libraryOutput(ctx context.Context, h *host.Host, sandbox string, n int64) (time.Duration, error) {
	return throughPipe(n, func(out *os.File) (func() error, error) {
		cmd := h.Command(ctx, sandbox, writer(n)...)
		cmd.Stdout, cmd.Stderr = out, os.Stderr
		return cmd.Wait, cmd.Start()
	})
}

// throughPipe reads what a command writes into a pipe, and takes the time from
// before its start until after its end.
func throughPipe(n int64, start func(out *os.File) (wait func() error, err error)) (time.Duration, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer read.Close()
	begin := time.Now()
	wait, err := start(write)
	if err != nil {
		write.Close()
		return 0, err
	}
	// The last to have it open is then the command, or for it the host.
	write.Close()
	got, readErr := drain(read)
	err = errors.Join(wait(), readErr)
	took := time.Since(begin)
	if err == nil && got != n {
		err = fmt.Errorf("%d bytes arrived of %d", got, n)
	}
	return took, err
}

func drain(r io.Reader) (n int64, err error) {
	buffer := make([]byte, 64<<10) // what a pipe holds; of the host's memory, too
	for {
		got, err := r.Read(buffer)
		n += int64(got)
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}
