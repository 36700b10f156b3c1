package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sbxhost/sbxhost/host"
)

// server has the state of one connection: hosts, and the commands that they ran.
type server struct {
	*permissions
	life context.Context // of background commands
	end  context.CancelFunc

	mu    sync.Mutex
	hosts map[string]*host.Host   // by workspace
	begun map[[2]string]time.Time // when reviews were, by workspace and name
	jobs  map[string]*job
	order []string // of jobs, the oldest first
}

func newServer(ctx context.Context, p *permissions) *server {
	s := &server{permissions: p, hosts: map[string]*host.Host{}, begun: map[[2]string]time.Time{}, jobs: map[string]*job{}}
	s.life, s.end = context.WithCancel(ctx)
	return s
}

// close ends everything that the connection has started.
func (s *server) close() {
	s.end()
	s.mu.Lock()
	jobs, hosts := s.jobs, s.hosts
	s.hosts = nil
	s.mu.Unlock()
	for _, j := range jobs {
		<-j.done
	}
	for _, h := range hosts {
		h.Close()
	}
}

func (s *server) mcp() *mcp.Server {
	m := mcp.NewServer(&mcp.Implementation{Name: "sbxhost", Version: version()}, &mcp.ServerOptions{Instructions: s.instructions()})
	m.AddReceivingMiddleware(withoutNull)
	no := new(false)
	addTool(m, "run", "Run a command or a shell script in a sandbox, and return its exit status, its output and an id. The tools output, stop and explain_denial take this id. The command has no terminal and no standard input. Set timeout for a command that may hang: there is no time limit by default. Set background for a command that takes minutes: run returns at once, and output returns the rest. When a command ends, its background processes end with it, and other commands cannot connect to its ports. If other commands need to reach a server, start it with background in a sandbox that keeps processes (the instructions name it), and run those commands in the same sandbox.",
		mcp.ToolAnnotations{Title: "Run a command in a sandbox", DestructiveHint: new(true), OpenWorldHint: new(true)}, s.run)
	addTool(m, "output", "Return what a command has written from the given offsets on, in one piece, and how it ended, if it has ended. With wait, first wait until it has written more than that, or has ended: pass the values next of the last answer as offsets.",
		mcp.ToolAnnotations{Title: "Output of a command", ReadOnlyHint: true, OpenWorldHint: no}, s.output)
	addTool(m, "stop", "End a command that still runs, and everything that it started: SIGTERM, then SIGKILL after five seconds. Return when it has ended.",
		mcp.ToolAnnotations{Title: "End a command", DestructiveHint: new(true), IdempotentHint: true, OpenWorldHint: no}, s.stop)
	addTool(m, "explain_denial", "Explain why a sandbox denies something, and which change of the configuration would allow it: for a command that failed (id), for a path, or for a host of the network. An empty list means that the sandbox does not deny it, or that nothing on this machine listens on that port of its loopback. Only the user can make that change.",
		mcp.ToolAnnotations{Title: "Why something is denied", ReadOnlyHint: true, OpenWorldHint: no}, s.explainDenial)
	addTool(m, "review", "A review holds what commands wrote (run with review) and what is not yet in the workspace. list the reviews, show the diff and the digest of one, apply it with that digest, or discard one that you created.",
		mcp.ToolAnnotations{Title: "Review what commands wrote", DestructiveHint: new(s.apply), OpenWorldHint: no}, s.review)
	return m
}

// addTool is [mcp.AddTool] for a tool that answers once, in JSON as text. Structured content would
// be sent in addition, and also as text because many clients show only that, and an agent would pay
// for both.
func addTool[In, Out any](m *mcp.Server, name, description string, annotations mcp.ToolAnnotations, run func(context.Context, *mcp.CallToolRequest, In) (*Out, error)) {
	t := &mcp.Tool{Name: name, Description: description, Annotations: &annotations, InputSchema: schema[In]()}
	mcp.AddTool(m, t, func(ctx context.Context, req *mcp.CallToolRequest, in In) (*mcp.CallToolResult, any, error) {
		out, err := run(ctx, req, in)
		if err != nil {
			return nil, nil, err
		}
		var text strings.Builder
		to := json.NewEncoder(&text)
		to.SetEscapeHTML(false)
		if err := to.Encode(out); err != nil {
			return nil, nil, err
		}
		ran, ok := any(out).(*runResult)
		return &mcp.CallToolResult{IsError: ok && ran.failed, Content: []mcp.Content{&mcp.TextContent{Text: text.String()}}}, nil, nil
	})
}

// schema returns the schema of arguments. Each type in it is one word, because clients fail on
// lists of types. See withoutNull.
func schema[T any]() *jsonschema.Schema {
	s, err := jsonschema.For[T](nil)
	if err != nil {
		panic(err) // as mcp.AddTool does
	}
	for _, p := range s.Properties {
		if len(p.Types) == 2 && p.Types[0] == "null" {
			p.Type, p.Types = p.Types[1], nil
		}
	}
	return s
}

