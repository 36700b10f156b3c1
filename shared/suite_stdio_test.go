package shared_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	. "github.com/sbxhost/sbxhost/shared"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// pattern returns n bytes without a period that any buffer size has.
func pattern(n int) []byte {
	b := make([]byte, n)
	x := uint32(1)
	for i := range b {
		x = x*1664525 + 1013904223
		b[i] = byte(x >> 24)
	}
	return b
}

func testLargeStreams(t *testing.T, e Engine) {
	const size = 64<<20 + 13
	data := pattern(size)
	inR, inW := pipe(t)
	outR, outW := pipe(t)
	errR, errW := pipe(t)
	p := startCommand(t, open(t, e), sh("tee /dev/stderr"), Stdio{inR, outW, errW})
	inR.Close()
	outW.Close()
	errW.Close()
	var group sync.WaitGroup
	group.Go(func() {
		if _, err := inW.Write(data); err != nil {
			t.Errorf("write: %v", err)
		}
		inW.Close()
	})
	want := sha256.Sum256(data)
	for _, r := range []*os.File{outR, errR} {
		group.Go(func() {
			h := sha256.New()
			n, err := io.Copy(h, r)
			if err != nil || n != size || !bytes.Equal(h.Sum(nil), want[:]) {
				t.Errorf("got %d bytes (%v), want %d, or other ones", n, err, size)
			}
		})
	}
	group.Wait()
	if got := waitFor(t, p).Status; !got.Success() {
		t.Error(got)
	}
}

func testSharedOutput(t *testing.T, e Engine) {
	r, w := pipe(t)
	p := startCommand(t, open(t, e), sh("for i in 1 2 3 4 5 6 7 8 9; do echo $i; echo $i >&2; done"), Stdio{Stdout: w, Stderr: w})
	w.Close()
	got, _ := io.ReadAll(r)
	waitFor(t, p)
	if want := "1 1 2 2 3 3 4 4 5 5 6 6 7 7 8 8 9 9"; strings.Join(strings.Fields(string(got)), " ") != want {
		t.Errorf("got %q", got)
	}
}

func testRegularFiles(t *testing.T, e Engine) {
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/in", []byte("one\ntwo\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	in, err := os.Open(dir + "/in")
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.Create(dir + "/out")
	if err != nil {
		t.Fatal(err)
	}
	out.WriteString("zero\n")
	p := startCommand(t, open(t, e), sh("cat"), Stdio{Stdin: in, Stdout: out})
	out.Close()
	waitFor(t, p)
	// All is in the file once Wait has returned.
	if got, _ := os.ReadFile(dir + "/out"); string(got) != "zero\none\ntwo\n" {
		t.Errorf("got %q", got)
	}
}

func testHalfClose(t *testing.T, e Engine) {
	inR, inW := pipe(t)
	outR, outW := pipe(t)
	p := startCommand(t, open(t, e), sh("cat; echo end"), Stdio{Stdin: inR, Stdout: outW})
	inR.Close()
	outW.Close()
	fmt.Fprint(inW, "a")
	buf := make([]byte, 10)
	if n, err := outR.Read(buf); err != nil || string(buf[:n]) != "a" {
		t.Fatalf("interactive: %q, %v", buf[:n], err)
	}
	inW.Close()
	if got, _ := io.ReadAll(outR); string(got) != "end\n" {
		t.Errorf("got %q", got)
	}
	waitFor(t, p)
}

func testStdinLeftOpen(t *testing.T, e Engine) {
	inR, _ := pipe(t)
	if got := waitFor(t, startCommand(t, open(t, e), sh("exit 3"), Stdio{Stdin: inR})); got.Status.Code != 3 {
		t.Error(got)
	}
	// The caller's file is as it was.
	inR.SetReadDeadline(time.Unix(1, 0))
	if _, err := inR.Read(make([]byte, 1)); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}
}

func testStdinUnread(t *testing.T, e Engine) {
	inR, inW := pipe(t)
	p := startCommand(t, open(t, e), sh("exec <&-; exec sleep 60"), Stdio{Stdin: inR})
	inR.Close()
	// The writer is told that nobody reads any more, while the command runs.
	if _, err := inW.Write(make([]byte, 8<<20)); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("write: %v", err)
	}
	p.Signal(t.Context(), syscall.SIGKILL)
	waitFor(t, p)
}

