//go:build linux

package cmdengine

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sbxhost/sbxhost/internal/proc"
	"github.com/sbxhost/sbxhost/shared"
)

func TestTimeout(t *testing.T) {
	eachMode(t, func(t *testing.T, mode string) {
		dir := t.TempDir()
		sb := open(t, config(mode), specFor(mode, dir))
		loop := "; while :; do sleep 0.02; done"
		for name, test := range map[string]struct {
			script         string // what it writes says that it is as it should be when the time is up
			timeout, grace time.Duration
			want           shared.ExitStatus
			timedOut       bool
			atMost         time.Duration
			file           string
		}{
			"in time":         {"echo set; exit 4", time.Minute, time.Minute, shared.ExitStatus{Code: 4}, false, 30 * time.Second, ""},
			"handler":         {`trap 'sleep 0.1; echo cleaned >"$1"; exit 7' TERM; echo set` + loop, 300 * time.Millisecond, time.Minute, shared.ExitStatus{Code: 7}, true, 30 * time.Second, "cleaned\n"},
			"stopped handler": {`trap 'echo cleaned >"$1"; exit 7' TERM; echo set; kill -STOP $$` + loop, 300 * time.Millisecond, time.Minute, shared.ExitStatus{Code: 7}, true, 30 * time.Second, "cleaned\n"},
			"no handler":      {"echo set; exec sleep 1000", 50 * time.Millisecond, time.Minute, shared.ExitStatus{Signal: syscall.SIGTERM}, true, 30 * time.Second, ""},
			"ignored":         {"trap '' TERM; echo set" + loop, 300 * time.Millisecond, 100 * time.Millisecond, shared.ExitStatus{Signal: syscall.SIGKILL}, true, 30 * time.Second, ""},
			"no grace":        {`trap 'echo cleaned >"$1"' TERM; echo set` + loop, 300 * time.Millisecond, 0, shared.ExitStatus{Signal: syscall.SIGKILL}, true, 30 * time.Second, ""},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				file := filepath.Join(dir, strings.ReplaceAll(name, " ", "-"))
				cmd := sh(test.script, file)
				cmd.Timeout, cmd.Grace = test.timeout, test.grace
				out, result := run(t, sb, cmd)
				for out == "" && cmd.Timeout < 20*time.Second { // a machine that is slow now
					cmd.Timeout *= 4
					out, result = run(t, sb, cmd)
				}
				if !strings.HasPrefix(out, "set\n") || result.Status != test.want || result.TimedOut != test.timedOut || result.Duration-cmd.Timeout > test.atMost {
					t.Errorf("got %q, %+v", out, result)
				}
				if got, _ := os.ReadFile(file); string(got) != test.file {
					t.Errorf("file %q, want %q", got, test.file)
				}
			})
		}
	})
}

func TestSignal(t *testing.T) {
	eachMode(t, func(t *testing.T, mode string) {
		sb := open(t, config(mode), specFor(mode))
		for sig, want := range map[syscall.Signal]shared.ExitStatus{
			syscall.SIGUSR1: {Code: 11},
			syscall.SIGINT:  {Signal: syscall.SIGINT},
			syscall.SIGKILL: {Signal: syscall.SIGKILL},
		} {
			o := newOutput(t)
			// The child is in the group, so it gets the signal as well.
			p := start(t, sb, sh("trap 'exit 11' USR1; echo ready; while :; do sleep 0.02; done"), o)
			o.line()
			if err := p.Signal(t.Context(), sig); err != nil {
				t.Fatal(err)
			}
			result, err := p.Wait(t.Context())
			if err != nil || result.Status != want || result.TimedOut {
				t.Errorf("%v: %+v, %v", sig, result, err)
			}
			o.rest()
			for _, late := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
				if err := p.Signal(t.Context(), late); !errors.Is(err, os.ErrProcessDone) {
					t.Errorf("%v after the end: %v", late, err)
				}
			}
			wantError(t, p.Signal(t.Context(), 0), shared.ErrInvalidSpec)
		}
	})
}

func TestWaitLeavesTheCommandAlone(t *testing.T) {
	eachMode(t, func(t *testing.T, mode string) {
		sb := open(t, config(mode), specFor(mode))
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		p, err := sb.Start(t.Context(), sh("read x; exit $x"), shared.Stdio{Stdin: r})
		r.Close()
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := p.Wait(ctx); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		io.WriteString(w, "5\n")
		if result, err := p.Wait(t.Context()); err != nil || result.Status.Code != 5 {
			t.Errorf("%+v, %v", result, err)
		}
	})
}

