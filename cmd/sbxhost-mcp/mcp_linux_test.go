package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/inforce"
	"github.com/sbxhost/sbxhost/plugins/bwrap"
	"github.com/sbxhost/sbxhost/plugins/native"
)

var builtins host.Builtins

func TestMain(m *testing.M) {
	builtins = host.ServeBuiltin(native.New(), bwrap.New()) // where an engine was started, that is where it stays
	os.Exit(m.Run())
}

const plain = `
sandbox "fast" {
  engine = "native"
}
`

// bench is a workspace with a configuration beside it, and a server for it.
type bench struct {
	work, config string
	caller       *inforce.Caller
}

func newBench(t *testing.T, text string) *bench {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // the kernel leaves directories in a review that their owner cannot enter
		filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if d != nil && d.IsDir() {
				os.Chmod(path, 0o700)
			}
			return nil
		})
	})
	b := &bench{work: filepath.Join(dir, "work"), config: filepath.Join(dir, "sandbox.hcl")}
	for _, made := range []string{b.work, filepath.Join(dir, "home"), filepath.Join(dir, "other"), filepath.Join(b.work, "sub")} {
		if err := os.Mkdir(made, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(b.config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	b.caller = &inforce.Caller{Dir: b.work, Builtins: builtins, Environ: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(dir, "home"), "LC_ALL=C.UTF-8"}}
	return b
}

func (b *bench) policy(t *testing.T) *allowed {
	t.Helper()
	p, err := newPolicy(t.Context(), b.caller, b.config, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// client is one connection.
type client struct {
	*mcp.ClientSession
	t        *testing.T
	mu       sync.Mutex
	progress []string
}

func (c *client) options() *mcp.ClientOptions {
	return &mcp.ClientOptions{ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.progress = append(c.progress, r.Params.Message)
	}}
}

func (c *client) connect(transport mcp.Transport) *client {
	c.t.Helper()
	var err error
	c.ClientSession, err = mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, c.options()).Connect(c.t.Context(), transport, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { c.Close() })
	return c
}

// client connects in memory.
func (b *bench) client(t *testing.T) *client {
	t.Helper()
	s := newServer(t.Context(), b.policy(t))
	t.Cleanup(s.close)
	ours, theirs := mcp.NewInMemoryTransports()
	if _, err := s.mcp().Connect(t.Context(), ours, nil); err != nil {
		t.Fatal(err)
	}
	return (&client{t: t}).connect(theirs)
}

// call calls a tool, and gives its structured answer or the text of its error.
func call[Out any](c *client, tool string, arguments map[string]any) (out Out, refusal string) {
	c.t.Helper()
	res, err := c.CallTool(c.t.Context(), &mcp.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		return out, err.Error()
	}
	if res.StructuredContent != nil {
		text, err := json.Marshal(res.StructuredContent)
		if err == nil {
			err = json.Unmarshal(text, &out)
		}
		if err != nil {
			c.t.Fatal(err)
		}
	}
	if res.IsError {
		refusal = res.Content[0].(*mcp.TextContent).Text
	}
	return out, refusal
}

func (c *client) run(arguments map[string]any) ran {
	c.t.Helper()
	out, refusal := call[ran](c, "run", arguments)
	if refusal != "" {
		c.t.Fatalf("%v: %s", arguments, refusal)
	}
	return out
}

func script(text string) map[string]any { return map[string]any{"script": text} }

func TestRun(t *testing.T) {
	t.Parallel()
	b := newBench(t, plain)
	c := b.client(t)
	out := c.run(script(`echo out; echo err >&2; pwd; echo made >file; exit 3`))
	if out.Outcome != "exited" || *out.ExitCode != 3 || out.Stdout.Text != "out\n"+b.work+"\n" || out.Stderr.Text != "err\n" || out.Running || out.Sandbox != "fast" || out.DurationMS < 0 || out.Usage == nil {
		t.Errorf("%+v", out)
	}
	if text, err := os.ReadFile(b.work + "/file"); err != nil || string(text) != "made\n" {
		t.Errorf("what it wrote: %q, %v", text, err)
	}
	if out := c.run(map[string]any{"command": []string{"printf", "%s|", "a b", "$HOME", "*"}, "directory": "sub"}); out.Stdout.Text != "a b|$HOME|*|" {
		t.Errorf("%+v", out)
	}
	if out := c.run(map[string]any{"script": "pwd", "directory": b.work + "/sub/../sub"}); out.Stdout.Text != b.work+"/sub\n" {
		t.Errorf("%+v", out)
	}
	if out := c.run(script("kill -TERM $$")); out.Outcome != "signaled" || *out.Signal != "SIGTERM" || out.ExitCode != nil {
		t.Errorf("%+v", out)
	}
	if out := c.run(map[string]any{"script": "sleep 1000", "timeout": 0.3}); out.Outcome != "timed_out" || !out.TimedOut {
		t.Errorf("%+v", out)
	}
	out, refusal := call[ran](c, "run", map[string]any{"command": []string{"no-such-program"}})
	if refusal == "" || out.Outcome != "failed" || !strings.Contains(out.Error, "not found") {
		t.Errorf("%+v, %s", out, refusal)
	}
}

func TestDenialsComeWithTheirFix(t *testing.T) {
	t.Parallel()
	b := newBench(t, plain)
	secret := filepath.Dir(b.work) + "/other/secret"
	if err := os.WriteFile(secret, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	c := b.client(t)
	out := c.run(map[string]any{"command": []string{"cat", secret}})
	want := host.Denial{Path: secret, Attribute: "bind_paths", Change: fmt.Sprintf("add %q to bind_paths", secret), At: b.config + ":2"}
	same := func(list []host.Denial) bool {
		return len(list) == 1 && list[0].Path == want.Path && list[0].Attribute == want.Attribute && list[0].Change == want.Change && strings.HasPrefix(list[0].At, b.config+":")
	}
	if !same(out.Denials) {
		t.Errorf("%+v", out.Denials)
	}
	for _, arguments := range []map[string]any{{"id": out.ID}, {"path": secret}, {"path": secret, "operation": "execute", "directory": "sub"}} {
		if got, refusal := call[explained](c, "explain_denial", arguments); refusal != "" || !same(got.Denials) {
			t.Errorf("%v: %+v, %s", arguments, got, refusal)
		}
	}
	if got, refusal := call[explained](c, "explain_denial", map[string]any{"path": b.work + "/sub"}); refusal != "" || len(got.Denials) > 0 {
		t.Errorf("of what is shown: %+v, %s", got, refusal)
	}
	if got, refusal := call[explained](c, "explain_denial", map[string]any{"path": "/usr/bin/env", "operation": "write"}); refusal != "" || len(got.Denials) != 1 {
		t.Errorf("of what is read-only: %+v, %s", got, refusal)
	}
}

// An output is bounded in memory and in the answer, and what is left out is told.
func TestHugeOutput(t *testing.T) {
	t.Parallel()
	c := newBench(t, plain).client(t)
	out := c.run(script(`echo first; head -c 5000000 /dev/zero | tr '\0' x; echo; echo last; printf '\377\303' >&2`))
	if o := out.Stdout; o.Total != 5000012 || len(o.Text) > maxReply+100 || !strings.HasPrefix(o.Text, "first\nxx") || !strings.HasSuffix(o.Text, "x\nlast\n") || !strings.Contains(o.Cut, "bytes in the middle") {
		t.Errorf("%d bytes, %.20q..., %+v", len(o.Text), o.Text, o.Cut)
	}
	if o := out.Stderr; o.Text != "\uFFFD" || o.Total != 2 {
		t.Errorf("what is no text: %+v", o)
	}
	// All that is kept can be had, piece by piece.
	offset, lost, got := int64(0), 0, int64(0)
	for {
		more, refusal := call[ran](c, "output", map[string]any{"id": out.ID, "stdout_offset": offset, "stderr_offset": 1000000})
		if refusal != "" {
			t.Fatal(refusal)
		}
		if strings.Contains(more.Stdout.Cut, "not kept") {
			lost++
		}
		got += int64(len(more.Stdout.Text))
		if more.Stdout.Next <= offset {
			break
		}
		offset = more.Stdout.Next
	}
	if offset != 5000012 || lost != 1 || got < keptHead+keptTail || got > keptHead+2*keptTail {
		t.Errorf("to %d, %d bytes, %d gaps", offset, got, lost)
	}
}

func TestBackground(t *testing.T) {
	t.Parallel()
	b := newBench(t, plain)
	c := b.client(t)
	out := c.run(map[string]any{"script": `echo begun; while ! test -e go; do sleep 0.01; done; echo on; sleep 1000 & wait`, "background": true})
	if !out.Running || out.Outcome != "" {
		t.Errorf("%+v", out)
	}
	next := func(offset int64, want string) int64 {
		t.Helper()
		text := ""
		for text != want {
			more, refusal := call[ran](c, "output", map[string]any{"id": out.ID, "stdout_offset": offset, "wait": 30})
			if refusal != "" || !more.Running || more.Stdout.Next == offset {
				t.Fatalf("%+v, %s", more, refusal)
			}
			text, offset = text+more.Stdout.Text, more.Stdout.Next
		}
		return offset
	}
	offset := next(0, "begun\n")
	if err := os.WriteFile(b.work+"/go", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	next(offset, "on\n")
	if _, refusal := call[explained](c, "explain_denial", map[string]any{"id": out.ID}); !strings.Contains(refusal, "runs still") {
		t.Errorf("of what runs: %q", refusal)
	}
	ended, refusal := call[ran](c, "stop", map[string]any{"id": out.ID})
	if refusal != "" || ended.Running || ended.Outcome != "signaled" || *ended.Signal != "SIGTERM" || ended.Stdout.Text != "begun\non\n" {
		t.Errorf("%+v, %s", ended, refusal)
	}
	if again, refusal := call[ran](c, "stop", map[string]any{"id": out.ID}); refusal != "" || again.Outcome != "signaled" {
		t.Errorf("again: %+v, %s", again, refusal)
	}
}

// A command that ignores SIGTERM ends, too.
func TestStopKills(t *testing.T) {
	t.Parallel()
	c := newBench(t, plain).client(t)
	out := c.run(map[string]any{"script": `trap "" TERM; echo ready; while :; do sleep 0.1; done`, "background": true})
	if more, refusal := call[ran](c, "output", map[string]any{"id": out.ID, "wait": 30}); refusal != "" || more.Stdout.Text != "ready\n" {
		t.Fatalf("%+v, %s", more, refusal)
	}
	if ended, refusal := call[ran](c, "stop", map[string]any{"id": out.ID}); refusal != "" || ended.Outcome != "signaled" || *ended.Signal != "SIGKILL" {
		t.Errorf("%+v, %s", ended, refusal)
	}
}

// A request that the client cancels ends its command, and no other.
func TestCancellationAndProgress(t *testing.T) {
	t.Parallel()
	b := newBench(t, plain)
	c := b.client(t)
	ctx, cancel := context.WithCancel(t.Context())
	params := &mcp.CallToolParams{Name: "run", Arguments: script(`trap 'echo >ended; exit' TERM; echo x; echo >begun; while :; do sleep 0.1; done`)}
	params.SetProgressToken("p")
	ended := make(chan error)
	go func() {
		_, err := c.CallTool(ctx, params)
		ended <- err
	}()
	await(t, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.progress) > 0 && strings.Contains(c.progress[0], "2 bytes of output")
	})
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the client has %v", err)
	}
	await(t, func() bool { _, err := os.Stat(b.work + "/ended"); return err == nil })
	if out := c.run(script("echo on")); out.Stdout.Text != "on\n" {
		t.Errorf("then: %+v", out)
	}
}

