package enginetest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/dial"
	"github.com/sbxhost/sbxhost/plugins/noop"
	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/cmdengine"
	"github.com/sbxhost/sbxhost/shared/enginetest"
	"google.golang.org/grpc"
)

// copied puts a copier of its own between a command and the caller's files,
// which is where most engines go wrong.
type copied struct {
	stdin          func(to io.Writer, from io.Reader)
	stdout, stderr func(to io.Writer, from io.Reader)
	// waits says that the command's end is told when all is copied.
	waits bool
}

func (c copied) breakage() breakage {
	var mu sync.Mutex
	groups := map[shared.Process]*sync.WaitGroup{}
	b := breakage{start: func(ctx context.Context, s shared.Sandbox, cmd shared.Command, stdio shared.Stdio) (shared.Process, error) {
		group := &sync.WaitGroup{}
		var mine []*os.File
		out := func(f **os.File, copier func(io.Writer, io.Reader)) {
			if *f == nil || copier == nil {
				return
			}
			fd, _ := syscall.Dup(int((*f).Fd()))
			to := os.NewFile(uintptr(fd), "to")
			r, w, _ := os.Pipe()
			*f, mine = w, append(mine, w)
			group.Go(func() {
				copier(to, r)
				to.Close()
				r.Close()
			})
		}
		out(&stdio.Stdout, c.stdout)
		out(&stdio.Stderr, c.stderr)
		if stdio.Stdin != nil && c.stdin != nil {
			from := stdio.Stdin // not a descriptor of its own
			r, w, _ := os.Pipe()
			stdio.Stdin, mine = r, append(mine, r)
			group.Go(func() {
				c.stdin(w, from)
				w.Close()
			})
		}
		p, err := s.Start(ctx, cmd, stdio)
		for _, f := range mine {
			f.Close()
		}
		if err == nil {
			mu.Lock()
			groups[p] = group
			mu.Unlock()
		}
		return p, err
	}}
	if c.waits {
		b.wait = func(ctx context.Context, p shared.Process) (shared.Result, error) {
			r, err := p.Wait(ctx)
			mu.Lock()
			group := groups[p]
			mu.Unlock()
			done := make(chan struct{})
			go func() { group.Wait(); close(done) }()
			select {
			case <-done:
			case <-ctx.Done():
				return r, ctx.Err()
			}
			return r, err
		}
	}
	return b
}

func plainly(to io.Writer, from io.Reader) { io.Copy(to, from) }

// inMemory takes everything before it gives anything.
func inMemory(to io.Writer, from io.Reader) {
	all, _ := io.ReadAll(from)
	to.Write(all)
}

// mangled loses a byte.
func mangled(to io.Writer, from io.Reader) {
	io.CopyN(io.Discard, from, 1)
	io.Copy(to, from)
}

// deaf goes on when its reader has gone.
func deaf(to io.Writer, from io.Reader) {
	io.Copy(to, from)
	io.Copy(io.Discard, from)
}

// inTurn copies one stream and then the other.
func inTurn() breakage {
	first := make(chan struct{})
	return copied{
		stdout: func(to io.Writer, from io.Reader) { io.Copy(to, from); close(first) },
		stderr: func(to io.Writer, from io.Reader) { <-first; io.Copy(to, from) },
	}.breakage()
}

// forgetful gives how a command ended once.
func forgetful() breakage {
	var mu sync.Mutex
	told := map[shared.Process]int{}
	return breakage{wait: func(ctx context.Context, p shared.Process) (shared.Result, error) {
		r, err := p.Wait(ctx)
		mu.Lock()
		defer mu.Unlock()
		if err == nil {
			told[p]++
		}
		if told[p] > 4 { // as many as wait at once
			return shared.Result{}, errors.New("nobody waits for it any more")
		}
		return r, err
	}}
}

// silentWriter writes nothing.
var silentWriter *os.File

