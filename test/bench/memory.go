package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/sbxhost/sbxhost/host"
)

// peak is the most memory that processes have had resident, in KiB. What they
// share, such as the text of a program that executed itself, counts twice.
type peak struct {
	Host, Engine int64
}

func measureMemory(ctx context.Context, s *scene, o options, r *report) error {
	const oneShot, library = "one-shot, lean binaries", "library: commands, 8 at once, output by descriptor"
	r.line("\nPeak of resident memory, MiB")
	show := func(name string, p peak) {
		sum := mebibytes(p.Host + p.Engine)
		r.line("  %-52s host %.1f, engine %.1f, sum %.1f", name, mebibytes(p.Host), mebibytes(p.Engine), sum)
		r.atMost("resident, "+name, sum, 32, "MiB")
	}
	p, err := s.peakOf(s.sbxhost(ctx, "native", "cat"))
	if err != nil {
		return fmt.Errorf("%s: %w", oneShot, err)
	}
	show(oneShot, p)
	if err := s.play(ctx, &p, roleMemoryHost, s.dir, strconv.FormatInt(o.bytes, 10)); err != nil {
		return fmt.Errorf("%s: %w", library, err)
	}
	show(library, p)
	return nil
}

func mebibytes(kib int64) float64 { return float64(kib) / 1024 }

// playMemoryHost, with DIR and BYTES, is a program with the library inside: it runs the workload in
// a sandbox and writes on stdout what memory it and its engine took.
func playMemoryHost(args []string) error {
	bytes, err := strconv.ParseInt(args[1], 10, 64)
	if err != nil {
		return err
	}
	ctx := context.Background()
	library := libraryOptions(args[0])
	library.Sandboxes = map[string]host.Definition{sandboxFast: {Engine: "native"}}
	h, err := host.New(ctx, library)
	if err != nil {
		return err
	}
	defer h.Close()
	for _, atOnce := range []int{1, 8} {
		if _, err := commandsPerSecond(atOnce, 40, func() error { return runLibrary(ctx, h, sandboxFast) }); err != nil {
			return err
		}
	}
	if err := readOutput(ctx, h, sandboxFast, bytes); err != nil {
		return err
	}
	peak, err := peakOfFamily(os.Getpid())
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(peak)
}

// peakOf looks at a one-shot sbxhost once its command gives back what it reads.
func (s *scene) peakOf(cmd *exec.Cmd) (_ peak, err error) {
	cmd.Stderr = s.stderr
	stdin, stdout, err := converse(cmd)
	if err != nil {
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
	if _, err := stdout.ReadString('\n'); err != nil {
		return peak{}, err
	}
	return peakOfFamily(cmd.Process.Pid)
}

// peakOfFamily gives that of a host and of its only child, the engine.
func peakOfFamily(host int) (p peak, err error) {
	var engines []string
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", host))
	for _, list := range lists {
		text, _ := os.ReadFile(list)
		engines = append(engines, strings.Fields(string(text))...)
	}
	if p.Host = residentPeak(strconv.Itoa(host)); len(engines) == 1 {
		p.Engine = residentPeak(engines[0])
	}
	if p.Host == 0 || p.Engine == 0 {
		err = fmt.Errorf("process %d has the children %v where an engine was expected, and there are peaks of %d and %d KiB", host, engines, p.Host, p.Engine)
	}
	return p, err
}

func residentPeak(pid string) int64 {
	status, _ := os.ReadFile("/proc/" + pid + "/status")
	return peakIn(string(status))
}

// peakIn is VmHWM of a /proc/PID/status, in KiB; 0 where there is none.
func peakIn(status string) (kib int64) {
	_, value, _ := strings.Cut(status, "\nVmHWM:")
	fmt.Sscan(value, &kib)
	return kib
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