func await(t *testing.T, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it does not come to it")
		}
	}
}

// No argument widens what the configuration gives.
func TestHostileArguments(t *testing.T) {
	t.Parallel()
	b := newBench(t, `
default_sandbox = "fast"
sandbox "fast" { engine = "native" }
sandbox "online" {
  engine  = "native"
  network = true
}
sandbox "open" { engine = "noop" }
`)
	outside := filepath.Dir(b.work) + "/other"
	for link, to := range map[string]string{"out": outside, "in": b.work + "/sub", "up": ".."} {
		if err := os.Symlink(to, b.work+"/"+link); err != nil {
			t.Fatal(err)
		}
	}
	c, other := b.client(t), b.client(t)
	theirs := other.run(map[string]any{"script": "sleep 1000", "background": true})
	for tool, cases := range map[string]map[string]map[string]any{
		"run": {
			"directory: ": {"script": "pwd", "directory": outside}, "directory:  ": {"script": "pwd", "directory": "../other"}, "directory:   ": {"script": "pwd", "directory": "out"},
			"directory:    ": {"script": "pwd", "directory": "up/other"}, "directory:     ": {"script": "pwd", "directory": "/"}, "directory:      ": {"script": "pwd", "directory": "no\x00such"}, "directory:       ": {"script": "pwd", "directory": strings.Repeat("a/", 5000)},
			"sandbox: ": {"script": "true", "sandbox": "online"}, "sandbox:  ": {"script": "true", "sandbox": "open"}, "sandbox:   ": {"script": "true", "sandbox": "none"},
			"timeout: ": {"script": "true", "timeout": -1}, "timeout:  ": {"script": "true", "timeout": 0}, "timeout:   ": {"script": "true", "timeout": 1e300},
			"command, script: ": {}, "command, script:  ": {"script": "true", "command": []string{"true"}},
			"network": {"script": "true", "network": true}, "env": {"script": "true", "env": []string{"LD_PRELOAD=x"}}, "no_sandbox": {"script": "true", "no_sandbox": true}, "config": {"script": "true", "config": "/tmp/x"},
			"invalid":   {"command": "true"},
			"not found": {"command": []string{"a\x01b"}}, "is not a string": nil,
		},
		"output":         {"id: ": {"id": theirs.ID + "0"}, "id:  ": {"id": "../c1"}, "offset": {"id": theirs.ID, "stdout_offset": -1}, "wait: ": {"id": theirs.ID, "wait": -1}},
		"stop":           {"id: ": {"id": ""}, "id:  ": {"id": theirs.ID}},
		"explain_denial": {"id, path: ": {}, "id: ": {"id": theirs.ID}, "path, operation: ": {"path": "relative"}, "path, operation:  ": {"path": "/x", "operation": "mount"}, "sandbox: ": {"path": "/x", "sandbox": "online"}},
		"review": {"action: ": {"action": "discard"}, "action:  ": {"action": "apply", "name": "x", "digest": "y"}, "name: ": {"action": "diff"}, "name:  ": {"action": "diff", "name": "nothing"},
			"directory: ": {"action": "list", "directory": outside}, "review name": {"action": "diff", "name": "../../x"}},
	} {
		for want, arguments := range cases {
			if arguments == nil {
				continue
			}
			if tool == "output" && strings.HasPrefix(want, "offset") || tool == "output" && strings.HasPrefix(want, "wait") {
				arguments["id"] = c.run(script("true")).ID
			}
			out, refusal := call[ran](c, tool, arguments)
			if refusal == "" || strings.HasSuffix(want, ": ") && !strings.Contains(refusal, strings.TrimRight(want, " ")) {
				t.Errorf("%s %.200v: %.300q, %.300v", tool, arguments, refusal, out)
			}
		}
	}
	if out := c.run(map[string]any{"script": "pwd", "directory": "in"}); out.Stdout.Text != b.work+"/sub\n" {
		t.Errorf("a link within: %+v", out)
	}
	if still, refusal := call[ran](other, "output", map[string]any{"id": theirs.ID}); refusal != "" || !still.Running {
		t.Errorf("the other's: %+v, %s", still, refusal)
	}
}

