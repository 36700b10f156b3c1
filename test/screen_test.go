//go:build linux

package test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// A screen is an interactive shell in tmux, which draws what a person would see.
type screen struct {
	t      *testing.T
	socket string
	env    []string
	shell  string // its process
	typed  int
}

// screen starts bash with the prompt `OUT> `.
func (p *place) screen(t *testing.T) *screen {
	t.Helper()
	need(t, "tmux", "bash")
	// Not in the test's directory: a socket's path has a hundred bytes.
	dir, err := os.MkdirTemp("/tmp", "sbxhost-screen")
	if err != nil {
		t.Fatal(err)
	}
	s := &screen{t: t, socket: filepath.Join(dir, "tmux"), env: p.env()}
	t.Cleanup(func() {
		exec.Command("tmux", "-S", s.socket, "kill-server").Run()
		until(t, "the shell to end", func() bool {
			_, err := os.Stat("/proc/" + s.shell)
			return err != nil
		}, func() string { return s.shell })
		os.RemoveAll(dir)
	})
	s.tmux("-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", "-c", p.project,
		"env", "PS1=OUT> ", "HISTFILE=", "bash", "--norc", "--noprofile")
	s.shell = strings.TrimSpace(s.tmux("display-message", "-p", "#{pane_pid}"))
	s.sees(`OUT>$`)
	return s
}

func (s *screen) tmux(args ...string) string {
	s.t.Helper()
	cmd := exec.Command("tmux", append([]string{"-S", s.socket}, args...)...)
	cmd.Env = s.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Fatalf("%s: %v: %s", cmd, err, out)
	}
	return string(out)
}

// keys presses keys by tmux's names: C-z, Enter, Escape.
func (s *screen) keys(names ...string) {
	s.t.Helper()
	s.tmux(append([]string{"send-keys"}, names...)...)
}

// run types a line.
func (s *screen) run(text string) {
	s.t.Helper()
	s.tmux("send-keys", "-l", text)
	s.keys("Enter")
}

// clear empties the screen, so that what is seen next is new.
func (s *screen) clear() {
	s.t.Helper()
	s.keys("C-l")
	until(s.t, "an empty screen", func() bool { return strings.Count(s.text(), "\n") <= 1 }, s.text)
}

func (s *screen) text() string {
	s.t.Helper()
	return strings.TrimRight(s.tmux("capture-pane", "-p"), "\n") + "\n"
}

// sees waits for the screen to match.
func (s *screen) sees(pattern string) {
	s.t.Helper()
	re := regexp.MustCompile("(?m)" + pattern)
	until(s.t, strconv.Quote(pattern), func() bool { return re.MatchString(s.text()) }, s.text)
}

// inside starts bash in a sandbox, with the prompt `IN> `.
func (s *screen) inside(sandbox string) {
	s.t.Helper()
	s.run("sbxhost exec -sandbox " + sandbox + " -t -- env 'PS1=IN> ' bash --norc --noprofile")
	s.sees(`^IN>$`)
}

// cat waits for a cat that was just started: it types words until one is
// answered. What it reads too early is the shell's line editor's.
func (s *screen) cat() {
	s.t.Helper()
	s.insists("cat to answer", func() string {
		s.typed++
		word := fmt.Sprintf("typed-%d", s.typed)
		s.keys("C-j")
		s.run(word)
		return "\n" + word + "\n" + word + "\n"
	})
}

// repeats types a line until the screen shows what it brings about.
func (s *screen) repeats(line, want string) {
	s.t.Helper()
	s.insists(strconv.Quote(want), func() string {
		s.run(line)
		return want
	})
}

// insists types something now and then until the screen shows what it is to bring
// about: not as often as it looks, or what follows would take that off the screen.
func (s *screen) insists(what string, typed func() (want string)) {
	s.t.Helper()
	polls, want := 0, ""
	until(s.t, what, func() bool {
		if polls++; polls%20 == 1 {
			want = typed()
		}
		return strings.Contains(s.text(), want)
	}, s.text)
}

// sbxhost is the process that the shell has started last.
func (s *screen) sbxhost() int {
	s.t.Helper()
	children, err := os.ReadFile(fmt.Sprintf("/proc/%s/task/%[1]s/children", s.shell))
	if err != nil {
		s.t.Fatal(err)
	}
	fields := strings.Fields(string(children))
	if len(fields) == 0 {
		s.t.Fatalf("the shell has no children:\n%s", s.text())
	}
	pid, err := strconv.Atoi(fields[len(fields)-1])
	if err != nil {
		s.t.Fatal(err)
	}
	return pid
}
