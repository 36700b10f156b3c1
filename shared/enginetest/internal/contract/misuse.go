package contract

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/enginepb"
)

// misuseRules are about mistakes of callers.
func misuseRules() []Rule {
	// notStarted is a rule of a command that is not started, by an engine that goes on.
	notStarted := func(id, title string, change func(*shared.Command), kinds ...error) Rule {
		return Rule{ID: id, Title: title, run: func(s *subject) {
			cmd := s.sh("exit 0")
			change(&cmd)
			err := s.notStarted(s.open(), cmd, shared.Stdio{})
			if errors.Is(err, shared.ErrEngineLost) || errors.Is(err, shared.ErrBroken) {
				s.Must(err)
			}
			if kinds != nil {
				s.Wants("Start", err, kinds...)
			}
			s.works()
		}}
	}
	tooLong := notStarted("misuse.03", "a message longer than the protocol's is an error, and the engine goes on", func(c *shared.Command) {
		c.Script, c.Args = ":\n#"+strings.Repeat("x", 80<<20), nil
	})
	tooLong.process = true
	return []Rule{
		{ID: "misuse.01", Title: "a Command of a bad form is refused as such", run: commandForm},
		// 128 KiB is Linux's limit for one, some MiB any system's for all.
		notStarted("misuse.02", "an argument longer than a process can have is an error", func(c *shared.Command) { c.Args = append(c.Args, strings.Repeat("x", 16<<20)) }),
		tooLong,
		notStarted("misuse.04", "a working directory that is not there is an error", func(c *shared.Command) { c.Dir = "/no/such/directory" }, shared.ErrInvalidSpec),
		notStarted("misuse.05", "a terminal that is none is an error", func(c *shared.Command) { c.TTY = true }),
		{ID: "misuse.06", Title: "ids that the engine has not given are errors, but to Close", process: true, run: unknownIDs},
		{ID: "misuse.07", Title: "a signal that is none is an error, and the command goes on", run: func(s *subject) {
			p, _ := s.started(s.open(), "trap 'exit 5' TERM; echo"+forever)
			for _, sig := range []syscall.Signal{-1, -9, 999} {
				err := p.Signal(s.Ctx, sig)
				s.Demand(err != nil && !errors.Is(err, os.ErrProcessDone) && !errors.Is(err, shared.ErrEngineLost), "signal %d: %v", sig, err)
			}
			s.signal(p, syscall.SIGTERM)
			s.exitsWith(p, 5)
		}},
	}
}

func commandForm(s *subject) {
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
		s.Check(name, func() {
			s.Wants("Start", s.notStarted(sandbox, cmd, shared.Stdio{}), shared.ErrInvalidSpec)
			_, err := sandbox.Plan(s.Ctx, cmd)
			s.Wants("Plan", err, shared.ErrInvalidSpec)
		})
	}
	s.works()
}

// unknownIDs names sandboxes and processes that never existed.
func unknownIDs(s *subject) {
	l := s.launch()
	ctx, cancel := context.WithTimeout(s.Ctx, s.Patience())
	defer cancel()
	closed, done := enginepb.Error_KIND_CLOSED, enginepb.Error_KIND_PROCESS_DONE
	want := map[string][]enginepb.Error_Kind{"Plan": {closed}, "Run": {closed}, "Signal": {closed, done}}
	for _, id := range []string{"", "sbxhost-no-such-id", "18446744073709551615", strings.Repeat("x", 100_000)} {
		errs := callAll(ctx, l.Conn, id)
		if err := errs["Close"]; err != nil {
			s.Faultf("Close", "of %q: %v", id[:min(len(id), 20)], err)
		}
		for call, kinds := range want {
			if err := errs[call]; !slices.Contains(kinds, kindOf(err)) || ctx.Err() != nil {
				s.Faultf(call, "of %q: %v", id[:min(len(id), 20)], err)
			}
		}
	}
	s.works()
}

// crowdRules are about many at once.
func crowdRules() []Rule {
	return []Rule{
		{ID: "crowd.01", Title: "50 commands at once in one sandbox", run: func(s *subject) {
			sandbox := s.open()
			s.Together(s.Many(50, 12), func(i int) {
				r, w := s.Pipe()
				fed := s.Feed(w, strings.NewReader(fmt.Sprintln("input", i)))
				o := s.run(sandbox, s.sh(`cat; echo "$1" >&2; exit "$1"`, fmt.Sprint(i)), r)
				fed()
				s.exits(o, i, fmt.Sprintln("input", i))
				s.Demand(o.Stderr == fmt.Sprintln(i), "stderr: %q", o.Stderr)
			})
		}},
		{ID: "crowd.02", Title: "20 sandboxes at once", run: func(s *subject) {
			s.Together(s.Many(20, 6), func(i int) {
				sandbox := s.open()
				s.exits(s.run(sandbox, s.sh(fmt.Sprint("exit ", i)), nil), i, "")
				s.Must(sandbox.Close(s.Ctx))
			})
		}},
		{ID: "crowd.03", Title: "a Start that races with Close leaves nothing", run: func(s *subject) {
			for range s.Many(4, 1) {
				startAndClose(s)
			}
		}},
		{ID: "crowd.04", Title: "signals from many callers at once", run: func(s *subject) {
			p, _ := s.started(s.open(), "echo; exec sleep 60")
			s.Together(16, func(int) { p.Signal(s.Ctx, syscall.SIGTERM) })
			s.endsBy(p, shared.ExitStatus{Signal: syscall.SIGTERM})
		}},
	}
}

func startAndClose(s *subject) {
	sandbox := s.open()
	r, w := s.Pipe()
	const n = 6
	first := make(chan struct{}, n)
	closed := make(chan error, 1)
	go func() {
		<-first
		closed <- sandbox.Close(s.Ctx)
	}()
	s.Together(n, func(int) {
		p, err := sandbox.Start(s.Ctx, s.sh("exec sleep 60"), shared.Stdio{Stdout: w})
		first <- struct{}{}
		if err != nil {
			s.Wants("Start", err, shared.ErrClosed)
			return
		}
		s.endsBy(p, shared.ExitStatus{Signal: syscall.SIGKILL})
	})
	s.Must(<-closed)
	w.Close()
	s.ends(r)
}
