package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sbxhost/sbxhost/internal/testing/programs"
)

// program is the built server.
func program(t *testing.T) string {
	t.Helper()
	dir, err := programs.Dir("cmd/sbxhost-mcp", "cmd/sbxhost")
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "sbxhost-mcp")
}

func (b *bench) stdio(t *testing.T) *client {
	t.Helper()
	cmd := exec.Command(program(t), "-config", b.config)
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
	for _, tool := range tools.Tools { // clients fail on a list of types
		if text, err := json.Marshal(tool); err != nil || bytes.Contains(text, []byte(`"type":[`)) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if out, refusal := call[runResult](first, "run", map[string]any{"script": "seq 20000", "command": nil, "timeout": nil, "directory": nil, "background": nil, "max_output": 1000}); refusal != "" || len(out.Stdout.Text) > 1100 || !strings.HasSuffix(out.Stdout.Text, "\n20000\n") {
		t.Errorf("%+v, %s", out, refusal)
	}
	if text := first.InitializeResult().Instructions; !strings.Contains(text, "sandboxes: fast (no network).") || !strings.Contains(text, b.work) {
		t.Errorf("instructions: %q", text)
	}
	job := first.run(map[string]any{"script": "echo one; exec sleep 1000", "background": true})
	var all sync.WaitGroup
	for i, c := range []*client{first, second, first, second} {
		all.Go(func() {
			for n := range 5 {
				want := fmt.Sprintf("%d-%d\n", i, n)
				if out, refusal := call[runResult](c, "run", script("printf '%s\\n' "+strings.TrimSpace(want))); refusal != "" || out.Stdout.Text != want {
					t.Errorf("%+v, %s", out, refusal)
				}
			}
		})
	}
	all.Wait()
	if out, refusal := call[runResult](second, "stop", map[string]any{"id": job.ID}); !strings.Contains(refusal, "no command") {
		t.Errorf("%+v, %s", out, refusal)
	}
	if out, refusal := call[runResult](first, "output", map[string]any{"id": job.ID}); refusal != "" || !out.Running || out.Stdout.Text != "one\n" {
		t.Errorf("the first one's: %+v, %s", out, refusal)
	}
}

// A client that is gone is the end of standard input: a command that an answer is waited for ends, and
// the program with it.
func TestEndOfInput(t *testing.T) {
	t.Parallel()
	b := newBench(t, plain)
	cmd := exec.Command(program(t), "-config", b.config)
	var stderr bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = b.work, b.caller.Environ, io.Discard, &stderr
	stdin, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	word := fmt.Sprintf("1000.%d", os.Getpid())
	runs := func() bool {
		lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		return slices.ContainsFunc(lines, func(path string) bool {
			line, _ := os.ReadFile(path)
			return string(line) == "sleep\x00"+word+"\x00"
		})
	}
	fmt.Fprintln(stdin, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`)
	fmt.Fprintln(stdin, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	fmt.Fprint(stdin, "{no message\n\nnull\n[]\n[1]\n{}\n"+` [{"jsonrpc":"2.0","id":3,"method":"ping"}]`+"\n") // each would end the server
	fmt.Fprintf(stdin, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"run","arguments":{"command":["sleep","%s"]}}}`+"\n", word)
	await(t, runs)
	stdin.Close()
	late := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
	defer late.Stop()
	if err := cmd.Wait(); err != nil || strings.Count(stderr.String(), "one message a line") != 3 {
		t.Errorf("the program: %v, %s", err, &stderr)
	}
	await(t, func() bool { return !runs() })
}

// What a client has started ends with its connection.
func TestCommandsEndWithTheConnection(t *testing.T) {
	t.Parallel()
	b := newBench(t, plain)
	c := b.stdio(t)
	out := c.run(map[string]any{"script": "trap 'echo >ended; exit' TERM; echo ready; while :; do sleep 0.1; done", "background": true})
	if more, refusal := call[runResult](c, "output", map[string]any{"id": out.ID, "wait": 30}); refusal != "" || more.Stdout.Text != "ready\n" {
		t.Fatalf("%+v, %s", more, refusal)
	}
	c.Close()
	await(t, func() bool { _, err := os.Stat(b.work + "/ended"); return err == nil })
}

func TestProgramSaysWhyItDoesNotServe(t *testing.T) {
	t.Parallel()
	path := program(t)
	b := newBench(t, "sandbox {}")
	for _, tt := range []struct {
		args []string
		want string
	}{{[]string{"-config", b.config}, "Missing name for sandbox"}, {[]string{"-bogus"}, "Usage: sbxhost-mcp"}, {[]string{"x"}, "unexpected argument"}} {
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
	path := program(t)
	b := newBench(t, plain)
	inspect := func(method string, more ...string) (out struct {
		Tools   []struct{ Name string }
		Content []struct{ Text string }
		IsError bool
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
	if out := inspect("tools/call", "--tool-name", "run", "--tool-arg", "script=echo hi; exit 3"); len(out.Content) != 1 || !strings.Contains(out.Content[0].Text, `"exit_code":3`) || !strings.Contains(out.Content[0].Text, `"text":"hi\n"`) {
		t.Errorf("%+v", out)
	}
	if out := inspect("tools/call", "--tool-name", "run", "--tool-arg", "script=pwd", "--tool-arg", "directory=/etc"); !out.IsError {
		t.Errorf("%+v", out)
	}
}
