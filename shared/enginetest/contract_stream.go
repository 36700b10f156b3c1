package enginetest

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"runtime"
	"syscall"
	"time"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/enginetest/actor"
)

// streamRules are about standard input, output and error.
func streamRules() []rule {
	return []rule{
		{id: "stream.01", title: "binary data passes unchanged, and stdin is half-closed", run: func(s *scene) { s.throughCat(700_001) }},
		{id: "stream.02", title: "a command that ends while stdin stays open ends", run: func(s *scene) {
			r, _ := s.pipe()
			ctx, cancel := context.WithTimeout(s.ctx, s.patience())
			defer cancel()
			s.exits(s.ran(s.start(ctx, s.open(), &trial{Command: s.sh("exit 3"), stdin: r})), 3, "")
		}},
		{id: "stream.03", title: "large streams, both outputs at once, in bounded memory", alone: true, run: largeStreams},
		{id: "stream.04", title: "large input, in bounded memory", alone: true, run: func(s *scene) {
			s.grown(func() { s.throughCat(s.streamBytes()) })
		}},
		{id: "stream.05", title: "a reader that does not read holds the command up", run: backPressure},
		{id: "stream.06", title: "one output that nobody reads does not hold up the other", run: independent},
		{id: "stream.07", title: "a reader that goes away is SIGPIPE to the command", run: func(s *scene) {
			r, w := s.pipe()
			p := s.begin(s.open(), s.sh("exec yes"), shared.Stdio{Stdout: w})
			_, err := io.ReadFull(r, make([]byte, 100))
			s.must(err)
			r.Close()
			s.endsBy(p, shared.ExitStatus{Signal: syscall.SIGPIPE})
		}},
		{id: "stream.08", title: "both outputs in one file keep their order", run: func(s *scene) {
			f, err := os.Create(s.path("outside/both"))
			s.must(err)
			s.wait(s.begin(s.open(), s.sh("for i in 1 2 3 4 5; do echo $i; echo $i >&2; done"), shared.Stdio{Stdout: f, Stderr: f}))
			text, err := os.ReadFile(f.Name())
			if want := "1\n1\n2\n2\n3\n3\n4\n4\n5\n5\n"; err != nil || string(text) != want {
				s.failf("the file holds %q, %v", text, err)
			}
		}},
		{id: "stream.09", title: "a regular file is read from where it stands", run: func(s *scene) {
			s.must(s.write("outside/in", "skipped\nread\n"))
			f, err := os.Open(s.path("outside/in"))
			s.must(err)
			defer f.Close()
			_, err = f.Seek(8, io.SeekStart)
			s.must(err)
			s.exits(s.once(s.sh("cat"), f), 0, "read\n")
		}},
		{id: "stream.10", title: "no files are the null device", run: func(s *scene) {
			p := s.begin(s.open(), s.sh("echo x || exit 1; echo y >&2 || exit 2; read z && exit 3; exit 4"), shared.Stdio{})
			s.endsBy(p, shared.ExitStatus{Code: 4})
		}},
		{id: "stream.11", title: "a directory is refused, as any of the three", run: func(s *scene) {
			sandbox := s.open()
			dir, err := os.Open("/")
			s.must(err)
			defer dir.Close()
			for name, stdio := range map[string]shared.Stdio{"stdin": {Stdin: dir}, "stdout": {Stdout: dir}, "stderr": {Stderr: dir}} {
				s.check(name, func() { s.wants("Start", s.notStarted(sandbox, s.sh("exit 0"), stdio), shared.ErrInvalidSpec) })
			}
		}},
		{id: "stream.12", title: "the caller may close its files when Start has returned", run: closedEarly},
		{id: "stream.13", title: "a terminal that the host owns", features: []shared.Feature{shared.FeatureTTY}, run: hostTerminal},
		{id: "stream.16", title: "input that the command does not read holds its writer up", run: inputPressure},
		{id: "stream.17", title: "what was written before the end is there for a reader who comes late", run: lateReader},
	}
}

// throughCat feeds a command n bytes, which it writes, until its input ends.
func (s *scene) throughCat(n int64) {
	inR, inW := s.pipe()
	outR, outW := s.pipe()
	cmd := s.sh("exec cat")
	cmd.Timeout = ruleTimeout
	p := s.begin(s.open(), cmd, shared.Stdio{Stdin: inR, Stdout: outW})
	fed := s.feed(inW, actor.NewPattern(7, n))
	s.must(matchStream(outR, 7, n))
	fed()
	s.endsBy(p, shared.ExitStatus{})
}

// streamBytes is how much a large stream has.
func (s *scene) streamBytes() int64 {
	if s.suite.options.StreamBytes > 0 {
		return s.suite.options.StreamBytes
	}
	return 32 << 20
}

// memoryAllowed is by how much a process may grow while streams pass it. What is
// less than that through streams of the usual size, back-pressure shows.
const memoryAllowed = 128 << 20

