package terminal

import (
	"os"
	"syscall"
	"testing"
	"time"
)

// trial runs a relay with the signals given and returns what was forwarded.
type trial struct {
	signals  chan os.Signal
	started  chan struct{}
	finished chan struct{}
	got      chan syscall.Signal
	done     chan struct{}
}

func newTrial(t *testing.T, grace, patience time.Duration, running, background bool) *trial {
	t.Helper()
	tr := &trial{make(chan os.Signal), make(chan struct{}), make(chan struct{}), make(chan syscall.Signal, 8), make(chan struct{})}
	r := &Relay{
		Grace: grace, Started: tr.started, Finished: tr.finished, Patience: patience,
		Forward: func(s syscall.Signal) { tr.got <- s },
		Cancel:  func(s syscall.Signal) { tr.got <- -s },
		Suspend: func() { tr.got <- syscall.SIGTSTP },
		Resume:  func() bool { return !background },
		Stop:    func() { tr.got <- syscall.SIGTTOU }, StopDelay: 500 * time.Millisecond,
		Redraw: func() { tr.got <- syscall.SIGCONT },
		Resize: func() { tr.got <- syscall.SIGWINCH },
	}
	go func() {
		defer close(tr.done)
		r.Run(tr.signals)
	}()
	if running {
		close(tr.started)
		tr.want(t, syscall.SIGWINCH)
	}
	t.Cleanup(func() {
		close(tr.finished)
		<-tr.done
	})
	return tr
}

func (tr *trial) want(t *testing.T, want ...syscall.Signal) {
	t.Helper()
	for _, w := range want {
		select {
		case got := <-tr.got:
			if got != w {
				t.Errorf("%v, want %v", got, w)
			}
		case <-time.After(time.Minute):
			t.Fatalf("nothing came, want %v", w)
		}
	}
}

func TestRelayKillsAfterGrace(t *testing.T) {
	t.Parallel()
	tr := newTrial(t, time.Millisecond, 0, true, false)
	tr.signals <- syscall.SIGTERM
	tr.want(t, syscall.SIGTERM, syscall.SIGKILL)
}

func TestRelayKillsAtSecondInterrupt(t *testing.T) {
	t.Parallel()
	tr := newTrial(t, time.Hour, 0, true, false)
	tr.signals <- syscall.SIGINT
	tr.signals <- syscall.SIGINT
	tr.want(t, syscall.SIGINT, syscall.SIGKILL)
}

// Only a second SIGINT kills, whatever else came before it.
func TestRelayPassesOn(t *testing.T) {
	t.Parallel()
	const (
		INT, TERM, HUP, QUIT  = syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT
		TSTP, CONT, WNCH, PIP = syscall.SIGTSTP, syscall.SIGCONT, syscall.SIGWINCH, syscall.SIGPIPE
	)
	for _, tt := range []struct{ in, want []syscall.Signal }{
		{[]syscall.Signal{TERM, INT, INT}, []syscall.Signal{TERM, INT, syscall.SIGKILL}},
		{[]syscall.Signal{TERM, TERM, HUP, QUIT}, []syscall.Signal{TERM, TERM, HUP, QUIT}},
		{[]syscall.Signal{TSTP, CONT}, []syscall.Signal{syscall.SIGSTOP, TSTP, CONT, CONT}}, // suspended, passed on, drawn again
		{[]syscall.Signal{PIP, WNCH}, []syscall.Signal{WNCH}},
		{[]syscall.Signal{syscall.SIGUSR1, syscall.SIGUSR2}, []syscall.Signal{syscall.SIGUSR1, syscall.SIGUSR2}},
	} {
		tr := newTrial(t, time.Hour, 0, true, false)
		for _, sig := range tt.in {
			tr.signals <- sig
		}
		tr.want(t, tt.want...)
	}
}

func TestRelayCancelsWhatHasNotStarted(t *testing.T) {
	t.Parallel()
	tr := newTrial(t, time.Hour, time.Millisecond, false, false)
	tr.signals <- syscall.SIGWINCH
	tr.signals <- syscall.SIGTSTP
	tr.signals <- syscall.SIGCONT
	tr.want(t, syscall.SIGTSTP)
	tr.signals <- syscall.SIGINT
	tr.want(t, -syscall.SIGINT)
	close(tr.started)
	tr.want(t, syscall.SIGWINCH)
	tr.signals <- syscall.SIGTERM
	tr.want(t, syscall.SIGTERM)
}