// What was approved, and what a definition falls back to, runs nothing without isolation.
func TestNothingRunsWithoutIsolation(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"noop by default": `sandbox "open" { engine = "noop" }`,
		"a fallback": `
approvals { mode = "always" }
engine "mine" { source = "/nonexistent/sbxhost-engine-mine" }
sandbox "mine" {
  engine   = "mine"
  fallback = "approve"
}`,
	} {
		b := newBench(t, text)
		p, err := newPolicy(t.Context(), b.caller, b.config, os.Stderr)
		if err != nil {
			continue // refused at once
		}
		s := newServer(t.Context(), p)
		j, err := s.start(t.Context(), runArguments{Script: "echo >" + b.work + "/ran"})
		if err == nil {
			<-j.done
			err = errors.New(j.report.Error)
			if j.report.Result != nil || j.report.Decision == "unsandboxed" {
				t.Errorf("%s: %+v", name, j.report)
			}
		}
		if _, there := os.Stat(b.work + "/ran"); there == nil || err == nil {
			t.Errorf("%s: it ran, %v", name, err)
		}
		s.close()
	}
}

func TestPolicy(t *testing.T) {
	t.Parallel()
	const two = `
sandbox "a" { engine = "native" }
sandbox "b" { engine = "native" }
`
	for name, tt := range map[string]struct{ text, refusal string }{
		"none is the default": {two, "no default_sandbox"},
		"a list":              {two + `mcp { sandboxes = ["b", "a"] }`, ""},
		"no directory":        {two + `mcp { sandboxes = ["b"], directories = ["nowhere"] }`, "configuration has errors"},
		"nowhere":             {two + "mcp {\n sandboxes = [\"b\"]\n directories = [\"nowhere\"]\n}", "mcp.directories"},
	} {
		b := newBench(t, tt.text)
		p, err := newPolicy(t.Context(), b.caller, b.config, os.Stderr)
		var told bytes.Buffer
		if err != nil {
			tell(&told, err)
		}
		if (err != nil) != (tt.refusal != "") || !strings.Contains(told.String(), tt.refusal) {
			t.Errorf("%s: %s", name, &told)
		} else if err == nil && (p.sandboxes[0] != "b" || p.dir != b.work) {
			t.Errorf("%s: %+v", name, p)
		}
	}
	b := newBench(t, two+"default_sandbox = \"a\"\nmcp {\n sandboxes = [\"b\", \"a\"]\n directories = [\"other\", \"work/sub\"]\n}\n")
	c := b.client(t)
	if out := c.run(script("pwd")); out.Sandbox != "a" || out.Stdout.Text != filepath.Dir(b.work)+"/other\n" {
		t.Errorf("%+v", out)
	}
	// A directory is a workspace of its own: nothing around it is shown.
	if out := c.run(map[string]any{"script": "echo x >y; ls ..; ls " + b.work, "sandbox": "b", "directory": b.work + "/sub"}); strings.Contains(out.Stdout.Text, "go") || out.Sandbox != "b" {
		t.Errorf("%+v", out)
	}
	if _, err := os.Stat(b.work + "/sub/y"); err != nil {
		t.Error(err)
	}
	if _, refusal := call[ran](c, "run", map[string]any{"script": "pwd", "directory": b.work}); !strings.Contains(refusal, "directory: ") {
		t.Errorf("around a workspace: %q", refusal)
	}
}

