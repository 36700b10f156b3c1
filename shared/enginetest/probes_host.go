package enginetest

import (
	"errors"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/enginetest/actor"
)

// hostProbes are about what an engine makes of odd requests.
func hostProbes() []probe {
	odd := func(id, title, name string) probe {
		return probe{id: id, title: title, unmodelled: decidedByEngine, custom: func(s *scene) { s.oddName(name) }}
	}
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
		{id: "host.13", title: "a missing source", unmodelled: decidedByRequest, custom: missingSource},
		{id: "host.26", title: "a fifo as what is shown does not hang it", only: onlyLinux, refusal: true, works: true,
			prepare: func(s *scene) error { return syscall.Mkfifo(s.path("outside/fifo"), 0o600) }, show: words{"{outside}/fifo"}, act: words{"nothing"}},
	}
}

func missingSource(s *scene) {
	t := s.trying("nothing")
	if o := s.attempt(t); o.verdict.Kind != actor.Got {
		s.end(ControlFailed, "without it: %v %v %s", o.refused, o.broke, o.told())
	}
	t.show(s.path("missing"), shared.ReadOnly)
	o := s.attempt(t)
	if errors.Is(o.refused, shared.ErrInvalidSpec) {
		s.end(Held, "%v", o.refused)
	}
	if o.verdict.Kind == actor.Got {
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
	if o.verdict.Kind != actor.Got {
		s.failf("%s", o.told())
	}
	write := s.trying("create", dir+"/new")
	write.show(dir, shared.ReadOnly)
	if o := s.attempt(write); o.verdict.Kind != actor.Denied {
		s.end(Leaked, "it is writable: %v %s", o.refused, o.told())
	}
	if after := s.tree(); before != after {
		s.end(Leaked, "something was made elsewhere: %s", firstDifference(before, after))
	}
}
