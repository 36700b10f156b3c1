package sandboxinit

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/sbxhost/sbxhost/internal/frame"
)

var anyCommand = Command{Args: []string{"true"}}

// fakeInit gives a Conn whose other end says what the test wants.
func fakeInit(t *testing.T, serve func(init *os.File)) *Conn {
	t.Helper()
	engineEnd, initEnd, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	c := NewConn(engineEnd)
	var wg sync.WaitGroup
	wg.Go(func() {
		defer initEnd.Close()
		serve(initEnd)
	})
	t.Cleanup(func() {
		c.Close()
		wg.Wait()
	})
	return c
}

func readCommand(init *os.File) { frame.Read(init, maxCommand) }

func TestConnReports(t *testing.T) {
	started := frame.Encode(kindStarted, &startedMessage{})
	status := frame.Encode(kindEnded, &endedMessage{status: Status{Code: 7}})
	usedUp := frame.Encode(kindEnded, &endedMessage{status: Status{Code: 7, CPU: 5, Memory: 6}})
	refused := encodeRefused(&ExecError{OpLookup, "x", syscall.ENOENT})
	bad := func(k byte, payload ...byte) []byte {
		return append([]byte{0, 0, 0, byte(len(payload)), k}, payload...)
	}
	for name, test := range map[string]struct {
		says        []byte
		start, wait error // nil: none
		status      Status
	}{
		"honest":              {says: slices.Concat(started, status), status: Status{Code: 7}},
		"what it used":        {says: slices.Concat(started, usedUp), status: Status{Code: 7, CPU: 5, Memory: 6}},
		"used before started": {says: usedUp, start: ErrProtocol, wait: ErrProtocol},
		"bad used":            {says: slices.Concat(started, bad(kindEnded, append(make([]byte, 20), 1)...)), wait: ErrProtocol},
		"silent":              {start: ErrInitLost, wait: ErrInitLost},
		"cut header":          {says: started[:3], start: ErrInitLost, wait: ErrInitLost},
		"lost after started":  {says: started, wait: ErrInitLost},
		"refused":             {says: refused, start: syscall.ENOENT, wait: syscall.ENOENT},
		"status first":        {says: status, start: ErrProtocol, wait: ErrProtocol},
		"refused late":        {says: slices.Concat(started, refused), wait: ErrProtocol},
		"huge":                {says: []byte{0xff, 0xff, 0xff, 0xff, 'R'}, start: ErrProtocol, wait: ErrProtocol},
		"unknown":             {says: bad('?', 1, 2, 3), start: ErrProtocol, wait: ErrProtocol},
		"bad status":          {says: slices.Concat(started, bad(kindEnded, 1, 1, 1)), wait: ErrProtocol},
		"bad flag":            {says: bad(kindStarted, 9), start: ErrProtocol, wait: ErrProtocol},
		"more after the last": {says: slices.Concat(started, status, status, bad('?')), status: Status{Code: 7}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := fakeInit(t, func(init *os.File) {
				readCommand(init)
				init.Write(test.says)
			})
			if err := c.Start(t.Context(), anyCommand); !errors.Is(err, test.start) {
				t.Errorf("Start: %v, want %v", err, test.start)
			}
			status, err := c.Wait()
			if !errors.Is(err, test.wait) {
				t.Errorf("Wait: %v, want %v", err, test.wait)
			}
			if err == nil && status != test.status {
				t.Errorf("status %+v, want %+v", status, test.status)
			}
			if err := c.Signal(15); err == nil {
				t.Error("Signal after the end: no error")
			}
			<-c.Done()
		})
	}
}

// What an init said last is read, also by an engine that has had no time for it.
func TestConnHearsWhatWasSaidBefore(t *testing.T) {
	for range 300 {
		said := make(chan struct{})
		c := fakeInit(t, func(init *os.File) {
			readCommand(init)
			init.Write(slices.Concat(frame.Encode(kindStarted, &startedMessage{}), frame.Encode(kindEnded, &endedMessage{status: Status{Code: 7}})))
			close(said)
		})
		go func() {
			<-said
			c.HangUp()
		}()
		if err := c.Start(t.Context(), anyCommand); err != nil {
			t.Fatal(err)
		}
		if status, err := c.Wait(); err != nil || status.Code != 7 {
			t.Fatalf("%+v, %v", status, err)
		}
	}
	// Also where the other end stays, and says no more.
	release := make(chan struct{})
	defer close(release)
	c := fakeInit(t, func(init *os.File) {
		readCommand(init)
		<-release
	})
	go c.HangUp()
	if err := c.Start(t.Context(), anyCommand); !errors.Is(err, ErrInitLost) {
		t.Error(err)
	}
}

// A launcher that hangs must not hang the engine, even in the midst of a write.
func TestConnStartEndsWithContext(t *testing.T) {
	release := make(chan struct{})
	c := fakeInit(t, func(*os.File) { <-release })
	defer close(release)
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("had enough")
	done := make(chan error)
	go func() { done <- c.Start(ctx, Command{Script: strings.Repeat("x", 8<<20)}) }()
	cancel(cause)
	if err := <-done; err != cause {
		t.Errorf("Start: %v, want the context's cause", err)
	}
	if _, err := c.Wait(); !errors.Is(err, ErrInitLost) {
		t.Errorf("Wait: %v, want ErrInitLost", err)
	}
}

