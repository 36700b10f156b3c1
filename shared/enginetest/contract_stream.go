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
	"strings"
	"syscall"
	"time"

	"github.com/sbxhost/sbxhost/shared"
)

// streamRules are about standard input, output and error.
func streamRules() []rule {
	return []rule{
		{id: "stream.01", title: "binary data passes unchanged, and stdin is half-closed", run: halfClose},
		{id: "stream.02", title: "a command that ends while stdin stays open ends", run: stdinLeftOpen},
		{id: "stream.03", title: "large streams, both outputs at once, in bounded memory", run: largeStreams},
		{id: "stream.04", title: "large input, in bounded memory", run: largeInput},
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

// memoryAllowed is by how much this process may grow while streams pass it.
const memoryAllowed = 256 << 20

// grown measures this process's memory around f.
func grown(f func() error) error {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := f(); err != nil {
		return err
	}
	runtime.ReadMemStats(&after)
	if after.Sys > before.Sys && after.Sys-before.Sys > memoryAllowed {
		return fmt.Errorf("this process grew by %d MiB", (after.Sys-before.Sys)>>20)
	}
	return nil
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
	cmd := b.command("stream", fmt.Sprint(n))
	cmd.Timeout = ruleTimeout
	return grown(func() error {
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
	sandbox, err := b.open(ctx)
	if err != nil {
		return err
	}
	h := sha256.New()
	r, w, err := b.pipe()
	if err != nil {
		return err
	}
	return grown(func() error {
		fed := feed(w, io.TeeReader(newPattern(3, n), h))
		cmd := b.command("sum")
		cmd.Timeout = ruleTimeout
		got, err := b.run(ctx, sandbox, cmd, r)
		if err != nil {
			return err
		}
		if err := <-fed; err != nil {
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

// hostTerminal gives a command a terminal, resizes it, and types ^C.
func hostTerminal(ctx context.Context, b *bench) error {
	sandbox, err := b.open(ctx)
	if err != nil {
		return err
	}
	t, err := openTerminal()
	if err != nil {
		return err
	}
	defer t.close()
	if err := t.resize(24, 80); err != nil {
		return err
	}
	cmd := b.command("size")
	cmd.TTY = true
	p, err := sandbox.Start(ctx, cmd, shared.Stdio{Stdin: t.slave, Stdout: t.slave, Stderr: t.slave})
	if err != nil {
		return err
	}
	if err := b.expect(t, "ready 24x80"); err != nil {
		return err
	}
	if err := t.resize(30, 100); err != nil {
		return err
	}
	if err := b.expect(t, "24x80 30x100"); err != nil {
		return err
	}
	if _, err := p.Wait(ctx); err != nil {
		return err
	}
	// Job control: what is typed reaches the command as a signal.
	cmd = b.sh("test -t 0 && test -t 1 && test -t 2 && : </dev/tty && trap 'exit 9' INT && echo typing" + forever)
	cmd.TTY = true
	if p, err = sandbox.Start(ctx, cmd, shared.Stdio{Stdin: t.slave, Stdout: t.slave, Stderr: t.slave}); err != nil {
		return err
	}
	if err := b.expect(t, "typing"); err != nil {
		return err
	}
	if _, err := t.master.Write([]byte{3}); err != nil {
		return err
	}
	r, err := p.Wait(ctx)
	if err == nil && r.Status.Code != 9 {
		err = fmt.Errorf("^C: it ended with %v", r.Status)
	}
	return err
}

// expect reads what is shown until a text is.
func (b *bench) expect(t *terminal, want string) error {
	t.master.SetReadDeadline(time.Now().Add(b.patience()))
	var shown strings.Builder
	buf := make([]byte, 256)
	for !strings.Contains(shown.String(), want) {
		n, err := t.master.Read(buf)
		shown.Write(buf[:n])
		if err != nil {
			return fmt.Errorf("the terminal does not show %q but %q: %w", want, shown.String(), err)
		}
	}
	return nil
}

func resize(ctx context.Context, b *bench) error {
	if b.suite.info.Features.Has(shared.FeatureTTYEngine) {
		return &absentError{"the engine owns the terminal"}
	}
	sandbox, err := b.open(ctx)
	if err != nil {
		return err
	}
	p, err := sandbox.Start(ctx, b.sh("exec sleep 60"), shared.Stdio{})
	if err != nil {
		return err
	}
	err = wantKind("Resize", p.Resize(ctx, shared.TerminalSize{Rows: 24, Cols: 80}), shared.ErrUnsupported)
	_, waitErr := p.Wait(endNow(ctx, p))
	return errors.Join(err, waitErr)
}

// endNow kills a command, on the way to waiting for it.
func endNow(ctx context.Context, p shared.Process) context.Context {
	p.Signal(ctx, syscall.SIGKILL)
	return ctx
}