func TestNothingOutlivesTheCommand(t *testing.T) {
	eachMode(t, func(t *testing.T, mode string) {
		sb := open(t, config(mode), specFor(mode))
		survivor := "trap '' TERM HUP INT; while :; do sleep 1000; done"
		scripts := []string{`sh -c "$1" & exit 0`, `(sh -c "$1" & exit 0); kill -KILL $$`}
		if mode == inside {
			scripts = append(scripts, `setsid sh -c "$1" & exit 0`, `setsid setsid -f sh -c "$1"; exit 0`)
		}
		for _, script := range scripts {
			o := newOutput(t)
			p := start(t, sb, sh(script, survivor), o)
			if _, err := p.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			o.rest()
		}
	})
}

// The documented limit of running without an init.
func TestDirectDaemonSurvives(t *testing.T) {
	t.Parallel()
	sb := open(t, config(direct), specFor(direct))
	o := newOutput(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	p, err := sb.Start(t.Context(), sh("setsid sh -c 'echo $$; exec sleep 1000' <&- & read x; exit 0"), shared.Stdio{Stdin: r, Stdout: o.w})
	r.Close()
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(o.line())
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Kill(pid, syscall.SIGKILL)
	w.Close()
	if _, err := p.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, 0); err != nil {
		t.Errorf("the daemon is gone (%v): correct the package's documentation", err)
	}
}

func TestLauncherOrInitKilled(t *testing.T) {
	t.Parallel()
	needs(t, inside)
	sb := open(t, config(inside), specFor(inside))
	for name, test := range map[string]struct {
		victim func(*insideRun) int
		words  string
	}{
		"launcher": {func(r *insideRun) int { return r.process.Pid() }, "the launcher bwrap was killed by SIGKILL"},
		"init": {func(r *insideRun) int {
			pid := proc.Children(r.process.Pid())[0]
			return pid
		}, "the init was killed by SIGKILL"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOutput(t)
			p := start(t, sb, sh("setsid sleep 1000 & echo ready; trap '' TERM; wait"), o)
			o.line()
			if err := syscall.Kill(test.victim(p.run.(*insideRun)), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			_, err := p.Wait(t.Context())
			wantError(t, err, shared.ErrBroken, test.words)
			o.rest()
			if err := p.Signal(t.Context(), syscall.SIGTERM); !errors.Is(err, os.ErrProcessDone) {
				t.Errorf("signal after the end: %v", err)
			}
		})
	}
}

