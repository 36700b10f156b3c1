package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

const (
	// burst is how many commands follow one another in a turn: nothing lies between them.
	burst = 10
	// agents work at the same time, each in a worktree of its own.
	agents = 5
	// ofAnAgent is how many commands an agent runs, one after another.
	ofAnAgent = 200
	// pause is longer than the server keeps the stubs of missing paths after a command.
	pause = 300 * time.Millisecond
)

// measureServed compares commands through the server of sbx, with the configuration that
// `sbxhost init` writes, in a git repository, with a plain line of bubblewrap and with the floor of a
// server: as they are, with what differs from call to call, and with pauses.
func measureServed(ctx context.Context, s *scene, o options, r *report) {
	// Not below /tmp, where sbx starts no server.
	runtime, err := os.MkdirTemp(cmp.Or(os.Getenv("XDG_RUNTIME_DIR"), "/run"), "sbxhost-bench-")
	check(err)
	defer os.RemoveAll(runtime)
	v := served{scene: s, ctx: ctx, env: append(environ(s.dir), "XDG_RUNTIME_DIR="+runtime, "SBX_SERVE=on")}
	v.sbx = filepath.Join(s.bin, "sbx")
	trees := v.makeTrees()
	defer func() { check(s.run(v.command(trees[0], s.lean, "serve", "-stop"))) }()
	repository := trees[0]
	floor, stopFloor := v.startFloor(repository)
	defer stopFloor()
	plainIn := func(dir string, _ int) *exec.Cmd { return v.command(dir, plain[0], plain[1:]...) }
	sbxIn := func(dir string, _ int) *exec.Cmd { return v.command(dir, v.sbx, "--", "/bin/true") }
	row := func(name string, call func(dir string, i int) *exec.Cmd) contender {
		calls := 0
		return inARow(name, burst, func(int) error {
			calls++
			return s.run(call(repository, calls))
		})
	}
	directories := [...]string{".", "a", "a/b", "c", "d", "e"}
	audited := v.writeAudited(repository)
	group := []contender{
		row(namePlain, plainIn),
		row("the floor of a server", func(dir string, _ int) *exec.Cmd { return v.command(dir, floor[0], floor[1:]...) }),
		row("sbx", sbxIn),
		row("sbx, a variable differs", func(dir string, i int) *exec.Cmd {
			cmd := sbxIn(dir, i)
			cmd.Env = append(cmd.Env, fmt.Sprint("STEP_ID=", i))
			return cmd
		}),
		row("sbx, six directories", func(dir string, i int) *exec.Cmd {
			return sbxIn(filepath.Join(dir, directories[i%len(directories)]), i)
		}),
		row("sbx, the time limit differs", func(dir string, i int) *exec.Cmd {
			return v.command(dir, v.sbx, "-timeout", fmt.Sprint(100+i, "s"), "--", "/bin/true")
		}),
		row("sbx, an audit log", func(dir string, _ int) *exec.Cmd {
			return v.command(dir, v.sbx, "-config", audited, "--", "/bin/true")
		}),
	}
	r.compare(ctx, fmt.Sprintf("The server of sbx, %d commands back to back", burst), group, min(o.rounds, 40))
	for _, c := range group[2:] {
		r.near(c.name, namePlain, 1.5)
	}
	paused := func(name string, call func(string, int) *exec.Cmd) contender {
		c := inARow(name, 1, func(i int) error { return s.run(call(repository, i)) })
		c.settle = pause
		return c
	}
	const plainPaused, sbxPaused = "plain bwrap, after a pause", "sbx, after a pause"
	r.compare(ctx, fmt.Sprintf("Commands with pauses of %v", pause), []contender{paused(plainPaused, plainIn), paused(sbxPaused, sbxIn)}, min(o.rounds, 40))
	r.near(sbxPaused, plainPaused, 1.5)
	together := func(name string, call func(dir string, i int) *exec.Cmd) contender {
		return contender{name: name, run: func() error {
			errs := make([]error, agents)
			var all sync.WaitGroup
			for i, dir := range trees {
				all.Go(func() { errs[i] = inARow(name, burst, func(k int) error { return s.run(call(dir, k)) }).run() })
			}
			all.Wait()
			return errors.Join(errs...)
		}}
	}
	const plainTogether, sbxTogether = "plain bwrap, five at once", "sbx, five at once"
	r.compare(ctx, fmt.Sprintf("Five agents in five worktrees, %d commands each", burst), []contender{
		together(plainTogether, plainIn), together(sbxTogether, sbxIn),
	}, min(o.rounds, 20))
	r.near(sbxTogether, plainTogether, 1.5)
	v.measureAgent(repository, o, r, plainIn, sbxIn)
}

