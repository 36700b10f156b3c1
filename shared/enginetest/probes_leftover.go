package enginetest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/enginetest/actor"
)

// leftoverProbes are about what an engine itself makes on the host, and about
// paths that are swapped while it looks.
func leftoverProbes() []probe {
	hides := []shared.Feature{shared.FeatureHidden, shared.FeatureNested}
	// mountedAt mounts what is shown elsewhere, below the scene's directory.
	mountedAt := func(places ...string) func(*scene, *trial) {
		return func(s *scene, t *trial) {
			for _, place := range places {
				t.add(shared.Entry{Source: s.shown, Path: s.path(place), Access: shared.ReadOnly})
			}
		}
	}
	return []probe{
		{id: "write.60", title: "a command that writes nothing leaves the workspace as it was", unmodelled: decidedByEngine, features: hides, custom: func(s *scene) {
			s.leavesNothing(func(t *trial) {
				t.hide(s.path("ws/.env"))
				t.hide(s.path("ws/keys"))
				t.show(s.path("ws/sub/deep"), shared.ReadOnly)
			})
		}},
		{id: "write.61", title: "hiding a path that is not there leaves no stub", unmodelled: decidedByEngine, features: hides, custom: func(s *scene) {
			s.leavesNothing(func(t *trial) {
				t.hide(s.path("ws/missing"))
				t.hide(s.path("ws/none/missing"))
			})
		}},
		{id: "write.64", title: "a hidden file cannot be written", hide: words{"{ws}/.env"}, act: words{"append-regular", "{ws}/.env"}, grant: unhidden, after: unchanged("ws/.env")},
		{id: "write.65", title: "a hidden file cannot be removed", hide: words{"{ws}/.env"}, act: words{"unlink", "{ws}/.env"}, grant: unhidden},
		{id: "write.66", title: "nothing can be made in a hidden directory", hide: words{"{ws}/keys"}, act: words{"create", "{ws}/keys/new"}, grant: unhidden},
		{id: "write.67", title: "a destination beneath a symlink of the workspace makes nothing elsewhere", refusal: true, works: true,
			prepare: linkTo("{outside}", "ws/evil"), trial: mountedAt("ws/evil/made"), act: words{"nothing"}, after: notOnHost("{outside}/made")},
		{id: "write.68", title: "nor does one beneath a symlink to a launcher's own view of the host", refusal: true, works: true,
			prepare: func(s *scene) error {
				return errors.Join(linkTo("/oldroot{outside}", "ws/evil")(s), linkTo("/newroot{outside}", "ws/evil2")(s))
			},
			trial: mountedAt("ws/evil/made", "ws/evil2/made"), act: words{"nothing"}, after: notOnHost("{outside}/made")},
		{id: "write.69", title: "a destination that is a symlink of the workspace is not followed", refusal: true, works: true,
			prepare: func(s *scene) error {
				return errors.Join(makeDir("outside/dir")(s), linkTo("{outside}/dir", "ws/evil")(s))
			},
			trial: mountedAt("ws/evil/made"), act: words{"nothing"}, after: notOnHost("{outside}/dir/made")},
		{id: "write.70", title: "a source that became a symlink after Open", unmodelled: decidedByEngine, custom: swappedSource},
		{id: "write.71", title: "a source that becomes a symlink while commands start", unmodelled: decidedByEngine,
			features: []shared.Feature{shared.FeatureSourceFD}, custom: racedSource},
		{id: "write.72", title: "a missing destination in the workspace leaves no stub", refusal: true, works: true,
			trial: mountedAt("ws/new/place"), act: words{"nothing"}, after: notOnHost("{ws}/new")},
		{id: "write.73", title: "nothing stays mounted on the host", only: onlyLinux, works: true, show: words{"{shown}"}, act: words{"nothing"}, after: func(s *scene) error {
			mounts, err := os.ReadFile("/proc/self/mountinfo")
			if err == nil && strings.Contains(string(mounts), s.dir) {
				err = errors.New("a mount of the scene is in the host's mountinfo")
			}
			return err
		}},
	}
}

// tree is a picture of all that lies below the scene's directory.
func (s *scene) tree() string {
	var out []byte
	s.must(filepath.WalkDir(s.dir, func(path string, d os.DirEntry, err error) error {
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
func (s *scene) leavesNothing(change func(*trial)) {
	before := s.tree()
	t := s.trying("nothing")
	change(t)
	s.done(t)
	s.done(t)
	if after := s.tree(); before != after {
		s.end(Leaked, "the tree was changed: %s", firstDifference(before, after))
	}
	s.done(s.trying("create", s.path("ws/made")))
	if s.tree() == before {
		s.end(ControlFailed, "what a command makes is not noticed")
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
func swappedSource(s *scene) {
	s.must(s.write("ws/source/secret", "harmless"))
	t := s.trying("read-canary", s.canary, s.path("ws/source/secret"))
	t.show(s.path("ws/source"), shared.ReadOnly)
	sandbox := s.openAs(t.sorted())
	s.must(os.Rename(s.path("ws/source"), s.path("ws/old")))
	s.must(os.Symlink(s.outside, s.path("ws/source")))
	if o := s.start(s.ctx, sandbox, t); o.verdict.Kind == actor.Got {
		s.end(Leaked, "%s", o.told())
	} else if o.refused == nil && o.verdict.Kind == actor.Broken {
		s.failf("%s", o.told())
	}
	// The control: the same read, granted.
	granted := s.trying("read-canary", s.canary, s.path("outside/secret"))
	granted.show(s.outside, shared.ReadOnly)
	if o := s.attempt(granted); o.verdict.Kind != actor.Got {
		s.end(ControlFailed, "%s", o.told())
	}
}

// racedSource swaps the source all the time while commands start.
func racedSource(s *scene) {
	const most = 60
	source, link := s.path("ws/source"), s.path("ws/swap")
	s.must(errors.Join(s.write("ws/source/secret", "harmless"), os.Symlink(s.outside, link)))
	t := s.trying("read-canary", s.canary, filepath.Join(source, "secret"))
	t.show(source, shared.ReadOnly)
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
	for begin := time.Now(); rounds < most && time.Since(begin) < s.limit/2; rounds++ {
		o := s.attempt(t)
		switch {
		case o.verdict.Kind == actor.Got:
			s.end(Leaked, "after %d commands: %s", ran, o.told())
		case o.refused == nil:
			ran++
		}
		s.must(s.ctx.Err())
	}
	s.end(Held, "%d of %d commands ran", ran, rounds)
}