func testEarlyClose(t *testing.T, e Engine) {
	r, w := pipe(t)
	p := startCommand(t, open(t, e), sh("exec yes"), Stdio{Stdout: w})
	w.Close()
	r.Read(make([]byte, 100))
	r.Close()
	if got := waitFor(t, p).Status; got.Signal != syscall.SIGPIPE {
		t.Error(got)
	}
}

func testSlowReader(t *testing.T, e Engine) {
	const size = 16 << 20
	r, w := pipe(t)
	progress := t.TempDir() + "/progress"
	script := "head -c " + strconv.Itoa(size) + " /dev/zero; echo done >" + progress
	p := startCommand(t, open(t, e), sh(script), Stdio{Stdout: w})
	w.Close()
	buf := make([]byte, 1000)
	for range 100 {
		if _, err := io.ReadFull(r, buf); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := p.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Wait while nobody reads: %v", err)
	}
	if _, err := os.Stat(progress); err == nil {
		t.Errorf("the command wrote %d bytes that nobody has read", size)
	}
	n, err := io.Copy(io.Discard, r)
	if err != nil || n != size-100*1000 {
		t.Errorf("got %d bytes, %v", n, err)
	}
	waitFor(t, p)
}

func testIndependentOutputs(t *testing.T, e Engine) {
	outR, outW := pipe(t)
	errR, errW := pipe(t)
	p := startCommand(t, open(t, e), sh("head -c 8388608 /dev/zero & echo hello >&2; exec 2>&-; wait"), Stdio{Stdout: outW, Stderr: errW})
	outW.Close()
	errW.Close()
	// All of stderr can be read before any of stdout.
	if n, err := io.ReadFull(errR, make([]byte, 6)); err != nil {
		t.Errorf("stderr: %d, %v", n, err)
	}
	if n, err := io.Copy(io.Discard, outR); n != 8<<20 {
		t.Errorf("stdout: %d, %v", n, err)
	}
	waitFor(t, p)
}

func testTimeoutBlocked(t *testing.T, e Engine) {
	_, w := pipe(t)
	cmd := sh("exec cat /dev/zero")
	cmd.Timeout = 200 * time.Millisecond
	p := startCommand(t, open(t, e), cmd, Stdio{Stdout: w})
	got := waitFor(t, p) // nobody ever reads
	if !got.TimedOut || got.Status.Signal != syscall.SIGKILL {
		t.Error(got)
	}
}

func testBackground(t *testing.T, e Engine) {
	s := open(t, e)
	r, w := pipe(t)
	// The process in the background has stdout for as long as it lives.
	p := startCommand(t, s, sh("sleep 60 & echo $!; echo ready"), Stdio{Stdout: w})
	w.Close()
	if got := waitFor(t, p); !got.Status.Success() {
		t.Error(got)
	}
	buf := make([]byte, 100)
	got := ""
	for !strings.HasSuffix(got, "ready\n") {
		n, err := r.Read(buf)
		if err != nil {
			t.Fatalf("%q, %v", got, err)
		}
		got += string(buf[:n])
	}
	pid, err := strconv.Atoi(strings.Fields(got)[0])
	if err != nil {
		t.Fatal(err)
	}
	syscall.Kill(pid, syscall.SIGKILL)
}

func testNoStdio(t *testing.T, e Engine) {
	s := open(t, e)
	got := waitFor(t, startCommand(t, s, sh("cat; echo x; echo y >&2"), Stdio{}))
	if !got.Status.Success() {
		t.Error(got)
	}
	r, w := pipe(t)
	p := startCommand(t, s, sh("cat; echo x; echo y >&2"), Stdio{Stderr: w})
	w.Close()
	if text, _ := io.ReadAll(r); string(text) != "y\n" {
		t.Errorf("stderr alone: %q", text)
	}
	waitFor(t, p)
}

func testDirectory(t *testing.T, e Engine) {
	dir, err := os.Open("/")
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	closed, w := pipe(t)
	w.Close()
	closed.Close()
	s := open(t, e)
	for _, f := range []*os.File{dir, closed} {
		_, err := s.Start(t.Context(), sh(":"), Stdio{Stdin: f})
		if whole, ok := errors.AsType[*Error](err); !ok || !errors.Is(err, ErrInvalidSpec) || whole.Attribute != "stdin" {
			t.Errorf("got %v", err)
		}
	}
}
