package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/sbxhost/sbxhost/internal/proc"
)

// measureMemory looks at a one-shot sbxhost once its command gives back what it reads.
func measureMemory(ctx context.Context, s *scene, _ options, r *report) {
	cmd := s.sbxhost(ctx, "native", "cat")
	cmd.Stderr = s.stderr
	stdin, inErr := cmd.StdinPipe()
	stdout, outErr := cmd.StdoutPipe()
	check(errors.Join(inErr, outErr, cmd.Start()))
	_, inErr = io.WriteString(stdin, "here\n")
	_, outErr = io.ReadFull(stdout, make([]byte, len("here\n")))
	host, engines := cmd.Process.Pid, proc.Children(cmd.Process.Pid)
	peaks := []float64{residentPeak(host)}
	for _, engine := range engines {
		peaks = append(peaks, residentPeak(engine))
	}
	stdin.Close()
	if err := errors.Join(inErr, outErr, cmd.Wait()); err != nil {
		check(s.failed(cmd, err))
	}
	if len(peaks) != 2 || peaks[0] == 0 || peaks[1] == 0 {
		check(fmt.Errorf("process %d has the children %v where an engine was expected, and there are peaks of %v MiB", host, engines, peaks))
	}
	r.line("\nPeak of resident memory of a one-shot: host %.1f MiB, engine %.1f MiB", peaks[0], peaks[1])
	r.atMost("resident, one-shot", peaks[0]+peaks[1], 32, "MiB")
}

// residentPeak is the most memory that a process has had resident, in MiB. What processes
// share, such as the text of a program that executed itself, counts twice.
func residentPeak(pid int) float64 {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	return float64(proc.StatusBytes(string(status), "VmHWM")) / (1 << 20)
}
