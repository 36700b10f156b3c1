package enginetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/enginetest/actor"
)

// environmentProbes are about what reaches a command, and the launcher, from
// outside of the definition.
func environmentProbes() []probe {
	return []probe{
		{id: "env.01", title: "variables are exactly those of the command, in their order", unmodelled: decidedByEngine, works: true, custom: exactEnvironment(
			ownTemp, "PATH=/usr/bin:/bin", "ONE=1", "EMPTY=", "TWO=a b\tc")},
		{id: "env.02", title: "values with newlines, quotes, signs and odd bytes arrive", unmodelled: decidedByEngine, works: true, custom: exactEnvironment(
			ownTemp, "A=line\nline", `B="'$(x)`+"`y`", "C==x=", "D=\u00e9\u4e16", "E=-x", "F=%s\\0", "lower.case-name=1")},
		{id: "env.03", title: "a thousand variables, 100 KiB, arrive", unmodelled: decidedByEngine, works: true, custom: exactEnvironment(manyVariables()...)},
		{id: "env.04", title: "variables of the engine's process", unmodelled: decidedByEngine,
			act: words{"variables", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "GOCACHE", "HOSTNAME", "SSH_AUTH_SOCK", "XDG_RUNTIME_DIR"}, maybe: true},
		{id: "env.05", title: "a variable for the loader acts on the launcher, outside", only: onlyLinux, custom: loaderVariables},
		{id: "env.08", title: "a command that is in the PATH of the host alone", unmodelled: decidedByEngine, custom: hostPath},
		{id: "env.11", title: "files that a shell of the host's user reads its settings from", only: onlyLinux,
			act: words{"read", "/etc/bash.bashrc.local", "/root/.bashrc", "/root/.profile"}, maybe: true},
	}
}

func manyVariables() []string {
	list := []string{ownTemp}
	for i := range 1000 {
		list = append(list, "VARIABLE_"+digits(i)+"="+strings.Repeat("x", 90))
	}
	return list
}

func digits(i int) string { return fmt.Sprintf("%04d", i) }

// ownTemp is a variable that an engine may set where a command has none, since
// its sandboxes have no /tmp.
const ownTemp = "TMPDIR={ws}"

// exactEnvironment compares what the command sees with what it was given.
func exactEnvironment(variables ...string) func(*scene) {
	return func(s *scene) {
		t := s.trying("environment")
		t.Command.Env = s.fill(variables...)
		got := slices.DeleteFunc(s.tells(t), func(e string) bool { return e == actor.Env })
		if !slices.Equal(got, t.Command.Env) {
			s.failf("it sees %s", tail(fmt.Sprintf("%q", got)))
		}
	}
}

func exactArguments(s *scene) {
	args := []string{"", " ", "-x", "--", "--help", "a\nb", `"'\`, "$HOME", "*", "\u00e9", "--bind", "/", "/", strings.Repeat("y", 100_000)}
	if got := s.tells(s.trying("arguments", args...)); !slices.Equal(got, args) {
		s.failf("it sees %s", tail(fmt.Sprintf("%q", got)))
	}
}

// tells runs an action that tells a list.
func (s *scene) tells(t *trial) (list []string) {
	o := s.done(t)
	if o.verdict.Kind != actor.Got {
		s.failf("%s", o.told())
	}
	s.must(json.Unmarshal([]byte(o.verdict.Detail), &list))
	return list
}

// loaderVariables has the dynamic loader write a file for every program that
// is started with these variables. None may be, outside.
func loaderVariables(s *scene) {
	trace := s.path("outside/loader")
	env := []string{"LD_DEBUG=libs", "LD_DEBUG_OUTPUT=" + trace}
	t := s.newTrial()
	t.Command.Env = append(t.Command.Env, env...)
	t.Command.Args = []string{"/bin/sh", "-c", ":"} // which has a loader, as the kit's program need not
	s.must(s.attempt(t).refused)
	traced := func() bool {
		found, _ := filepath.Glob(trace + ".*")
		return len(found) > 0
	}
	if traced() {
		s.end(Leaked, "the launcher's loader obeyed it, outside of the sandbox")
	}
	cmd := exec.CommandContext(s.ctx, "/bin/sh", "-c", ":")
	cmd.Env = env
	if err := cmd.Run(); err != nil {
		s.end(NotApplicable, "no /bin/sh here: %v", err)
	}
	if !traced() {
		s.end(NotApplicable, "the loader of this machine has no LD_DEBUG")
	}
}

// hostPath looks a command up by a PATH that names a directory of the host.
func hostPath(s *scene) {
	const name = "sbxhost-probe-tool"
	s.must(s.write("outside/"+name, "#!/bin/sh\nexit 0\n"))
	s.must(os.Chmod(s.path("outside", name), 0o755))
	t := s.newTrial()
	t.Command.Env = []string{"PATH=" + s.outside + ":/usr/bin:/bin"}
	t.Command.Args = []string{name}
	o := s.attempt(t)
	switch {
	case o.refused == nil && o.Status.Success():
		s.end(Leaked, "it was found")
	case !errors.Is(o.refused, shared.ErrNotFound):
		s.failf("not refused as a command that is not there: %v, %v", o.refused, o.Status)
	}
	t.show(s.outside, shared.ReadOnly)
	if o := s.attempt(t); o.refused != nil || !o.Status.Success() {
		s.end(ControlFailed, "where it is shown: %v, %v", o.refused, o.Status)
	}
}

// librarySignals are 32 and 33, which no program gets to see: glibc keeps them for
// itself, and its posix_spawn, by which make starts a shell, leaves them ignored.
const librarySignals = 3 << 31

// signalState reads the dispositions that a fresh program finds. A Go program
// changes its own.
func signalState(s *scene) {
	t := s.newTrial()
	t.Command.Args = []string{"/bin/cat", "/proc/self/status"}
	o := s.attempt(t)
	if o.refused != nil || !o.Status.Success() {
		s.end(NotApplicable, "no cat inside: %v", o.refused)
	}
	for line := range strings.Lines(o.stdout) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":\t")
		if name != "SigBlk" && name != "SigIgn" {
			continue
		}
		if set, err := strconv.ParseUint(value, 16, 64); err != nil || set&^librarySignals != 0 {
			s.failf("%s is %s", name, value)
		}
	}
}
