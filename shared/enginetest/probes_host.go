package enginetest

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sbxhost/sbxhost/shared"
)

// hostProbes are about what an engine makes of odd requests.
func hostProbes() []probe {
	odd := func(id, title, name string) probe {
		return probe{id: id, title: title, unmodelled: decidedByEngine, custom: func(s *scene) { s.oddName(name) }}
	}
	refused := func(id, title string, change func(s *scene, t *trial), kinds ...error) probe {
		return probe{id: id, title: title, unmodelled: decidedByRequest, custom: func(s *scene) { s.oddRequest(change, kinds) }}
	}
	bind := func(source, destination string, kind shared.Access) func(*scene, *trial) {
		return func(s *scene, t *trial) {
			paths := s.fill(source, destination)
			t.add(shared.Entry{Source: paths[0], Path: paths[1], Access: kind})
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
		refused("host.13", "a missing source", bind("{dir}/missing", "{dir}/missing", shared.ReadOnly), invalid),
		refused("host.14", "a relative source", bind("etc", "/etc2", shared.ReadOnly), invalid),
		refused("host.15", "a source with ..", bind("{ws}/../outside", "/x", shared.ReadOnly), invalid),
		refused("host.16", "a destination with ..", bind("{outside}", "{ws}/../x", shared.ReadOnly), invalid),
		refused("host.17", "a path with a NUL", bind("{outside}", "/x\x00y", shared.ReadOnly), invalid),
		refused("host.18", "two mounts at one destination", bind("{outside}", "{ws}", shared.ReadOnly), invalid),
		refused("host.19", "an unknown kind of mount", bind("{outside}", "/x", shared.Access(99)), invalid),
		refused("host.20", "an unknown network", func(_ *scene, t *trial) { t.Spec.Network.Mode = 99 }, invalid),
		refused("host.21", "an unknown view", func(_ *scene, t *trial) { t.Spec.Filesystem = 99 }, invalid),
		refused("host.22", "an unknown option", func(_ *scene, t *trial) { t.Spec.Options = []byte(`{"no_such_option":true}`) }, invalid, unsupported),
		refused("host.23", "options that are no JSON", func(_ *scene, t *trial) { t.Spec.Options = []byte(`{"x":`) }, invalid),
		{id: "host.24", title: "a command without isolation from an engine that isolates, and the reverse", unmodelled: decidedByRequest, custom: func(s *scene) {
			t := s.trying("nothing")
			t.Spec.Unconfined = !t.Spec.Unconfined
			if o := s.attempt(t); !errors.Is(o.refused, unsupported) {
				s.end(Leaked, "not refused: %v", o.refused)
			}
		}},
		refused("host.25", "a hidden path that is relative", func(_ *scene, t *trial) { t.hide("secret") }, invalid),
		{id: "host.26", title: "a fifo as what is shown does not hang it", only: onlyLinux, refusal: true, works: true,
			prepare: func(s *scene) error { return makeFifo(s.path("outside/fifo")) }, show: words{"{outside}/fifo"}, act: words{"nothing"}},
	}
}

// oddRequest wants a change of the trial to be refused.
func (s *scene) oddRequest(change func(s *scene, t *trial), kinds []error) {
	t := s.trying("nothing")
	if o := s.attempt(t); o.verdict.Kind != verdictGot {
		s.end(ControlFailed, "without it: %v %v %s", o.refused, o.broke, o.told())
	}
	change(s, t)
	o := s.attempt(t)
	if slices.ContainsFunc(kinds, func(kind error) bool { return errors.Is(o.refused, kind) }) {
		s.end(Held, "%v", o.refused)
	}
	if o.verdict.Kind == verdictGot {
		s.end(Leaked, "it was taken, and the command ran")
	}
	s.failf("not refused as it should be: %v", o.refused)
}

// oddName shows a directory of that name: what is in it can be read and not
// written, and it is at its place; or the engine refuses the name.
func (s *scene) oddName(name string) {
	dir := filepath.Join(s.path("odd"), name)
	if err := s.write(filepath.Join("odd", name, "file"), s.canary); err != nil {
		s.end(NotApplicable, "this file system does not take the name: %v", err)
	}
	read := s.trying("read-canary", s.canary, dir+"/file")
	read.show(dir, shared.ReadOnly)
	if lacking := missing(s.suite.info.Features, s.p.requires(read)); lacking != "" {
		s.end(Skipped, "%s", notClaimed+lacking)
	}
	before := s.tree()
	o := s.attempt(read)
	if errors.Is(o.refused, shared.ErrInvalidSpec) || errors.Is(o.refused, shared.ErrUnsupported) {
		s.end(Held, "refused: %v", o.refused)
	}
	s.must(errors.Join(o.refused, o.broke))
	if o.verdict.Kind != verdictGot {
		s.failf("%s", o.told())
	}
	write := s.trying("create", dir+"/new")
	write.show(dir, shared.ReadOnly)
	if o := s.attempt(write); o.verdict.Kind != verdictDenied {
		s.end(Leaked, "it is writable: %v %s", o.refused, o.told())
	}
	if after := s.tree(); before != after {
		s.end(Leaked, "something was made elsewhere: %s", firstDifference(before, after))
	}
}