// grown measures the memory of the engine's process, one that has done nothing else,
// around f; of this process where the engine has none of its own.
func (s *scene) grown(f func()) {
	memory, where := ownMemory, "this process"
	if s.suite.options.Launch != nil {
		l := s.launch()
		memory, where = func() (int64, error) { return peakMemory(l.Pid()) }, "the engine's process"
	}
	before, err := memory()
	s.must(err)
	f()
	after, err := memory()
	s.must(err)
	if after-before > memoryAllowed {
		s.failf("%s grew by %d MiB", where, (after-before)>>20)
	}
}

// ownMemory is the most that this process ever had of the system.
func ownMemory() (int64, error) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.Sys), nil
}

// matchStream compares a stream with the pattern of a seed.
func matchStream(r io.Reader, seed uint64, n int64) error {
	got, want := fnv.New64a(), fnv.New64a()
	read, err := io.Copy(got, r)
	if err != nil {
		return err
	}
	io.Copy(want, actor.NewPattern(seed, n))
	if read != n || got.Sum64() != want.Sum64() {
		return fmt.Errorf("%d bytes came of %d, or others than were written", read, n)
	}
	return nil
}

// matchBoth compares both outputs of the action stream, at once.
func (s *scene) matchBoth(stdout, stderr *os.File, n int64) {
	outputs := []*os.File{stdout, stderr}
	s.together(2, func(i int) {
		defer outputs[i].Close() // with which a command that writes something else ends
		s.must(matchStream(outputs[i], uint64(i+1), n))
	})
}

// streaming starts a command that writes n bytes to each output.
func (s *scene) streaming(n int64) (p shared.Process, stdout, stderr *os.File) {
	outR, outW := s.pipe()
	errR, errW := s.pipe()
	cmd := s.kit("stream", fmt.Sprint(n))
	cmd.Timeout = ruleTimeout
	return s.begin(s.open(), cmd, shared.Stdio{Stdout: outW, Stderr: errW}), outR, errR
}

func largeStreams(s *scene) {
	s.grown(func() {
		p, stdout, stderr := s.streaming(s.streamBytes())
		s.matchBoth(stdout, stderr, s.streamBytes())
		s.endsBy(p, shared.ExitStatus{})
	})
}

// backPressure lets a command write more than any buffer holds, for much longer than that
// takes where somebody reads.
func backPressure(s *scene) {
	const n = 32 << 20
	sandbox := s.open()
	cmd := s.sh("head -c 33554432 /dev/zero")
	cmd.Timeout = ruleTimeout
	begin := time.Now()
	s.died(s.run(sandbox, cmd, nil), shared.ExitStatus{})
	short, cancel := context.WithTimeout(s.ctx, time.Second+3*time.Since(begin))
	defer cancel()
	r, w := s.pipe()
	p := s.begin(sandbox, cmd, shared.Stdio{Stdout: w})
	if _, err := p.Wait(short); !errors.Is(err, context.DeadlineExceeded) {
		s.failf("32 MiB were taken though nobody reads: %v", err)
	}
	if got, err := io.Copy(io.Discard, r); err != nil || got != n {
		s.failf("%d bytes of %d came in the end: %v", got, n, err)
	}
	s.endsBy(p, shared.ExitStatus{})
}

func independent(s *scene) {
	outR, outW := s.pipe()
	errR, errW := s.pipe()
	p := s.begin(s.open(), s.sh("(head -c 50000000 /dev/zero; exit) & echo hello >&2; wait"), shared.Stdio{Stdout: outW, Stderr: errW})
	if line, err := s.linesOf(errR).next(); line != "hello\n" {
		s.failf("stderr while stdout is full: %q, %v", line, err)
	}
	_, err := io.Copy(io.Discard, outR)
	s.must(err)
	s.wait(p)
}

func closedEarly(s *scene) {
	inR, inW := s.pipe()
	outR, outW := s.pipe()
	p := s.begin(s.open(), s.sh("read x; echo got $x; echo err >&2"), shared.Stdio{Stdin: inR, Stdout: outW, Stderr: outW})
	_, err := io.WriteString(inW, "it\n")
	s.must(err)
	if text, err := io.ReadAll(outR); err != nil || string(text) != "got it\nerr\n" {
		s.failf("%q, %v", text, err)
	}
	s.wait(p)
}

// inputPressure writes to a command that reads nothing.
func inputPressure(s *scene) {
	const enough = 16 << 20
	r, w := s.pipe()
	p, _ := s.started(s.open(), s.sh("echo; exec sleep 60"), r)
	for taken := 0; taken <= enough; {
		w.SetWriteDeadline(time.Now().Add(time.Second)) // in which nothing more is taken
		n, err := w.Write(make([]byte, 64<<10))
		taken += n
		if err != nil {
			s.wants("writing", err, os.ErrDeadlineExceeded)
			s.endNow(p)
			return
		}
	}
	s.failf("%d MiB were taken though nobody reads", enough>>20)
}

// lateReader reads only when the command is gone.
func lateReader(s *scene) {
	const n = 60_000 // less than any pipe holds
	p, stdout, stderr := s.streaming(n)
	s.endsBy(p, shared.ExitStatus{})
	stdout.SetReadDeadline(time.Now().Add(s.patience()))
	stderr.SetReadDeadline(time.Now().Add(s.patience()))
	s.matchBoth(stdout, stderr, n)
}
