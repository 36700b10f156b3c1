package host_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/sbxhost/sbxhost/shared"
)

// What a command ends with, and misuse, and cancellation.

func endRows() []fidelity {
	run := func(script string) func(*world) string {
		return func(w *world) string { return outcome(w.sh(script).Run()) }
	}
	return []fidelity{
		{name: "success", do: run("exit 0"), want: "ok"},
		{name: "exit status", do: run("exit 7"), want: "exit status 7"},
		{name: "exit status that looks like a signal", do: run("exit 143"), want: "exit status 143"},
		{name: "signal", do: run("kill -TERM $$"), want: "signal: terminated"},
		{name: "ExitCode", want: "7 -1", do: func(w *world) string {
			var codes []string
			for _, script := range []string{"exit 7", "kill -KILL $$"} {
				var exit interface{ ExitCode() int }
				if !errors.As(w.sh(script).Run(), &exit) {
					return "no ExitCode"
				}
				codes = append(codes, fmt.Sprint(exit.ExitCode()))
			}
			return strings.Join(codes, " ")
		}},
		{name: "no such command", want: "not found", do: func(w *world) string {
			return outcome(w.make(w.t.Context(), "no-such-command").Run())
		}},
		{name: "no such path", want: "not found", do: func(w *world) string {
			return outcome(w.make(w.t.Context(), "/no/such/command").Run())
		}},
		{name: "empty name", want: "no command", host: "not found", why: "it is looked up as any other name is", do: func(w *world) string {
			return outcome(w.make(w.t.Context(), "").Run())
		}},
		{name: "not executable", want: "not executable", do: func(w *world) string {
			return outcome(w.make(w.t.Context(), "/etc/passwd").Run())
		}},
		{name: "directory", want: "dir", do: func(w *world) string {
			c := w.sh(`basename "$PWD"`)
			dir := w.root + "/dir"
			os.Mkdir(dir, 0o755)
			*c.fields().Dir = dir
			out, _ := c.Output()
			return strings.TrimSpace(string(out))
		}},
		{name: "directory that is not there", want: "not found", host: "refused",
			why: "a directory that is no part of the workspace is a mistake of the caller, told before anything runs",
			do: func(w *world) string {
				c := w.sh("exit 0")
				*c.fields().Dir = w.root + "/missing"
				err := c.Run()
				if e, ok := errors.AsType[*shared.Error](err); ok && e.Attribute == "Dir" {
					return "refused"
				}
				return outcome(err)
			}},
		{name: "environment of the caller", want: "secret", host: "none",
			why: "what the caller has is not the command's to know",
			do: func(w *world) string {
				out, _ := w.sh(`echo "${SBXHOST_TEST_SECRET:-none}"`).Output()
				return strings.TrimSpace(string(out))
			}},
		{name: "String", want: "/bin/echo a b", do: func(w *world) string {
			return w.make(w.t.Context(), "/bin/echo", "a", "b").String()
		}},
		{name: "String of what is not plain", want: "/bin/echo a b \n\x1b[2J ", host: `/bin/echo 'a b' $'\n\x1b[2J' ''`,
			why: "a command that nobody has read must not write a second line into a log",
			do: func(w *world) string {
				return w.make(w.t.Context(), "/bin/echo", "a b", "\n\x1b[2J", "").String()
			}},
	}
}

