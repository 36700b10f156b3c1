package enginetest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"syscall"
	"time"

	"github.com/sbxhost/sbxhost/shared"
)

// streamRules are about standard input, output and error.
func streamRules() []rule {
	return []rule{
		{id: "stream.01", title: "binary data passes unchanged, and stdin is half-closed", run: halfClose},
		{id: "stream.02", title: "a command that ends while stdin stays open ends", run: stdinLeftOpen},
		{id: "stream.03", title: "large streams, both outputs at once, in bounded memory", alone: true, run: largeStreams},
		{id: "stream.04", title: "large input, in bounded memory", alone: true, run: largeInput},
		{id: "stream.05", title: "a reader that does not read holds the command up", run: backPressure},
		{id: "stream.06", title: "one output that nobody reads does not hold up the other", run: independent},
		{id: "stream.07", title: "a reader that goes away is SIGPIPE to the command", run: readerGone},
		{id: "stream.08", title: "both outputs in one file keep their order", run: oneFile},
		{id: "stream.09", title: "a regular file is read from where it stands", run: regularInput},
		{id: "stream.10", title: "no files are the null device", run: noFiles},
		{id: "stream.11", title: "a directory is refused, as any of the three", run: directories},
		{id: "stream.12", title: "the caller may close its files when Start has returned", run: closedEarly},
		{id: "stream.13", title: "a terminal that the host owns", features: []shared.Feature{shared.FeatureTTY}, run: hostTerminal},
		{id: "stream.14", title: "Resize is for engines that own the terminal", run: resize},
		{id: "stream.15", title: "a terminal that the engine makes", features: []shared.Feature{shared.FeatureTTYEngine}, run: ownTerminal},
		{id: "stream.16", title: "input that the command does not read holds its writer up", run: inputPressure},
		{id: "stream.17", title: "what was written before the end is there for a reader who comes late", run: lateReader},
	}
}

func halfClose(ctx context.Context, b *bench) error {
	sandbox, err := b.open(ctx)
	if err != nil {
		return err
	}
	r, w, err := b.pipe()
	if err != nil {
		return err
	}
	const n = 700_001
	fed := feed(w, newPattern(7, n))
	got, err := b.run(ctx, sandbox, b.command("copy"), r)
	if err != nil {
		return err
	}
	want, err := io.ReadAll(newPattern(7, n))
	if err := errors.Join(err, <-fed, got.exits(shared.ExitStatus{})); err != nil {
		return err
	}
	if got.stdout != string(want) {
		return fmt.Errorf("%d bytes came back of %d, or others", len(got.stdout), n)
	}
	return nil
}

func stdinLeftOpen(ctx context.Context, b *bench) error {
	r, _, err := b.pipe()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, b.patience())
	defer cancel()
	got, err := b.once(ctx, b.sh("exit 3"), r)
	if err != nil {
		return err
	}
	return got.exits(shared.ExitStatus{Code: 3})
}

// streamBytes is how much a large stream has.
func (b *bench) streamBytes() int64 {
	if b.suite.options.StreamBytes > 0 {
		return b.suite.options.StreamBytes
	}
	return 32 << 20
}

// memoryAllowed is by how much a process may grow while streams pass it. What is
// less than that through streams of the usual size, back-pressure shows.
const memoryAllowed = 128 << 20

// grown measures the memory of the engine's process, one that has done nothing else,
// around f; of this process where the engine has none of its own.
func (b *bench) grown(ctx context.Context, f func() error) error {
	memory, where := ownMemory, "this process"
	if b.suite.options.Launch != nil {
		l, err := b.launch(ctx)
		if err != nil {
			return err
		}
		b.engine = l
		memory, where = func() (int64, error) { return peakMemory(l.Process().Pid) }, "the engine's process"
	}
	before, err := memory()
	if err != nil {
		return err
	}
	if err := f(); err != nil {
		return err
	}
	after, err := memory()
	if err == nil && after-before > memoryAllowed {
		err = fmt.Errorf("%s grew by %d MiB", where, (after-before)>>20)
	}
	return err
}

// ownMemory is the most that this process ever had of the system.
func ownMemory() (int64, error) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.Sys), nil
}