// inARow runs commands one after another.
func inARow(name string, commands int, one func(i int) error) contender {
	return contender{name: name, run: func() error {
		for i := range commands {
			if err := one(i); err != nil {
				return err
			}
		}
		return nil
	}}
}

// measureAgent compares the loop of one agent: as a shell runs it, and by the Model Context Protocol.
func (v *served) measureAgent(dir string, o options, r *report, plainIn, sbxIn func(string, int) *exec.Cmd) {
	agent := v.startMCP(dir)
	defer func() { check(agent.close()) }()
	commands := min(ofAnAgent, o.rounds)
	const plainLoop, sbxLoop, mcpLoop = "plain bwrap, a loop", "sbx, a loop", "sbxhost-mcp, a loop"
	r.compare(v.ctx, fmt.Sprintf("An agent's loop of %d commands", commands), []contender{
		inARow(plainLoop, commands, func(i int) error { return v.run(plainIn(dir, i)) }),
		inARow(sbxLoop, commands, func(i int) error { return v.run(sbxIn(dir, i)) }),
		inARow(mcpLoop, commands, func(int) error {
			return agent.call("tools/call", map[string]any{"name": "run", "arguments": map[string]any{"command": []string{"/bin/true"}}})
		}),
	}, min(o.rounds, 3))
	for _, name := range []string{sbxLoop, mcpLoop} {
		r.near(name, plainLoop, 1.25)
	}
}

// served runs what measureServed compares.
type served struct {
	*scene
	ctx context.Context
	env []string
	sbx string
}

func (v *served) command(dir, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(v.ctx, name, args...)
	cmd.Dir, cmd.Env = dir, v.env
	return cmd
}

// makeTrees makes a repository and worktrees of it, each with the configuration of `sbxhost init`.
func (v *served) makeTrees() (trees []string) {
	top := filepath.Join(v.dir, "served")
	const commit = `git init -q . && mkdir -p a/b c d e && for d in a a/b c d e; do echo text >$d/file; done && git add -A &&
git -c user.name=bench -c user.email=bench@example.com commit -qm one`
	check(os.Mkdir(top, 0o755))
	check(v.run(v.command(top, "sh", "-ec", commit)))
	for i := range agents {
		tree := top
		if i > 0 {
			tree = fmt.Sprint(top, i)
			check(v.run(v.command(top, "git", "worktree", "add", "-q", tree)))
		}
		trees = append(trees, tree)
		check(v.run(v.command(tree, v.lean, "init"))) // which also trusts what it writes
	}
	return trees
}

// writeAudited writes that configuration with an audit log, which is not in the repository.
func (v *served) writeAudited(repository string) (config string) {
	text, err := os.ReadFile(filepath.Join(repository, "config.hcl"))
	check(err)
	config = filepath.Join(v.dir, "audited.hcl")
	text = fmt.Appendf(text, "\naudit {\n  path = %q\n}\n", filepath.Join(v.dir, "audit.log"))
	check(os.WriteFile(config, text, 0o600))
	return config
}

// mcpClient is an agent's end of a connection with sbxhost-mcp.
type mcpClient struct {
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	answers *json.Decoder
	calls   int
}

func (v *served) startMCP(dir string) *mcpClient {
	c := &mcpClient{cmd: v.command(dir, filepath.Join(v.bin, "sbxhost-mcp"))}
	c.cmd.Stderr = v.stderr
	stdin, inErr := c.cmd.StdinPipe()
	stdout, outErr := c.cmd.StdoutPipe()
	check(errors.Join(inErr, outErr, c.cmd.Start()))
	c.stdin, c.answers = stdin, json.NewDecoder(stdout)
	err := c.call("initialize", map[string]any{"protocolVersion": "2025-06-18", "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "bench", "version": "1"}})
	if err == nil {
		err = json.NewEncoder(c.stdin).Encode(map[string]any{"jsonrpc": "2.0", "method": "notifications/initialized"})
	}
	if err != nil {
		check(errors.Join(err, c.close()))
	}
	return c
}

// call returns an error for an answer that is one, or that a command did not succeed.
func (c *mcpClient) call(method string, params any) error {
	c.calls++
	if err := json.NewEncoder(c.stdin).Encode(map[string]any{"jsonrpc": "2.0", "id": c.calls, "method": method, "params": params}); err != nil {
		return err
	}
	var answer struct {
		ID     int
		Error  any
		Result struct {
			IsError bool
			Content any
		}
	}
	for answer.ID != c.calls { // of others there are notifications alone
		if err := c.answers.Decode(&answer); err != nil {
			return err
		}
	}
	if answer.Error != nil || answer.Result.IsError {
		return fmt.Errorf("sbxhost-mcp: %v", answer)
	}
	return nil
}

func (c *mcpClient) close() error { return errors.Join(c.stdin.Close(), c.cmd.Wait()) }
