package contract

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/creack/pty"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/enginetest/internal/actor"
)

// streamRules are about standard input, output and error.
func streamRules() []Rule {
	return []Rule{
		{ID: "stream.01", Title: "binary data passes unchanged, and stdin is half-closed", run: func(s *subject) { s.throughCat(700_001) }},
		{ID: "stream.02", Title: "a command that ends while stdin stays open ends", run: func(s *subject) {
			r, _ := s.Pipe()
			s.exits(s.once(s.sh("exit 3"), r), 3, "")
		}},
		{ID: "stream.03", Title: "large streams, both outputs at once, in bounded memory", Alone: true, run: largeStreams},
		{ID: "stream.04", Title: "large input, in bounded memory", Alone: true, run: func(s *subject) {
			s.grown(func() { s.throughCat(s.streamBytes()) })
		}},
		{ID: "stream.05", Title: "a reader that does not read holds the command up", run: backPressure},
		{ID: "stream.06", Title: "one output that nobody reads does not hold up the other", run: independent},
		{ID: "stream.07", Title: "a reader that goes away is SIGPIPE to the command", run: func(s *subject) {
			p, r := s.piped(s.open(), s.sh("exec yes"))
			_, err := io.ReadFull(r, make([]byte, 100))
			s.Must(err)
			r.Close()
			s.endsBy(p, shared.ExitStatus{Signal: syscall.SIGPIPE})
		}},
		{ID: "stream.08", Title: "both outputs in one file keep their order", run: func(s *subject) {
			f, err := os.Create(s.Path("outside/both"))
			s.Must(err)
			f.WriteString("0\n") // after which they go on
			s.wait(s.begin(s.open(), s.sh("for i in 1 2 3 4 5; do echo $i; echo $i >&2; done"), shared.Stdio{Stdout: f, Stderr: f}))
			text, err := os.ReadFile(f.Name())
			s.Demand(err == nil && string(text) == "0\n1\n1\n2\n2\n3\n3\n4\n4\n5\n5\n", "the file holds %q, %v", text, err)
		}},
		{ID: "stream.09", Title: "a regular file is read from where it stands", run: func(s *subject) {
			s.Must(s.Write("outside/in", "skipped\nread\n"))
			f, err := os.Open(s.Path("outside/in"))
			s.Must(err)
			defer f.Close()
			_, err = f.Seek(8, io.SeekStart)
			s.Must(err)
			s.exits(s.once(s.sh("cat"), f), 0, "read\n")
		}},
		{ID: "stream.10", Title: "no files are the null device", run: func(s *subject) {
			p := s.begin(s.open(), s.sh("echo x || exit 1; echo y >&2 || exit 2; read z && exit 3; exit 4"), shared.Stdio{})
			s.exitsWith(p, 4)
			for _, which := range []string{"output", "error"} {
				r, w := s.Pipe()
				stdio := shared.Stdio{Stdout: w}
				if which == "error" {
					stdio = shared.Stdio{Stderr: w}
				}
				s.exitsWith(s.begin(s.open(), s.sh("echo output; echo error >&2"), stdio), 0)
				text, err := io.ReadAll(r)
				s.Demand(string(text) == which+"\n", "standard %s alone has %q, %v", which, text, err)
			}
		}},
		{ID: "stream.11", Title: "a directory is refused, as any of the three", run: func(s *subject) {
			sandbox := s.open()
			dir, err := os.Open("/")
			s.Must(err)
			defer dir.Close()
			for name, stdio := range map[string]shared.Stdio{"stdin": {Stdin: dir}, "stdout": {Stdout: dir}, "stderr": {Stderr: dir}} {
				s.Check(name, func() { s.Wants("Start", s.notStarted(sandbox, s.sh("exit 0"), stdio), shared.ErrInvalidSpec) })
			}
		}},
		{ID: "stream.12", Title: "the caller may close its files when Start has returned", run: closedEarly},
		{ID: "stream.13", Title: "a terminal that the host owns", Features: shared.Features{shared.FeatureTTY}, run: hostTerminal},
		{ID: "stream.16", Title: "input that the command does not read holds its writer up", run: inputPressure},
		{ID: "stream.17", Title: "what was written before the end is there for a reader who comes late", run: lateReader},
	}
}

// throughCat feeds a command n bytes, which it writes, until its input ends.
func (s *subject) throughCat(n int64) {
	inR, inW := s.Pipe()
	outR, outW := s.Pipe()
	cmd := s.sh("exec cat")
	cmd.Timeout = s.Limit
	p := s.begin(s.open(), cmd, shared.Stdio{Stdin: inR, Stdout: outW})
	fed := s.Feed(inW, actor.NewPattern(7, n))
	s.Must(matchStream(outR, 7, n))
	fed()
	s.exitsWith(p, 0)
}

// streamBytes is the length of a large stream.
func (s *subject) streamBytes() int64 { return cmp.Or(s.Kit.StreamBytes, 32<<20) }

// memoryAllowed is by how much a process may grow while streams pass through it. The rule of
// back-pressure finds a smaller growth by streams of the usual size.
const memoryAllowed = 128 << 20

// grown measures the memory of the engine's process, one that has done nothing else,
// around f; or of this process, if the engine has none of its own.
func (s *subject) grown(f func()) {
	pid := os.Getpid()
	if s.Kit.Launch != nil {
		pid = s.launch().Pid()
	}
	before := s.peakMemory(pid)
	f()
	grown := s.peakMemory(pid) - before
	s.Demand(grown <= memoryAllowed, "process %d grew by %d MiB", pid, grown>>20)
}