// A configuration that lies in the workspace counts once its user has trusted it.
func TestFoundConfigurationMustBeTrusted(t *testing.T) {
	t.Parallel()
	b := newBench(t, plain)
	if err := os.WriteFile(b.work+"/config.hcl", []byte(plain), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := newPolicy(t.Context(), b.caller, "", os.Stderr)
	if err == nil || !strings.Contains(err.Error(), "you have not trusted it") {
		t.Fatal(err)
	}
	store, err := b.caller.Store()
	if err == nil {
		err = store.AddTrust(t.Context(), b.work+"/config.hcl", []byte(plain))
	}
	if err == nil {
		_, err = newPolicy(t.Context(), b.caller, "", os.Stderr)
	}
	if err != nil {
		t.Error(err)
	}
}

const reviewing = `
sandbox "fast" {
  engine = "native"
  review = true
}
mcp { apply = APPLY }
`

func TestReview(t *testing.T) {
	t.Parallel()
	b := newBench(t, strings.ReplaceAll(reviewing, "APPLY", "true"))
	if err := os.WriteFile(b.work+"/old", []byte("1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	c := b.client(t)
	out := c.run(script("echo 2 >old; echo new >new"))
	if out.Changes == nil || out.Changes.Error != "" || !slices.Equal(out.Changes.Lines, []string{"added    new", "modified old"}) {
		t.Fatalf("%+v, %+v", out, out.Changes)
	}
	name := out.Changes.Review
	if got, refusal := call[reviewed](c, "review", map[string]any{"action": "list"}); refusal != "" || len(got.Reviews) != 1 || got.Reviews[0].Name != name {
		t.Errorf("%+v, %s", got, refusal)
	}
	diff, refusal := call[reviewed](c, "review", map[string]any{"action": "diff", "name": name})
	if refusal != "" || !strings.Contains(diff.Diff.Text, "\n-1\n+2\n") || !strings.Contains(diff.Diff.Text, "\n+new\n") || diff.Changes.Digest != out.Changes.Digest {
		t.Errorf("%+v, %s", diff, refusal)
	}
	for _, wrong := range []string{"", "sha256:0", diff.Changes.Digest + "0"} {
		if _, refusal := call[reviewed](c, "review", map[string]any{"action": "apply", "name": name, "digest": wrong}); refusal == "" {
			t.Errorf("digest %q applies", wrong)
		}
	}
	if text, _ := os.ReadFile(b.work + "/old"); string(text) != "1\n" {
		t.Errorf("before it is applied: %q", text)
	}
	done, refusal := call[reviewed](c, "review", map[string]any{"action": "apply", "name": name, "digest": diff.Changes.Digest})
	if text, _ := os.ReadFile(b.work + "/old"); refusal != "" || string(text) != "2\n" || len(done.Changes.Lines) != 2 {
		t.Errorf("%+v, %s, %q", done, refusal, text)
	}
}

func TestReviewIsAppliedByTheUser(t *testing.T) {
	t.Parallel()
	b := newBench(t, strings.ReplaceAll(reviewing, "APPLY", "false"))
	c := b.client(t)
	out := c.run(script("echo new >new"))
	if _, refusal := call[reviewed](c, "review", map[string]any{"action": "apply", "name": out.Changes.Review, "digest": out.Changes.Digest}); !strings.Contains(refusal, "does not let agents apply") {
		t.Errorf("%q", refusal)
	}
}

// program is the built server: that of SBXHOST_TEST_BIN, or one that is built now.
var program = sync.OnceValues(func() (string, error) {
	if dir := os.Getenv("SBXHOST_TEST_BIN"); dir != "" {
		return filepath.Join(dir, "sbxhost-mcp"), nil
	}
	dir, err := os.MkdirTemp("", "sbxhost-mcp-*")
	if err != nil {
		return "", err
	}
	build := exec.Command("go", "build", "-tags", "grpcnotrace", "-o", dir+"/", ".", "../sbxhost")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, text)
	}
	return dir + "/sbxhost-mcp", nil
})

func (b *bench) stdio(t *testing.T) *client {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "-config", b.config)
	cmd.Dir, cmd.Env = b.work, b.caller.Environ
	return (&client{t: t}).connect(&mcp.CommandTransport{Command: cmd})
}

