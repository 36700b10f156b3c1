package vessel

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Everybody can connect, whatever the umask, and nothing changes a mode by a path: who can write in
// the directory around it could put a symlink there.
func TestNewMeeting(t *testing.T) {
	base := t.TempDir()
	victim := filepath.Join(base, "victim")
	if err := os.WriteFile(victim, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	defer unix.Umask(unix.Umask(0o077))
	swapped := make(chan int)
	stop := make(chan struct{})
	go func() { // swaps each new socket with a symlink
		n := 0
		for {
			select {
			case <-stop:
				swapped <- n
				return
			default:
			}
			sockets, _ := filepath.Glob(base + "/*/line/s")
			for _, s := range sockets {
				if os.Symlink(victim, s+"2") == nil && os.Rename(s+"2", s) == nil {
					n++
				}
			}
		}
	}()
	getenv := func(string) string { return base }
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); {
		m, err := NewMeeting(getenv)
		if err != nil {
			t.Fatal(err)
		}
		m.End()
		os.RemoveAll(m.top)
	}
	close(stop)
	if n := <-swapped; n == 0 {
		t.Error("nothing was swapped")
	}
	if info, err := os.Stat(victim); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the victim: %v, %v", info.Mode(), err)
	}
	m, err := NewMeeting(getenv)
	if err != nil {
		t.Fatal(err)
	}
	defer m.End()
	for path, want := range map[string]os.FileMode{m.top: 0o700 | os.ModeDir, m.Dir: 0o755 | os.ModeDir, m.Dir + "/s": 0o777 | os.ModeSocket} {
		if info, err := os.Lstat(path); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	made, err := os.Create(base + "/made")
	if err != nil {
		t.Fatal(err)
	}
	defer made.Close()
	if info, err := made.Stat(); err != nil || info.Mode() != 0o600 {
		t.Errorf("the umask of the process has changed: %v, %v", info.Mode(), err)
	}
}