func TestStoppedInitIsKilled(t *testing.T) {
	t.Parallel()
	needs(t, inside)
	sb := open(t, config(inside), specFor(inside))
	o := newOutput(t)
	p := start(t, sb, sh("echo ready; sleep 1000"), o)
	o.line()
	pid := proc.Children(p.run.(*insideRun).process.Pid())[0]
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := p.Signal(t.Context(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	result, err := p.Wait(t.Context())
	if err != nil || result.Status.Signal != syscall.SIGKILL {
		t.Errorf("%+v, %v", result, err)
	}
	o.rest()
}

func TestClose(t *testing.T) {
	eachMode(t, func(t *testing.T, mode string) {
		sb := open(t, config(mode), specFor(mode))
		var outs []*output
		var processes []*process
		for range 3 {
			o := newOutput(t)
			processes = append(processes, start(t, sb, sh("trap '' TERM; echo ready; sleep 1000"), o))
			o.line()
			outs = append(outs, o)
		}
		if err := sb.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i, p := range processes {
			outs[i].rest()
			result, err := p.Wait(t.Context())
			if err != nil || result.Status.Signal != syscall.SIGKILL || result.TimedOut {
				t.Errorf("%+v, %v", result, err)
			}
			for range p.Events() {
			}
		}
		if err := sb.Close(t.Context()); err != nil {
			t.Errorf("second Close: %v", err)
		}
		_, err := sb.Start(t.Context(), sh("true"), shared.Stdio{})
		wantError(t, err, shared.ErrClosed)
		_, err = sb.Plan(t.Context(), sh("true"))
		wantError(t, err, shared.ErrClosed)
	})
}

func TestStartRacesWithClose(t *testing.T) {
	eachMode(t, func(t *testing.T, mode string) {
		for range 4 {
			sb := open(t, config(mode), specFor(mode))
			o := newOutput(t)
			var wg sync.WaitGroup
			first := make(chan struct{}, 8)
			for range 8 {
				wg.Go(func() {
					p, err := sb.Start(context.Background(), sh("sleep 1000"), shared.Stdio{Stdout: o.w})
					first <- struct{}{}
					if err != nil {
						if !errors.Is(err, shared.ErrClosed) {
							t.Errorf("Start: %v", err)
						}
						return
					}
					if result, err := p.Wait(context.Background()); err != nil || result.Status.Signal != syscall.SIGKILL {
						t.Errorf("%+v, %v", result, err)
					}
				})
			}
			<-first
			if err := sb.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			wg.Wait()
			o.rest()
		}
	})
}

// hanging is a launcher that never gets to the init; its descriptor 3 tells
// when it is gone.
func hanging(o *output, script string) Config {
	c := config(inside)
	c.Launch = func(*shared.Spec, *shared.Command) (*exec.Cmd, error) {
		fd, err := syscall.Dup(int(o.w.Fd()))
		if err != nil {
			return nil, err
		}
		syscall.CloseOnExec(fd)
		return &exec.Cmd{
			Path: "/bin/sh", Args: []string{"sh", "-c", script},
			ExtraFiles: []*os.File{os.NewFile(uintptr(fd), "alive")},
		}, nil
	}
	return c
}

func TestStartIsCancelled(t *testing.T) {
	t.Parallel()
	for _, by := range []string{"context", "close"} {
		t.Run(by, func(t *testing.T) {
			t.Parallel()
			o := newOutput(t)
			// With a child, which must go as well.
			sb := open(t, hanging(o, "echo ready >&3; sleep 1000; true"), specFor(inside))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			failed := make(chan error, 1)
			go func() {
				_, err := sb.Start(ctx, sh("true"), shared.Stdio{})
				failed <- err
			}()
			o.line()
			if by == "context" {
				cancel()
				wantError(t, <-failed, context.Canceled)
			} else {
				if err := sb.Close(t.Context()); err != nil {
					t.Error(err)
				}
				wantError(t, <-failed, shared.ErrClosed)
			}
			o.rest()
		})
	}
}

func TestLauncherFails(t *testing.T) {
	t.Parallel()
	o := newOutput(t)
	sb := open(t, hanging(o, "echo 'boom: /x\x1b[31m' >&2; exit 3"), specFor(inside))
	_, err := sb.Start(t.Context(), sh("true"), shared.Stdio{})
	wantError(t, err, shared.ErrUnavailable, "exited with status 3", "boom: /x\uFFFD[31m")

	c := hanging(o, "head -c 300000 /dev/zero | tr '\\0' x >&2; echo end >&2; kill -KILL $$")
	sb = open(t, c, specFor(inside))
	_, err = sb.Start(t.Context(), sh("true"), shared.Stdio{})
	wantError(t, err, shared.ErrBroken, "killed by SIGKILL", "xend")
	if len(err.Error()) > 2*proc.MaxQuote+200 {
		t.Errorf("the error has %d bytes", len(err.Error()))
	}

	diagnosis := &shared.Error{Kind: shared.ErrUnavailable, Message: "diagnosed"}
	c = hanging(o, "echo boom >&2; exit 3")
	c.Diagnose = func(stderr string, status *syscall.WaitStatus) error {
		if stderr != "boom\n" || status.ExitStatus() != 3 {
			t.Errorf("diagnose: %q, %v", stderr, status)
		}
		return diagnosis
	}
	sb = open(t, c, specFor(inside))
	if _, err = sb.Start(t.Context(), sh("true"), shared.Stdio{}); err != diagnosis {
		t.Errorf("got %v", err)
	}

	c.Launch = func(*shared.Spec, *shared.Command) (*exec.Cmd, error) {
		return &exec.Cmd{Path: "/no/such/launcher", Args: []string{"x"}}, nil
	}
	sb = open(t, c, specFor(inside))
	_, err = sb.Start(t.Context(), sh("true"), shared.Stdio{})
	wantError(t, err, shared.ErrUnavailable, "/no/such/launcher")
	o.rest()
}

// The launcher's variables would be read outside the sandbox, and its stderr is
// not the command's.
func TestLauncherIsApart(t *testing.T) {
	t.Parallel()
	o := newOutput(t)
	c := hanging(o, "env >&3; readlink /proc/self/fd/0 /proc/self/fd/1 >&3; exit 1")
	sb := open(t, c, specFor(inside))
	if _, err := sb.Start(t.Context(), sh("true"), shared.Stdio{}); err == nil {
		t.Fatal("started")
	}
	got := o.rest()
	for line := range strings.Lines(got) {
		// What sh sets by itself.
		if !strings.HasPrefix(line, "PWD=") && !strings.HasPrefix(line, "_=") && !strings.HasPrefix(line, "SHLVL=") &&
			!strings.HasPrefix(line, "OLDPWD=") && line != "/dev/null\n" && !strings.HasPrefix(line, "pipe:") {
			t.Errorf("the launcher saw %q", line)
		}
	}
}