// Two clients have a server each over the same workspace, and neither the other's commands.
func TestTwoClientsOverStdio(t *testing.T) {
	t.Parallel()
	b := newBench(t, plain)
	first, second := b.stdio(t), b.stdio(t)
	tools, err := first.ListTools(t.Context(), nil)
	if err != nil || len(tools.Tools) != 5 {
		t.Fatalf("%+v, %v", tools, err)
	}
	if text := first.InitializeResult().Instructions; !strings.Contains(text, "Sandboxes: fast;") || !strings.Contains(text, b.work) {
		t.Errorf("instructions: %q", text)
	}
	job := first.run(map[string]any{"script": "echo one; exec sleep 1000", "background": true})
	var all sync.WaitGroup
	for i, c := range []*client{first, second, first, second} {
		all.Go(func() {
			for n := range 5 {
				want := fmt.Sprintf("%d-%d\n", i, n)
				if out, refusal := call[ran](c, "run", script("printf '%s\\n' "+strings.TrimSpace(want))); refusal != "" || out.Stdout.Text != want {
					t.Errorf("%+v, %s", out, refusal)
				}
			}
		})
	}
	all.Wait()
	if out, refusal := call[ran](second, "stop", map[string]any{"id": job.ID}); !strings.Contains(refusal, "no command") {
		t.Errorf("%+v, %s", out, refusal)
	}
	if out, refusal := call[ran](first, "output", map[string]any{"id": job.ID}); refusal != "" || !out.Running || out.Stdout.Text != "one\n" {
		t.Errorf("the first one's: %+v, %s", out, refusal)
	}
}