func misuseRows() []fidelity {
	return []fidelity{
		{name: "Start twice", want: "ok, already started, ok", do: func(w *world) string {
			c := w.sh("exit 0")
			return outcome(c.Start()) + ", " + outcome(c.Start()) + ", " + outcome(c.Wait())
		}},
		{name: "Start after a failed Start", want: "not found, already started, not started", do: func(w *world) string {
			c := w.make(w.t.Context(), "no-such-command")
			return outcome(c.Start()) + ", " + outcome(c.Start()) + ", " + outcome(c.Wait())
		}},
		{name: "Wait twice", want: "exit status 3, Wait was already called", do: func(w *world) string {
			c := w.sh("exit 3")
			c.Start()
			return outcome(c.Wait()) + ", " + outcome(c.Wait())
		}},
		{name: "Wait before Start", want: "not started, ok", do: func(w *world) string {
			c := w.sh("exit 0")
			return outcome(c.Wait()) + ", " + outcome(c.Run())
		}},
		{name: "Signal before Start", want: "not started", do: func(w *world) string {
			return outcome(w.sh("exit 0").Signal(syscall.SIGTERM))
		}},
		{name: "Signal after the end", want: "process done", do: func(w *world) string {
			c := w.sh("exit 0")
			c.Run()
			return outcome(c.Signal(syscall.SIGTERM))
		}},
		{name: "concurrent Wait", want: notPromised, host: "1 of 8: signal: terminated",
			why: "os/exec has a data race there",
			do: func(w *world) string {
				c := w.sh("sleep 1000")
				if err := c.Start(); err != nil {
					return outcome(err)
				}
				results := make(chan error, 8)
				for range cap(results) {
					go func() { results <- c.Wait() }()
				}
				for range 4 {
					go c.Signal(syscall.SIGTERM)
				}
				n, got := 0, ""
				for range cap(results) {
					if text := outcome(<-results); text != "Wait was already called" {
						n, got = n+1, text
					}
				}
				return fmt.Sprintf("%d of 8: %s", n, got)
			}},
		{name: "Output with Stdout set", want: "Stdout already set", do: func(w *world) string {
			c := w.sh("exit 0")
			*c.fields().Stdout = io.Discard
			_, err := c.Output()
			return outcome(err)
		}},
		{name: "CombinedOutput with Stderr set", want: "Stderr already set", do: func(w *world) string {
			c := w.sh("exit 0")
			*c.fields().Stderr = io.Discard
			_, err := c.CombinedOutput()
			return outcome(err)
		}},
		{name: "pipes of what is set", want: "Stdin already set, Stdout already set, Stderr already set", do: func(w *world) string {
			c := w.sh("exit 0")
			f := c.fields()
			*f.Stdin, *f.Stdout, *f.Stderr = strings.NewReader(""), io.Discard, io.Discard
			_, in := c.StdinPipe()
			_, out := c.StdoutPipe()
			_, err := c.StderrPipe()
			return outcome(in) + ", " + outcome(out) + ", " + outcome(err)
		}},
		{name: "pipes after Start", do: func(w *world) string {
			c := w.sh("exit 0")
			c.Run()
			_, in := c.StdinPipe()
			_, out := c.StdoutPipe()
			_, err := c.StderrPipe()
			return outcome(in) + ", " + outcome(out) + ", " + outcome(err)
		}, want: "StdinPipe after process started, StdoutPipe after process started, StderrPipe after process started"},
		{name: "pipes of a failed Start", want: "not found, closed, closed, closed", do: func(w *world) string {
			c := w.make(w.t.Context(), "no-such-command")
			in, _ := c.StdinPipe()
			out, _ := c.StdoutPipe()
			err, _ := c.StderrPipe()
			started := c.Start()
			_, inErr := in.Write([]byte("x"))
			_, outErr := out.Read(make([]byte, 1))
			_, errErr := err.Read(make([]byte, 1))
			return outcome(started) + ", " + outcome(inErr) + ", " + outcome(outErr) + ", " + outcome(errErr)
		}},
	}
}

