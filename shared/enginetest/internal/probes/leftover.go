package probes

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/enginetest/internal/actor"
	"github.com/sbxhost/sbxhost/shared/enginetest/internal/scene"
)

// leftoverProbes are about what an engine itself makes on the host, and about
// paths that are swapped while it looks.
func leftoverProbes() []Probe {
	hides := []shared.Feature{shared.FeatureHidden, shared.FeatureNested}
	// mountedAt mounts what is shown elsewhere, below the scene's directory.
	mountedAt := func(places ...string) func(*scene.Scene, *scene.Trial) {
		return func(s *scene.Scene, t *scene.Trial) {
			for _, place := range places {
				t.Add(shared.Entry{Source: s.Shown, Path: s.Path(place), Access: shared.ReadOnly})
			}
		}
	}
	return []Probe{
		{ID: "write.60", Title: "a command that writes nothing leaves the workspace as it was", Unmodelled: decidedByEngine, Features: hides, custom: func(s *scene.Scene) {
			leavesNothing(s, func(t *scene.Trial) {
				t.Hide(s.Path("ws/.env"))
				t.Hide(s.Path("ws/keys"))
				t.Show(s.Path("ws/sub/deep"), shared.ReadOnly)
			})
		}},
		{ID: "write.61", Title: "hiding a path that is not there leaves no stub", Unmodelled: decidedByEngine, Features: hides, custom: func(s *scene.Scene) {
			leavesNothing(s, func(t *scene.Trial) {
				t.Hide(s.Path("ws/missing"))
				t.Hide(s.Path("ws/none/missing"))
			})
		}},
		{ID: "write.64", Title: "a hidden file cannot be written", hide: words{"{ws}/.env"}, act: words{"append-regular", "{ws}/.env"}, grant: unhidden, after: unchanged("ws/.env")},
		{ID: "write.65", Title: "a hidden file cannot be removed", hide: words{"{ws}/.env"}, act: words{"unlink", "{ws}/.env"}, grant: unhidden},
		{ID: "write.66", Title: "nothing can be made in a hidden directory", hide: words{"{ws}/keys"}, act: words{"create", "{ws}/keys/new"}, grant: unhidden},
		{ID: "write.67", Title: "a destination beneath a symlink of the workspace makes nothing elsewhere", Refusal: true, Works: true,
			prepare: linkTo("{outside}", "ws/evil"), trial: mountedAt("ws/evil/made"), act: words{"nothing"}, after: notOnHost("{outside}/made")},
		{ID: "write.68", Title: "nor does one beneath a symlink to a launcher's own view of the host", Refusal: true, Works: true,
			prepare: func(s *scene.Scene) error {
				return errors.Join(linkTo("/oldroot{outside}", "ws/evil")(s), linkTo("/newroot{outside}", "ws/evil2")(s))
			},
			trial: mountedAt("ws/evil/made", "ws/evil2/made"), act: words{"nothing"}, after: notOnHost("{outside}/made")},
		{ID: "write.69", Title: "a destination that is a symlink of the workspace is not followed", Refusal: true, Works: true,
			prepare: func(s *scene.Scene) error {
				return errors.Join(makeDir("outside/dir")(s), linkTo("{outside}/dir", "ws/evil")(s))
			},
			trial: mountedAt("ws/evil/made"), act: words{"nothing"}, after: notOnHost("{outside}/dir/made")},
		{ID: "write.70", Title: "a source that became a symlink after Open", Unmodelled: decidedByEngine, custom: swappedSource},
		{ID: "write.71", Title: "a source that becomes a symlink while commands start", Unmodelled: decidedByEngine,
			Features: []shared.Feature{shared.FeatureSourceFD}, custom: racedSource},
		{ID: "write.72", Title: "a missing destination in the workspace leaves no stub", Refusal: true, Works: true,
			trial: mountedAt("ws/new/place"), act: words{"nothing"}, after: notOnHost("{ws}/new")},
		{ID: "write.73", Title: "nothing stays mounted on the host", Only: OnlyLinux, Works: true, show: words{"{shown}"}, act: words{"nothing"}, after: func(s *scene.Scene) error {
			mounts, err := os.ReadFile("/proc/self/mountinfo")
			if err == nil && strings.Contains(string(mounts), s.Dir) {
				err = errors.New("a mount of the scene is in the host's mountinfo")
			}
			return err
		}},
	}
}

// tree is a picture of all that lies below the scene's directory.
func tree(s *scene.Scene) string {
	var out []byte
	s.Must(filepath.WalkDir(s.Dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		out = fmt.Appendf(out, "%s %v", path, info.Mode())
		if info.Mode().IsRegular() {
			f, err := os.Open(path)
			if err != nil {
				return err
			}
			text, err := io.ReadAll(io.LimitReader(f, 4096))
			f.Close()
			if err != nil {
				return err
			}
			out = fmt.Appendf(out, " %q", text)
		}
		out = append(out, '\n')
		return nil
	}))
	return string(out)
}

// leavesNothing compares the whole scene before and after two commands that do
// nothing; the control is a command that does something.
func leavesNothing(s *scene.Scene, change func(*scene.Trial)) {
	before := tree(s)
	t := s.Trying("nothing")
	change(t)
	s.Done(t)
	s.Done(t)
	if after := tree(s); before != after {
		s.End(scene.Leaked, "the tree was changed: %s", firstDifference(before, after))
	}
	s.Done(s.Trying("create", s.Path("ws/made")))
	if tree(s) == before {
		s.End(scene.ControlFailed, "what a command makes is not noticed")
	}
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
func swappedSource(s *scene.Scene) {
	s.Must(s.Write("ws/source/secret", "harmless"))
	t := s.Trying("read-canary", s.Canary, s.Path("ws/source/secret"))
	t.Show(s.Path("ws/source"), shared.ReadOnly)
	sandbox := s.OpenAs(t.Sorted())
	s.Must(os.Rename(s.Path("ws/source"), s.Path("ws/old")))
	s.Must(os.Symlink(s.Outside, s.Path("ws/source")))
	if o := s.Start(s.Ctx, sandbox, t); o.Verdict.Kind == actor.Got {
		s.End(scene.Leaked, "%s", o.Told())
	} else if o.Refused == nil && o.Verdict.Kind == actor.Broken {
		s.Failf("%s", o.Told())
	}
	// The control: the same read, granted.
	granted := s.Trying("read-canary", s.Canary, s.Path("outside/secret"))
	granted.Show(s.Outside, shared.ReadOnly)
	if o := s.Attempt(granted); o.Verdict.Kind != actor.Got {
		s.End(scene.ControlFailed, "%s", o.Told())
	}
}

// racedSource swaps the source all the time while commands start.
func racedSource(s *scene.Scene) {
	const most = 60
	source, link := s.Path("ws/source"), s.Path("ws/swap")
	s.Must(errors.Join(s.Write("ws/source/secret", "harmless"), os.Symlink(s.Outside, link)))
	t := s.Trying("read-canary", s.Canary, filepath.Join(source, "secret"))
	t.Show(source, shared.ReadOnly)
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
	rounds, ran := 0, 0
	for begin := time.Now(); rounds < most && time.Since(begin) < s.Limit/2; rounds++ {
		o := s.Attempt(t)
		switch {
		case o.Verdict.Kind == actor.Got:
			s.End(scene.Leaked, "after %d commands: %s", ran, o.Told())
		case o.Refused == nil:
			ran++
		}
		s.Must(s.Ctx.Err())
	}
	s.End(scene.Held, "%d of %d commands ran", ran, rounds)
}
