package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/go-hclog"

	"github.com/sbxhost/sbxhost/cmd/internal/inforce"
	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/internal/policy"
)

// permissions are what the user's configuration lets an agent do.
type permissions struct {
	options   host.Options
	sandboxes []string // the first one is the default
	roots     []string // workspaces, resolved; the first one is the default
	dir       string   // the directory of commands that name none
	apply     bool
	found     *inforce.Config
	// unchanged refuses to go on with a configuration that is no longer the one in force.
	unchanged func() error
}

// newPolicy reads the configuration in force. A file that was found in the workspace must be
// trusted already: there is nobody to ask.
func newPolicy(ctx context.Context, c *inforce.Caller, explicit string, stderr io.Writer) (*permissions, error) {
	found, err := c.Load(ctx, explicit)
	if err != nil {
		return nil, err
	}
	if err := c.Complete(&found.Options); err != nil {
		return nil, err
	}
	says := found.File.MCP()
	p := &permissions{found: found, sandboxes: slices.Clone(says.Sandboxes), apply: says.Apply}
	switch standard := found.Options.DefaultSandbox; {
	case len(p.sandboxes) == 0 && standard == "":
		return nil, &inforce.HintedError{Err: errors.New("no default_sandbox in the configuration, and no mcp block that lists sandboxes"), Hint: "write mcp { sandboxes = [...] } with those that agents may use"}
	case len(p.sandboxes) == 0:
		p.sandboxes = []string{standard}
	case slices.Contains(p.sandboxes, standard): // it comes first
		others := slices.DeleteFunc(p.sandboxes, func(name string) bool { return name == standard })
		p.sandboxes = append([]string{standard}, others...)
	}
	for _, name := range p.sandboxes {
		if err := c.AddOptions(ctx, found, name); err != nil {
			return nil, err
		}
	}
	o := &found.Options
	for name, def := range o.Sandboxes {
		if !slices.Contains(p.sandboxes, name) {
			o.OtherBinds = append(o.OtherBinds, def.BindPaths...)
			delete(o.Sandboxes, name)
		}
	}
	o.DefaultSandbox = p.sandboxes[0]
	// Nothing runs without isolation: neither by a fallback, nor by an approval, nor by name.
	o.Approvals.Mode, o.Approvals.ModeOrigin, o.Approvals.AllowBypass, o.Approver = policy.ModeDeny, "the server for agents", false, nil
	if o.Logger, err = c.Logger(&hclog.LoggerOptions{Name: "sbxhost-mcp", Output: stderr}); err != nil {
		return nil, err
	}
	p.options = *o
	p.unchanged = func() error {
		switch now, err := c.Load(ctx, explicit); {
		case err != nil:
			return err
		case now.File.Path() != found.File.Path() || !bytes.Equal(now.File.Text(), found.File.Text()):
			return errors.New("the configuration has changed since this server started: the user must restart the server")
		}
		return nil
	}
	return p, p.findRoots(ctx, says.Directories, c.Dir)
}

// findRoots finds the workspaces that commands may use. A command of one that lies around another can
// put a symlink in its place, which would make a workspace of any directory.
func (p *permissions) findRoots(ctx context.Context, directories []string, dir string) error {
	attribute := "mcp.directories"
	if root := p.options.Workspace.Root; len(directories) == 0 && root != "" {
		attribute, directories = "workspace.root", []string{root}
	}
	for _, d := range directories {
		root, err := hostpath.Resolve("/", d, func() []string { return append(host.WritableDirs(p.options), directories...) })
		if err == nil {
			_, err = os.Stat(root)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", attribute, err)
		}
		p.roots = append(p.roots, root)
	}
	if len(p.roots) == 0 {
		h, err := host.New(ctx, p.options)
		if err != nil {
			return err
		}
		p.roots = []string{h.Root()}
		h.Close()
	}
	p.dir = p.roots[0]
	if resolved, err := filepath.EvalSymlinks(dir); err == nil && p.rootOf(resolved) != "" {
		p.dir = resolved
	}
	return nil
}

// rootOf is the workspace that contains a resolved directory; "" if there is none.
func (p *permissions) rootOf(dir string) (root string) {
	for _, r := range p.roots {
		if paths.Inside(r, dir) && len(r) > len(root) {
			root = r
		}
	}
	return root
}

// place is where a command runs: its workspace, its directory and its sandbox.
type place struct{ root, dir, sandbox string }

// place returns the place of a command that asks for a directory and a sandbox. The target of a
// symlink counts, and Host looks again when the command starts.
func (p *permissions) place(directory, sandbox string) (at place, err error) {
	at = place{p.rootOf(p.dir), p.dir, cmp.Or(sandbox, p.sandboxes[0])}
	if directory != "" {
		if !filepath.IsAbs(directory) {
			directory = filepath.Join(p.dir, directory)
		}
		if at.dir, err = filepath.EvalSymlinks(directory); err == nil {
			at.root = p.rootOf(at.dir)
		}
		if err != nil || at.root == "" {
			// The answer is the same whether the directory exists or not: an agent must not find
			// out which files exist outside.
			return at, fmt.Errorf("directory: %q is not in a workspace for agents: %s", directory, strings.Join(p.roots, ", "))
		}
	}
	if !slices.Contains(p.sandboxes, at.sandbox) {
		return at, fmt.Errorf("sandbox: agents cannot use %q; they have %s", sandbox, strings.Join(p.sandboxes, ", "))
	}
	return at, nil
}
