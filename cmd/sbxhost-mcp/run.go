package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/shared"
)

// stopGrace is a command's time from SIGTERM to SIGKILL.
const stopGrace = 5 * time.Second

// maxSeconds bounds times in arguments: a day.
const maxSeconds = 24 * 60 * 60

// job is one command of a connection.
type job struct {
	id             string
	sandbox        string
	cancel         context.CancelFunc
	stdout, stderr *capture
	done           chan struct{} // closed when the next two are final
	report         host.Report
	changes        *changes // of a command in review mode
}

func (j *job) running() bool {
	select {
	case <-j.done:
		return false
	default:
		return true
	}
}

type runArguments struct {
	Command    []string `json:"command,omitempty" jsonschema:"program and arguments, without a shell; give command or script"`
	Script     string   `json:"script,omitempty" jsonschema:"shell script, run by bash -c (sh -c if the sandbox has no bash)"`
	Directory  string   `json:"directory,omitempty" jsonschema:"working directory, in a workspace; relative to the server's own directory, which is the default"`
	Sandbox    string   `json:"sandbox,omitempty" jsonschema:"a sandbox that the server's instructions name; default: the first"`
	Timeout    *float64 `json:"timeout,omitempty" jsonschema:"seconds; the command is killed after that. No limit by default. A shorter limit of the sandbox stays in force"`
	Background bool     `json:"background,omitempty" jsonschema:"return at once, while the command runs. For servers and for anything that takes minutes. The command ends with this connection"`
	Review     string   `json:"review,omitempty" jsonschema:"write to a review of this name instead of the workspace. Commands with the same name share the review and see each other's writes. It is created if it does not exist"`
	MaxOutput  *int     `json:"max_output,omitempty" jsonschema:"bytes of stdout and of stderr to return; default 16384, at most 65536. Longer output is cut in the middle; the tool output returns the rest of the first 64 KiB and of the last MiB"`
}

// most returns how many bytes of an output an argument asks for.
func most(asked *int) (int, error) {
	switch {
	case asked == nil:
		return usualReply, nil
	case *asked < 1 || *asked > maxReply:
		return 0, fmt.Errorf("max_output: %d is no number of bytes from 1 to %d", *asked, maxReply)
	}
	return *asked, nil
}

// runResult is how a command went. Its names are those of sbxhost exec -result.
type runResult struct {
	ID      string `json:"id"` // names this command to output, stop and explain_denial
	Running bool   `json:"running"`
	Sandbox string `json:"sandbox"`
	host.End
	Stdout       excerpt       `json:"stdout"`
	Stderr       excerpt       `json:"stderr"`
	Denials      []host.Denial `json:"denials"`      // what the sandbox denied to a command that failed, or files that git left unchanged in a command that succeeded, with the change of the configuration that would allow it
	Degraded     []string      `json:"degraded"`     // what is enforced less well than the configuration asks
	Instructions []string      `json:"instructions"` // files that the command made or changed and that tools of the host take for instructions
	// Repositories are those of the report in which a git outside acts on something.
	Repositories []host.RepositoryReport `json:"repositories"` // git repositories that the command made or changed, in which a git outside of the sandbox would act on what is reported
	Changes      *changes                `json:"changes"`      // in review mode: the differences between the workspace and the review; else null
	failed       bool                    // the answer is an error
}

func (s *server) run(ctx context.Context, req *mcp.CallToolRequest, in runArguments) (*runResult, error) {
	limit, err := most(in.MaxOutput)
	if err != nil {
		return nil, err
	}
	j, err := s.start(ctx, in)
	if err != nil {
		return nil, err
	}
	if !in.Background {
		s.await(ctx, req, j)
	}
	return s.answer(j, func(c *capture) excerpt {
		if in.Background {
			return c.from(0, false, limit)
		}
		return c.ends(limit)
	}), nil
}

