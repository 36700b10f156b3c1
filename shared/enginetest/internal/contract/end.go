package contract

import (
	"context"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/enginetest/internal/actor"
	"github.com/sbxhost/sbxhost/shared/enginetest/internal/scene"
)

// endRules are about how commands end.
func endRules() []Rule {
	return []Rule{
		{ID: "end.01", Title: "every exit code from 0 to 255", run: exitCodes},
		{ID: "end.02", Title: "death by every signal that kills", run: deaths},
		{ID: "end.03", Title: "signals reach the command, and a handler runs", run: delivered},
		{ID: "end.04", Title: "signals reach the command's children in its group", run: groupSignal},
		{ID: "end.05", Title: "after the end Signal gives ErrProcessDone", run: func(s *subject) {
			sandbox := s.open()
			other, _ := s.started(sandbox, "echo"+forever)
			p := s.begin(sandbox, s.sh("exit 0"), shared.Stdio{})
			s.wait(p)
			for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
				s.Wants(sig.String(), p.Signal(s.Ctx, sig), os.ErrProcessDone)
			}
			s.endNow(other)
		}},
		{ID: "end.06", Title: "Wait gives the same each time, and its context ends the call alone", run: waits},
		{ID: "end.07", Title: "the context of Start covers the call alone", run: startContext},
		{ID: "end.08", Title: "a timeout runs handlers, then kills", run: timeouts},
		{ID: "end.09", Title: "a background child that holds stdout does not delay Wait", run: func(s *subject) {
			begin := time.Now()
			o := s.once(s.sh("sleep 1000 & echo done; exit 3"), nil)
			took := time.Since(begin)
			s.Demand(took <= s.Patience(), "it took %v", took)
			s.exits(o, 3, "done\n")
		}},
		{ID: "end.10", Title: "Events is closed at the end, and unread events delay nobody", run: events},
		{ID: "end.11", Title: "Close ends what runs, and nothing else", run: closes},
		{ID: "end.12", Title: "after Close, Start and Plan give ErrClosed, and Close nothing", run: func(s *subject) {
			sandbox := s.open()
			for range 3 {
				s.Must(sandbox.Close(s.Ctx))
			}
			s.Wants("Start", s.notStarted(sandbox, s.sh(":"), shared.Stdio{}), shared.ErrClosed)
			_, err := sandbox.Plan(s.Ctx, s.sh(":"))
			s.Wants("Plan", err, shared.ErrClosed)
		}},
		{ID: "end.13", Title: "a stopped command can be killed", run: func(s *subject) {
			p, _ := s.started(s.open(), "echo; kill -STOP $$; exit 1")
			s.signal(p, syscall.SIGKILL)
			r := s.wait(p)
			s.Demand(r.Status.Signal == syscall.SIGKILL || r.Status.Code == 1, "it ended with %v", r.Status)
		}},
		{ID: "end.15", Title: "the duration is the command's own", run: durations},
		{ID: "end.16", Title: "a death with a core dump is told as the kernel tells it", run: coreFlag},
		{ID: "end.14", Title: "every signal that can be caught, and stop and continue", run: everySignal},
	}
}

func exitCodes(s *subject) {
	sandbox := s.open()
	codes := []int{0, 1, 124, 125, 126, 127, 128, 143, 254, 255} // some are said to mean something
	for code := 0; code < 256 && !s.Kit.Brief; code++ {
		codes = append(codes, code)
	}
	slots := make(chan struct{}, 4)
	s.Together(len(codes), func(i int) {
		slots <- struct{}{}
		defer func() { <-slots }()
		o := s.run(sandbox, s.sh("exit "+strconv.Itoa(codes[i])), nil)
		s.exits(o, codes[i], "")
		s.Demand(!o.TimedOut && o.Duration > 0, "timed out: %v, duration: %v", o.TimedOut, o.Duration)
	})
}

// deadly are the signals whose default action ends a process everywhere.
var deadly = []syscall.Signal{
	syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGILL, syscall.SIGTRAP, syscall.SIGABRT, syscall.SIGBUS, syscall.SIGFPE,
	syscall.SIGKILL, syscall.SIGUSR1, syscall.SIGSEGV, syscall.SIGUSR2, syscall.SIGPIPE, syscall.SIGALRM, syscall.SIGTERM,
	syscall.SIGXCPU, syscall.SIGXFSZ, syscall.SIGVTALRM, syscall.SIGPROF, syscall.SIGSYS,
}

func deaths(s *subject) {
	sandbox, all := s.open(), deadly
	if runtime.GOOS == "linux" {
		all = append(slices.Clip(all), 40) // which has no name
	}
	for i, sig := range all {
		if i%s.Many(1, 4) != 0 {
			continue
		}
		// The shell itself would not do: some shells ignore SIGQUIT.
		cmd := s.inside("die", strconv.Itoa(int(sig)))
		cmd.Args = append(s.sh(`ulimit -c 0; exec "$@"`).Args, cmd.Args...)
		s.Check(sig, func() {
			o := s.run(sandbox, cmd, nil)
			s.died(o, shared.ExitStatus{Signal: sig}) // without a core: see die
			s.Demand(!o.TimedOut, "no time was up")
		})
	}
}

