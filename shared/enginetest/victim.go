package enginetest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// A victim is a process of the host that no sandbox may know of. It has a
// canary in its arguments, its environment and its directory.
type victim struct {
	start  sync.Once
	err    error
	canary string
	child  *child
}

// needVictim wants there to be one. Its canary is {victim}, its number {victim's pid}.
func needVictim(s *scene) error {
	v := &s.suite.victim
	v.start.Do(func() { v.err = s.suite.startVictim() })
	if v.err != nil {
		return v.err
	}
	s.values["victim"], s.values["victim's pid"] = v.canary, strconv.Itoa(v.child.Process.Pid)
	return nil
}

func (s *Suite) startVictim() error {
	v := &s.victim
	v.canary = "canary-victim-" + s.random
	dir := filepath.Join(s.dir, "victim")
	file := filepath.Join(dir, v.canary)
	if err := errors.Join(os.Mkdir(dir, 0o755), os.WriteFile(file, []byte(v.canary), 0o644)); err != nil {
		return err
	}
	held, err := os.Open(file)
	if err != nil {
		return err
	}
	defer held.Close()
	cmd := exec.Command(s.actor, actorArg, "hold", v.canary)
	cmd.Env = []string{actorEnv, "SECRET=" + v.canary}
	cmd.Dir = dir
	cmd.ExtraFiles = []*os.File{held}
	v.child, err = startChild(cmd)
	return err
}

// A child is a process that does as it is told until it is ended.
type child struct {
	*exec.Cmd
	in  io.WriteCloser
	out io.Reader
}

// startChild starts one, and waits for its first word.
func startChild(cmd *exec.Cmd) (*child, error) {
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
	c := &child{cmd, in, out}
	if err := c.heard(); err != nil {
		c.end()
		return nil, err
	}
	return c, nil
}

// heard waits for a word.
func (c *child) heard() error {
	if _, err := c.out.Read(make([]byte, 16)); err != nil {
		return fmt.Errorf("process %d does not speak: %w", c.Process.Pid, err)
	}
	return nil
}

func (c *child) end() {
	c.in.Close()
	c.Wait()
}

// searchProc looks through the processes that /proc shows for a text in their
// "cmdline" or "environ", or for a file of that name in their "cwd", below
// their "root" at the path of the victim, or among their open files, "fd".
func searchProc(part, canary string) string {
	for _, dir := range inProc() {
		if dir == fmt.Sprintf("/proc/%d", os.Getpid()) || dir == "/proc/self" {
			continue
		}
		if found := searchProcess(dir, part, canary); found != "" {
			return found
		}
	}
	return ""
}

// searchProcess is searchProc for the process of that directory.
func searchProcess(dir, part, canary string) string {
	holds := func(path string) bool {
		text, err := readSome(path)
		return err == nil && strings.Contains(text, canary)
	}
	at := dir + "/" + part
	switch part {
	case "cmdline", "environ":
		if text, err := os.ReadFile(at); err == nil && bytes.Contains(text, []byte(canary)) {
			return at
		}
	case "cwd":
		if holds(at + "/" + canary) {
			return at
		}
	case "root":
		if cwd, err := os.Readlink(dir + "/cwd"); err == nil && holds(at+cwd+"/"+canary) {
			return at
		}
	case "fd":
		fds, _ := filepath.Glob(at + "/*")
		for _, fd := range fds {
			if link, err := os.Readlink(fd); err == nil && strings.Contains(link, canary) && holds(fd) {
				return fd
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