// start checks the arguments and starts the command.
func (s *server) start(ctx context.Context, in runArguments) (*job, error) {
	if (len(in.Command) == 0) == (in.Script == "") {
		return nil, errors.New("command, script: give one of the two")
	}
	if t := in.Timeout; t != nil && (*t <= 0 || *t > maxSeconds) {
		return nil, fmt.Errorf("timeout: %v is no number of seconds above zero and up to %d", *t, maxSeconds)
	}
	h, at, err := s.host(in.Directory, in.Sandbox)
	if err != nil {
		return nil, err
	}
	j := &job{sandbox: at.sandbox, stdout: newCapture(), stderr: newCapture(), done: make(chan struct{})}
	earlier, err := h.Reviews()
	if err != nil {
		return nil, err
	}
	life := s.life
	if !in.Background {
		life = ctx // which ends when the client cancels the request, or is gone
	}
	life, j.cancel = context.WithCancel(life)
	connected := context.AfterFunc(s.life, j.cancel)
	cmd := h.Command(life, j.sandbox, in.Command...)
	cmd.Script, cmd.Dir, cmd.Stdout, cmd.Stderr = in.Script, at.dir, j.stdout, j.stderr
	cmd.Review = in.Review
	cmd.Background = j.stdout // for processes that it leaves running, in a sandbox that keeps them
	cmd.Cancel = func() error { return cmd.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopGrace
	if in.Timeout != nil {
		cmd.Timeout = max(1, time.Duration(*in.Timeout*float64(time.Second))) // 0 is none
	}
	if err := s.add(j); err != nil {
		j.cancel()
		connected()
		return nil, err
	}
	go func() {
		defer close(j.done)
		defer j.cancel()
		defer connected()
		err := cmd.Run() // the report tells the rest
		if j.report = cmd.Report(); j.report.Outcome == "failed" && errors.Is(err, context.Canceled) {
			j.report.End = host.End{Outcome: "stopped"} // before it ran
		}
		if name := j.report.Review; !slices.ContainsFunc(earlier, func(r host.ReviewInfo) bool { return r.Name == name }) {
			made := madeOf(h, name)
			s.mu.Lock()
			s.begun[[2]string{at.root, name}] = made
			s.mu.Unlock()
		}
		for i := range j.report.Denials {
			d := &j.report.Denials[i]
			d.At = s.found.Place("", j.sandbox, d.Attribute)
			if own := s.options.Sandboxes[j.sandbox].Limits.Timeout; d.Attribute == "limits.timeout" && cmd.Timeout > 0 && (own == 0 || cmd.Timeout < own) {
				d.At = "the argument timeout"
			}
		}
		if j.report.Review != "" && j.report.Result != nil {
			j.changes = s.changesOf(context.WithoutCancel(s.life), h, j.report.Review)
		}
	}()
	return j, nil
}

// progressEvery is how often a client that asks for it hears that a command runs.
const progressEvery = 2 * time.Second

// await waits for the command's end.
func (s *server) await(ctx context.Context, req *mcp.CallToolRequest, j *job) {
	token := req.Params.GetProgressToken()
	if token == nil {
		<-j.done
		return
	}
	begun, tick := time.Now(), time.NewTicker(progressEvery)
	defer tick.Stop()
	for {
		select {
		case <-j.done:
			return
		case <-tick.C:
			out, _ := j.stdout.written()
			more, _ := j.stderr.written()
			elapsed := time.Since(begun).Round(time.Second)
			_ = req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: elapsed.Seconds(),
				Message: fmt.Sprintf("runs for %v, %d bytes of output", elapsed, out+more)})
		}
	}
}

// maxRepositories bounds the repositories in a report to an agent. Those that git enters by itself
// come first.
const maxRepositories = 10

// answer reports what is known about a command now, with the parts of its outputs that part
// returns.
func (s *server) answer(j *job, part func(*capture) excerpt) *runResult {
	out := &runResult{ID: j.id, Running: j.running(), Sandbox: j.sandbox, Denials: []host.Denial{}, Degraded: []string{}, Instructions: []string{}, Repositories: []host.RepositoryReport{}}
	if !out.Running {
		out.End, out.Denials, out.Degraded, out.Instructions, out.Changes = j.report.End, j.report.Denials, j.report.Degraded, j.report.Instructions, j.changes
		for _, made := range j.report.Repositories {
			if made.Executes() {
				out.Repositories = append(out.Repositories, made)
			}
		}
		if more := len(out.Repositories) - maxRepositories; more > 0 {
			out.Repositories = out.Repositories[:maxRepositories]
			out.Degraded = append(slices.Clip(out.Degraded), fmt.Sprintf("repositories: %d more", more))
		}
	}
	out.Stdout, out.Stderr = part(j.stdout), part(j.stderr)
	// A command that ran and failed is an answer. A command that did not run is an error.
	out.failed = out.Outcome == "failed"
	return out
}

type outputArguments struct {
	ID     string   `json:"id" jsonschema:"the id that run returned"`
	Stdout int64    `json:"stdout_offset,omitempty" jsonschema:"return stdout from this byte on; default 0. Kept are the first 64 KiB and the last MiB"`
	Stderr int64    `json:"stderr_offset,omitempty" jsonschema:"the same for stderr"`
	Wait   *float64 `json:"wait,omitempty" jsonschema:"seconds, 0 to 60: wait for new output or the command's end; default 0"`

	MaxOutput *int `json:"max_output,omitempty" jsonschema:"bytes of stdout and of stderr to return; default 16384, at most 65536"`
}

const maxWait = 60

