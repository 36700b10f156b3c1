package shared

import (
	"os"
	"os/exec"
	"testing"
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