// breakages are engines that break one rule each. What follows a slash tells the
// ways to break one rule apart. clear removes what they have left.
func breakages() (ways map[string]breakage, clear func()) {
	inTmp, inVarTmp := &litter{dir: "/tmp"}, &litter{dir: "/var/tmp"}
	killing := breakage{signal: func(ctx context.Context, p shared.Process, _ syscall.Signal) error {
		return p.Signal(ctx, syscall.SIGKILL)
	}}
	wrong := errors.New("something else")
	var kept struct {
		sync.Mutex
		mounts []shared.Entry
	}
	commands, sandboxes := &counted{limit: 10}, &counted{limit: 5}
	closing := make(chan struct{})
	closed := sync.OnceFunc(func() { close(closing) })
	var starts counted
	starts.limit = 1
	return map[string]breakage{
		"open.01":      {info: func(i shared.Info) shared.Info { i.Doc = ""; return i }},
		"open.01/name": {info: func(i shared.Info) shared.Info { i.Name = "no op"; return i }},
		"open.02": {info: func(i shared.Info) shared.Info {
			i.Options.Attributes = []shared.OptionAttribute{{Name: "x", Type: "object", Doc: "x"}}
			return i
		}},
		"open.03": opened(func(s *shared.Spec) { s.Limits = shared.Limits{} }),
		"open.04": opened(func(s *shared.Spec) { *s = shared.Spec{Unconfined: s.Unconfined} }),
		"open.05": opened(func(s *shared.Spec) { s.Options = nil }),
		"open.06": opened(func(s *shared.Spec) { s.Unconfined = true }),
		"open.07": {open: func(ctx context.Context, e shared.Engine, spec shared.Spec) (shared.Sandbox, error) {
			return e.Open(context.WithoutCancel(ctx), spec)
		}},
		"open.08": {open: func(ctx context.Context, e shared.Engine, spec shared.Spec) (shared.Sandbox, error) {
			kept.Lock()
			defer kept.Unlock()
			kept.mounts = spec.Table
			return e.Open(ctx, spec)
		}, start: func(ctx context.Context, s shared.Sandbox, cmd shared.Command, stdio shared.Stdio) (shared.Process, error) {
			kept.Lock()
			defer kept.Unlock()
			for _, m := range kept.mounts {
				if _, err := os.Stat(m.Source); err != nil {
					return nil, err
				}
			}
			return s.Start(ctx, cmd, stdio)
		}},
		"open.09": {open: func(ctx context.Context, e shared.Engine, spec shared.Spec) (shared.Sandbox, error) {
			inTmp.leave()
			return e.Open(ctx, spec)
		}},
		"open.09/start": changed(func(*shared.Command, *shared.Stdio) { inVarTmp.leave() }),
		"open.09/probe": {probe: func(ctx context.Context, e shared.Engine) (shared.Probe, error) {
			inTmp.leave()
			return e.Probe(ctx)
		}},
		"end.01": ended(func(r *shared.Result) { r.Status.Code &= 0x7f }),
		"end.02": ended(func(r *shared.Result) { r.Status = shared.ExitStatus{Code: r.Status.Shell()} }),
		"end.02/core": ended(func(r *shared.Result) {
			r.Status.CoreDumped = r.Status.Signal == syscall.SIGSEGV
		}),
		"end.16": ended(func(r *shared.Result) { r.Status.CoreDumped = false }),
		"end.03": killing,
		"end.04": killing,
		"end.05": {signal: func(ctx context.Context, p shared.Process, sig syscall.Signal) error { p.Signal(ctx, sig); return nil }},
		"end.06": {wait: func(ctx context.Context, p shared.Process) (shared.Result, error) {
			if ctx.Err() != nil {
				p.Signal(context.WithoutCancel(ctx), syscall.SIGKILL)
			}
			return p.Wait(ctx)
		}},
		"end.06/twice": forgetful(),
		"end.07": {start: func(ctx context.Context, s shared.Sandbox, cmd shared.Command, stdio shared.Stdio) (shared.Process, error) {
			p, err := s.Start(ctx, cmd, stdio)
			if err == nil {
				context.AfterFunc(ctx, func() { p.Signal(context.WithoutCancel(ctx), syscall.SIGKILL) })
			}
			return p, err
		}},
		"end.08": ended(func(r *shared.Result) { r.TimedOut = false }),
		"end.09": func() breakage {
			b := copied{stdout: plainly, waits: true}.breakage()
			start := b.start
			b.start = func(ctx context.Context, s shared.Sandbox, cmd shared.Command, stdio shared.Stdio) (shared.Process, error) {
				// So that it outlives the group, which the good engine ends.
				cmd.Args = slices.Clone(cmd.Args)
				cmd.Args[2] = strings.Replace(cmd.Args[2], "sleep 1000 &", "setsid sleep 11 & sleep 0.3;", 1)
				return start(ctx, s, cmd, stdio)
			}
			return b
		}(),
		"end.10":           {events: func(shared.Process) <-chan shared.Event { return make(chan shared.Event) }},
		"end.11":           {close: func(context.Context, shared.Sandbox) error { return nil }},
		"end.11/hangs":     {close: func(context.Context, shared.Sandbox) error { select {} }},
		"end.06/hangs":     {wait: func(context.Context, shared.Process) (shared.Result, error) { select {} }},
		"open.03/hangs":    {open: func(context.Context, shared.Engine, shared.Spec) (shared.Sandbox, error) { select {} }},
		"command.01/hangs": {close: func(context.Context, shared.Sandbox) error { select {} }},
		"end.03/gently": {signal: func(ctx context.Context, p shared.Process, sig syscall.Signal) error {
			if sig == syscall.SIGKILL {
				sig = syscall.SIGTERM
			}
			return p.Signal(ctx, sig)
		}},
		"end.08/never":      changed(func(c *shared.Command, _ *shared.Stdio) { c.Timeout = 0 }),
		"end.08/patiently":  changed(func(c *shared.Command, _ *shared.Stdio) { c.Grace += time.Hour }),
		"stream.06/merged":  changed(func(_ *shared.Command, s *shared.Stdio) { s.Stderr = s.Stdout }),
		"stream.06/swapped": changed(func(_ *shared.Command, s *shared.Stdio) { s.Stdout, s.Stderr = s.Stderr, s.Stdout }),
		"end.08/twice":      changed(func(c *shared.Command, _ *shared.Stdio) { c.Timeout *= 2 }),
		"end.08/grace":      changed(func(c *shared.Command, _ *shared.Stdio) { c.Grace *= 2 }),
		"end.15":            ended(func(r *shared.Result) { r.Duration += time.Minute }),
		"end.15/short":      ended(func(r *shared.Result) { r.Duration = 1 }),
		"command.13": changed(func(c *shared.Command, _ *shared.Stdio) {
			c.Args = append([]string{"/bin/sh", "-c", `umask 0; exec "$@"`, "sh"}, c.Args...)
		}),
		"command.14": {start: func(ctx context.Context, s shared.Sandbox, cmd shared.Command, stdio shared.Stdio) (shared.Process, error) {
			p, err := s.Start(ctx, cmd, stdio)
			if err != nil {
				err = fmt.Errorf("%w: %q", err, cmd.Env)
			}
			return p, err
		}},
		"end.01/killed": ended(func(r *shared.Result) {
			if r.Status.Code == 128+int(syscall.SIGKILL) {
				r.Status = shared.ExitStatus{Signal: syscall.SIGKILL}
			}
		}),
		"end.02/real-time": ended(func(r *shared.Result) {
			if r.Status.Signal > 31 {
				r.Status = shared.ExitStatus{Code: r.Status.Shell()}
			}
		}),
		"end.16/code": ended(func(r *shared.Result) {
			if r.Status.CoreDumped {
				r.Status = shared.ExitStatus{Code: r.Status.Shell()}
			}
		}),
		"end.05/busy": busy(func(running *runningCommands) breakage {
			return breakage{signal: func(ctx context.Context, p shared.Process, sig syscall.Signal) error {
				err := p.Signal(ctx, sig)
				if running.n() > 0 {
					err = nil
				}
				return err
			}}
		}),
		"end.07/in turn": busy(func(running *runningCommands) breakage {
			return breakage{start: func(ctx context.Context, s shared.Sandbox, cmd shared.Command, stdio shared.Stdio) (shared.Process, error) {
				running.none()
				return s.Start(ctx, cmd, stdio)
			}}
		}),
		"end.11/alone": busy(func(running *runningCommands) breakage {
			return breakage{open: func(ctx context.Context, e shared.Engine, spec shared.Spec) (shared.Sandbox, error) {
				running.none()
				return e.Open(ctx, spec)
			}}
		}),
		"end.11/slowly": {close: func(ctx context.Context, s shared.Sandbox) error {
			time.AfterFunc(2*time.Second, func() { s.Close(context.WithoutCancel(ctx)) })
			return nil
		}},
		"open.01/later": func() breakage {
			var opened atomic.Bool
			return breakage{open: func(ctx context.Context, e shared.Engine, spec shared.Spec) (shared.Sandbox, error) {
				opened.Store(true)
				return e.Open(ctx, spec)
			}, info: func(i shared.Info) shared.Info {
				if opened.Load() {
					i.Features = append(slices.Clone(i.Features), shared.FeatureLimitMemory)
				}
				return i
			}}
		}(),
		"open.03/attribute": {open: func(ctx context.Context, e shared.Engine, spec shared.Spec) (shared.Sandbox, error) {
			s, err := e.Open(ctx, spec)
			if one, ok := errors.AsType[*shared.Error](err); ok {
				err = &shared.Error{Kind: one.Kind, Message: one.Message}
			}
			return s, err
		}},
		"open.04/source": opened(func(s *shared.Spec) {
			s.Table = slices.Clone(s.Table)
			for i, e := range s.Table {
				if e.Access.Shows() && e.Source == "" {
					s.Table[i].Source = e.Path
				}
			}
		}),
		"open.04/home": opened(func(s *shared.Spec) {
			s.Home, _, _ = strings.Cut(s.Home, "\x00")
			s.Session.Dir, _, _ = strings.Cut(s.Session.Dir, "\x00")
		}),
		"open.04/devices": opened(func(s *shared.Spec) { s.Devices = nil }),
		"open.05/value": {open: func(ctx context.Context, e shared.Engine, spec shared.Spec) (shared.Sandbox, error) {
			s, err := e.Open(ctx, spec)
			if err != nil {
				err = fmt.Errorf("%w: %s", err, spec.Options)
			}
			return s, err
		}},
		"open.04/slash": opened(func(s *shared.Spec) {
			s.Table = slices.Clone(s.Table)
			for i := range s.Table {
				s.Table[i].Source = strings.TrimSuffix(s.Table[i].Source, "/")
			}
		}),
		"open.04/later": opened(func(s *shared.Spec) {
			var table []shared.Entry
			for i, e := range s.Table {
				if !slices.ContainsFunc(s.Table[i+1:], func(later shared.Entry) bool { return later.Path == e.Path }) {
					table = append(table, e)
				}
			}
			s.Table = table
		}),
		"command.01/script": changed(func(c *shared.Command, _ *shared.Stdio) {
			if c.Script != "" {
				c.Env = append(slices.Clone(c.Env), "SCRIPT=1")
			}
		}),
		"command.02/newline": changed(func(c *shared.Command, _ *shared.Stdio) {
			c.Args = slices.Clone(c.Args)
			for i := range c.Args {
				c.Args[i] = strings.TrimSuffix(c.Args[i], "\n")
			}
		}),
		"command.02/many": changed(func(c *shared.Command, _ *shared.Stdio) { c.Args = c.Args[:min(len(c.Args), 500)] }),
		"command.02/long": changed(func(c *shared.Command, _ *shared.Stdio) {
			c.Args = slices.Clone(c.Args)
			for i := range c.Args {
				c.Args[i] = c.Args[i][:min(len(c.Args[i]), 64<<10)]
			}
		}),
		"command.03/second": secondly(func(first, c *shared.Command) { c.Dir = first.Dir }),
		"command.04/input": changed(func(c *shared.Command, s *shared.Stdio) {
			if c.Script != "" {
				r, w, _ := os.Pipe()
				text := c.Script
				go func() {
					io.WriteString(w, text)
					w.Close()
				}()
				c.Args, c.Script, s.Stdin = append([]string{"/bin/sh", "-s"}, c.Args...), "", r
			}
		}),
		"command.04/zero": changed(func(c *shared.Command, _ *shared.Stdio) {
			if c.Script != "" {
				c.Args, c.Script = append([]string{"/bin/sh", "-c", c.Script}, c.Args...), ""
			}
		}),
		"command.05/longer": changed(func(c *shared.Command, _ *shared.Stdio) { c.Script = c.Script[:min(len(c.Script), 1<<20)] }),
		"command.07/started": {start: func(ctx context.Context, s shared.Sandbox, cmd shared.Command, stdio shared.Stdio) (shared.Process, error) {
			p, err := s.Start(ctx, cmd, stdio)
			if errors.Is(err, shared.ErrNotFound) {
				cmd.Args = []string{"/bin/sh", "-c", "exit 127"}
				p, err = s.Start(ctx, cmd, stdio)
			}
			return p, err
		}},
		"command.19": {start: func(ctx context.Context, s shared.Sandbox, cmd shared.Command, stdio shared.Stdio) (shared.Process, error) {
			p, err := s.Start(ctx, cmd, stdio)
			if _, there := os.Stat(cmd.Args[0]); there == nil && errors.Is(err, shared.ErrNotFound) {
				err = shared.ErrNotExecutable
			}
			return p, err
		}},
		"command.07/long": {start: func(ctx context.Context, s shared.Sandbox, cmd shared.Command, stdio shared.Stdio) (shared.Process, error) {
			p, err := s.Start(ctx, cmd, stdio)
			if err != nil {
				err = fmt.Errorf("%w: %s", err, strings.Repeat("x", 1<<20))
			}
			return p, err
		}},
		"end.01/second": secondly(func(first, c *shared.Command) { c.Args = first.Args }),
		"command.10/file": {plan: func(ctx context.Context, s shared.Sandbox, cmd shared.Command) (shared.Plan, error) {
			os.WriteFile(filepath.Join(cmd.Dir, ".planned"), nil, 0o600)
			return s.Plan(ctx, cmd)
		}},
		"command.12/script": changed(func(c *shared.Command, _ *shared.Stdio) {
			if c.Script != "" {
				c.Script = "exec 9</\n" + c.Script
			}
		}),
		"command.14/plan": {plan: func(ctx context.Context, s shared.Sandbox, cmd shared.Command) (shared.Plan, error) {
			p, err := s.Plan(ctx, cmd)
			if err != nil {
				err = fmt.Errorf("%w: %q", err, cmd.Env)
			}
			return p, err
		}},
		"command.15/first": func() breakage {
			var first sync.Map
			return breakage{plan: func(ctx context.Context, s shared.Sandbox, cmd shared.Command) (shared.Plan, error) {
				p, err := s.Plan(ctx, cmd)
				if err == nil {
					argv, _ := first.LoadOrStore(s, p.Argv)
					p.Argv = argv.([]string)
				}
				return p, err
			}}
		}(),
		"misuse.01/cut": changed(func(c *shared.Command, _ *shared.Stdio) {
			c.Args = slices.Clone(c.Args)
			for i := range c.Args {
				c.Args[i], _, _ = strings.Cut(c.Args[i], "\x00")
			}
		}),
		"misuse.01/name": changed(func(c *shared.Command, _ *shared.Stdio) {
			c.Env = slices.DeleteFunc(slices.Clone(c.Env), func(v string) bool { return strings.HasPrefix(v, "=") })
		}),
		"misuse.04/kind": mistold(shared.ErrInvalidSpec, shared.ErrUnavailable),
		// What an input that is not blocking says to a command that is faster than the kit.
		"stream.01/nonblocking": changed(func(_ *shared.Command, s *shared.Stdio) {
			if s.Stdin != nil {
				s.Stdin, silentWriter, _ = os.Pipe()
				fd, _ := syscall.Dup(int(s.Stdin.Fd()))
				s.Stdin = os.NewFile(uintptr(fd), "stdin") // whose Fd does not make it blocking
				unix.SetNonblock(fd, true)
			}
		}),
		"stream.08/again": changed(func(_ *shared.Command, s *shared.Stdio) {
			if info, err := s.Stdout.Stat(); err == nil && info.Mode().IsRegular() {
				again, _ := os.OpenFile(s.Stdout.Name(), os.O_WRONLY, 0)
				if s.Stderr == s.Stdout {
					s.Stderr = again
				}
				s.Stdout = again
			}
		}),
		"stream.10/error": changed(func(_ *shared.Command, s *shared.Stdio) {
			if s.Stderr == nil {
				s.Stderr = s.Stdout
			}
		}),
		"stream.10/output": changed(func(_ *shared.Command, s *shared.Stdio) {
			if s.Stdout == nil {
				s.Stdout = s.Stderr
			}
		}),
		"stream.10/input": changed(func(_ *shared.Command, s *shared.Stdio) {
			if s.Stdin == nil {
				s.Stdin, silentWriter, _ = os.Pipe()
			}
		}),
		"end.12": mistold(shared.ErrClosed, wrong),
		"end.13": {signal: func(ctx context.Context, p shared.Process, _ syscall.Signal) error {
			return p.Signal(ctx, syscall.SIGTERM)
		}},
		"end.14":           unsent(syscall.SIGTTOU),
		"end.14/real-time": unsent(60),
		"end.14/stop":      unsent(syscall.SIGSTOP),
		"end.14/continue":  unsent(syscall.SIGCONT),

		"stream.01": changed(func(_ *shared.Command, s *shared.Stdio) { s.Stdin = nil }),
		"stream.02": copied{stdin: plainly, waits: true}.breakage(),
		"stream.03": copied{stdout: plainly, stderr: mangled}.breakage(),
		"stream.04": copied{stdin: mangled}.breakage(),
		"stream.05": copied{stdout: inMemory}.breakage(),
		"stream.06": inTurn(),
		"stream.07": copied{stdout: deaf}.breakage(),
		"stream.08": copied{stdout: inMemory, stderr: inMemory, waits: true}.breakage(),
		"stream.09": changed(func(_ *shared.Command, s *shared.Stdio) {
			if s.Stdin != nil {
				s.Stdin, _ = os.Open(s.Stdin.Name())
			}
		}),
		"stream.10": {start: func(ctx context.Context, s shared.Sandbox, cmd shared.Command, stdio shared.Stdio) (shared.Process, error) {
			if stdio.Stdin == nil {
				return nil, wrong
			}
			return s.Start(ctx, cmd, stdio)
		}},
		"stream.11": changed(func(_ *shared.Command, s *shared.Stdio) { *s = shared.Stdio{} }),
		"stream.12": copied{stdin: plainly}.breakage(),
		"stream.13": changed(func(c *shared.Command, _ *shared.Stdio) { c.TTY = false }),
		"stream.16": copied{stdin: inMemory}.breakage(),
		"stream.17": copied{stdout: func(to io.Writer, from io.Reader) { io.CopyN(to, from, 4096) }}.breakage(),

		"command.01": changed(func(c *shared.Command, _ *shared.Stdio) { c.Env = append(c.Env, "EXTRA=1") }),
		"command.02": changed(func(c *shared.Command, _ *shared.Stdio) {
			c.Args = slices.DeleteFunc(slices.Clone(c.Args), func(a string) bool { return a == "" })
		}),
		"command.03": changed(func(c *shared.Command, _ *shared.Stdio) { c.Dir = "/" }),
		"command.04": changed(func(c *shared.Command, _ *shared.Stdio) { c.Args = nil }),
		"command.05": changed(func(c *shared.Command, _ *shared.Stdio) { c.Script = c.Script[:min(len(c.Script), 128<<10)] }),
		"command.06": changed(func(c *shared.Command, _ *shared.Stdio) { c.Env = []string{"PATH=/usr/bin:/bin"} }),
		"command.07": mistold(shared.ErrNotFound, shared.ErrUnavailable),
		"command.08": mistold(shared.ErrNotExecutable, shared.ErrNotFound),
		"end.01/shell": {wait: func(ctx context.Context, p shared.Process) (shared.Result, error) {
			r, err := p.Wait(ctx)
			if r.Status.Code == 127 {
				err = shared.ErrNotFound
			}
			return r, err
		}},
		"command.10": {plan: func(ctx context.Context, s shared.Sandbox, cmd shared.Command) (shared.Plan, error) {
			if p, err := s.Start(ctx, cmd, shared.Stdio{}); err == nil {
				p.Wait(ctx)
			}
			return s.Plan(ctx, cmd)
		}},
		"command.11": liar(),
		"command.10/notes": {plan: func(ctx context.Context, s shared.Sandbox, cmd shared.Command) (shared.Plan, error) {
			p, err := s.Plan(ctx, cmd)
			p.Notes = append(p.Notes, cmd.Env...)
			return p, err
		}},
		"command.01/text": changed(func(c *shared.Command, _ *shared.Stdio) { c.Env = valid(c.Env) }),
		"command.02/text": changed(func(c *shared.Command, _ *shared.Stdio) { c.Args = valid(c.Args) }),
		"command.04/errexit": changed(func(c *shared.Command, _ *shared.Stdio) {
			if c.Script != "" {
				c.Script = "set -e\n" + c.Script
			}
		}),
		"command.04/nounset": changed(func(c *shared.Command, _ *shared.Stdio) {
			if c.Script != "" {
				c.Script = "set -u\n" + c.Script
			}
		}),
		"command.15/short": misplanned(func(p *shared.Plan) { p.Argv = p.Argv[:1] }),
		"command.15":       misplanned(func(p *shared.Plan) { p.Argv = []string{"/usr/bin/isolate", "<file>"} }),
		"command.15/word": misplanned(func(p *shared.Plan) {
			p.Argv = append(slices.Clone(p.Argv), "--isolate")
		}),
		"command.15/mount": misplanned(func(p *shared.Plan) {
			p.Mounts = append(p.Mounts, shared.PlannedMount{Op: "ro-bind", Source: "/etc", Destination: "/no/such/place"})
		}),
		"command.15/access": misplanned(func(p *shared.Plan) {
			p.Mounts = append(p.Mounts, shared.PlannedMount{Op: "ro-bind", Source: "/", Destination: "/"})
		}),
		"command.12": changed(func(c *shared.Command, _ *shared.Stdio) {
			c.Args = append([]string{"/bin/sh", "-c", `exec 9</; exec "$@"`, "sh"}, c.Args...)
		}),
		"command.12/signals": changed(func(c *shared.Command, _ *shared.Stdio) {
			c.Args = append([]string{"/bin/sh", "-c", `trap '' USR1; exec "$@"`, "sh"}, c.Args...)
		}),

		"misuse.01": {start: func(ctx context.Context, s shared.Sandbox, cmd shared.Command, stdio shared.Stdio) (shared.Process, error) {
			if cmd.Validate() != nil {
				cmd = shared.Command{Args: []string{"/bin/sh", "-c", ":"}, Dir: "/"}
			}
			return s.Start(ctx, cmd, stdio)
		}},
		"misuse.02": changed(func(c *shared.Command, _ *shared.Stdio) { c.Args = c.Args[:min(len(c.Args), 4)] }),
		"misuse.03": changed(func(c *shared.Command, _ *shared.Stdio) { c.Script = c.Script[:min(len(c.Script), 1000)] }),
		"misuse.04": changed(func(c *shared.Command, _ *shared.Stdio) {
			if _, err := os.Stat(c.Dir); err != nil {
				c.Dir = "/"
			}
		}),
		"misuse.05": changed(func(c *shared.Command, _ *shared.Stdio) { c.TTY = false }),
		"misuse.07": {signal: func(ctx context.Context, p shared.Process, sig syscall.Signal) error {
			if sig < 0 || sig > 64 {
				return nil
			}
			return p.Signal(ctx, sig)
		}},
		"misuse.07/fatal": {signal: func(ctx context.Context, p shared.Process, sig syscall.Signal) error {
			if err := p.Signal(ctx, sig); err != nil {
				return errors.Join(err, p.Signal(ctx, syscall.SIGKILL))
			}
			return nil
		}},

		"crowd.01": {start: func(ctx context.Context, s shared.Sandbox, cmd shared.Command, stdio shared.Stdio) (shared.Process, error) {
			if err := commands.more(); err != nil {
				return nil, err
			}
			return s.Start(ctx, cmd, stdio)
		}},
		"crowd.02": {open: func(ctx context.Context, e shared.Engine, spec shared.Spec) (shared.Sandbox, error) {
			if err := sandboxes.more(); err != nil {
				return nil, err
			}
			return e.Open(ctx, spec)
		}},
		"crowd.03": {start: func(ctx context.Context, s shared.Sandbox, cmd shared.Command, stdio shared.Stdio) (shared.Process, error) {
			if starts.more() != nil {
				<-closing
			}
			p, err := s.Start(ctx, cmd, stdio)
			if errors.Is(err, shared.ErrClosed) {
				err = wrong
			}
			return p, err
		}, close: func(ctx context.Context, s shared.Sandbox) error {
			defer closed()
			return s.Close(ctx)
		}},
		"crowd.04": killing,
	}, func() { inTmp.clear(); inVarTmp.clear() }
}

