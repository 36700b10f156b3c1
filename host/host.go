package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/sbxhost/sbxhost/internal/facts"
	"github.com/sbxhost/sbxhost/internal/launch"
	"github.com/sbxhost/sbxhost/internal/sandbox"
	"github.com/sbxhost/sbxhost/internal/view"
)

// Host runs commands in sandboxes. It is safe for concurrent use.
type Host struct {
	options Options
	engines *launch.Engines
	logger  hclog.Logger // the caller's, until logging is closed
	logging launch.LogGate
	caller  facts.Caller
	hostParts
}

// releaseTime bounds how long Close waits for locks of a start that hangs or of another process.
// The next run removes what Close leaves.
const releaseTime = 2 * time.Second

// New makes a Host. It resolves the workspace and starts nothing: engines
// start when a command first needs them. An error names the option at fault. A mistake in one of
// the definitions is an error of Check, and of the commands of that definition alone.
func New(ctx context.Context, o Options) (*Host, error) {
	if err := launch.ForgottenServeBuiltin(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := o.fillIn(); err != nil {
		return nil, err
	}
	h := &Host{options: o}
	h.logger = h.logging.Logger(cmp.Or(o.Logger, hclog.NewNullLogger()))
	if len(o.Sandboxes) == 0 {
		h.options.Sandboxes = map[string]Definition{"default": {}}
	}
	h.caller = callerOf(&o)
	h.prepare()
	h.engines = launch.New(launch.Options{
		Builtins: o.Builtins, Dir: o.EngineDir, Declared: o.Engines, Inject: o.Inject,
		Home: h.caller.Home, LookupEnv: h.caller.LookupEnv, OneShot: o.OneShot && o.Session.OneShot, Usage: o.Usage, StartTimeout: o.StartTimeout, Logger: h.logger,
		WritableDir: h.writableDir,
	})
	if !o.EnginesOnly {
		if err := h.validate(); err != nil {
			return nil, err
		}
	}
	if err := h.open(); err != nil {
		return nil, err
	}
	return h, nil
}

// validate reports options with which no command could run.
func (h *Host) validate() error {
	o := &h.options
	switch {
	case o.StartTimeout < 0:
		return errors.New("Options.StartTimeout is negative")
	case o.Approvals.Dir != "" && !filepath.IsAbs(o.Approvals.Dir):
		return errors.New("Options.Approvals.Dir is not absolute")
	case o.Approvals.SessionTTL < 0:
		return errors.New("Options.Approvals.SessionTTL is negative")
	case len(h.engines.Names()) == 0:
		return errors.New("Options.Builtins is empty, and there is no other engine: call host.ServeBuiltin first in main, and give New what it returns")
	}
	return checkCredentials(o.Credentials)
}

// checkCredentials reports invalid credentials.
func checkCredentials(sets map[string]Credential) error {
	for name, set := range sets {
		err := set.Validate()
		if slices.Contains(view.Credentials(), name) && (!set.Pass || set.Hosts != nil || set.Env != nil || set.Value != "") {
			err = errors.New("it is built in, and only Pass may be set")
		}
		if err != nil {
			return fmt.Errorf("Options.Credentials: %q: %w", name, err)
		}
	}
	return nil
}

// checkDefinition reports an invalid definition, or one that names an unknown engine.
func (h *Host) checkDefinition(name string, def Definition) error {
	err := cmp.Or(def.Validate(), view.CheckCredentials(&def, h.credentials()))
	if err == nil && !launch.IsAuto(def.Engine) && !h.engines.Known(launch.Name(def.Engine)) {
		err = view.Invalid("engine", fmt.Sprintf("there is no engine %q", def.Engine), fmt.Sprintf("the engines are %q", h.engines.Names()))
	}
	if err != nil {
		return &SandboxError{Sandbox: name, Err: err}
	}
	return nil
}

// fillIn reads defaults from the process's environment and directory. Nothing else in package host
// reads those.
func (o *Options) fillIn() (err error) {
	if o.Environ == nil {
		o.Environ = os.Environ()
	}
	if !filepath.IsAbs(o.Dir) {
		if o.Dir, err = filepath.Abs(o.Dir); err != nil && !o.EnginesOnly {
			return fmt.Errorf("dir: %w", err)
		}
	}
	if root := o.Workspace.Root; root != "" && root != "~" && !strings.HasPrefix(root, "~/") && !filepath.IsAbs(root) {
		o.Workspace.Root = o.Dir + "/" + root
	}
	return nil
}

func callerOf(o *Options) facts.Caller {
	c := facts.Caller{UID: os.Getuid(), Environ: facts.NewEnvironment(o.Environ)}
	if home := c.Getenv("HOME"); filepath.IsAbs(home) {
		c.Home = filepath.Clean(home)
	}
	return c
}

// SandboxNames lists the definitions, sorted.
func (h *Host) SandboxNames() []string {
	return slices.Sorted(maps.Keys(h.options.Sandboxes))
}

// target returns the sandbox with a name; "" is the default one.
func (h *Host) target(name string) (sandbox.Target, error) {
	name = cmp.Or(name, h.options.DefaultSandbox)
	if name == "" {
		if len(h.options.Sandboxes) > 1 {
			return sandbox.Target{}, fmt.Errorf("%w: none is named and there is no default_sandbox; there are %s",
				ErrUnknownSandbox, strings.Join(h.SandboxNames(), ", "))
		}
		name = h.SandboxNames()[0]
	}
	def, ok := h.options.Sandboxes[name]
	if !ok {
		return sandbox.Target{}, fmt.Errorf("%w %q; there are %s", ErrUnknownSandbox, name, strings.Join(h.SandboxNames(), ", "))
	}
	return sandbox.Target{Name: name, Definition: def, DefinitionBinds: len(def.BindPaths)}, nil
}

// AutoEngines lists the engines that "auto" chooses from: the first that works on this machine.
// Docker is among them only if it was declared, because it needs an image.
func (h *Host) AutoEngines() []string { return h.engines.Auto() }

// EngineNames lists the engines this Host knows, sorted.
func (h *Host) EngineNames() []string { return h.engines.Names() }

// SeparateEngines lists this project's engines that are programs beside this one, with their paths;
// "" for those that are no part of sbxhost and are missing.
func (h *Host) SeparateEngines() map[string]string { return h.engines.SeparatePrograms() }

// EngineCommand returns the command line for an engine's process, for tools that start one
// themselves with dial.Launch; see launch.Engines.Command.
func (h *Host) EngineCommand(name string) (cmd *exec.Cmd, release func(), err error) {
	return h.engines.Command(name)
}
