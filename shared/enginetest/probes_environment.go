package enginetest

import (
	"context"
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
)

// environmentProbes are about what reaches a command, and the launcher, from
// outside of the definition.
func environmentProbes() []probe {
	return []probe{
		{id: "env.01", title: "variables are exactly those of the command, in their order", unmodelled: decidedByEngine, works: true, custom: exactEnvironment(
			"PATH=/usr/bin:/bin", "ONE=1", "EMPTY=", "TWO=a b\tc")},
		{id: "env.02", title: "values with newlines, quotes, signs and odd bytes arrive", unmodelled: decidedByEngine, works: true, custom: exactEnvironment(
			ownTemp, "A=line\nline", `B="'$(x)`+"`y`", "C==x=", "D=\u00e9\u4e16", "E=-x", "F=%s\\0", "lower.case-name=1")},
		{id: "env.03", title: "a thousand variables, 100 KiB, arrive", unmodelled: decidedByEngine, works: true, custom: exactEnvironment(manyVariables()...)},
		{id: "env.04", title: "variables of the engine's process", unmodelled: decidedByEngine, trial: doing("variables", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "GOCACHE", "HOSTNAME", "SSH_AUTH_SOCK", "XDG_RUNTIME_DIR"), maybe: true},
		{id: "env.05", title: "a variable for the loader acts on the launcher, outside", only: onlyLinux, custom: loaderVariables},
		{id: "env.06", title: "arguments are exact", unmodelled: decidedByEngine, works: true, custom: exactArguments},
		{id: "env.07", title: "the working directory is that of the command", works: true, trial: func(s *scene, t *trial) {
			t.Command.Dir = s.path("ws/sub")
			t.do("directory", s.path("ws/sub"))
		}},
		{id: "env.08", title: "a command that is in the PATH of the host alone", unmodelled: decidedByEngine, custom: hostPath},
		{id: "env.09", title: "no standard input is an empty one", works: true, trial: doing("empty-stdin")},
		{id: "env.10", title: "signals are neither blocked nor ignored", works: true, only: onlyLinux, custom: signalState},
		{id: "env.11", title: "files that a shell of the host's user reads its settings from", trial: doing("read", "/etc/bash.bashrc.local", "/root/.bashrc", "/root/.profile"), only: onlyLinux, maybe: true},
	}
}

func manyVariables() []string {
	list := []string{ownTemp}
	for i := range 1000 {
		list = append(list, "VARIABLE_"+number(i)+"="+strings.Repeat("x", 90))
	}
	return list
}

func number(i int) string { return fmt.Sprintf("%04d", i) }

// ownTemp is a variable that an engine may set where a command has none, since
// its sandboxes have no /tmp. SCENE is the scene's directory.
const ownTemp = "TMPDIR=SCENE/ws"

// exactEnvironment compares what the command sees with what it was given.
func exactEnvironment(variables ...string) func(context.Context, *scene) (Status, string) {
	return func(ctx context.Context, s *scene) (Status, string) {
		var env []string
		for _, v := range variables {
			env = append(env, strings.ReplaceAll(v, "SCENE", s.dir))
		}
		t := s.newTrial()
		t.Command.Env = env
		t.do("environment")
		var got []string
		if status, detail := s.tell(ctx, t, &got); status != Held {
			return status, detail
		}
		got = slices.DeleteFunc(got, func(e string) bool { return e == actorEnv })
		if !slices.Equal(got, env) {
			return Failed, fmt.Sprintf("it sees %s", tail(fmt.Appendf(nil, "%q", got)))
		}
		return Held, ""
	}
}

// tell runs an action whose result is JSON.
func (s *scene) tell(ctx context.Context, t *trial, value any) (Status, string) {
	o := s.attempt(ctx, t)
	if err := errors.Join(o.refused, o.broke); err != nil {
		return Failed, err.Error()
	}
	if o.verdict.Kind != verdictGot {
		return Failed, o.told()
	}
	if err := json.Unmarshal([]byte(o.verdict.Detail), value); err != nil {
		return Failed, err.Error()
	}
	return Held, ""
}