// matchStream compares a stream with the pattern of a seed.
func matchStream(r io.Reader, seed uint64, n int64) error {
	got, want := make([]byte, 256<<10), make([]byte, 256<<10)
	p := newPattern(seed, n)
	for at := int64(0); ; {
		k, err := io.ReadFull(r, got)
		io.ReadFull(p, want[:k])
		if !bytes.Equal(got[:k], want[:k]) {
			return fmt.Errorf("other bytes after %d", at)
		}
		at += int64(k)
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			if at != n {
				return fmt.Errorf("%d bytes of %d", at, n)
			}
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func largeStreams(ctx context.Context, b *bench) error {
	n := b.streamBytes()
	outR, outW, err := b.pipe()
	if err != nil {
		return err
	}
	errR, errW, err := b.pipe()
	if err != nil {
		return err
	}
	cmd := b.command("stream", fmt.Sprint(n))
	cmd.Timeout = ruleTimeout
	return b.grown(ctx, func() error {
		sandbox, err := b.open(ctx)
		if err != nil {
			return err
		}
		p, err := sandbox.Start(ctx, cmd, shared.Stdio{Stdout: outW, Stderr: errW})
		outW.Close()
		errW.Close()
		if err != nil {
			return err
		}
		second := make(chan error, 1)
		go func() { second <- matchStream(errR, 2, n) }()
		if err := matchStream(outR, 1, n); err != nil {
			p.Signal(ctx, syscall.SIGKILL)
			return fmt.Errorf("stdout: %w", err)
		}
		if err := <-second; err != nil {
			return fmt.Errorf("stderr: %w", err)
		}
		r, err := p.Wait(ctx)
		if err == nil && !r.Status.Success() {
			err = fmt.Errorf("it ended with %v", r.Status)
		}
		return err
	})
}

func largeInput(ctx context.Context, b *bench) error {
	n := b.streamBytes()
	h := sha256.New()
	r, w, err := b.pipe()
	if err != nil {
		return err
	}
	return b.grown(ctx, func() error {
		sandbox, err := b.open(ctx)
		if err != nil {
			return err
		}
		fed := feed(w, io.TeeReader(newPattern(3, n), h))
		cmd := b.command("sum")
		cmd.Timeout = ruleTimeout
		got, err := b.run(ctx, sandbox, cmd, r)
		r.Close() // what was not read until now shall not be waited for
		if err := errors.Join(err, <-fed); err != nil {
			return err
		}
		if v := readVerdict([]byte(got.stdout), got.Result); v.Detail != hex.EncodeToString(h.Sum(nil)) {
			return fmt.Errorf("other bytes arrived: %s", v.Detail)
		}
		return nil
	})
}

// backPressure lets a command write more than any buffer holds.
func backPressure(ctx context.Context, b *bench) error {
	const n = 32 << 20
	sandbox, err := b.open(ctx)
	if err != nil {
		return err
	}
	r, w, err := b.pipe()
	if err != nil {
		return err
	}
	cmd := b.sh("head -c 33554432 /dev/zero")
	cmd.Timeout = ruleTimeout
	p, err := sandbox.Start(ctx, cmd, shared.Stdio{Stdout: w})
	w.Close()
	if err != nil {
		return err
	}
	short, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if _, err := p.Wait(short); !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("32 MiB were taken though nobody reads: %v", err)
	}
	got, err := io.Copy(io.Discard, r)
	if err != nil || got != n {
		return fmt.Errorf("%d bytes of %d came in the end: %v", got, n, err)
	}
	result, err := p.Wait(ctx)
	if err == nil && !result.Status.Success() {
		err = fmt.Errorf("it ended with %v", result.Status)
	}
	return err
}

func independent(ctx context.Context, b *bench) error {
	sandbox, err := b.open(ctx)
	if err != nil {
		return err
	}
	outR, outW, err := b.pipe()
	if err != nil {
		return err
	}
	errR, errW, err := b.pipe()
	if err != nil {
		return err
	}
	p, err := sandbox.Start(ctx, b.sh("(head -c 50000000 /dev/zero; exit) & echo hello >&2; wait"), shared.Stdio{Stdout: outW, Stderr: errW})
	outW.Close()
	errW.Close()
	if err != nil {
		return err
	}
	errR.SetReadDeadline(time.Now().Add(b.patience()))
	buf := make([]byte, 16)
	if k, err := errR.Read(buf); err != nil || string(buf[:k]) != "hello\n" {
		return fmt.Errorf("stderr while stdout is full: %q, %v", buf[:k], err)
	}
	if _, err := io.Copy(io.Discard, outR); err != nil {
		return err
	}
	_, err = p.Wait(ctx)
	return err
}

func readerGone(ctx context.Context, b *bench) error {
	sandbox, err := b.open(ctx)
	if err != nil {
		return err
	}
	r, w, err := b.pipe()
	if err != nil {
		return err
	}
	p, err := sandbox.Start(ctx, b.sh("exec yes"), shared.Stdio{Stdout: w})
	w.Close()
	if err != nil {
		return err
	}
	if _, err := io.ReadFull(r, make([]byte, 100)); err != nil {
		return err
	}
	r.Close()
	result, err := p.Wait(ctx)
	if err == nil && result.Status.Signal != syscall.SIGPIPE {
		err = fmt.Errorf("it ended with %v", result.Status)
	}
	return err
}

func oneFile(ctx context.Context, b *bench) error {
	sandbox, err := b.open(ctx)
	if err != nil {
		return err
	}
	f, err := os.Create(b.scene.path("outside/both"))
	if err != nil {
		return err
	}
	defer f.Close()
	p, err := sandbox.Start(ctx, b.sh("for i in 1 2 3 4 5; do echo $i; echo $i >&2; done"), shared.Stdio{Stdout: f, Stderr: f})
	if err != nil {
		return err
	}
	if _, err := p.Wait(ctx); err != nil {
		return err
	}
	text, err := os.ReadFile(f.Name())
	if want := "1\n1\n2\n2\n3\n3\n4\n4\n5\n5\n"; err != nil || string(text) != want {
		return fmt.Errorf("the file holds %q, %v", text, err)
	}
	return nil
}

func regularInput(ctx context.Context, b *bench) error {
	if err := b.scene.write("outside/in", "skipped\nread\n"); err != nil {
		return err
	}
	f, err := os.Open(b.scene.path("outside/in"))
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Seek(8, io.SeekStart); err != nil {
		return err
	}
	got, err := b.once(ctx, b.sh("cat"), f)
	if err == nil && got.stdout != "read\n" {
		err = fmt.Errorf("it reads %q", got.stdout)
	}
	return err
}

func noFiles(ctx context.Context, b *bench) error {
	sandbox, err := b.open(ctx)
	if err != nil {
		return err
	}
	p, err := sandbox.Start(ctx, b.sh("echo x || exit 1; echo y >&2 || exit 2; read z && exit 3; exit 4"), shared.Stdio{})
	if err != nil {
		return err
	}
	r, err := p.Wait(ctx)
	if err == nil && r.Status.Code != 4 {
		err = fmt.Errorf("it ended with %v", r.Status)
	}
	return err
}

func directories(ctx context.Context, b *bench) error {
	sandbox, err := b.open(ctx)
	if err != nil {
		return err
	}
	dir, err := os.Open("/")
	if err != nil {
		return err
	}
	defer dir.Close()
	var errs []error
	for name, stdio := range map[string]shared.Stdio{"stdin": {Stdin: dir}, "stdout": {Stdout: dir}, "stderr": {Stderr: dir}} {
		_, err := sandbox.Start(ctx, b.sh("exit 0"), stdio)
		errs = append(errs, wantKind(name, err, shared.ErrInvalidSpec))
	}
	return errors.Join(errs...)
}

func closedEarly(ctx context.Context, b *bench) error {
	sandbox, err := b.open(ctx)
	if err != nil {
		return err
	}
	inR, inW, err := b.pipe()
	if err != nil {
		return err
	}
	outR, outW, err := b.pipe()
	if err != nil {
		return err
	}
	p, err := sandbox.Start(ctx, b.sh("read x; echo got $x; echo err >&2"), shared.Stdio{Stdin: inR, Stdout: outW, Stderr: outW})
	inR.Close()
	outW.Close()
	if err != nil {
		return err
	}
	if _, err := io.WriteString(inW, "it\n"); err != nil {
		return err
	}
	text, err := io.ReadAll(outR)
	if err != nil || string(text) != "got it\nerr\n" {
		return fmt.Errorf("%q, %v", text, err)
	}
	_, err = p.Wait(ctx)
	return err
}

// inputPressure writes to a command that reads nothing.
func inputPressure(ctx context.Context, b *bench) error {
	const enough = 16 << 20
	sandbox, err := b.open(ctx)
	if err != nil {
		return err
	}
	r, w, err := b.pipe()
	if err != nil {
		return err
	}
	p, _, err := b.started(ctx, sandbox, b.sh("echo; exec sleep 60"), r)
	r.Close()
	if err != nil {
		return err
	}
	w.SetWriteDeadline(time.Now().Add(time.Second))
	taken, err := io.Copy(w, newPattern(5, 8*enough))
	if !errors.Is(err, os.ErrDeadlineExceeded) || taken > enough {
		return fmt.Errorf("%d MiB were taken though nobody reads: %v", taken>>20, err)
	}
	_, err = p.Wait(endNow(ctx, p))
	return err
}

// lateReader reads only when the command is gone.
func lateReader(ctx context.Context, b *bench) error {
	const n = 60_000 // less than any pipe holds
	sandbox, err := b.open(ctx)
	if err != nil {
		return err
	}
	outR, outW, err := b.pipe()
	if err != nil {
		return err
	}
	errR, errW, err := b.pipe()
	if err != nil {
		return err
	}
	p, err := sandbox.Start(ctx, b.command("stream", fmt.Sprint(n)), shared.Stdio{Stdout: outW, Stderr: errW})
	outW.Close()
	errW.Close()
	if err != nil {
		return err
	}
	if r, err := p.Wait(ctx); err != nil || !r.Status.Success() {
		return fmt.Errorf("it ended with %v, %w", r.Status, err)
	}
	outR.SetReadDeadline(time.Now().Add(b.patience()))
	errR.SetReadDeadline(time.Now().Add(b.patience()))
	if err := matchStream(outR, 1, n); err != nil {
		return fmt.Errorf("stdout: %w", err)
	}
	if err := matchStream(errR, 2, n); err != nil {
		return fmt.Errorf("stderr: %w", err)
	}
	return nil
}

// endNow kills a command, on the way to waiting for it.
func endNow(ctx context.Context, p shared.Process) context.Context {
	p.Signal(ctx, syscall.SIGKILL)
	return ctx
}