func (s *server) output(ctx context.Context, _ *mcp.CallToolRequest, in outputArguments) (*runResult, error) {
	limit, err := most(in.MaxOutput)
	if err != nil {
		return nil, err
	}
	j, err := s.job(in.ID)
	switch {
	case err != nil:
		return nil, err
	case in.Stdout < 0 || in.Stderr < 0:
		return nil, errors.New("stdout_offset, stderr_offset: an offset is not below zero")
	case in.Wait != nil && (*in.Wait < 0 || *in.Wait > maxWait):
		return nil, fmt.Errorf("wait: %v is no number of seconds from 0 to %d", *in.Wait, maxWait)
	}
	if in.Wait != nil {
		out, moreOut := j.stdout.written()
		said, moreSaid := j.stderr.written()
		if out <= in.Stdout && said <= in.Stderr {
			select {
			case <-moreOut:
			case <-moreSaid:
			case <-j.done:
			case <-time.After(time.Duration(*in.Wait * float64(time.Second))):
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
	}
	ended := !j.running() // before the outputs are read, or their ends might be missing
	return s.answer(j, func(c *capture) excerpt {
		if c == j.stdout {
			return c.from(in.Stdout, ended, limit)
		}
		return c.from(in.Stderr, ended, limit)
	}), nil
}

type stopArguments struct {
	ID string `json:"id" jsonschema:"the id that run returned"`
}

func (s *server) stop(ctx context.Context, _ *mcp.CallToolRequest, in stopArguments) (*runResult, error) {
	j, err := s.job(in.ID)
	if err != nil {
		return nil, err
	}
	j.cancel()
	select {
	case <-j.done:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	out := s.answer(j, func(c *capture) excerpt { return c.ends(usualReply) })
	out.failed = false // the agent asked for this end
	return out, nil
}

type denialArguments struct {
	ID        string `json:"id,omitempty" jsonschema:"id of a command that has ended. Give exactly one of id, path and host"`
	Path      string `json:"path,omitempty" jsonschema:"absolute path inside the sandbox"`
	Operation string `json:"operation,omitempty" jsonschema:"with path: read, write or execute; default: read"`
	Host      string `json:"host,omitempty" jsonschema:"HOST or HOST:PORT of the network; default port: 443"`
	Sandbox   string `json:"sandbox,omitempty" jsonschema:"with path or host: the sandbox; default: the first"`
	Directory string `json:"directory,omitempty" jsonschema:"with path or host: a directory in the workspace"`
}

type denialResult struct {
	Denials []host.Denial `json:"denials"` // empty if the sandbox denies nothing
}

func (s *server) explainDenial(ctx context.Context, _ *mcp.CallToolRequest, in denialArguments) (*denialResult, error) {
	out := &denialResult{Denials: []host.Denial{}}
	if given := slices.DeleteFunc([]string{in.ID, in.Path, in.Host}, func(about string) bool { return about == "" }); len(given) != 1 {
		return nil, errors.New("id, path, host: give one of them")
	}
	if in.ID != "" {
		j, err := s.job(in.ID)
		if err == nil && j.running() {
			err = errors.New("id: the command still runs")
		}
		if err != nil {
			return nil, err
		}
		out.Denials = append(out.Denials, j.report.Denials...)
		if j.report.Outcome == "failed" { // of a command that did not run
			out.Denials = append(out.Denials, host.Denial{Operation: "use", Reason: j.report.Error, Attribute: j.report.Attribute, At: s.found.Place("", j.sandbox, j.report.Attribute), Change: j.report.Hint})
		}
		return out, nil
	}
	call, err := in.call()
	if err != nil {
		return nil, err
	}
	h, at, err := s.host(in.Directory, in.Sandbox)
	if err != nil {
		return nil, err
	}
	cmd := h.Command(ctx, at.sandbox, "true")
	cmd.Dir = at.dir
	found, err := cmd.Denied(call)
	for i := range found {
		found[i].At = s.found.Place("", at.sandbox, found[i].Attribute)
	}
	out.Denials = append(out.Denials, found...)
	return out, err
}

// call is the call of a command that would fail.
func (in *denialArguments) call() (c shared.TracedCall, err error) {
	if in.Host != "" {
		c = shared.TracedCall{Wants: "connect", Target: in.Host, Error: "ENETUNREACH"}
		host, port, err := net.SplitHostPort(in.Host)
		if err != nil { // without a port
			host, port = strings.Trim(in.Host, "[]"), "443"
			c.Target = net.JoinHostPort(host, port)
		}
		if _, err := strconv.ParseUint(port, 10, 16); err != nil || host == "" || strings.ContainsAny(host, "/ \t\n") || in.Operation != "" {
			return c, errors.New("host: give a name or an address, such as registry.npmjs.org or 192.0.2.1:443, and no operation")
		}
		return c, nil
	}
	c = shared.TracedCall{Wants: cmp.Or(in.Operation, "read"), Target: in.Path}
	c.Error = map[string]string{"read": "ENOENT", "execute": "ENOENT", "write": "EROFS"}[c.Wants]
	if c.Error == "" || !strings.HasPrefix(in.Path, "/") {
		return c, errors.New("path, operation: give an absolute path, and read, write or execute")
	}
	return c, nil
}

func valid(b []byte) string { return strings.ToValidUTF8(string(b), "\uFFFD") }

func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