// What comes while the command is about to run is for the command.
func TestRelayWaitsForTheStart(t *testing.T) {
	t.Parallel()
	tr := newTrial(t, time.Millisecond, time.Hour, false, false)
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGUSR2, syscall.SIGTERM, syscall.SIGUSR2} {
		tr.signals <- sig
	}
	close(tr.started)
	tr.want(t, syscall.SIGWINCH, syscall.SIGUSR2, syscall.SIGINT, syscall.SIGTERM, syscall.SIGKILL)
}

// What the command did not get by its end, this process does not swallow.
func TestRelayLeavesNothingAtTheEnd(t *testing.T) {
	t.Parallel()
	for _, running := range []bool{false, true} {
		for _, unread := range []bool{false, true} {
			signals, started, finished := make(chan os.Signal, 1), make(chan struct{}), make(chan struct{})
			var got []syscall.Signal
			r := &Relay{
				Grace: time.Hour, Patience: time.Hour, Started: started, Finished: finished,
				Resume: func() bool { return true }, Resize: func() {},
				Forward: func(s syscall.Signal) { got = append(got, s) },
				Cancel:  func(s syscall.Signal) { got = append(got, s) },
			}
			r.running = running
			if signals <- syscall.SIGINT; !unread {
				r.on((<-signals).(syscall.Signal))
			}
			close(finished)
			r.Run(signals)
			if len(got) != 1 || got[0] != syscall.SIGINT || r.Taken != 1 {
				t.Errorf("running %v, unread %v: %v, %d taken", running, unread, got, r.Taken)
			}
		}
	}
}

// A second SIGINT waits for nothing.
func TestRelayGivesUpAtSecondInterrupt(t *testing.T) {
	t.Parallel()
	tr := newTrial(t, time.Hour, time.Hour, false, false)
	tr.signals <- syscall.SIGINT
	tr.signals <- syscall.SIGINT
	tr.want(t, -syscall.SIGINT)
}

// A shell ends a stopped job by SIGTERM and SIGCONT, which may come in either order:
// continued in the background, it must not stop again for want of the terminal.
func TestRelayKnowsThatItEnds(t *testing.T) {
	t.Parallel()
	first := newTrial(t, time.Second, 0, true, true)
	first.signals <- syscall.SIGTERM
	first.signals <- syscall.SIGCONT
	first.want(t, syscall.SIGTERM, syscall.SIGCONT, syscall.SIGCONT, syscall.SIGKILL)
	last := newTrial(t, time.Second, 0, true, true)
	last.signals <- syscall.SIGCONT
	last.signals <- syscall.SIGTERM
	last.want(t, syscall.SIGCONT, syscall.SIGCONT, syscall.SIGTERM, syscall.SIGKILL)
}

// One that nobody has asked to have the terminal goes on there, and looks for when it
// is in the foreground again, which no signal tells.
func TestRelayLooksForTheForeground(t *testing.T) {
	t.Parallel()
	started, finished, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	looked, sizes := 0, 0
	taken := make(chan int, 1)
	r := &Relay{
		Grace: time.Hour, Started: started, Finished: finished, Patience: time.Hour, StopDelay: time.Millisecond,
		Resume: func() bool { looked++; return looked == 3 },
		Resize: func() {
			if sizes++; looked == 3 {
				taken <- sizes
			}
		},
	}
	close(started)
	go func() {
		defer close(done)
		r.Run(make(chan os.Signal))
	}()
	select {
	case n := <-taken:
		if n != 3 {
			t.Errorf("the size was told %d times", n)
		}
	case <-time.After(time.Minute):
		t.Error("it does not look again")
	}
	close(finished)
	<-done
	if looked != 3 {
		t.Errorf("it looked %d times", looked)
	}
}

// Otherwise it does.
func TestRelayStopsInTheBackground(t *testing.T) {
	t.Parallel()
	tr := newTrial(t, time.Hour, 0, true, true)
	tr.signals <- syscall.SIGCONT
	tr.want(t, syscall.SIGCONT, syscall.SIGCONT, syscall.SIGTTOU)
}
