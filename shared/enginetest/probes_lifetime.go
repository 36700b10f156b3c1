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
)

// lifetimeProbes are about what outlives a command. Each starts a process that
// has a session of its own, ignores signals and holds the command's output
// open, which is how it is noticed.
func lifetimeProbes() []probe {
	isolates := []shared.Feature{shared.FeatureFilesystemMinimal, shared.FeatureNetworkNone}
	survivor := func(id, title, kind string, end func(*trial)) probe {
		return probe{id: id, title: title, features: isolates, unmodelled: decidedByEnd, custom: func(ctx context.Context, s *scene) (Status, string) {
			return s.outlives(ctx, kind, end)
		}}
	}
	return []probe{
		survivor("life.01", "a daemon after the command's exit", "exit", func(*trial) {}),
		survivor("life.02", "a daemon after the command's death by a signal", "die", func(*trial) {}),
		survivor("life.03", "a daemon after the timeout", "stay", func(t *trial) { t.Command.Timeout, t.Command.Grace = 300*time.Millisecond, 100*time.Millisecond }),
		survivor("life.04", "a daemon after SIGKILL", "stay", func(t *trial) {
			t.awaited = true
			t.during = func(p shared.Process) { p.Signal(context.Background(), syscall.SIGKILL) }
		}),
		survivor("life.05", "a daemon after SIGTERM", "stay", func(t *trial) {
			t.awaited = true
			t.during = func(p shared.Process) { p.Signal(context.Background(), syscall.SIGTERM) }
		}),
		survivor("life.06", "a stopped process after the command's exit", "stopped", func(*trial) {}),
		{id: "life.07", title: "a daemon after Close", unmodelled: decidedByEnd, features: isolates, custom: outlivesClose},
		{id: "life.08", title: "handlers of SIGTERM run when the time is up", unmodelled: decidedByEnd, works: true, custom: handlerRuns},
	}
}

// outlives runs a command that leaves a process behind.
func (s *scene) outlives(ctx context.Context, kind string, end func(*trial)) (Status, string) {
	t := s.newTrial()
	t.do("daemon", kind, s.canary)
	end(t)
	o := s.attempt(ctx, t)
	// A command that is ended before it has left anything, on a machine that is slow
	// now, shows nothing.
	for ; o.refused == nil && o.broke == nil && o.verdict.Kind == verdictBroken && t.Command.Timeout < actionTimeout/2; o = s.attempt(ctx, t) {
		t.Command.Timeout *= 4
	}
	return s.outlived(ctx, o)
}

// outlived says what an attempt to leave a daemon behind means.
func (s *scene) outlived(ctx context.Context, o *outcome) (Status, string) {
	if err := errors.Join(o.refused, o.broke); err != nil {
		return Failed, err.Error()
	}
	if o.outlived {
		s.endSurvivors()
		return Leaked, "something still held its output when Wait had returned"
	}
	if o.verdict.Kind == verdictBroken {
		return Failed, "there was no daemon: " + o.told()
	}
	return s.survivesOutside(ctx)
}

// survivesOutside is the control: without a sandbox the daemon stays.
func (s *scene) survivesOutside(ctx context.Context) (Status, string) {
	t := s.newTrial()
	t.do("daemon", "exit", s.canary)
	v := s.actOutside(ctx, t, false)
	if v.Kind != verdictGot {
		return ControlFailed, v.Detail
	}
	if err := endOutside(v.Detail); err != nil {
		return ControlFailed, "the daemon does not survive without a sandbox: " + err.Error()
	}
	return Held, ""
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

func outlivesClose(ctx context.Context, s *scene) (Status, string) {
	t := s.newTrial()
	t.do("daemon", "stay", s.canary)
	sandbox, err := s.suite.engine.Open(ctx, t.Spec)
	if err != nil {
		return Failed, err.Error()
	}
	closed := make(chan error, 1)
	t.awaited = true
	t.during = func(shared.Process) { closed <- sandbox.Close(context.WithoutCancel(ctx)) }
	o := s.start(ctx, sandbox, t)
	if o.refused != nil {
		return Failed, o.refused.Error()
	}
	if err := <-closed; err != nil {
		return Failed, err.Error()
	}
	o.broke = nil // as Close may have it
	return s.outlived(ctx, o)
}

// endSurvivors kills what has leaked. It is known by this scene's canary: the
// number that it has inside may be anybody's outside.
func (s *scene) endSurvivors() {
	for _, dir := range inProc() {
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
func handlerRuns(ctx context.Context, s *scene) (status Status, detail string) {
	for timeout := 500 * time.Millisecond; timeout < actionTimeout/2; timeout *= 4 {
		t := s.newTrial()
		t.do("handle-term")
		t.Command.Timeout, t.Command.Grace = timeout, actionTimeout/2
		o := s.attempt(ctx, t)
		if status, detail = s.judge(o); status == Held || o.result.Status.Signal != syscall.SIGTERM {
			break
		}
	}
	return status, detail
}