// secondly changes each command of a sandbox after the first.
func secondly(change func(first, c *shared.Command)) breakage {
	var firsts sync.Map
	return breakage{start: func(ctx context.Context, s shared.Sandbox, cmd shared.Command, stdio shared.Stdio) (shared.Process, error) {
		if first, later := firsts.LoadOrStore(s, &cmd); later {
			change(first.(*shared.Command), &cmd)
		}
		return s.Start(ctx, cmd, stdio)
	}}
}

// runningCommands are those whose end nobody has seen.
type runningCommands struct {
	mu    sync.Mutex
	ended sync.Cond
	list  map[shared.Process]bool
}

func (r *runningCommands) n() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.list)
}

// none waits until there is none.
func (r *runningCommands) none() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.list) > 0 {
		r.ended.Wait()
	}
}

// busy breaks an engine by what it knows of the commands that run.
func busy(broken func(*runningCommands) breakage) breakage {
	running := &runningCommands{list: map[shared.Process]bool{}}
	running.ended.L = &running.mu
	b := broken(running)
	start := b.start
	if start == nil {
		start = startPlainly
	}
	b.start = func(ctx context.Context, s shared.Sandbox, cmd shared.Command, stdio shared.Stdio) (shared.Process, error) {
		p, err := start(ctx, s, cmd, stdio)
		if err == nil {
			running.mu.Lock()
			defer running.mu.Unlock()
			running.list[p] = true
		}
		return p, err
	}
	b.wait = func(ctx context.Context, p shared.Process) (shared.Result, error) {
		r, err := p.Wait(ctx)
		if err == nil {
			running.mu.Lock()
			defer running.mu.Unlock()
			delete(running.list, p)
			running.ended.Broadcast()
		}
		return r, err
	}
	return b
}