func TestConnMisuse(t *testing.T) {
	c := fakeInit(t, func(init *os.File) { io.Copy(io.Discard, init) })
	if err := c.Signal(15); err == nil {
		t.Error("Signal before Start: no error")
	}
	if err := c.Start(t.Context(), Command{}); err == nil {
		t.Error("Start of nothing: no error")
	}
	c.Close()
	c.Close()
	if err := c.Start(t.Context(), anyCommand); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Start after Close: %v, want ErrClosed", err)
	}
	if _, err := c.Wait(); !errors.Is(err, ErrInitLost) {
		t.Errorf("Wait after Close: %v, want ErrInitLost", err)
	}
	for _, n := range []int{-1, 0, 65, 1 << 20} {
		if err := c.Signal(n); err == nil {
			t.Errorf("Signal(%d): no error", n)
		}
	}
}

func TestConnConcurrentUse(t *testing.T) {
	var got int
	c := fakeInit(t, func(init *os.File) {
		readCommand(init)
		init.Write(frame.Encode(kindStarted, &startedMessage{scoped: true}))
		for {
			k, payload, err := frame.Read(init, maxRequest)
			if err != nil {
				return
			}
			if k == kindKill {
				init.Write(frame.Encode(kindEnded, &endedMessage{status: Status{Signal: 9}}))
				return
			}
			var m signalRequest
			if frame.Decode(payload, &m) == nil && m.number == 10 {
				got++
				init.Write(frame.Encode(kindSignalled, empty{}))
			}
		}
	})
	if err := c.Start(t.Context(), anyCommand); err != nil {
		t.Fatal(err)
	}
	if !c.Scoped() {
		t.Error("Scoped is false")
	}
	if err := c.Start(t.Context(), anyCommand); err == nil {
		t.Error("second Start: no error")
	}
	var signals, waits sync.WaitGroup
	for range 8 {
		waits.Go(func() {
			if s, err := c.Wait(); err != nil || s.Signal != 9 || s.Code != -1 {
				t.Errorf("Wait: %+v, %v", s, err)
			}
		})
		signals.Go(func() {
			for range 50 {
				if err := c.Signal(10); err != nil {
					t.Errorf("Signal: %v", err)
				}
			}
		})
	}
	signals.Wait()
	if err := c.Kill(); err != nil {
		t.Errorf("Kill: %v", err)
	}
	waits.Wait()
	if got != 400 {
		t.Errorf("%d signals arrived, want 400", got)
	}
	if err := c.Kill(); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("Kill after the end: %v, want ErrProcessDone", err)
	}
}

func TestSealed(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 4096, 1 << 20} {
		f, err := Sealed("test", strings.Repeat("x", n))
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, n+1)
		got := 0
		for {
			m, err := f.Read(b[got:])
			got += m
			if err != nil || m == 0 {
				break
			}
		}
		f.Close()
		if got != n {
			t.Errorf("%d bytes came out as %d", n, got)
		}
	}
}

// A signal that an init does not answer came too late; an answered one did not, however soon the end
// follows.
func TestSignalAtTheEnd(t *testing.T) {
	t.Parallel()
	for want, answer := range map[error][]byte{os.ErrProcessDone: nil, nil: frame.Encode(kindSignalled, empty{})} {
		c := fakeInit(t, func(init *os.File) {
			readCommand(init)
			init.Write(frame.Encode(kindStarted, &startedMessage{}))
			frame.Read(init, maxRequest)
			init.Write(append(answer, frame.Encode(kindEnded, &endedMessage{})...))
		})
		if err := c.Start(t.Context(), anyCommand); err != nil {
			t.Fatal(err)
		}
		if err := c.Signal(2); err != want {
			t.Errorf("%v, want %v", err, want)
		}
	}
}

// An init that was stopped, or frozen, answers many signals at once when it goes on. None of them ends
// the command; an answer to no signal is a breach.
func TestSignalsAnsweredLate(t *testing.T) {
	t.Parallel()
	const many = 200
	for _, more := range []int{0, 1} {
		c := fakeInit(t, func(init *os.File) {
			readCommand(init)
			init.Write(frame.Encode(kindStarted, &startedMessage{}))
			for range many {
				frame.Read(init, maxRequest)
			}
			for range many + more {
				init.Write(frame.Encode(kindSignalled, empty{}))
			}
			init.Write(frame.Encode(kindEnded, &endedMessage{status: Status{Code: 7}}))
		})
		if err := c.Start(t.Context(), anyCommand); err != nil {
			t.Fatal(err)
		}
		for range many {
			c.unanswered.Add(1)
			if err := c.request(kindSignal, &signalRequest{1}); err != nil {
				t.Fatal(err)
			}
		}
		status, err := c.Wait()
		if more == 0 && (err != nil || status.Code != 7) || more > 0 && !errors.Is(err, ErrProtocol) {
			t.Errorf("%d answers more: %v, %v", more, status, err)
		}
	}
}
