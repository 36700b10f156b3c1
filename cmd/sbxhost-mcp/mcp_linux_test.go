package main

import (
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sbxhost/sbxhost/cmd/internal/inforce"
	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/internal/testing/programs"
	"github.com/sbxhost/sbxhost/plugins/bwrap"
	"github.com/sbxhost/sbxhost/plugins/native"
)

var builtins host.Builtins

func TestMain(m *testing.M) {
	builtins = host.ServeBuiltin(native.New(), bwrap.New()) // where an engine was started, that is where it stays
	code := m.Run()
	programs.Remove()
	os.Exit(code)
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

func (b *bench) policy(t *testing.T) *permissions {
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

// call calls a tool, and gives its answer or the text of its error.
func call[Out any](c *client, tool string, arguments map[string]any) (out Out, refusal string) {
	c.t.Helper()
	res, err := c.CallTool(c.t.Context(), &mcp.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		return out, err.Error()
	}
	text := res.Content[0].(*mcp.TextContent).Text
	if res.StructuredContent != nil || len(res.Content) > 1 {
		c.t.Errorf("an answer twice: %+v", res)
	}
	if err := json.Unmarshal([]byte(text), &out); err != nil && !res.IsError {
		c.t.Fatal(err)
	}
	if res.IsError {
		refusal = text
	}
	return out, refusal
}

func (c *client) run(arguments map[string]any) runResult {
	c.t.Helper()
	out, refusal := call[runResult](c, "run", arguments)
	if refusal != "" {
		c.t.Fatalf("%v: %s", arguments, refusal)
	}
	return out
}

func script(text string) map[string]any { return map[string]any{"script": text} }

func await(t *testing.T, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it does not come to it")
		}
	}
}

const reviewing = `
sandbox "fast" {
  engine = "native"
  review = true
}
mcp { apply = APPLY }
`