func delivered(s *subject) {
	sandbox := s.open()
	for _, c := range []struct {
		script string
		sig    syscall.Signal
		code   int // of a handler; else the signal kills
	}{
		{"echo", syscall.SIGHUP, 0},
		{"echo", syscall.SIGTERM, 0},
		{"echo", syscall.SIGUSR1, 0},
		{"trap '' TERM; echo", syscall.SIGKILL, 0},
		{"trap 'exit 7' TERM; echo", syscall.SIGTERM, 7},
		{"trap 'exit 8' INT; echo", syscall.SIGINT, 8},
		{"trap 'exit 9' WINCH; echo", syscall.SIGWINCH, 9},
	} {
		want := shared.ExitStatus{Code: c.code}
		if c.code == 0 {
			want.Signal = c.sig
		}
		s.Check(c.sig, func() {
			p, _ := s.started(sandbox, c.script+forever)
			s.signal(p, c.sig)
			s.endsBy(p, want)
		})
	}
}

func groupSignal(s *subject) {
	// The shell does nothing about the signal; its child says that it got it.
	p, out := s.started(s.open(), `trap ':' USR1; sh -c 'trap "echo child; exit 0" USR1; echo; while :; do sleep 0.02; done' & wait; wait; exit 0`)
	s.signal(p, syscall.SIGUSR1)
	line := s.until(out, "\n")
	s.Demand(line == "child\n", "the child did not get it: %q", line)
	s.endNow(p)
}

func waits(s *subject) {
	p, _ := s.started(s.open(), "trap 'exit 6' TERM; echo"+forever)
	over, cancel := context.WithCancel(s.Ctx)
	cancel()
	_, err := p.Wait(over)
	s.Wants("Wait with a context that is over", err, context.Canceled)
	s.signal(p, syscall.SIGTERM) // which fails if the end of Wait's context has ended it
	var first sync.Once
	var result shared.Result
	again := func(int) {
		r := s.wait(p)
		first.Do(func() { result = r })
		s.Demand(r == result && r.Status.Code == 6, "%+v, and not %+v", r, result)
	}
	s.Together(4, again)
	for i := range 2 {
		again(i)
	}
}

func startContext(s *subject) {
	sandbox := s.open()
	r, w := s.Pipe()
	short, cancel := context.WithCancel(s.Ctx)
	p, err := sandbox.Start(short, s.sh("read x; exit 5"), shared.Stdio{Stdin: r})
	cancel()
	s.Must(err)
	// An engine that wrongly ends the command with the context has the time of another command for
	// it.
	s.prints(sandbox, ":", "")
	_, err = w.WriteString("go on\n")
	s.Must(err)
	s.exitsWith(p, 5)
	_, err = sandbox.Start(short, s.sh(":"), shared.Stdio{})
	s.Wants("Start with a context that is over", err, context.Canceled)
}

func timeouts(s *subject) {
	sandbox := s.open()
	// Not twice of either, which a machine that is slow now can seem to be once.
	s.Check("how long", func() {
		cmd := s.sh("trap '' TERM; echo" + forever)
		for cmd.Timeout, cmd.Grace = 600*time.Millisecond, 600*time.Millisecond; ; cmd.Timeout, cmd.Grace = 3*cmd.Timeout, 3*cmd.Grace {
			o := s.run(sandbox, cmd, nil)
			most := cmd.Timeout + cmd.Grace + min(cmd.Timeout, cmd.Grace)*9/10
			switch {
			case o.Stdout == "" && 9*cmd.Timeout <= s.Patience(): // its time was up before it could ignore that
			case o.Duration < cmd.Timeout+cmd.Grace-50*time.Millisecond, o.Duration > most && 9*cmd.Timeout > s.Patience():
				s.Failf("it was ended after %v: the timeout is %v and the grace %v", o.Duration, cmd.Timeout, cmd.Grace)
			case o.Duration <= most:
				return
			}
		}
	})
	for _, c := range []struct {
		name, script   string // what it writes says that it is as it should be when the time is up
		timeout, grace time.Duration
		want           shared.ExitStatus
		timedOut       bool
	}{
		{"in time", "echo; exit 4", time.Minute, time.Minute, shared.ExitStatus{Code: 4}, false},
		{"handler", "trap 'exit 7' TERM; echo" + forever, 500 * time.Millisecond, 20 * time.Second, shared.ExitStatus{Code: 7}, true},
		{"no handler", "echo; exec sleep 60", 100 * time.Millisecond, 20 * time.Second, shared.ExitStatus{Signal: syscall.SIGTERM}, true},
		{"ignored", "trap '' TERM; echo" + forever, 500 * time.Millisecond, 200 * time.Millisecond, shared.ExitStatus{Signal: syscall.SIGKILL}, true},
		{"no grace", "trap 'exit 7' TERM; echo" + forever, 500 * time.Millisecond, 0, shared.ExitStatus{Signal: syscall.SIGKILL}, true},
	} {
		cmd := s.sh(c.script)
		cmd.Timeout, cmd.Grace = c.timeout, c.grace
		s.Check(c.name, func() {
			o := s.run(sandbox, cmd, nil)
			for o.Stdout == "" && cmd.Timeout < s.Patience()/2 { // a machine that is slow now
				cmd.Timeout *= 4
				o = s.run(sandbox, cmd, nil)
			}
			s.Demand(o.Status == c.want && o.TimedOut == c.timedOut, "%v, timed out: %v; want %v, %v", o.Status, o.TimedOut, c.want, c.timedOut)
		})
	}
}

