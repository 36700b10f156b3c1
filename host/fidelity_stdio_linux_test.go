package host_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/sbxhost/sbxhost/host"
)

func outputRows() []fidelity {
	return []fidelity{
		{name: "Output", want: `"out" "err" exit status 7`, do: func(w *world) string {
			out, err := w.sh("printf out; printf err >&2; exit 7").Output()
			return fmt.Sprintf("%q %q %s", out, stderrOf(err), outcome(err))
		}},
		{name: "Output with Stderr set", want: `"" "err"`, do: func(w *world) string {
			c := w.sh("printf err >&2; exit 7")
			var buf bytes.Buffer
			*c.fields().Stderr = &buf
			_, err := c.Output()
			return fmt.Sprintf("%q %q", stderrOf(err), &buf)
		}},
		{name: "Output shortens standard error", want: `65565 "\n... omitting 4464 bytes ...\n"`, do: func(w *world) string {
			_, err := w.sh("head -c 70000 /dev/zero >&2; exit 1").Output()
			stderr := stderrOf(err)
			return fmt.Sprintf("%d %q", len(stderr), bytes.Trim(stderr, "\x00"))
		}},
		{name: "CombinedOutput", want: `"1\n2\n3\n" exit status 1`, do: func(w *world) string {
			out, err := w.sh("echo 1; echo 2 >&2; echo 3; exit 1").CombinedOutput()
			return fmt.Sprintf("%q %s", out, outcome(err))
		}},
		{name: "one Writer for both", want: `"1\n2\n3\n"`, do: func(w *world) string {
			c := w.sh("echo 1; echo 2 >&2; echo 3")
			var buf bytes.Buffer // which two goroutines must not write
			*c.fields().Stdout, *c.fields().Stderr = &buf, &buf
			c.Run()
			return fmt.Sprintf("%q", &buf)
		}},
		{name: "Writers that cannot be compared", want: "ok", do: func(w *world) string {
			c := w.sh("exit 0")
			type incomparable struct {
				io.Writer
				_ []int
			}
			*c.fields().Stdout, *c.fields().Stderr = incomparable{Writer: io.Discard}, incomparable{Writer: io.Discard}
			return outcome(c.Run())
		}},
		{name: "much output", want: "33554432 ok", do: func(w *world) string {
			c := w.sh("head -c 33554432 /dev/zero")
			var n countingWriter
			*c.fields().Stdout = &n
			err := c.Run()
			return fmt.Sprintf("%d %s", n, outcome(err))
		}},
		{name: "Writer that fails", want: "the test's error", do: func(w *world) string {
			c := w.sh("echo x")
			*c.fields().Stdout = failingWriter{}
			return outcome(c.Run())
		}},
		{name: "Writer that fails for who writes on", want: "signal: broken pipe", do: func(w *world) string {
			c := w.make(w.t.Context(), "yes")
			*c.fields().Stdout = failingWriter{}
			return outcome(c.Run())
		}},
		{name: "StdoutPipe", want: `"out" "err" ok`, do: func(w *world) string {
			c := w.sh("printf out; printf err >&2")
			out, _ := c.StdoutPipe()
			stderr, _ := c.StderrPipe()
			if err := c.Start(); err != nil {
				return outcome(err)
			}
			first, _ := io.ReadAll(out)
			second, _ := io.ReadAll(stderr)
			return fmt.Sprintf("%q %q %s", first, second, outcome(c.Wait()))
		}},
		{name: "StdoutPipe for both", want: `"1\n2\n3\n"`, do: func(w *world) string {
			c := w.sh("echo 1; echo 2 >&2; echo 3")
			out, _ := c.StdoutPipe()
			*c.fields().Stderr = *c.fields().Stdout
			c.Start()
			all, _ := io.ReadAll(out)
			c.Wait()
			return fmt.Sprintf("%q", all)
		}},
		{name: "StdoutPipe that is closed early", want: "signal: broken pipe", do: func(w *world) string {
			c := w.make(w.t.Context(), "yes")
			out, _ := c.StdoutPipe()
			c.Start()
			out.Close()
			return outcome(c.Wait())
		}},
		{name: "StdoutPipe after Wait", want: "closed", do: func(w *world) string {
			c := w.sh("echo x")
			out, _ := c.StdoutPipe()
			c.Run()
			_, err := out.Read(make([]byte, 1))
			return outcome(err)
		}},
		{name: "file", want: `"out"`, do: func(w *world) string {
			file, err := os.Create(w.t.TempDir() + "/out")
			if err != nil {
				w.t.Fatal(err)
			}
			defer file.Close()
			c := w.sh("printf out")
			*c.fields().Stdout = file
			c.Run()
			out, _ := os.ReadFile(file.Name())
			return fmt.Sprintf("%q", out)
		}},
		{name: "nil *os.File", want: "exit status 1", host: "ok",
			why: "os/exec starts the command with a closed descriptor, which the next file that it opens gets; it is the null device as a nil Writer is",
			do: func(w *world) string {
				c := w.sh("test -e /proc/self/fd/1")
				*c.fields().Stdout = (*os.File)(nil)
				return outcome(c.Run())
			}},
		{name: "closed file", want: "exit status 1", host: "refused",
			why: "likewise; a file that is closed is a mistake of the caller",
			do: func(w *world) string {
				c := w.sh("test -e /proc/self/fd/1")
				read, write, err := os.Pipe()
				if err != nil {
					w.t.Fatal(err)
				}
				read.Close()
				write.Close()
				*c.fields().Stdout = write
				return outcome(c.Run())
			}},
		{name: "WaitDelay with a background process", want: "ErrWaitDelay, held open", host: "ok, closed",
			why: "the end of the command is that of all it has started",
			do:  func(w *world) string { return background(w, "cat <&3 &") }},
		{name: "WaitDelay with a daemon", want: "ErrWaitDelay, held open", host: "ok, closed", bare: "ErrWaitDelay, held open",
			why: "likewise, even of what has left the process group, where the engine isolates",
			do: func(w *world) string {
				return background(w, "setsid sh -c ': >started; exec cat <&3' & until test -e started; do sleep 0.01; done; rm started")
			}},
	}
}