// withoutNull treats a null argument like a missing one.
func withoutNull(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if p, ok := req.GetParams().(*mcp.CallToolParamsRaw); ok {
			var arguments map[string]json.RawMessage
			if json.Unmarshal(p.Arguments, &arguments) == nil {
				maps.DeleteFunc(arguments, func(_ string, value json.RawMessage) bool { return string(value) == "null" })
				p.Arguments, _ = json.Marshal(arguments)
			}
		}
		return next(ctx, method, req)
	}
}

func (s *server) instructions() string {
	var b strings.Builder
	var sandboxes []string
	for _, name := range s.sandboxes {
		sandboxes = append(sandboxes, name+s.traits(name))
	}
	fmt.Fprintf(&b, "The user has defined these sandboxes: %s. The first one is the default.\n", strings.Join(sandboxes, ", "))
	fmt.Fprintf(&b, "Workspaces: %s. Commands run in %s, unless you set directory.\n", strings.Join(s.roots, ", "), s.dir)
	b.WriteString("If the sandbox denied something, the result says what (denials), and which change of the configuration would allow it. Ask the user to make this change: you cannot, and there is no way around it.\n")
	if !s.apply {
		b.WriteString("Only the user can apply reviews.\n")
	}
	return b.String()
}

// maxNames is how many names of a network the instructions list: an agent reads them before it runs anything.
const maxNames = 8

// traits describes a sandbox, in parentheses, so that an agent can choose one.
func (s *server) traits(sandbox string) string {
	def := s.options.Sandboxes[sandbox]
	var list []string
	add := func(trait string) { list = append(list, trait) }
	switch {
	case def.Network.Host:
		add("network")
	case len(def.Network.Names) > maxNames:
		add(fmt.Sprintf("network: only %s and %d more", strings.Join(def.Network.Names[:maxNames], ", "), len(def.Network.Names)-maxNames))
	case len(def.Network.Names) > 0:
		add("network: only " + strings.Join(def.Network.Names, ", "))
	default:
		add("no network")
	}
	if def.Session.Processes {
		add("keeps processes")
	}
	if def.Review != "" {
		add("writes to a review")
	}
	if def.ReadOnly {
		add("read-only")
	}
	if limit := def.Limits.Timeout; limit > 0 {
		add("time limit " + limit.String())
	}
	return " (" + strings.Join(list, "; ") + ")"
}

// host returns the host of the workspace in which a command runs, and its place.
func (s *server) host(directory, sandbox string) (h *host.Host, at place, err error) {
	if at, err = s.place(directory, sandbox); err == nil {
		err = s.unchanged()
	}
	if err != nil {
		return nil, at, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if h = s.hosts[at.root]; h != nil {
		return h, at, nil
	}
	if s.hosts == nil {
		return nil, at, errEnded
	}
	o := s.options
	o.Workspace.Root, o.Dir = at.root, at.root
	for _, other := range s.roots {
		if other != at.root {
			o.OtherBinds = append(slices.Clip(o.OtherBinds), host.Bind{Host: other, Writable: true})
		}
	}
	if h, err = host.New(s.life, o); err != nil {
		return nil, at, err
	}
	if h.Root() != at.root { // a command of a workspace around it put a symlink there
		h.Close()
		return nil, at, fmt.Errorf("directory: %q has become a symlink", at.root)
	}
	s.hosts[at.root] = h
	return h, at, nil
}

var errEnded = errors.New("the connection has ended")

// Bounds of a connection's commands: how many run at once, and of how many the output and the
// result are kept.
const (
	maxRunning  = 32
	maxCommands = 100
)

// add adds a command, and forgets the oldest one that has ended.
func (s *server) add(j *job) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	running := 0
	for _, other := range s.jobs {
		if other.running() {
			running++
		}
	}
	switch {
	case s.hosts == nil: // close waits for the commands that there were
		return errEnded
	case running >= maxRunning:
		return fmt.Errorf("%d commands run already: stop some, or wait for them", running)
	}
	s.order = slices.DeleteFunc(s.order, func(id string) bool {
		old := len(s.jobs) >= maxCommands && !s.jobs[id].running()
		if old {
			delete(s.jobs, id)
		}
		return old
	})
	// A counter would not do: an agent with two servers would confuse their commands.
	j.id = "c" + strings.ToLower(rand.Text()[:8])
	s.jobs[j.id] = j
	s.order = append(s.order, j.id)
	return nil
}

func (s *server) job(id string) (*job, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if j := s.jobs[id]; j != nil {
		return j, nil
	}
	return nil, fmt.Errorf("id: there is no command %q of this connection", id)
}