// coreFlag compares the report of a command's death with what the kernel told the command about its
// child's death.
func coreFlag(s *subject) {
	s.NeedsCores()
	// The shell reports a child's death.
	o := s.run(s.open(), s.sh(`ulimit -c "$(ulimit -H -c)"; sh -c 'kill -SEGV $$'; kill -SEGV $$`), nil)
	want := strings.Contains(o.Stderr, "core dumped")
	s.Demand(o.Status.Signal == syscall.SIGSEGV && o.Status.CoreDumped == want, "it ended with %v, core dumped: %v, and its child: %s", o.Status, o.Status.CoreDumped, scene.Tail(o.Stderr))
}

// durations compares the reported duration with a clock outside and a wait inside. On a busy
// machine an engine may learn of a command's start when much of the wait is over, but not for each
// command.
func durations(s *subject) {
	sandbox := s.open()
	for wait := 400 * time.Millisecond; ; wait *= 3 {
		begin := time.Now()
		o := s.run(sandbox, s.sh(fmt.Sprint("sleep ", wait.Seconds())), nil)
		s.exits(o, 0, "")
		switch took := time.Since(begin); {
		case o.Duration > took, o.Duration < wait/2 && 3*wait > s.Patience():
			s.Failf("it is said to have taken %v; it waits for %v, and took %v with all that belongs to it", o.Duration, wait, took)
		case o.Duration >= wait/2:
			return
		}
	}
}

func events(s *subject) {
	p := s.begin(s.open(), s.sh("exit 2"), shared.Stdio{})
	s.wait(p)
	for channel := p.Events(); ; {
		select {
		case _, ok := <-channel:
			if !ok {
				return
			}
		case <-time.After(s.Patience()):
			s.Failf("the channel is open after the end")
		}
	}
}

func closes(s *subject) {
	mine := s.open()
	p, out := s.started(mine, "trap '' TERM; echo; while :; do test -e closed && : >alive; sleep 0.02; done")
	survivor, _ := s.started(s.open(), "trap 'exit 5' TERM; echo"+forever)
	s.Must(mine.Close(s.Ctx))
	s.Must(s.Write("ws/closed", ""))
	r, err := p.Wait(s.Ctx)
	s.Demand(err == nil && r.Status.Signal == syscall.SIGKILL && !r.TimedOut, "what ran: %+v, %v", r, err)
	_, err = actor.ReadUntil(out, "\n")
	s.Demand(err != nil && scene.HostHas(s.Path("ws/alive")) == nil, "it went on when Close had returned")
	s.Check("a command of another sandbox", func() {
		s.signal(survivor, syscall.SIGTERM)
		s.exitsWith(survivor, 5)
	})
}

// everySignal sends each signal to a shell that reports which it gets. It does not report those of
// its children's ends, and those that C libraries keep to themselves.
func everySignal(s *subject) {
	last := syscall.Signal(31)
	if runtime.GOOS == "linux" {
		last = 64
	}
	var signals []syscall.Signal
	script := "echo; while :; do sleep 0.1 >/dev/null & wait $!; done"
	for sig := syscall.Signal(1); sig <= last; sig++ {
		if !slices.Contains([]syscall.Signal{syscall.SIGKILL, syscall.SIGSTOP, syscall.SIGCHLD, 32, 33, 34}, sig) {
			signals = append(signals, sig)
			script = fmt.Sprintf("trap 'echo %d' %[1]d; ", sig) + script
		}
	}
	p, out := s.started(s.open(), script)
	told := map[string]bool{}
	wait := func(sig syscall.Signal) error {
		for !told[strconv.Itoa(int(sig))] {
			line, err := actor.ReadUntil(out, "\n")
			if err != nil {
				return fmt.Errorf("signal %d did not come, but of them %v: %w", sig, slices.Sorted(maps.Keys(told)), err)
			}
			told[strings.TrimSpace(line)] = true
		}
		return nil
	}
	for _, sig := range signals {
		s.signal(p, sig)
		s.Must(wait(sig))
	}
	clear(told)
	s.signal(p, syscall.SIGSTOP)
	s.signal(p, syscall.SIGUSR1)
	// A stopped command gets no signal, however long the case waits.
	said := make(chan error, 1)
	go func() { said <- wait(syscall.SIGUSR1) }()
	select {
	case err := <-said:
		s.Failf("it was stopped, and goes on: %v", err)
	case <-time.After(200 * time.Millisecond):
	}
	s.signal(p, syscall.SIGCONT)
	s.Must(<-said)
	s.Must(wait(syscall.SIGCONT))
	s.endNow(p)
}
