package enginetest

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// A victim is a process of the host that no sandbox may know of. It has a
// canary in its arguments, its environment and its directory.
type victim struct {
	canary string
	pid    int
	kill   func()
}

// victims starts one at need.
type victims struct {
	mu   sync.Mutex
	live *victim
}

func (s *Suite) victim() (*victim, error) {
	s.victims.mu.Lock()
	defer s.victims.mu.Unlock()
	if s.victims.live != nil {
		return s.victims.live, nil
	}
	v := &victim{canary: "canary-victim-" + s.random}
	dir := filepath.Join(s.dir, "victim")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, v.canary), []byte(v.canary), 0o644); err != nil {
		return nil, err
	}
	held, err := os.Open(filepath.Join(dir, v.canary))
	if err != nil {
		return nil, err
	}
	defer held.Close()
	cmd := exec.Command(s.actor, actorArg, "hold", v.canary)
	cmd.Env = []string{actorEnv, "SECRET=" + v.canary}
	cmd.Dir = dir
	cmd.ExtraFiles = []*os.File{held}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		return nil, fmt.Errorf("the victim does not speak: %q, %w", line, err)
	}
	v.pid = cmd.Process.Pid
	v.kill = sync.OnceFunc(func() {
		in.Close()
		cmd.Wait()
	})
	s.victims.live = v
	return v, nil
}

func (v *victims) end() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.live != nil {
		v.live.kill()
	}
}

// searchProc looks through the processes that /proc shows for a text in their
// "cmdline" or "environ", or for a file of that name in their "cwd", below
// their "root" at the path of the victim, or among their open files, "fd".
func searchProc(part, canary string) string {
	for _, dir := range inProc() {
		if dir == fmt.Sprintf("/proc/%d", os.Getpid()) || dir == "/proc/self" {
			continue
		}
		switch part {
		case "cmdline", "environ":
			text, err := os.ReadFile(dir + "/" + part)
			if err == nil && bytes.Contains(text, []byte(canary)) {
				return dir + "/" + part
			}
		case "cwd":
			if text, err := readSome(dir + "/cwd/" + canary); err == nil && strings.Contains(text, canary) {
				return dir + "/cwd"
			}
		case "root":
			if cwd, err := os.Readlink(dir + "/cwd"); err == nil {
				if text, err := readSome(dir + "/root" + cwd + "/" + canary); err == nil && strings.Contains(text, canary) {
					return dir + "/root"
				}
			}
		case "fd":
			fds, _ := filepath.Glob(dir + "/fd/*")
			for _, fd := range fds {
				if link, err := os.Readlink(fd); err != nil || !strings.Contains(link, canary) {
					continue
				}
				if text, err := readSome(fd); err == nil && strings.Contains(text, canary) {
					return fd
				}
			}
		}
	}
	return ""
}

// hold waits for the end of standard input.
func hold([]string) (string, error) {
	fmt.Println("holding")
	_, err := io.Copy(io.Discard, os.Stdin)
	return "", err
}
