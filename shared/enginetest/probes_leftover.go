package enginetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/sbxhost/sbxhost/shared"
)

// leftoverProbes are about what an engine itself makes on the host, and about
// paths that are swapped while it looks.
func leftoverProbes() []probe {
	return []probe{
		{id: "write.60", title: "a command that writes nothing leaves the workspace as it was", unmodelled: decidedByEngine, custom: func(ctx context.Context, s *scene) (Status, string) {
			return s.leavesNothing(ctx, func(t *trial) {
				t.hide(s.path("ws/.env"))
				t.hide(s.path("ws/keys"))
				t.show(s.path("ws/sub/deep"), shared.ReadOnly)
			})
		}, features: []shared.Feature{shared.FeatureHidden, shared.FeatureFilesystemMinimal, shared.FeatureNetworkNone}},
		{id: "write.61", title: "hiding a path that is not there leaves no stub", unmodelled: decidedByEngine, custom: func(ctx context.Context, s *scene) (Status, string) {
			return s.leavesNothing(ctx, func(t *trial) {
				t.hide(s.path("ws/missing"))
				t.hide(s.path("ws/none/missing"))
			})
		}, features: []shared.Feature{shared.FeatureHidden, shared.FeatureFilesystemMinimal, shared.FeatureNetworkNone}},
		{id: "write.64", title: "a hidden file cannot be written", trial: func(s *scene, t *trial) {
			t.hide(s.path("ws/.env"))
			t.do("append-regular", s.path("ws/.env"))
		}, control: controlGranted, grant: unhidden, after: func(s *scene, o *outcome) error { return unchanged("ws/.env", s.canary)(s, o) }},
		{id: "write.65", title: "a hidden file cannot be removed", trial: func(s *scene, t *trial) {
			t.hide(s.path("ws/.env"))
			t.do("unlink", s.path("ws/.env"))
		}, control: controlGranted, grant: unhidden},
		{id: "write.66", title: "nothing can be made in a hidden directory", trial: func(s *scene, t *trial) {
			t.hide(s.path("ws/keys"))
			t.do("create", s.path("ws/keys/new"))
		}, control: controlGranted, grant: unhidden},
		{id: "write.67", title: "a destination beneath a symlink of the workspace makes nothing elsewhere", refusal: true, works: true,
			prepare: func(s *scene) error { return os.Symlink(s.outside, s.path("ws/evil")) },
			trial: func(s *scene, t *trial) {
				t.Spec.Table = append(t.Spec.Table, shared.Entry{Source: s.shown, Path: s.path("ws/evil/made"), Why: "bind_paths[1]", Access: shared.ReadOnly})
				t.do("nothing")
			}, after: func(s *scene, _ *outcome) error { return hostHas(s.path("outside/made")) }},
		{id: "write.68", title: "nor does one beneath a symlink to a launcher's own view of the host", refusal: true, works: true,
			prepare: func(s *scene) error {
				return errors.Join(os.Symlink("/oldroot"+s.outside, s.path("ws/evil")), os.Symlink("/newroot"+s.outside, s.path("ws/evil2")))
			},
			trial: func(s *scene, t *trial) {
				t.Spec.Table = append(t.Spec.Table,
					shared.Entry{Source: s.shown, Path: s.path("ws/evil/made"), Why: "bind_paths[1]", Access: shared.ReadOnly},
					shared.Entry{Source: s.shown, Path: s.path("ws/evil2/made"), Why: "bind_paths[2]", Access: shared.ReadOnly})
				t.do("nothing")
			}, after: func(s *scene, _ *outcome) error { return hostHas(s.path("outside/made")) }},
		{id: "write.69", title: "a destination that is a symlink of the workspace is not followed", refusal: true, works: true,
			prepare: func(s *scene) error {
				return errors.Join(os.Mkdir(s.path("outside/dir"), 0o755), os.Symlink(s.path("outside/dir"), s.path("ws/evil")))
			},
			trial: func(s *scene, t *trial) {
				t.Spec.Table = append(t.Spec.Table, shared.Entry{Source: s.shown, Path: s.path("ws/evil/made"), Why: "bind_paths[1]", Access: shared.ReadOnly})
				t.do("nothing")
			}, after: func(s *scene, _ *outcome) error { return hostHas(s.path("outside/dir/made")) }},
		{id: "write.70", title: "a source that became a symlink after Open", unmodelled: decidedByEngine, custom: swappedSource,
			features: []shared.Feature{shared.FeatureFilesystemMinimal, shared.FeatureNetworkNone}},
		{id: "write.71", title: "a source that becomes a symlink while commands start", unmodelled: decidedByEngine, custom: racedSource,
			features: []shared.Feature{shared.FeatureSourceFD, shared.FeatureFilesystemMinimal, shared.FeatureNetworkNone}},
		{id: "write.72", title: "a missing destination in the workspace leaves no stub", refusal: true, works: true, trial: func(s *scene, t *trial) {
			t.Spec.Table = append(t.Spec.Table, shared.Entry{Source: s.shown, Path: s.path("ws/new/place"), Why: "bind_paths[1]", Access: shared.ReadOnly})
			t.do("nothing")
		}, after: func(s *scene, _ *outcome) error { return hostHas(s.path("ws/new")) }},
		{id: "write.73", title: "nothing stays mounted on the host", only: onlyLinux, works: true, trial: func(s *scene, t *trial) {
			t.show(s.shown, shared.ReadOnly)
			t.do("nothing")
		}, after: func(s *scene, _ *outcome) error {
			mounts, err := os.ReadFile("/proc/self/mountinfo")
			if err == nil && strings.Contains(string(mounts), s.dir) {
				err = errors.New("a mount of the scene is in the host's mountinfo")
			}
			return err
		}},
	}
}

