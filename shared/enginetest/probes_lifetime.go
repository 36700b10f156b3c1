package enginetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/enginetest/actor"
)

// lifetimeProbes are about what outlives a command. Each starts a process that
// has a session of its own, ignores signals and holds the command's output
// open, which is how it is noticed.
func lifetimeProbes() []probe {
	survivor := func(id, title, kind string, end func(*trial)) probe {
		return probe{id: id, title: title, unmodelled: decidedByEnd, custom: func(s *scene) { s.outlives(kind, end) }}
	}
	by := func(sig syscall.Signal) func(*trial) {
		return func(t *trial) {
			t.awaited = true
			t.during = func(p shared.Process) { p.Signal(context.Background(), sig) }
		}
	}
	return []probe{
		survivor("life.01", "a daemon after the command's exit", "exit", func(*trial) {}),
		survivor("life.02", "a daemon after the command's death by a signal", "die", func(*trial) {}),
		survivor("life.03", "a daemon after the timeout", "stay", func(t *trial) { t.Command.Timeout, t.Command.Grace = 300*time.Millisecond, 100*time.Millisecond }),
		survivor("life.04", "a daemon after SIGKILL", "stay", by(syscall.SIGKILL)),
		survivor("life.05", "a daemon after SIGTERM", "stay", by(syscall.SIGTERM)),
		survivor("life.06", "a stopped process after the command's exit", "stopped", func(*trial) {}),
		{id: "life.07", title: "a daemon after Close", unmodelled: decidedByEnd, custom: outlivesClose},
		{id: "life.08", title: "handlers of SIGTERM run when the time is up", unmodelled: decidedByEnd, works: true, custom: handlerRuns},
	}
}

// outlives runs a command that leaves a process behind.
func (s *scene) outlives(kind string, end func(*trial)) {
	t := s.trying("daemon", kind, s.canary)
	end(t)
	o := s.attempt(t)
	// A command that is ended before it has left anything, on a machine that is slow
	// now, shows nothing.
	for ; o.refused == nil && o.broke == nil && o.verdict.Kind == actor.Broken && t.Command.Timeout < actor.Timeout/2; o = s.attempt(t) {
		t.Command.Timeout *= 4
	}
	s.outlived(o)
}

// outlived says what an attempt to leave a daemon behind means.
func (s *scene) outlived(o *outcome) {
	s.must(errors.Join(o.refused, o.broke))
	if o.outlived {
		s.endSurvivors()
		s.end(Leaked, "something still held its output when Wait had returned")
	}
	if o.verdict.Kind == actor.Broken {
		s.failf("there was no daemon: %s", o.told())
	}
	// The control: without a sandbox the daemon stays.
	v := s.actOutside(s.trying("daemon", "exit", s.canary), false)
	if v.Kind != actor.Got {
		s.end(ControlFailed, "%s", v.Detail)
	}
	if err := endOutside(v.Detail); err != nil {
		s.end(ControlFailed, "the daemon does not survive without a sandbox: %v", err)
	}
}

// endOutside kills the daemon whose number an action outside has told.
func endOutside(told string) error {
	_, text, ok := strings.Cut(told, "pid ")
	text, _, _ = strings.Cut(text, " ")
	pid, err := strconv.Atoi(text)
	if !ok || err != nil || pid < 2 {
		return fmt.Errorf("no pid in %q", told)
	}
	return syscall.Kill(pid, syscall.SIGKILL)
}

func outlivesClose(s *scene) {
	t := s.trying("daemon", "stay", s.canary)
	sandbox := s.openAs(t.sorted())
	closed := errors.New("the daemon was never there")
	t.awaited = true
	t.during = func(shared.Process) { closed = sandbox.Close(context.WithoutCancel(s.ctx)) }
	o := s.start(s.ctx, sandbox, t)
	s.must(o.refused)
	s.must(closed)
	o.broke = nil // as Close may have it
	s.outlived(o)
}

// endSurvivors kills what has leaked. It is known by this scene's canary: the
// number that it has inside may be anybody's outside.
func (s *scene) endSurvivors() {
	for _, dir := range actor.Processes() {
		text, err := os.ReadFile(dir + "/cmdline")
		if err != nil || !bytes.Contains(text, []byte("survive")) || !bytes.Contains(text, []byte(s.canary)) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// handlerRuns gives a command that is killed before it has a handler, on a machine
// that is slow now, more time.
func handlerRuns(s *scene) {
	t := s.trying("handle-term")
	t.Command.Grace = actor.Timeout / 2
	for t.Command.Timeout = 500 * time.Millisecond; ; t.Command.Timeout *= 4 {
		o := s.attempt(t)
		status, detail := s.judge(o)
		if status == Held || o.Status.Signal != syscall.SIGTERM || t.Command.Timeout >= actor.Timeout/8 {
			s.end(status, "%s", detail)
		}
	}
}