func stderrOf(err error) []byte {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.Stderr
	}
	if exit, ok := errors.AsType[*host.ExitError](err); ok {
		return exit.Stderr
	}
	return nil
}

type countingWriter int

func (n *countingWriter) Write(p []byte) (int, error) {
	*n += countingWriter(len(p))
	return len(p), nil
}

// background runs a script that starts something which copies descriptor 3 to
// its output and so holds it open.
func background(w *world, script string) string {
	read, write, err := os.Pipe()
	if err != nil {
		w.t.Fatal(err)
	}
	defer read.Close()
	// It waits for a pipe of ours, so that it ends with this row in any world.
	hold, release, err := os.Pipe()
	if err != nil {
		w.t.Fatal(err)
	}
	defer release.Close()
	c := w.sh("exec 3<&0; " + script)
	f := c.fields()
	*f.Stdin, *f.Stderr = hold, write
	*f.Stdout = new(bytes.Buffer)
	*f.WaitDelay = w.patience
	err = c.Run()
	hold.Close()
	write.Close()
	if heldOpen(w, read) {
		return outcome(err) + ", held open"
	}
	return outcome(err) + ", closed"
}

func inputRows() []fidelity {
	return []fidelity{
		{name: "Stdin", want: `"in"`, do: func(w *world) string {
			c := w.make(w.t.Context(), "cat")
			*c.fields().Stdin = strings.NewReader("in")
			out, _ := c.Output()
			return fmt.Sprintf("%q", out)
		}},
		{name: "nil Stdin", want: `""`, do: func(w *world) string {
			out, _ := w.make(w.t.Context(), "cat").Output()
			return fmt.Sprintf("%q", out)
		}},
		{name: "much input", want: "8388608", do: func(w *world) string {
			c := w.make(w.t.Context(), "wc", "-c")
			*c.fields().Stdin = io.LimitReader(zeroes{}, 8<<20)
			out, _ := c.Output()
			return strings.TrimSpace(string(out))
		}},
		{name: "input that is not read", want: "ok, 1048576 left is less than all: true", do: func(w *world) string {
			c := w.sh("exit 0")
			in := bytes.NewReader(make([]byte, 2<<20))
			*c.fields().Stdin = in
			err := c.Run()
			// The reader is the caller's again.
			return fmt.Sprintf("%s, 1048576 left is less than all: %v", outcome(err), in.Len() >= 1<<20)
		}},
		{name: "Stdin that fails", want: `"abc" the test's error`, do: func(w *world) string {
			c := w.make(w.t.Context(), "cat")
			*c.fields().Stdin = io.MultiReader(strings.NewReader("abc"), errorReader{})
			out, err := c.Output()
			return fmt.Sprintf("%q %s", out, outcome(err))
		}},
		{name: "Stdin that fails a command that fails", want: "exit status 4", do: func(w *world) string {
			c := w.sh("cat; exit 4")
			*c.fields().Stdin = errorReader{}
			return outcome(c.Run())
		}},
		{name: "Stdin whose Read blocks", want: "Wait returned after Read", host: "Wait returned before Read",
			why: "nobody may be there to end the Read, as at a terminal",
			do: func(w *world) string {
				read, write := io.Pipe()
				c := w.sh("exit 0")
				*c.fields().Stdin = read
				if err := c.Start(); err != nil {
					return outcome(err)
				}
				waited := make(chan struct{})
				go func() {
					c.Wait()
					close(waited)
				}()
				order := "before"
				select {
				case <-waited:
				case <-time.After(w.patience):
					order = "after"
				}
				write.Close()
				<-waited
				return "Wait returned " + order + " Read"
			}},
		{name: "file that others read on", want: `"first\n" "second\n"`, do: func(w *world) string {
			read, write, err := os.Pipe()
			if err != nil {
				w.t.Fatal(err)
			}
			defer read.Close()
			write.WriteString("first\nsecond\n")
			write.Close()
			var lines [2][]byte
			for i := range lines {
				c := w.sh("read line; echo $line")
				*c.fields().Stdin = read
				lines[i], _ = c.Output()
			}
			return fmt.Sprintf("%q %q", lines[0], lines[1])
		}},
		{name: "directory as Stdin", want: "exit status 1", host: "refused",
			why: "it would hand the host's tree to the command",
			do: func(w *world) string {
				dir, err := os.Open(w.root)
				if err != nil {
					w.t.Fatal(err)
				}
				defer dir.Close()
				c := w.make(w.t.Context(), "cat")
				*c.fields().Stdin = dir
				return outcome(c.Run())
			}},
		{name: "StdinPipe", want: `"typed" ok`, do: func(w *world) string {
			c := w.make(w.t.Context(), "cat")
			in, _ := c.StdinPipe()
			var out bytes.Buffer
			*c.fields().Stdout = &out
			if err := c.Start(); err != nil {
				return outcome(err)
			}
			io.WriteString(in, "typed")
			in.Close()
			err := c.Wait()
			return fmt.Sprintf("%q %s", &out, outcome(err))
		}},
		{name: "StdinPipe after Wait", want: "ok, closed", do: func(w *world) string {
			c := w.sh("exit 0")
			in, _ := c.StdinPipe()
			c.Start()
			waited := c.Wait()
			_, err := in.Write([]byte("x"))
			return outcome(waited) + ", " + outcome(err)
		}},
		{name: "StdinPipe to who does not read", want: "broken pipe", do: func(w *world) string {
			c := w.sh("exit 0")
			in, _ := c.StdinPipe()
			c.Start()
			_, err := in.Write(make([]byte, 1<<20))
			c.Wait()
			if errors.Is(err, syscall.EPIPE) {
				return "broken pipe"
			}
			return outcome(err)
		}},
	}
}

type zeroes struct{}

func (zeroes) Read(p []byte) (int, error) { clear(p); return len(p), nil }

type errorReader struct{}

func (errorReader) Read([]byte) (int, error) { return 0, errTest }
