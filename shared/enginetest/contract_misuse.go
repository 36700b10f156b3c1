package enginetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/enginepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// misuseRules are about what callers must not do.
func misuseRules() []rule {
	return []rule{
		{id: "misuse.01", title: "a Command of a bad form is refused as such", run: commandForm},
		{id: "misuse.02", title: "an argument longer than a process can have is an error", run: func(s *scene) {
			// 128 KiB is Linux's limit for one, some MiB any system's for all.
			err := s.notStarted(s.open(), s.sh("exit 0", strings.Repeat("x", 16<<20)), shared.Stdio{})
			if errors.Is(err, shared.ErrEngineLost) || errors.Is(err, shared.ErrBroken) {
				s.must(err)
			}
			s.works()
		}},
		{id: "misuse.03", title: "a message longer than the protocol's is an error, and the engine goes on", process: true, run: func(s *scene) {
			if err := s.notStarted(s.open(), s.script(":\n#"+strings.Repeat("x", 80<<20)), shared.Stdio{}); errors.Is(err, shared.ErrEngineLost) {
				s.must(err)
			}
			s.works()
		}},
		{id: "misuse.04", title: "a working directory that is not there is an error", run: func(s *scene) {
			cmd := s.sh("exit 0")
			cmd.Dir = "/no/such/directory"
			if err := s.notStarted(s.open(), cmd, shared.Stdio{}); errors.Is(err, shared.ErrNotFound) || errors.Is(err, shared.ErrNotExecutable) {
				s.failf("the error speaks of the command, which is there: %v", err)
			}
			s.works()
		}},
		{id: "misuse.05", title: "a terminal that is none is an error", run: func(s *scene) {
			cmd := s.sh("exit 0")
			cmd.TTY = true
			s.notStarted(s.open(), cmd, shared.Stdio{})
			s.works()
		}},
		{id: "misuse.06", title: "ids that the engine has not given are errors, but to Close", process: true, run: unknownIDs},
		{id: "misuse.07", title: "a signal that is none is an error, and the command goes on", run: func(s *scene) {
			p, _ := s.started(s.open(), s.sh("trap 'exit 5' TERM; echo"+forever), nil)
			for _, sig := range []syscall.Signal{-1, -9, 999} {
				if err := p.Signal(s.ctx, sig); err == nil || errors.Is(err, os.ErrProcessDone) || errors.Is(err, shared.ErrEngineLost) {
					s.failf("signal %d: %v", sig, err)
				}
			}
			s.signal(p, syscall.SIGTERM)
			s.endsBy(p, shared.ExitStatus{Code: 5})
		}},
	}
}

func commandForm(s *scene) {
	sandbox := s.open()
	for name, change := range map[string]func(*shared.Command){
		"no argv and no script":     func(c *shared.Command) { c.Args = nil },
		"a NUL in an argument":      func(c *shared.Command) { c.Args = append(c.Args, "a\x00b") },
		"a NUL in a script":         func(c *shared.Command) { c.Script = "a\x00b" },
		"a variable without =":      func(c *shared.Command) { c.Env = []string{"NAME"} },
		"a variable without a name": func(c *shared.Command) { c.Env = []string{"=x"} },
		"a NUL in a variable":       func(c *shared.Command) { c.Env = []string{"A=\x00"} },
		"a relative directory":      func(c *shared.Command) { c.Dir = "tmp" },
		"no directory":              func(c *shared.Command) { c.Dir = "" },
		"a directory with ..":       func(c *shared.Command) { c.Dir = "/tmp/.." },
	} {
		cmd := s.sh("exit 0")
		change(&cmd)
		s.check(name, func() {
			s.wants("Start", s.notStarted(sandbox, cmd, shared.Stdio{}), shared.ErrInvalidSpec)
			_, err := sandbox.Plan(s.ctx, cmd)
			s.wants("Plan", err, shared.ErrInvalidSpec)
		})
	}
	s.works()
}

// unknownIDs names sandboxes and processes that there never were.
func unknownIDs(s *scene) {
	l := s.launch()
	ctx, cancel := context.WithTimeout(s.ctx, s.patience())
	defer cancel()
	for _, id := range []string{"", "sbxhost-no-such-id", "18446744073709551615", strings.Repeat("x", 100_000)} {
		for call, err := range callUnknown(ctx, l.Conn, id) {
			ok := err != nil && status.Code(err) != codes.Unavailable && ctx.Err() == nil
			switch call {
			case "Close":
				ok = err == nil
			case "Plan", "Run":
				ok = kindOf(err) == enginepb.Error_KIND_CLOSED
			case "Signal":
				ok = kindOf(err) == enginepb.Error_KIND_CLOSED || kindOf(err) == enginepb.Error_KIND_PROCESS_DONE
			}
			if !ok {
				s.check(call, func() { s.failf("of %q: %v", id[:min(len(id), 20)], err) })
			}
		}
	}
	s.works()
}

// crowdRules are about many at once.
func crowdRules() []rule {
	return []rule{
		{id: "crowd.01", title: "50 commands at once in one sandbox", run: func(s *scene) {
			sandbox := s.open()
			s.together(s.many(50, 12), func(i int) {
				r, w := s.pipe()
				fed := s.feed(w, strings.NewReader(fmt.Sprintln("input", i)))
				o := s.run(sandbox, s.sh(`cat; echo "$1" >&2; exit "$1"`, fmt.Sprint(i)), r)
				fed()
				s.exits(o, i, fmt.Sprintln("input", i))
				if o.stderr != fmt.Sprintln(i) {
					s.failf("stderr: %q", o.stderr)
				}
			})
		}},
		{id: "crowd.02", title: "20 sandboxes at once", run: func(s *scene) {
			s.together(s.many(20, 6), func(i int) {
				sandbox := s.open()
				s.exits(s.run(sandbox, s.sh(fmt.Sprint("exit ", i)), nil), i, "")
				s.must(sandbox.Close(s.ctx))
			})
		}},
		{id: "crowd.03", title: "a Start that races with Close leaves nothing", run: func(s *scene) {
			for range s.many(4, 1) {
				startAndClose(s)
			}
		}},
		{id: "crowd.04", title: "signals from many callers at once", run: func(s *scene) {
			p, _ := s.started(s.open(), s.sh("echo; exec sleep 60"), nil)
			var group sync.WaitGroup
			for range 16 {
				group.Go(func() { p.Signal(s.ctx, syscall.SIGTERM) })
			}
			group.Wait()
			s.endsBy(p, shared.ExitStatus{Signal: syscall.SIGTERM})
		}},
	}
}

func startAndClose(s *scene) {
	sandbox := s.open()
	r, w := s.pipe()
	const n = 6
	first := make(chan struct{}, n)
	closed := make(chan error, 1)
	go func() {
		<-first
		closed <- sandbox.Close(s.ctx)
	}()
	s.together(n, func(int) {
		p, err := sandbox.Start(s.ctx, s.sh("exec sleep 60"), shared.Stdio{Stdout: w})
		first <- struct{}{}
		if err != nil {
			s.wants("Start", err, shared.ErrClosed)
			return
		}
		s.endsBy(p, shared.ExitStatus{Signal: syscall.SIGKILL})
	})
	s.must(<-closed)
	w.Close()
	s.ends(r)
}
