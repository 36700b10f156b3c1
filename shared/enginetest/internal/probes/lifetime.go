package probes

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
	"github.com/sbxhost/sbxhost/shared/enginetest/internal/actor"
	"github.com/sbxhost/sbxhost/shared/enginetest/internal/scene"
)

// lifetimeProbes are about what outlives a command. Each starts a process that
// has a session of its own, ignores signals and holds the command's output
// open, which is how it is noticed.
func lifetimeProbes() []Probe {
	survivor := func(id, title, kind string, end func(*scene.Trial)) Probe {
		return Probe{ID: id, Title: title, Unmodelled: decidedByEnd, custom: func(s *scene.Scene) { outlives(s, kind, end) }}
	}
	by := func(sig syscall.Signal) func(*scene.Trial) {
		return func(t *scene.Trial) {
			t.Awaited = true
			t.During = func(p shared.Process) { p.Signal(context.Background(), sig) }
		}
	}
	return []Probe{
		survivor("life.01", "a daemon after the command's exit", "exit", func(*scene.Trial) {}),
		survivor("life.02", "a daemon after the command's death by a signal", "die", func(*scene.Trial) {}),
		survivor("life.03", "a daemon after the timeout", "stay", func(t *scene.Trial) { t.Command.Timeout, t.Command.Grace = 300*time.Millisecond, 100*time.Millisecond }),
		survivor("life.04", "a daemon after SIGKILL", "stay", by(syscall.SIGKILL)),
		survivor("life.05", "a daemon after SIGTERM", "stay", by(syscall.SIGTERM)),
		survivor("life.06", "a stopped process after the command's exit", "stopped", func(*scene.Trial) {}),
		{ID: "life.07", Title: "a daemon after Close", Unmodelled: decidedByEnd, custom: outlivesClose},
		{ID: "life.08", Title: "handlers of SIGTERM run when the time is up", Unmodelled: decidedByEnd, Works: true, custom: handlerRuns},
	}
}

// outlives runs a command that leaves a process behind.
func outlives(s *scene.Scene, kind string, end func(*scene.Trial)) {
	t := s.Trying("daemon", kind, s.Canary)
	end(t)
	o := s.Attempt(t)
	// A command that is ended before it has left anything, on a machine that is slow
	// now, shows nothing.
	for ; o.Refused == nil && o.Broke == nil && o.Verdict.Kind == actor.Broken && t.Command.Timeout < actor.Timeout/2; o = s.Attempt(t) {
		t.Command.Timeout *= 4
	}
	checkSurvivor(s, o)
}

// checkSurvivor says what an attempt to leave a daemon behind means.
func checkSurvivor(s *scene.Scene, o *scene.Outcome) {
	s.Must(errors.Join(o.Refused, o.Broke))
	if o.Outlived {
		endSurvivors(s)
		s.End(scene.Leaked, "something still held its output when Wait had returned")
	}
	if o.Verdict.Kind == actor.Broken {
		s.Failf("there was no daemon: %s", o.Told())
	}
	// The control: without a sandbox the daemon stays.
	v := s.ActOutside(s.Trying("daemon", "exit", s.Canary), false)
	if v.Kind != actor.Got {
		s.End(scene.ControlFailed, "%s", v.Detail)
	}
	if err := endOutside(v.Detail); err != nil {
		s.End(scene.ControlFailed, "the daemon does not survive without a sandbox: %v", err)
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

func outlivesClose(s *scene.Scene) {
	t := s.Trying("daemon", "stay", s.Canary)
	sandbox := s.OpenAs(t.Sorted())
	closed := errors.New("the daemon was never there")
	t.Awaited = true
	t.During = func(shared.Process) { closed = sandbox.Close(context.WithoutCancel(s.Ctx)) }
	o := s.Start(s.Ctx, sandbox, t)
	s.Must(o.Refused)
	s.Must(closed)
	o.Broke = nil // as Close may have it
	checkSurvivor(s, o)
}

// endSurvivors kills what has leaked. It is known by this scene's canary: the
// number that it has inside may be anybody's outside.
func endSurvivors(s *scene.Scene) {
	for _, dir := range actor.Processes() {
		text, err := os.ReadFile(dir + "/cmdline")
		if err != nil || !bytes.Contains(text, []byte("survive")) || !bytes.Contains(text, []byte(s.Canary)) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// handlerRuns gives a command that is killed before it has a handler, on a machine
// that is slow now, more time.
func handlerRuns(s *scene.Scene) {
	t := s.Trying("handle-term")
	t.Command.Grace = actor.Timeout / 2
	for t.Command.Timeout = 500 * time.Millisecond; ; t.Command.Timeout *= 4 {
		o := s.Attempt(t)
		status, detail := (&Probe{Works: true}).judge(s, o)
		if status == scene.Held || o.Status.Signal != syscall.SIGTERM || t.Command.Timeout >= actor.Timeout/8 {
			s.End(status, "%s", detail)
		}
	}
}