func cancelRows() []fidelity {
	// ready starts c, which writes "ready", and cancels its context then.
	cancelled := func(w *world, script string, change func(command, fields)) string {
		ctx, cancel := context.WithCancel(w.t.Context())
		defer cancel()
		c := w.make(ctx, "sh", "-c", script)
		if change != nil {
			change(c, c.fields())
		}
		*c.fields().Stdout = writerFunc(func(p []byte) (int, error) {
			cancel()
			return len(p), nil
		})
		return outcome(c.Run())
	}
	const stubborn = `trap '' TERM; echo ready; while :; do sleep 0.01; done`
	const polite = `trap 'exit 3' TERM; echo ready; while :; do sleep 0.01; done`
	return []fidelity{
		{name: "context that is done", want: "context canceled, not started", do: func(w *world) string {
			ctx, cancel := context.WithCancel(w.t.Context())
			cancel()
			c := w.make(ctx, "true")
			return outcome(c.Start()) + ", " + outcome(c.Wait())
		}},
		{name: "context ends", want: "signal: killed", do: func(w *world) string {
			return cancelled(w, stubborn, nil)
		}},
		{name: "context ends and the background", want: "signal: killed, held open", host: "signal: killed, closed",
			why: "what is killed is all that the command has started",
			do: func(w *world) string {
				ctx, cancel := context.WithCancel(w.t.Context())
				defer cancel()
				read, write, err := os.Pipe()
				if err != nil {
					w.t.Fatal(err)
				}
				defer read.Close()
				hold, release, err := os.Pipe()
				if err != nil {
					w.t.Fatal(err)
				}
				defer release.Close()
				c := w.make(ctx, "sh", "-c", "exec 3<&0; cat <&3 & echo ready; wait")
				*c.fields().Stdin, *c.fields().Stdout = hold, write
				err = c.Start()
				hold.Close()
				write.Close()
				if err != nil {
					return outcome(err)
				}
				io.ReadFull(read, make([]byte, len("ready\n")))
				cancel()
				text := outcome(c.Wait())
				if heldOpen(w, read) {
					return text + ", held open"
				}
				return text + ", closed"
			}},
		{name: "Cancel sends a signal", want: "exit status 3", do: func(w *world) string {
			return cancelled(w, polite, func(c command, f fields) {
				*f.Cancel = func() error { return c.Signal(syscall.SIGTERM) }
			})
		}},
		{name: "Cancel sends a signal in vain", want: "signal: killed", do: func(w *world) string {
			return cancelled(w, stubborn, func(c command, f fields) {
				*f.Cancel = func() error { return c.Signal(syscall.SIGTERM) }
				*f.WaitDelay = 50 * time.Millisecond
			})
		}},
		{name: "Cancel lets it succeed", want: "context canceled", do: func(w *world) string {
			return cancelled(w, "echo ready; cat", closeStdin(nil))
		}},
		{name: "Cancel says that it is done", want: "ok", do: func(w *world) string {
			return cancelled(w, "echo ready; cat", closeStdin(os.ErrProcessDone))
		}},
		{name: "Cancel fails", want: "the test's error", do: func(w *world) string {
			return cancelled(w, "echo ready; cat", closeStdin(errTest))
		}},
		{name: "Cancel fails and the command, too", want: "exit status 3", do: func(w *world) string {
			return cancelled(w, "echo ready; cat; exit 3", closeStdin(errTest))
		}},
		{name: "nil Cancel", want: "ok", host: "signal: killed",
			why: "nobody sets it to nil by oversight there, but leaves it nil here",
			do: func(w *world) string {
				script := fmt.Sprintf("echo ready; sleep %g", w.patience.Seconds())
				return cancelled(w, script, func(_ command, f fields) { *f.Cancel = nil })
			}},
		{name: "Signal", want: "signal: terminated", do: func(w *world) string {
			c := w.make(w.t.Context(), "sleep", "1000")
			if err := c.Start(); err != nil {
				return outcome(err)
			}
			if err := c.Signal(syscall.SIGTERM); err != nil {
				w.t.Error(err)
			}
			return outcome(c.Wait())
		}},
		{name: "Signal and the group", want: "held open", host: "closed",
			why: "it is for the command as a whole, as one from a terminal is",
			do: func(w *world) string {
				read, write, err := os.Pipe()
				if err != nil {
					w.t.Fatal(err)
				}
				defer read.Close()
				in, release, err := os.Pipe()
				if err != nil {
					w.t.Fatal(err)
				}
				defer release.Close()
				c := w.sh("exec 3<&0; cat <&3 & echo ready; wait")
				*c.fields().Stdin, *c.fields().Stdout = in, write
				err = c.Start()
				in.Close()
				write.Close()
				if err != nil {
					return outcome(err)
				}
				io.ReadFull(read, make([]byte, len("ready\n")))
				c.Signal(syscall.SIGTERM)
				c.Wait()
				if heldOpen(w, read) {
					return "held open"
				}
				return "closed"
			}},
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// closeStdin ends a command that reads it, by a Cancel that returns err.
func closeStdin(err error) func(command, fields) {
	return func(c command, f fields) {
		in, pipeErr := c.StdinPipe()
		*f.Cancel = func() error {
			in.Close()
			return errors.Join(pipeErr, err)
		}
	}
}
