package enginetest

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/sbxhost/sbxhost/shared"
)

// hostProbes are about what an engine makes of odd requests.
func hostProbes() []probe {
	odd := func(id, title, name string) probe {
		return probe{id: id, title: title, unmodelled: decidedByEngine, custom: func(ctx context.Context, s *scene) (Status, string) { return s.oddName(ctx, name) }}
	}
	refused := func(id, title string, change func(s *scene, t *trial), kinds ...error) probe {
		return probe{id: id, title: title, unmodelled: decidedByRequest, custom: func(ctx context.Context, s *scene) (Status, string) {
			t := s.newTrial()
			t.do("nothing")
			if o := s.attempt(ctx, t); o.verdict.Kind != verdictGot {
				return ControlFailed, fmt.Sprintf("without it: %v %v %s", o.refused, o.broke, o.told())
			}
			change(s, t)
			o := s.attempt(ctx, t)
			for _, kind := range kinds {
				if errors.Is(o.refused, kind) {
					return Held, o.refused.Error()
				}
			}
			if o.verdict.Kind == verdictGot {
				return Leaked, "it was taken, and the command ran"
			}
			return Failed, fmt.Sprintf("not refused as it should be: %v", o.refused)
		}}
	}
	bind := func(source, destination string, kind shared.Access) func(*scene, *trial) {
		return func(s *scene, t *trial) {
			t.Spec.Table = append(t.Spec.Table, shared.Entry{Source: strings.ReplaceAll(source, "SCENE", s.dir), Path: strings.ReplaceAll(destination, "SCENE", s.dir), Access: kind, Why: "bind_paths[1]"})
		}
	}
	invalid, unsupported := shared.ErrInvalidSpec, shared.ErrUnsupported
	return []probe{
		odd("host.01", "a mount whose name has a newline", "a\nb"),
		odd("host.02", "a mount whose name has quotes", `a"b'c`),
		odd("host.03", "a mount whose name begins with dashes", "--ro-bind"),
		odd("host.04", "a mount whose name is not UTF-8", "a\xff\xfeb"),
		odd("host.05", "a mount whose name has 255 bytes", strings.Repeat("n", 255)),
		odd("host.06", "a mount whose name has backslashes", `a\040b\\c\n`),
		odd("host.07", "a mount whose name has spaces and tabs", " a \tb "),
		odd("host.08", "a mount whose name is a pattern", "*[a-z]?{x,y}"),
		odd("host.09", "a mount whose name has colons and commas", "a:b,c=d,upperdir="),
		odd("host.10", "a mount whose name is an expression", "$(touch x)`y`${HOME}%s"),
		odd("host.11", "a mount whose name is in SBPL", `a") (allow default) (x "`),
		odd("host.12", "a mount whose name has control characters", "a\x1b[31m\x01\x7f"),
		refused("host.13", "a missing source", bind("SCENE/missing", "SCENE/missing", shared.ReadOnly), invalid),
		refused("host.14", "a relative source", bind("etc", "/etc2", shared.ReadOnly), invalid),
		refused("host.15", "a source with ..", bind("SCENE/ws/../outside", "/x", shared.ReadOnly), invalid),
		refused("host.16", "a destination with ..", bind("SCENE/outside", "SCENE/ws/../x", shared.ReadOnly), invalid),
		refused("host.17", "a path with a NUL", bind("SCENE/outside", "/x\x00y", shared.ReadOnly), invalid),
		refused("host.18", "two mounts at one destination", bind("SCENE/outside", "SCENE/ws", shared.ReadOnly), invalid),
		refused("host.19", "an unknown kind of mount", bind("SCENE/outside", "/x", shared.Access(99)), invalid),
		refused("host.20", "an unknown network", func(_ *scene, t *trial) { t.Spec.Network.Mode = 99 }, invalid),
		refused("host.21", "an unknown view", func(_ *scene, t *trial) { t.Spec.Filesystem = 99 }, invalid),
		refused("host.22", "an unknown option", func(_ *scene, t *trial) { t.Spec.Options = []byte(`{"no_such_option":true}`) }, invalid, unsupported),
		refused("host.23", "options that are no JSON", func(_ *scene, t *trial) { t.Spec.Options = []byte(`{"x":`) }, invalid),
		{id: "host.24", title: "a command without isolation from an engine that isolates, and the reverse", unmodelled: decidedByRequest, custom: func(ctx context.Context, s *scene) (Status, string) {
			t := s.newTrial()
			t.Spec.Unconfined = !t.Spec.Unconfined
			t.do("nothing")
			if o := s.attempt(ctx, t); !errors.Is(o.refused, unsupported) {
				return Leaked, fmt.Sprintf("not refused: %v", o.refused)
			}
			return Held, ""
		}},
		refused("host.25", "a hidden path that is relative", func(_ *scene, t *trial) { t.hide("secret") }, invalid),
		{id: "host.26", title: "a fifo as what is shown does not hang it", only: onlyLinux, refusal: true, works: true,
			prepare: func(s *scene) error { return makeFifo(s.path("outside/fifo")) },
			trial: func(s *scene, t *trial) {
				t.show(s.path("outside/fifo"), shared.ReadOnly)
				t.do("nothing")
			}},
	}
}

// oddName shows a directory of that name: what is in it can be read and not
// written, and it is at its place; or the engine refuses the name.
func (s *scene) oddName(ctx context.Context, name string) (Status, string) {
	dir := filepath.Join(s.path("odd"), name)
	if err := s.write(filepath.Join("odd", name, "file"), s.canary); err != nil {
		return NotApplicable, "this file system does not take the name: " + err.Error()
	}
	read := s.newTrial()
	read.show(dir, shared.ReadOnly)
	read.do("read-canary", s.canary, dir+"/file")
	if lacking := missing(s.suite.info.Features, s.p.requires(read)); lacking != "" {
		return Skipped, "the engine does not claim " + lacking
	}
	before, err := treeOf(s.dir)
	if err != nil {
		return Failed, err.Error()
	}
	o := s.attempt(ctx, read)
	if errors.Is(o.refused, shared.ErrInvalidSpec) || errors.Is(o.refused, shared.ErrUnsupported) {
		return Held, "refused: " + o.refused.Error()
	}
	if err := errors.Join(o.refused, o.broke); err != nil {
		return Failed, err.Error()
	}
	if o.verdict.Kind != verdictGot {
		return Failed, o.told()
	}
	write := s.newTrial()
	write.show(dir, shared.ReadOnly)
	write.do("create", dir+"/new")
	if o := s.attempt(ctx, write); o.verdict.Kind != verdictDenied {
		return Leaked, fmt.Sprintf("it is writable: %v %s", o.refused, o.told())
	}
	after, err := treeOf(s.dir)
	if err != nil || before != after {
		return Leaked, "something was made elsewhere: " + firstDifference(before, after)
	}
	return Held, ""
}
