package probes

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/enginetest/internal/actor"
	"github.com/sbxhost/sbxhost/shared/enginetest/internal/scene"
)

// hostProbes are about an engine's answers to odd requests.
func hostProbes() []Probe {
	// odd shows a directory of that name. Either the directory is at its path, and its contents can
	// be read and not written; or the engine refuses the name.
	odd := func(id, title, name string) Probe {
		return Probe{ID: id, Title: title, Unmodelled: decidedByEngine, Works: true, Refusal: true, prepare: all(func(s *scene.Scene) {
			s.Values["odd"] = s.Path("odd", name)
			err := s.Write(filepath.Join("odd", name, "file"), s.Canary)
			s.Needs(err == nil, "this file system does not take the name: %v", err)
		}, rememberTree), show: "{odd}", act: "read-canary {canary} {odd}/file then !create {odd}/new", after: treeUnchanged}
	}
	return []Probe{
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
		{ID: "host.13", Title: "a missing path must be refused with its attribute", Unmodelled: decidedByRequest, custom: missing},
		{ID: "host.26", Title: "a fifo as what is shown does not hang it", Only: OnlyLinux, Refusal: true, Works: true,
			prepare: func(s *scene.Scene) { s.Must(syscall.Mkfifo(s.Path("outside/fifo"), 0o600)) }, show: "{outside}/fifo", act: "nothing"},
	}
}

// missing has entries for missing files.
func missing(s *scene.Scene) {
	path := s.Path("missing")
	with := func(e shared.Entry) *scene.Trial {
		t := s.Trying("nothing")
		if e.Path, e.Why = path, "bind_paths[1]"; e.Access == shared.Hidden {
			e.Path = filepath.Join(s.WS, "missing") // an engine need not know what else is there, as in an image
		}
		t.Add(e)
		return t
	}
	for _, e := range []shared.Entry{
		{Source: path, Access: shared.ReadOnly}, {Source: path, Access: shared.ReadWrite, Missing: shared.MissingHold},
		{Access: shared.Hidden}, {Access: shared.Hidden, Missing: shared.MissingHold},
	} {
		t := with(e)
		if scene.Missing(s.Kit.Info.Features, Requires(nil, t)) != "" {
			continue
		}
		what := fmt.Sprintf("In the Spec: a missing path, %v, for which \"missing\" is %v.", e.Access, e.Missing)
		o := s.Attempt(t)
		s.Expect(o.Verdict.Kind != actor.Got, scene.Leaked, "%s Found: the command ran.", what)
		one, ok := errors.AsType[*shared.Error](o.Refused)
		s.Demand(ok && errors.Is(one, shared.ErrInvalidSpec) && one.Attribute == "bind_paths[1]", "%s Found: %v.", what, o.Refused)
		e.Missing = shared.MissingIgnore // and this is the control
		o = s.Attempt(with(e))
		s.Demand(o.Verdict.Kind == actor.Got, "%s With \"ignore\" the command must run. Found: %v %v %s", what, o.Refused, o.Broke, o.Output())
	}
}
