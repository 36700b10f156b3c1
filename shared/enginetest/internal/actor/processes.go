package actor

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// A Child is a process that does as it is told until it is ended.
type Child struct {
	*exec.Cmd
	in  io.WriteCloser
	out io.Reader
}

// StartChild starts one, and waits for its first word.
func StartChild(cmd *exec.Cmd) (*Child, error) {
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
	c := &Child{cmd, in, out}
	if err := c.Heard(); err != nil {
		c.End()
		return nil, err
	}
	return c, nil
}

// Heard waits for a word.
func (c *Child) Heard() error {
	if _, err := c.out.Read(make([]byte, 16)); err != nil {
		return fmt.Errorf("process %d does not speak: %w", c.Process.Pid, err)
	}
	return nil
}

// End lets it end, and waits for that.
func (c *Child) End() {
	c.in.Close()
	c.Wait()
}

// Find looks through the processes that /proc shows for a text in their
// "cmdline" or "environ", or for a file of that name in their "cwd", below
// their "root" at the path of a victim, or among their open files, "fd".
func Find(part, canary string) string {
	for _, dir := range Processes() {
		if dir == fmt.Sprintf("/proc/%d", os.Getpid()) || dir == "/proc/self" {
			continue
		}
		if found := searchProcess(dir, part, canary); found != "" {
			return found
		}
	}
	return ""
}

// searchProcess is Find for the process of that directory.
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

// Processes lists the processes that /proc shows.
func Processes() []string {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	var list []string
	for _, dir := range dirs {
		if strings.Trim(filepath.Base(dir), "0123456789") == "" {
			list = append(list, dir)
		}
	}
	return list
}
