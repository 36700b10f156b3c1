package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// peak is the most memory that processes have had resident, in KiB. What they
// share, such as the text of a program that executed itself, counts twice.
type peak struct {
	Host, Engine int64
}

func measureMemory(ctx context.Context, s *scene, _ options, r *report) error {
	p, err := s.peakOf(s.sbxhost(ctx, "native", "cat"))
	if err != nil {
		return err
	}
	sum := mebibytes(p.Host + p.Engine)
	r.line("\nPeak of resident memory of a one-shot: host %.1f MiB, engine %.1f MiB", mebibytes(p.Host), mebibytes(p.Engine))
	r.atMost("resident, one-shot", sum, 32, "MiB")
	return nil
}

func mebibytes(kib int64) float64 { return float64(kib) / 1024 }

// peakOf looks at a one-shot sbxhost once its command gives back what it reads.
func (s *scene) peakOf(cmd *exec.Cmd) (_ peak, err error) {
	cmd.Stderr = s.stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return peak{}, err
	}
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
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
	if _, err := io.ReadFull(stdout, make([]byte, len("here\n"))); err != nil {
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