// Where a sandbox keeps processes, the next command reaches what one has left running, whose
// output is still to be had.
func TestKeptProcesses(t *testing.T) {
	t.Parallel()
	b := newBench(t, `
sandbox "dev" {
  engine = "native"
  session {
    processes = true
  }
}
`)
	c := b.client(t)
	out := c.run(script("mkfifo /tmp/f; (read line </tmp/f; echo got $line) & echo started"))
	if out.Stdout.Text != "started\n" || out.Running {
		t.Fatalf("%+v", out)
	}
	c.run(script("echo hello >/tmp/f"))
	await(t, func() bool {
		more, refusal := call[ran](c, "output", map[string]any{"id": out.ID, "stdout_offset": out.Stdout.Next})
		return refusal == "" && more.Stdout.Text == "got hello\n"
	})
}

// What a client has started ends with its connection.
func TestCommandsEndWithTheConnection(t *testing.T) {
	t.Parallel()
	b := newBench(t, plain)
	c := b.stdio(t)
	out := c.run(map[string]any{"script": "trap 'echo >ended; exit' TERM; echo ready; while :; do sleep 0.1; done", "background": true})
	if more, refusal := call[ran](c, "output", map[string]any{"id": out.ID, "wait": 30}); refusal != "" || more.Stdout.Text != "ready\n" {
		t.Fatalf("%+v, %s", more, refusal)
	}
	c.Close()
	await(t, func() bool { _, err := os.Stat(b.work + "/ended"); return err == nil })
}

