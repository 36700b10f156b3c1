package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/sbxhost/sbxhost/host"
)

// peak is the most memory that processes have had resident, in KiB. What they
// share, such as the text of a program that executed itself, counts twice.
type peak struct {
	Host   int64 `json:"host_kib"`
	Engine int64 `json:"engine_kib"`
}

type memoryRow struct {
	Name string `json:"name"`
	peak
}

const (
	nameLean       = "one-shot, lean binaries"
	nameMemoryFile = "library: commands, 8 at once, output by descriptor"
)

func measureMemory(ctx context.Context, s *scene, bytes int64) ([]memoryRow, error) {
	oneShot, err := s.peakOf(s.sbxhost(ctx, "native", "cat"))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", nameLean, err)
	}
	var library peak
	if err := s.play(ctx, &library, roleMemoryHost, s.dir, strconv.FormatInt(bytes, 10)); err != nil {
		return nil, fmt.Errorf("%s: %w", nameMemoryFile, err)
	}
	return []memoryRow{{nameLean, oneShot}, {nameMemoryFile, library}}, nil
}

// peakOf looks at a one-shot sbxhost once its command gives back what it reads.
func (s *scene) peakOf(cmd *exec.Cmd) (_ peak, err error) {
	cmd.Stderr = s.stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return peak{}, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return peak{}, err
	}
	if err := cmd.Start(); err != nil {
		return peak{}, err
	}
	defer func() {
		stdin.Close()
		if waitErr := cmd.Wait(); waitErr != nil {
			err = errors.Join(err, s.failed(cmd, waitErr))
		}
	}()
	if _, err := io.WriteString(stdin, "here\n"); err != nil {
		return peak{}, err
	}
	if _, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
		return peak{}, err
	}
	return peakOfFamily(cmd.Process.Pid)
}

// peakOfFamily gives that of a host and of its only child, the engine.
func peakOfFamily(host int) (peak, error) {
	hostText, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", host))
	if err != nil {
		return peak{}, err
	}
	p := peak{Host: statusField(string(hostText), "VmHWM")}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return peak{}, err
	}
	engines := 0
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		text, err := os.ReadFile("/proc/" + e.Name() + "/status")
		if err != nil {
			continue // it has ended meanwhile
		}
		if statusField(string(text), "PPid") == int64(host) {
			p.Engine = statusField(string(text), "VmHWM")
			engines++
		}
	}
	if engines != 1 || p.Host == 0 || p.Engine == 0 {
		return peak{}, fmt.Errorf("process %d has %d children where an engine was expected, and peaks of %d and %d KiB", host, engines, p.Host, p.Engine)
	}
	return p, nil
}

// statusField gives the number of a line of /proc/PID/status, such as
// "VmHWM:\t    1234 kB"; 0 where there is none.
func statusField(text, name string) int64 {
	for line := range strings.Lines(text) {
		value, ok := strings.CutPrefix(line, name+":")
		if !ok {
			continue
		}
		if fields := strings.Fields(value); len(fields) > 0 {
			n, _ := strconv.ParseInt(fields[0], 10, 64)
			return n
		}
	}
	return 0
}

// readOutput reads all that a command writes to a pipe, which is that many bytes.
func readOutput(ctx context.Context, h *host.Host, sandbox string, bytes int64) error {
	cmd := h.Command(ctx, sandbox, "head", "-c", strconv.FormatInt(bytes, 10), "/dev/zero")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	got, err := io.Copy(io.Discard, stdout)
	if err = errors.Join(err, cmd.Wait()); err == nil && got != bytes {
		err = fmt.Errorf("%d bytes arrived of %d", got, bytes)
	}
	return err
}