// leavesNothing compares the whole scene before and after a command that does
// nothing; the control is a command that does something.
func (s *scene) leavesNothing(ctx context.Context, change func(*trial)) (Status, string) {
	before, err := treeOf(s.dir)
	if err != nil {
		return Failed, err.Error()
	}
	t := s.newTrial()
	t.do("nothing")
	change(t)
	if err := s.runTrials(ctx, t, t); err != nil {
		return Failed, err.Error()
	}
	after, err := treeOf(s.dir)
	if err != nil {
		return Failed, err.Error()
	}
	if before != after {
		return Leaked, "the tree was changed: " + firstDifference(before, after)
	}
	made := s.newTrial()
	made.do("create", s.path("ws/made"))
	if err := s.runTrials(ctx, made); err != nil {
		return ControlFailed, err.Error()
	}
	if after, err = treeOf(s.dir); err != nil || after == before {
		return ControlFailed, fmt.Sprintf("what a command makes is not noticed: %v", err)
	}
	return Held, ""
}

// firstDifference is the first line that one of two texts has alone.
func firstDifference(before, after string) string {
	had := map[string]bool{}
	for line := range strings.Lines(before) {
		had[line] = true
	}
	for line := range strings.Lines(after) {
		if !had[line] {
			return "new: " + strings.TrimSpace(line)
		}
	}
	return "something is missing"
}

// swappedSource replaces a mount's source by a symlink to the secret's directory
// between Open and Start.
func swappedSource(ctx context.Context, s *scene) (Status, string) {
	if err := s.write("ws/source/secret", "harmless"); err != nil {
		return Failed, err.Error()
	}
	t := s.newTrial()
	t.show(s.path("ws/source"), shared.ReadOnly)
	t.do("read-canary", s.canary, s.path("ws/source/secret"))
	sandbox, err := s.suite.engine.Open(ctx, t.Spec)
	if err != nil {
		return Failed, err.Error()
	}
	defer sandbox.Close(context.WithoutCancel(ctx))
	if err := os.Rename(s.path("ws/source"), s.path("ws/old")); err != nil {
		return Failed, err.Error()
	}
	if err := os.Symlink(s.outside, s.path("ws/source")); err != nil {
		return Failed, err.Error()
	}
	if o := s.start(ctx, sandbox, t); o.verdict.Kind == verdictGot {
		return Leaked, o.told()
	} else if o.refused == nil && o.verdict.Kind == verdictBroken {
		return Failed, o.told()
	}
	// The control: the same read, granted.
	granted := s.newTrial()
	granted.show(s.outside, shared.ReadOnly)
	granted.do("read-canary", s.canary, s.path("outside/secret"))
	if o := s.attempt(ctx, granted); o.verdict.Kind != verdictGot {
		return ControlFailed, o.told()
	}
	return Held, ""
}

// racedSource swaps the source all the time while commands start.
func racedSource(ctx context.Context, s *scene) (Status, string) {
	const rounds = 60
	source, link := s.path("ws/source"), s.path("ws/swap")
	if err := errors.Join(s.write("ws/source/secret", "harmless"), os.Symlink(s.outside, link)); err != nil {
		return Failed, err.Error()
	}
	t := s.newTrial()
	t.show(source, shared.ReadOnly)
	t.do("read-canary", s.canary, filepath.Join(source, "secret"))
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				exchange(source, link)
			}
		}
	}()
	defer func() { close(stop); <-stopped }()
	ran := 0
	for range rounds {
		o := s.attempt(ctx, t)
		switch {
		case o.verdict.Kind == verdictGot:
			return Leaked, fmt.Sprintf("after %d commands: %s", ran, o.told())
		case o.refused == nil:
			ran++
		}
		if ctx.Err() != nil {
			return Failed, ctx.Err().Error()
		}
	}
	return Held, fmt.Sprintf("%d of %d commands ran", ran, rounds)
}