func TestProgramSaysWhyItDoesNotServe(t *testing.T) {
	t.Parallel()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t, "sandbox {}")
	for _, tt := range []struct {
		args []string
		want string
	}{{[]string{"-config", b.config}, "One name needed"}, {[]string{"-bogus"}, "Usage: sbxhost-mcp"}, {[]string{"x"}, "unexpected argument"}} {
		cmd := exec.Command(path, tt.args...)
		cmd.Dir, cmd.Env = b.work, b.caller.Environ
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), tt.want) {
			t.Errorf("%q: %v, %s", tt.args, err, out)
		}
	}
}

// The Inspector is the protocol's own client for those who try servers.
func TestInspector(t *testing.T) {
	t.Parallel()
	inspector, err := exec.LookPath("mcp-inspector")
	if err != nil {
		if slices.Contains(strings.Split(os.Getenv("SBXHOST_REQUIRE"), ","), "mcp-inspector") {
			t.Fatal(err)
		}
		t.Skip("npm install -g @modelcontextprotocol/inspector: ", err)
	}
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t, plain)
	inspect := func(method string, more ...string) (out struct {
		Tools             []struct{ Name string }
		StructuredContent ran
		IsError           bool
	}) {
		t.Helper()
		cmd := exec.Command(inspector, append([]string{"--cli", path, "-config", b.config, "--method", method}, more...)...)
		cmd.Dir, cmd.Env = b.work, b.caller.Environ
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		text, err := cmd.Output()
		if err == nil {
			err = json.Unmarshal(text, &out)
		}
		if err != nil {
			t.Fatalf("%s: %v: %s%s", method, err, text, &stderr)
		}
		return out
	}
	if out := inspect("tools/list"); len(out.Tools) != 5 {
		t.Errorf("%+v", out)
	}
	if out := inspect("tools/call", "--tool-name", "run", "--tool-arg", "script=echo hi; exit 3"); out.StructuredContent.Stdout.Text != "hi\n" || out.StructuredContent.ExitCode == nil || *out.StructuredContent.ExitCode != 3 {
		t.Errorf("%+v", out)
	}
	if out := inspect("tools/call", "--tool-name", "run", "--tool-arg", "script=pwd", "--tool-arg", "directory=/etc"); !out.IsError {
		t.Errorf("%+v", out)
	}
}
