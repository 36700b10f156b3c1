package main

import (
	"os"
	"slices"
	"syscall"
	"testing"
	"time"
)

func TestRelayDecides(t *testing.T) {
	t.Parallel()
	const (
		INT, TERM, HUP, QUIT  = syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT
		TSTP, CONT, WNCH, PIP = syscall.SIGTSTP, syscall.SIGCONT, syscall.SIGWINCH, syscall.SIGPIPE
	)
	forward := func(s syscall.Signal) []action { return []action{{deedForward, s}, {do: deedArm}} }
	kill := []action{{do: deedKill}}
	for _, tt := range []struct {
		in   []syscall.Signal
		want [][]action
	}{
		{[]syscall.Signal{INT}, [][]action{forward(INT)}},
		{[]syscall.Signal{INT, INT}, [][]action{forward(INT), kill}},
		{[]syscall.Signal{TERM, INT, INT}, [][]action{forward(TERM), forward(INT), kill}},
		{[]syscall.Signal{TERM, TERM, HUP, QUIT}, [][]action{forward(TERM), forward(TERM), forward(HUP), forward(QUIT)}},
		{[]syscall.Signal{TSTP, CONT}, [][]action{
			{{deedForward, syscall.SIGSTOP}, {do: deedSuspend}}, {{do: deedResume}, {deedForward, CONT}}}},
		{[]syscall.Signal{WNCH, PIP}, [][]action{{{do: deedResize}}, nil}},
	} {
		var r relay
		for i, sig := range tt.in {
			if got := r.on(sig); !slices.Equal(got, tt.want[i]) {
				t.Errorf("%v, signal %d: %v, want %v", tt.in, i, got, tt.want[i])
			}
		}
	}
}

// trial runs a relay with the signals given and returns what was forwarded.
type trial struct {
	signals  chan os.Signal
	started  chan struct{}
	finished chan struct{}
	got      chan syscall.Signal
	done     chan struct{}
}

func newTrial(t *testing.T, grace time.Duration, running bool) *trial {
	tr := &trial{make(chan os.Signal), make(chan struct{}), make(chan struct{}), make(chan syscall.Signal, 8), make(chan struct{})}
	if running {
		close(tr.started)
	}
	r := &relayed{
		grace: grace, started: tr.started, finished: tr.finished,
		forward: func(s syscall.Signal) { tr.got <- s },
		cancel:  func(s syscall.Signal) { tr.got <- -s },
		suspend: func() { tr.got <- syscall.SIGTSTP },
		resume:  func() {}, resize: func() { tr.got <- syscall.SIGWINCH },
	}
	go func() {
		defer close(tr.done)
		r.run(tr.signals)
	}()
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
		case <-time.After(10 * time.Second):
			t.Fatalf("nothing came, want %v", w)
		}
	}
}

func TestRelayKillsAfterGrace(t *testing.T) {
	t.Parallel()
	tr := newTrial(t, time.Millisecond, true)
	tr.signals <- syscall.SIGTERM
	tr.want(t, syscall.SIGTERM, syscall.SIGKILL)
}

func TestRelayKillsAtSecondInterrupt(t *testing.T) {
	t.Parallel()
	tr := newTrial(t, time.Hour, true)
	tr.signals <- syscall.SIGINT
	tr.signals <- syscall.SIGINT
	tr.want(t, syscall.SIGINT, syscall.SIGKILL)
}

func TestRelayCancelsWhatHasNotStarted(t *testing.T) {
	t.Parallel()
	tr := newTrial(t, time.Hour, false)
	tr.signals <- syscall.SIGWINCH
	tr.signals <- syscall.SIGTSTP
	tr.signals <- syscall.SIGINT
	tr.want(t, syscall.SIGWINCH, syscall.SIGTSTP, -syscall.SIGINT)
	close(tr.started)
	tr.signals <- syscall.SIGTERM
	tr.want(t, syscall.SIGTERM)
}
