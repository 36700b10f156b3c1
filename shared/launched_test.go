package shared

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestLaunchedKilled looks for what an engine leaves that is killed: its socket,
// which it cannot remove itself.
func TestLaunchedKilled(t *testing.T) {
	temp, err := os.MkdirTemp("", "") // short, for the socket's sake
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(temp) })
	t.Setenv("TMPDIR", temp)
	cmd := exec.Command(os.Args[0])
	cmd.Env = []string{roleEnv + "=engine", "TMPDIR=" + temp}
	l, err := Launch(t.Context(), cmd, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Info(t.Context()); err != nil {
		t.Error(err)
	}
	if err := l.Process().Kill(); err != nil {
		t.Error(err)
	}
	l.Kill()
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// An engine that does not start says why, and one that says nothing is not waited
// for longer than the caller wants.
func TestLaunchFails(t *testing.T) {
	t.Parallel()
	_, err := Launch(t.Context(), exec.Command("/bin/sh", "-c", "echo no such library >&2; exit 3"), nil)
	if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "no such library") || strings.Contains(err.Error(), "\n") {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	begun := time.Now()
	if _, err := Launch(ctx, exec.Command("/bin/sleep", "60"), nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	if took := time.Since(begun); took > startTimeout/2 {
		t.Errorf("it took %v", took)
	}
}
