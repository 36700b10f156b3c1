package stdio

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// reads runs a shell script with a standard input, as a confined command, and returns its output.
func reads(t *testing.T, stdin io.Reader, script string) string {
	t.Helper()
	f := &Files{}
	made, err := f.Make(&Streams{Stdin: stdin, Confined: true, MayOutlive: true})
	if err != nil {
		t.Fatal(err)
	}
	if made.Stdin == stdin {
		t.Error("the command got the caller's file")
	}
	cmd := exec.Command("/bin/sh", "-c", script)
	cmd.Stdin = made.Stdin
	var out strings.Builder
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	f.CloseChild()
	f.Copy()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	ended := make(chan error, 1)
	go func() {
		closed := make(chan struct{})
		close(closed)
		ended <- f.End(0, closed)
	}()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("End waits")
	}
	return out.String()
}

// callersPipe makes a pipe in which a text waits.
func callersPipe(t *testing.T, text string) (read, write *os.File) {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { read.Close(); write.Close() })
	if _, err := io.WriteString(write, text); err != nil {
		t.Fatal(err)
	}
	return read, write
}

// A command cannot write to the pipe that is its caller's standard input, from which a shell reads a script. It takes
// out of that what it has read, and no more.
func TestCallersPipe(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ in, script, out, left string }{
		"writes":      {"one\ntwo\n", `read x; echo $x; timeout 0.2 sh -c "echo injected >/proc/self/fd/0"; :`, "one\n", "two\n"},
		"reads one":   {"one\ntwo\n", `read x; echo $x`, "one\n", "two\n"},
		"reads none":  {"one\ntwo\n", `:`, "", "one\ntwo\n"},
		"reads all":   {"one\ntwo\n", `cat`, "one\ntwo\n", ""},
		"fills":       {"one\n", `timeout 0.2 dd if=/dev/zero of=/proc/self/fd/0 bs=1000 count=20 2>/dev/null; :`, "", "one\n"},
		"closes":      {"one\n", `exec <&-; sleep 0.1`, "", "one\n"},
		"is held":     {"one\ntwo\n", `read x; echo $x; exec 3<&0; sleep 30 >/dev/null & :`, "one\n", "two\n"},
		"nothing yet": {"", `echo`, "\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			read, write := callersPipe(t, c.in)
			if name == "reads all" {
				write.Close()
			}
			if out := reads(t, read, c.script); out != c.out {
				t.Errorf("it read %q", out)
			}
			write.Close()
			if left, err := io.ReadAll(read); string(left) != c.left {
				t.Errorf("left are %q, %v", left, err)
			}
		})
	}
}

// What a command leaves running reads nothing twice: the rest is only the caller's.
func TestCallersPipeIsTakenBack(t *testing.T) {
	t.Parallel()
	read, write := callersPipe(t, "one\ntwo\n")
	begin, later := filepath.Join(t.TempDir(), "begin"), filepath.Join(t.TempDir(), "later")
	for _, p := range []string{begin, later} {
		if err := unix.Mkfifo(p, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	reads(t, read, "read x; exec 3<&0; { read x <"+begin+"; cat <&3 >"+later+"; } >/dev/null &")
	write.Close()
	if err := os.WriteFile(begin, []byte("\n"), 0); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(later); err != nil || len(text) > 0 {
		t.Errorf("it read %q, %v", text, err)
	}
	if left, err := io.ReadAll(read); string(left) != "two\n" {
		t.Errorf("left are %q, %v", left, err)
	}
}

// Nothing is read out of a pipe that the caller has only for writing: that is meant for others.
func TestCallersPipeForWriting(t *testing.T) {
	t.Parallel()
	_, write := callersPipe(t, "earlier\n")
	if out := reads(t, write, "timeout 1 cat 2>/dev/null; :"); out != "" {
		t.Errorf("it read %q", out)
	}
}

// A command that reads a page of many costs nothing while it does not read on, and no command makes its
// host busy: not by another size of its pipe, and not by what it writes to that.
func TestCallersPipeAtRest(t *testing.T) {
	for name, script := range map[string]string{
		"reads a page": `dd bs=4096 count=1 of=/dev/null 2>/dev/null; sleep 1`,
		"resizes":      `perl -e 'fcntl(STDIN, 1031, 1 << 20); sleep 1'`,
		"writes":       `echo more >/proc/self/fd/0 & sleep 1; kill $!; :`,
	} {
		read, write, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		write.Write(make([]byte, manyPages))
		var before, after unix.Rusage
		unix.Getrusage(unix.RUSAGE_SELF, &before)
		reads(t, read, script)
		unix.Getrusage(unix.RUSAGE_SELF, &after)
		if used := after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano(); used > int64(400*time.Millisecond) {
			t.Errorf("%s: it took %v", name, time.Duration(used))
		}
		if n := after.Nvcsw - before.Nvcsw; n > 200 {
			t.Errorf("%s: it woke %d times", name, n)
		}
		write.Close()
		read.Close()
	}
}

// A pipe passes on more than it holds, and its end: also one in packet mode, out of which each read takes a packet.
func TestCallersPipeOfMuch(t *testing.T) {
	t.Parallel()
	for name, flags := range map[string]int{"bytes": 0, "packets": unix.O_DIRECT} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var fds [2]int
			if err := unix.Pipe2(fds[:], flags|unix.O_CLOEXEC); err != nil {
				t.Fatal(err)
			}
			read, write := os.NewFile(uintptr(fds[0]), "read"), os.NewFile(uintptr(fds[1]), "write")
			defer read.Close()
			const size, packet = 20 << 20, 4 << 10
			sum := sha256.New()
			var text []byte
			for i := range size / 8 {
				text = fmt.Appendf(text, "%07d\n", i)
			}
			sum.Write(text)
			go func() {
				for part := range slices.Chunk(text, packet) {
					write.Write(part)
				}
				write.Close()
			}()
			if out := reads(t, read, "dd bs=64k 2>/dev/null | sha256sum; sleep 0.01"); !strings.HasPrefix(out, fmt.Sprintf("%x", sum.Sum(nil))) {
				t.Errorf("%q", out)
			}
		})
	}
}

// The offset of a caller's file never moves to before what the command was given, and what a command leaves running
// keeps nobody waiting.
func TestOffset(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ script, out, left string }{
		"writes":  {`read x; echo $x; printf %0100d 7 >/proc/self/fd/0`, "two\n", "two\nthree\n"}, // as if it had read nothing
		"reads":   {`read x; echo $x`, "two\n", "three\n"},
		"is held": {`read x; echo $x; sleep 30 >/dev/null 3>/proc/self/fd/0 & sleep 0.1`, "two\n", "three\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "file")
			if err := os.WriteFile(file, []byte("one\ntwo\nthree\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			f, err := os.Open(file)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			f.Seek(int64(len("one\n")), io.SeekStart)
			out := reads(t, f, c.script)
			if left, err := io.ReadAll(f); out != c.out || string(left) != c.left {
				t.Errorf("it read %q; left are %q, %v", out, left, err)
			}
		})
	}
}

// Who takes bytes out of a shared pipe at its command's end keeps nobody waiting.
func TestDrainOfLess(t *testing.T) {
	t.Parallel()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	defer write.Close()
	io.WriteString(write, "few")
	got := make(chan string, 1)
	go func() {
		text, _ := io.ReadAll(io.LimitReader(waiting{read}, 100))
		got <- string(text)
	}()
	select {
	case text := <-got:
		if text != "few" {
			t.Errorf("%q", text)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("it waits")
	}
}