// valid has other bytes in the place of those that are not UTF-8.
func valid(texts []string) (list []string) {
	for _, text := range texts {
		list = append(list, strings.ToValidUTF8(text, "?"))
	}
	return list
}

// liar claims to isolate, and does not.
func liar() breakage {
	b := opened(func(s *shared.Spec) {
		s.Unconfined, s.Home, s.Limits, s.Options = true, "", shared.Limits{}, nil
		s.Table = slices.DeleteFunc(slices.Clone(s.Table), func(m shared.Entry) bool { return m.Source != m.Path })
	})
	b.info = func(i shared.Info) shared.Info {
		i.Features = shared.Features{
			shared.FeatureNetworkNone, shared.FeatureNetworkHost, shared.FeatureFilesystemMinimal, shared.FeatureFilesystemHost,
			shared.FeatureNested, shared.FeatureHomePrivate, shared.FeatureTempPrivate, shared.FeatureProcessesHidden, shared.FeatureKernelFiltered, shared.FeatureMetadata,
			shared.FeatureRemap, shared.FeatureTmpfs, shared.FeatureHidden, shared.FeatureTTY, shared.FeatureLimitPIDs,
			shared.FeatureLimitMemory, shared.FeatureLimitOpenFiles, shared.FeatureLimitTempSize,
		}
		return i
	}
	return b
}

