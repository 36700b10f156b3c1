package holder

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// An init is born in the control group that came with the request, and outside where
// that cannot be: here the descriptor is no control group's.
func TestBornInGroup(t *testing.T) {
	t.Parallel()
	c := connect(t, session(t))
	plain, err := os.Open(tempDir(t))
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	of := func(group *os.File) string {
		l, r, err := startGrouped(t, group, c, system(), "echo started; kill -STOP $$")
		if err != nil {
			t.Fatal(err)
		}
		if text, err := bufio.NewReader(r).ReadString('\n'); err != nil {
			t.Fatalf("%q, %v", text, err)
		}
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", l.Pid()))
		if err != nil {
			t.Fatal(err)
		}
		l.Kill()
		l.Wait()
		return string(text)
	}
	if got := of(plain); got != string(own) {
		t.Errorf("started in %s, want %s", got, own)
	}
	dir := v2Group(t, string(own))
	group, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer group.Close()
	if got := of(group); !strings.Contains(got, "0::/") || !strings.Contains(got, "/"+filepath.Base(dir)+"\n") {
		t.Errorf("started in %s, want %s", got, dir)
	}
}

// v2Group makes a group of version 2 that limits nothing, beneath this process's own.
func v2Group(t *testing.T, own string) string {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		f := strings.Fields(line)
		if !strings.Contains(line, " - cgroup2 ") || len(f) < 5 || f[3] != "/" {
			continue
		}
		_, path, _ := strings.Cut(own, "0::")
		dir, err := os.MkdirTemp(filepath.Join(f[4], strings.TrimSpace(path)), "sbxhost-test-")
		if err == nil {
			t.Cleanup(func() {
				if err := os.Remove(dir); err != nil {
					t.Error(err)
				}
			})
			return dir
		}
	}
	t.Skip("no group of version 2 is this process's to divide")
	return ""
}