func exactArguments(ctx context.Context, s *scene) (Status, string) {
	args := []string{"", " ", "-x", "--", "--help", "a\nb", `"'\`, "$HOME", "*", "\u00e9", "--bind", "/", "/", strings.Repeat("y", 100_000)}
	t := s.newTrial()
	t.do("arguments", args...)
	var got []string
	if status, detail := s.tell(ctx, t, &got); status != Held {
		return status, detail
	}
	if !slices.Equal(got, args) {
		return Failed, fmt.Sprintf("it sees %s", tail(fmt.Appendf(nil, "%q", got)))
	}
	return Held, ""
}

// loaderVariables has the dynamic loader write a file for every program that
// is started with these variables. None may be, outside.
func loaderVariables(ctx context.Context, s *scene) (Status, string) {
	trace := s.path("outside/loader")
	env := []string{"LD_DEBUG=libs", "LD_DEBUG_OUTPUT=" + trace}
	t := s.newTrial()
	t.Command.Env = append(t.Command.Env, env...)
	t.argv = []string{"/bin/sh", "-c", ":"} // which has a loader, as the actor need not
	if o := s.attempt(ctx, t); o.refused != nil {
		return Failed, o.refused.Error()
	}
	if found, _ := filepath.Glob(trace + ".*"); len(found) > 0 {
		return Leaked, "the launcher's loader obeyed it, outside of the sandbox"
	}
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", ":")
	cmd.Env = env
	if err := cmd.Run(); err != nil {
		return NotApplicable, "no /bin/sh here: " + err.Error()
	}
	if found, _ := filepath.Glob(trace + ".*"); len(found) == 0 {
		return NotApplicable, "the loader of this machine has no LD_DEBUG"
	}
	return Held, ""
}

// hostPath looks a command up by a PATH that names a directory of the host.
func hostPath(ctx context.Context, s *scene) (Status, string) {
	const name = "sbxhost-probe-tool"
	if err := s.write("outside/"+name, "#!/bin/sh\nexit 0\n"); err != nil {
		return Failed, err.Error()
	}
	if err := os.Chmod(s.path("outside", name), 0o755); err != nil {
		return Failed, err.Error()
	}
	t := s.newTrial()
	t.Command.Env = []string{"PATH=" + s.outside + ":/usr/bin:/bin"}
	t.argv = []string{name}
	o := s.attempt(ctx, t)
	switch {
	case o.refused == nil && o.result.Status.Success():
		return Leaked, "it was found"
	case !errors.Is(o.refused, shared.ErrNotFound):
		return Failed, fmt.Sprintf("not refused as a command that is not there: %v, %v", o.refused, o.result.Status)
	}
	t.show(s.outside, shared.ReadOnly)
	if o := s.attempt(ctx, t); o.refused != nil || !o.result.Status.Success() {
		return ControlFailed, fmt.Sprintf("where it is shown: %v, %v", o.refused, o.result.Status)
	}
	return Held, ""
}

// librarySignals are 32 and 33, which no program gets to see: glibc keeps them for
// itself, and its posix_spawn, by which make starts a shell, leaves them ignored.
const librarySignals = 3 << 31

// signalState reads the dispositions that a fresh program finds. A Go program
// changes its own.
func signalState(ctx context.Context, s *scene) (Status, string) {
	t := s.newTrial()
	t.argv = []string{"/bin/cat", "/proc/self/status"}
	o := s.attempt(ctx, t)
	if o.refused != nil || !o.result.Status.Success() {
		return NotApplicable, fmt.Sprintf("no cat inside: %v", o.refused)
	}
	for line := range strings.Lines(string(o.stdout)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":\t")
		if name != "SigBlk" && name != "SigIgn" {
			continue
		}
		if set, err := strconv.ParseUint(value, 16, 64); err != nil || set&^librarySignals != 0 {
			return Failed, name + " is " + value
		}
	}
	return Held, ""
}
