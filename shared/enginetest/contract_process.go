package enginetest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/dial"
)

// processRules are about an engine in a process of its own.
func processRules() []rule {
	return []rule{
		{id: "process.01", title: "a killed engine is reported as lost, and its command is gone", process: true, run: func(s *scene) {
			s.lose(true, func(l *dial.Launched) error { return syscall.Kill(l.Pid(), syscall.SIGKILL) })
		}},
		{id: "process.02", title: "an engine that is asked to end ends, and its command is gone", process: true, run: func(s *scene) {
			s.lose(false, func(l *dial.Launched) error { return syscall.Kill(l.Pid(), syscall.SIGTERM) })
		}},
		{id: "process.03", title: "an engine whose host is gone ends, and its command is gone", process: true, run: func(s *scene) {
			s.lose(false, func(l *dial.Launched) error {
				l.Disconnect()
				return nil
			})
		}},
		{id: "process.04", title: "two processes of one engine do not know each other", process: true, run: func(s *scene) {
			first := s.launch()
			s.launch()
			p, _ := s.started(s.open(), s.sh("trap 'exit 5' TERM; echo"+forever), nil)
			first.Kill()
			s.signal(p, syscall.SIGTERM)
			s.endsBy(p, shared.ExitStatus{Code: 5})
		}},
		{id: "process.05", title: "what a command writes is not the engine's log or handshake", process: true, run: func(s *scene) {
			s.launch()
			o := s.once(s.sh("echo '1|1|unix|/x|grpc'; echo '{\"@level\":\"error\"}' >&2; ls -l /proc/self/fd >/dev/null"), nil)
			if o.stdout != "1|1|unix|/x|grpc\n" {
				s.failf("%q", o.stdout)
			}
			s.works()
		}},
		{id: "process.06", title: "calls without the host's token are refused", process: true, run: func(s *scene) {
			l := s.launch()
			s.must(callAsStranger(s.ctx, l.Address))
			s.works()
		}},
		{id: "process.07", title: "what a command has taken of the engine is given back: descriptors, processes", process: true, run: givenBack},
		{id: "process.08", title: "no process that an engine has started outlives it", process: true, run: outlived},
	}
}

// launch starts one more process of the engine, which is the scene's then.
func (s *scene) launch() *dial.Launched {
	l, err := s.suite.options.Launch(s.ctx)
	s.must(err)
	s.cleanup(l.Kill)
	s.engine = l
	return l
}

// lose ends an engine's process while a command runs that has left a daemon. Whether
// the loss must be told depends on how it came.
func (s *scene) lose(told bool, end func(*dial.Launched) error) {
	l, unconfined := s.launch(), s.suite.unconfined
	script := "echo; trap '' TERM HUP; sleep 61"
	if !unconfined {
		script = "(setsid sh -c 'trap \"\" TERM HUP; sleep 61' &); " + script
	}
	p, out := s.started(s.open(), s.sh(script), nil)
	s.must(end(l))
	if !unconfined || !told {
		s.ends(out.r)
	}
	if _, err := p.Wait(s.ctx); told {
		s.wants("Wait", err, shared.ErrEngineLost)
	}
	s.until(func() error { return exited(l) })
}

// exited is an error while the engine's process goes on.
func exited(l *dial.Launched) error {
	select {
	case <-l.Exited():
		return nil
	default:
		return errors.New("the engine's process goes on")
	}
}

// givenBack lets an engine that has done nothing else run commands and counts what is
// left of each.
func givenBack(s *scene) {
	l := s.launch()
	n := s.many(24, 8)
	commands := func() {
		for range n {
			s.exits(s.once(s.sh("echo still here"), nil), 0, "still here\n")
		}
	}
	commands() // of which a part stays for good reasons
	before, err := holdings(l.Pid())
	s.must(err)
	commands()
	// An engine may give back after the end was told.
	s.until(func() error {
		after, err := holdings(l.Pid())
		s.must(err)
		var grown []string
		for what, have := range after {
			if have-before[what] >= n/2 {
				grown = append(grown, fmt.Sprintf("%d %s before and %d after %d more commands", before[what], what, have, n))
			}
		}
		if len(grown) > 0 {
			slices.Sort(grown)
			return errors.New("the engine's process has " + strings.Join(grown, ", "))
		}
		return nil
	})
}

// outlived ends an engine's process while a command runs, and looks for what it has started.
func outlived(s *scene) {
	l := s.launch()
	family, err := s.adopt(l.Pid())
	s.must(err)
	s.started(s.open(), s.sh("sleep 61 & echo; sleep 61"), nil)
	family.look(l.Pid())
	l.Disconnect()
	s.until(func() error { return cmp.Or(exited(l), family.lives()) })
}