// unsent keeps one signal back.
func unsent(kept syscall.Signal) breakage {
	return breakage{signal: func(ctx context.Context, p shared.Process, sig syscall.Signal) error {
		if sig == kept {
			return nil
		}
		return p.Signal(ctx, sig)
	}}
}

// roleEnv has this program, as an engine, be a broken one.
const roleEnv = "SBXHOST_TEST_BROKEN"

// brokenInside is what TestMain serves.
func brokenInside(role string) shared.Engine {
	switch role {
	case "no pid namespace":
		return cmdengine.New(cmdengine.Config{
			Info: shared.Info{Name: "plain", Version: "1", Doc: "makes no namespace",
				Features: shared.Features{shared.FeatureFilesystemHost, shared.FeatureFilesystemMinimal, shared.FeatureNetworkNone}},
			Init: true, NoPIDNamespace: true,
			Launch: func(*shared.Spec, *shared.Command) (*exec.Cmd, error) {
				return &exec.Cmd{Path: "/usr/bin/env", Args: []string{"env", "--"}}, nil
			},
		})
	case "keeps files":
		return breakEngine(changed(func(*shared.Command, *shared.Stdio) {
			syscall.Open("/", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
		}))
	case "passes on what it inherited":
		e := breakEngine(changed(func(*shared.Command, *shared.Stdio) {
			unix.FcntlInt(3, unix.F_SETFD, 0)
		}))
		// The library sets the flag once, with the first command.
		if s, err := e.Open(context.Background(), shared.Spec{Unconfined: true}); err == nil {
			s.Start(context.Background(), shared.Command{Args: []string{"/bin/true"}, Dir: "/"}, shared.Stdio{})
		}
		return e
	case "leaves a helper": // that has nothing to do with it any more
		return breakEngine(changed(func(*shared.Command, *shared.Stdio) {
			exec.Command("/bin/sh", "-c", "setsid sleep 15 &").Run()
		}))
	case "leaves a child":
		return breakEngine(changed(func(*shared.Command, *shared.Stdio) {
			child := exec.Command("/bin/sleep", "15")
			child.Env, child.SysProcAttr = []string{}, &syscall.SysProcAttr{Setsid: true}
			child.Start()
		}))
	case "keeps children":
		return breakEngine(changed(func(*shared.Command, *shared.Stdio) {
			exec.Command("/bin/true").Start()
		}))
	case "hoards output":
		return breakEngine(copied{stdout: inMemory, stderr: inMemory}.breakage())
	case "hoards input":
		return breakEngine(changed(func(_ *shared.Command, s *shared.Stdio) {
			if from := s.Stdin; from != nil {
				r, w, _ := os.Pipe()
				s.Stdin = r
				go func(from *os.File) {
					inMemory(w, from)
					w.Close()
					from.Close()
				}(duplicate(from))
			}
		}))
	}
	return noop.New()
}

// startBroken starts this program as a broken engine.
func startBroken(self, name string) func(ctx context.Context) (*dial.Process, error) {
	cmd := exec.Command(self)
	cmd.Env = []string{roleEnv + "=" + name}
	return enginetest.Launcher(cmd)
}

// brokenProcesses are engines whose process breaks a rule.
func brokenProcesses(self string) map[string]func(ctx context.Context) (*dial.Process, error) {
	role := func(name string) func(ctx context.Context) (*dial.Process, error) { return startBroken(self, name) }
	launch := func(script string) func(ctx context.Context) (*dial.Process, error) {
		return func(ctx context.Context) (*dial.Process, error) {
			return dial.Launch(ctx, exec.Command("/bin/sh", "-c", script, self), dial.LaunchOptions{StartTimeout: time.Minute, KeepSocket: true})
		}
	}
	wrapped := func(b breakage) func(ctx context.Context) (*dial.Process, error) {
		return func(ctx context.Context) (*dial.Process, error) {
			l, err := launch(`exec "$0"`)(ctx)
			if err == nil {
				l.Engine = &brokenEngine{l.Engine, b}
			}
			return l, err
		}
	}
	careless := func(answer func(method string, err error) error) func(ctx context.Context) (*dial.Process, error) {
		return func(ctx context.Context) (*dial.Process, error) {
			l, err := launch(`exec "$0"`)(ctx)
			if err == nil {
				l.Conn = &carelessConn{l.Conn, answer}
			}
			return l, err
		}
	}
	var once sync.Mutex
	var same *dial.Process
	broken, _ := breakages()
	return map[string]func(ctx context.Context) (*dial.Process, error){
		"misuse.03": wrapped(broken["misuse.03"]),
		"misuse.06": careless(func(method string, err error) error {
			if strings.HasSuffix(method, "/Signal") {
				return nil // it knows any id
			}
			return err
		}),
		"misuse.06/close": careless(func(method string, err error) error {
			if strings.HasSuffix(method, "/Close") {
				return errors.New("there is no such sandbox")
			}
			return err
		}),
		"command.12/inherited": role("passes on what it inherited"),
		"process.06":           launch(`unset SBXHOST_TOKEN; exec "$0"`),
		"process.07/files":     role("keeps files"),
		"process.08":           role("leaves a helper"),
		"process.08/child":     role("leaves a child"),
		"process.07/children":  role("keeps children"),
		"stream.03/in memory":  role("hoards output"),
		"stream.04/in memory":  role("hoards input"),
		"process.01": wrapped(breakage{wait: func(ctx context.Context, p shared.Process) (shared.Result, error) {
			r, err := p.Wait(ctx)
			if err != nil {
				r, err = shared.Result{Status: shared.ExitStatus{Signal: syscall.SIGKILL}}, nil
			}
			return r, err
		}}),
		// The signal reaches the shell alone.
		"process.02": launch(`"$0"; exit $?`),
		"process.03": role("never hears of the host's end"),
		"process.04": func(ctx context.Context) (l *dial.Process, err error) {
			once.Lock()
			defer once.Unlock()
			if same == nil {
				same, err = launch(`exec "$0"`)(ctx)
			}
			return same, err
		},
		"process.05": wrapped(copied{stdout: func(to io.Writer, from io.Reader) {
			text, _ := io.ReadAll(from)
			to.Write(bytes.TrimPrefix(text, []byte("1|1|unix|/x|grpc\n")))
		}, waits: true}.breakage()),
	}
}

// carelessConn gives other answers than the engine.
type carelessConn struct {
	grpc.ClientConnInterface
	answer func(method string, err error) error
}

func (c *carelessConn) Invoke(ctx context.Context, method string, args, reply any, options ...grpc.CallOption) error {
	return c.answer(method, c.ClientConnInterface.Invoke(ctx, method, args, reply, options...))
}
