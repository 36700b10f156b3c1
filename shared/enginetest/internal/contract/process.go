package contract

import (
	"cmp"
	"errors"
	"fmt"
	"syscall"

	"github.com/sbxhost/sbxhost/internal/dial"
	"github.com/sbxhost/sbxhost/shared"
)

// processRules are about an engine in a process of its own.
func processRules() []Rule {
	return []Rule{
		{ID: "process.01", Title: "a killed engine is reported as lost, and its command is gone", process: true, run: func(s *subject) {
			s.lose(true, func(l *dial.Process) error { return syscall.Kill(l.Pid(), syscall.SIGKILL) })
		}},
		{ID: "process.02", Title: "an engine that is asked to end ends, and its command is gone", process: true, run: func(s *subject) {
			s.lose(false, func(l *dial.Process) error { return syscall.Kill(l.Pid(), syscall.SIGTERM) })
		}},
		{ID: "process.03", Title: "an engine whose host is gone ends, and its command is gone", process: true, run: func(s *subject) {
			s.lose(false, func(l *dial.Process) error {
				l.Disconnect()
				return nil
			})
		}},
		{ID: "process.04", Title: "two processes of one engine do not know each other", process: true, run: func(s *subject) {
			first := s.launch()
			s.launch()
			p, _ := s.started(s.open(), "trap 'exit 5' TERM; echo"+forever)
			first.Kill()
			s.signal(p, syscall.SIGTERM)
			s.exitsWith(p, 5)
		}},
		{ID: "process.05", Title: "what a command writes is not the engine's log or handshake", process: true, run: func(s *subject) {
			s.launch()
			o := s.once(s.sh("echo '1|1|unix|/x|grpc'; echo '{\"@level\":\"error\"}' >&2; ls -l /proc/self/fd >/dev/null"), nil)
			s.Demand(o.Stdout == "1|1|unix|/x|grpc\n", "%q", o.Stdout)
			s.works()
		}},
		{ID: "process.06", Title: "calls without the host's token are refused", process: true, run: func(s *subject) {
			l := s.launch()
			s.Must(callAsStranger(s.Ctx, l.Address))
			s.works()
		}},
		{ID: "process.07", Title: "what a command has taken of the engine is given back: descriptors, processes", process: true, run: givenBack},
		{ID: "process.08", Title: "no process that an engine has started outlives it", process: true, run: outlived},
	}
}

// launch starts one more process of the engine, which then belongs to the scene.
func (s *subject) launch() *dial.Process {
	l, err := s.Kit.Launch(s.Ctx)
	s.Must(err)
	s.Cleanup(l.Kill)
	s.Engine = l
	return l
}

// lose ends an engine's process while a command runs that has left a daemon. The cause of the loss
// decides whether Wait must report it.
func (s *subject) lose(told bool, end func(*dial.Process) error) {
	l, unconfined := s.launch(), s.Kit.Unconfined()
	script := "echo; trap '' TERM HUP; sleep 181"
	if !unconfined {
		script = "(setsid sh -c 'trap \"\" TERM HUP; sleep 181' &); " + script
	}
	p, out := s.started(s.open(), script)
	s.Must(end(l))
	if !unconfined || !told {
		s.ends(out)
	}
	if _, err := p.Wait(s.Ctx); told {
		s.Wants("Wait", err, shared.ErrEngineLost)
	}
	s.Until(func() error { return exited(l) })
}

// exited returns an error while the engine's process still runs.
func exited(l *dial.Process) error {
	select {
	case <-l.Exited():
		return nil
	default:
		return errors.New("the engine's process goes on")
	}
}

// givenBack makes a fresh engine run commands, and counts the resources that stay for each.
func givenBack(s *subject) {
	l := s.launch()
	n := s.Many(24, 8)
	commands := func() {
		for range n {
			s.worksOnce()
		}
	}
	commands() // a part of their resources stays for good reasons
	before := s.holdings(l.Pid())
	commands()
	// An engine may release resources after it has reported the end.
	s.Until(func() error {
		var grown []error
		for what, have := range s.holdings(l.Pid()) {
			if have-before[what] >= n/2 {
				grown = append(grown, fmt.Errorf("the engine's process has %d %s before and %d after %d more commands", before[what], what, have, n))
			}
		}
		return errors.Join(grown...)
	})
}

// outlived ends an engine's process while a command runs, and looks for what it has started.
func outlived(s *subject) {
	l := s.launch()
	mark := s.adopt(l.Pid())
	s.started(s.open(), "sleep 181 & echo; sleep 181")
	l.Disconnect()
	s.Until(func() error { return cmp.Or(exited(l), marked(mark)) })
}