// matchStream compares a stream with the pattern of a seed.
func matchStream(r io.Reader, seed byte, n int64) error {
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
func (s *subject) matchBoth(stdout, stderr *os.File, n int64) {
	outputs := []*os.File{stdout, stderr}
	s.Together(2, func(i int) {
		defer outputs[i].Close() // with which a command that writes something else ends
		s.Must(matchStream(outputs[i], byte(i+1), n))
	})
}

// streaming starts a command that writes n bytes to each output.
func (s *subject) streaming(n int64) (p shared.Process, stdout, stderr *os.File) {
	outR, outW := s.Pipe()
	errR, errW := s.Pipe()
	cmd := s.inside("stream", fmt.Sprint(n))
	cmd.Timeout = s.Limit
	return s.begin(s.open(), cmd, shared.Stdio{Stdout: outW, Stderr: errW}), outR, errR
}

func largeStreams(s *subject) {
	s.grown(func() {
		p, stdout, stderr := s.streaming(s.streamBytes())
		s.matchBoth(stdout, stderr, s.streamBytes())
		s.exitsWith(p, 0)
	})
}

// backPressure lets a command write more than any buffer holds, for a much longer time than it
// would take with a reader.
func backPressure(s *subject) {
	const n = 32 << 20
	sandbox := s.open()
	cmd := s.sh("head -c 33554432 /dev/zero")
	cmd.Timeout = s.Limit
	begin := time.Now()
	s.died(s.run(sandbox, cmd, nil), shared.ExitStatus{})
	short, cancel := context.WithTimeout(s.Ctx, time.Second+3*time.Since(begin))
	defer cancel()
	p, r := s.piped(sandbox, cmd)
	_, err := p.Wait(short)
	s.Demand(errors.Is(err, context.DeadlineExceeded), "32 MiB were taken though nobody reads: %v", err)
	got, err := io.Copy(io.Discard, r)
	s.Demand(err == nil && got == n, "%d bytes of %d came in the end: %v", got, n, err)
	s.exitsWith(p, 0)
}

func independent(s *subject) {
	outR, outW := s.Pipe()
	errR, errW := s.Pipe()
	p := s.begin(s.open(), s.sh("(head -c 50000000 /dev/zero; exit) & echo hello >&2; wait"), shared.Stdio{Stdout: outW, Stderr: errW})
	line := s.until(errR, "\n")
	s.Demand(line == "hello\n", "stderr while stdout is full: %q", line)
	_, err := io.Copy(io.Discard, outR)
	s.Must(err)
	s.wait(p)
}

func closedEarly(s *subject) {
	inR, inW := s.Pipe()
	outR, outW := s.Pipe()
	p := s.begin(s.open(), s.sh("read x; echo got $x; echo err >&2"), shared.Stdio{Stdin: inR, Stdout: outW, Stderr: outW})
	_, err := io.WriteString(inW, "it\n")
	s.Must(err)
	text, err := io.ReadAll(outR)
	s.Demand(err == nil && string(text) == "got it\nerr\n", "%q, %v", text, err)
	s.wait(p)
}

// inputPressure writes to a command that reads nothing.
func inputPressure(s *subject) {
	const enough = 16 << 20
	r, w := s.Pipe()
	p := s.begin(s.open(), s.sh("exec sleep 60"), shared.Stdio{Stdin: r})
	for taken := 0; taken <= enough; {
		w.SetWriteDeadline(time.Now().Add(time.Second)) // in which nothing more is taken
		n, err := w.Write(make([]byte, 64<<10))
		taken += n
		if err != nil {
			s.Wants("writing", err, os.ErrDeadlineExceeded)
			s.endNow(p)
			return
		}
	}
	s.Failf("%d MiB were taken though nobody reads", enough>>20)
}

// lateReader reads only when the command is gone.
func lateReader(s *subject) {
	const n = 60_000 // less than any pipe holds
	p, stdout, stderr := s.streaming(n)
	s.exitsWith(p, 0)
	stdout.SetReadDeadline(time.Now().Add(s.Patience()))
	stderr.SetReadDeadline(time.Now().Add(s.Patience()))
	s.matchBoth(stdout, stderr, n)
}

// hostTerminal gives a command a terminal, resizes it, and types ^C.
func hostTerminal(s *subject) {
	sandbox := s.open()
	master, slave := s.Terminal()
	s.Must(pty.Setsize(master, &pty.Winsize{Rows: 24, Cols: 80}))
	start := func(text, shown string) shared.Process {
		cmd := s.sh("test -t 0 && test -t 1 && test -t 2 && : </dev/tty && " + text + forever)
		cmd.TTY = true
		p, err := sandbox.Start(s.Ctx, cmd, shared.Stdio{Stdin: slave, Stdout: slave, Stderr: slave})
		s.Must(err)
		s.until(master, shown)
		return p
	}
	p := start("trap 'stty size; exit 8' WINCH && stty size", "24 80")
	s.Must(pty.Setsize(master, &pty.Winsize{Rows: 30, Cols: 100}))
	s.until(master, "30 100")
	s.exitsWith(p, 8)
	// Job control: what is typed reaches the command as a signal.
	p = start("trap 'exit 9' INT && echo typing", "typing")
	_, err := master.Write([]byte{3})
	s.Must(err)
	s.exitsWith(p, 9)
}
