package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/enginetest"
)

// enginesTestCommand runs the conformance kit.
type enginesTestCommand struct{ *app }

func (*enginesTestCommand) Synopsis() string   { return "Test whether an engine holds what it claims" }
func (*enginesTestCommand) takesCommand() bool { return false }

func (*enginesTestCommand) Help() string {
	return `Usage: sbxhost engines test [FLAGS] NAME|PATH

Test whether an engine keeps the contract, and whether it isolates what its features
claim: each probe tries one thing inside that must not be possible, and shows by a
control that it is possible where it is granted. NAME is an engine of this machine;
PATH, with a slash in it, is the program of one. It works in a directory of its own
below the user's cache directory and leaves nothing behind.

  -run REGEXP    only the cases whose ID matches, such as '^net\.'
  -probes        only the probes of isolation
  -contract      only the contract
  -failed        show only what failed
  -json          results as JSON: {"results": [{"id", "group", "title", "status",
                 "detail", "millis"}]}
  -stream-mib N  how much passes through each stream (default 32; 1024 is a GiB)
  -brief         fewer commands where a rule starts many
  -options JSON  the engine's own options, such as '{"image": "alpine"}'
  -session       in sessions with a directory, where an engine may work otherwise
  -unconfined    run the probes on an engine that does not isolate, which shows
                 what they find without isolation
  -config FILE   the configuration whose engines to know

Exit status: 0 when nothing failed; 1 when something did; 125 when the engine could
not be tested, or not to the end. SIGINT, SIGTERM and SIGHUP end the run, which then
shows what it has found; a second one ends it at once, and what that leaves behind, a
later run removes.

Example:
  sbxhost engines test bwrap
  sbxhost engines test -probes -failed ./sbxhost-engine-mine`
}

const statusTestFailed = 1

// Run implements subcommand.
func (c *enginesTestCommand) Run(args []string) int {
	fs := newFlags("engines test")
	var o enginetest.Options
	explicit := configFlag(fs)
	asJSON := fs.Bool("json", false, "")
	failed := fs.Bool("failed", false, "")
	mib := fs.Int64("stream-mib", 0, "")
	fs.Func("options", "", func(text string) error {
		o.EngineOptions = json.RawMessage(text)
		if !json.Valid(o.EngineOptions) {
			return errors.New("not JSON")
		}
		return nil
	})
	fs.BoolVar(&o.Brief, "brief", false, "")
	fs.BoolVar(&o.ProbesOnly, "probes", false, "")
	fs.BoolVar(&o.ContractOnly, "contract", false, "")
	fs.BoolVar(&o.Session, "session", false, "")
	fs.BoolVar(&o.Unconfined, "unconfined", false, "")
	fs.Func("run", "", func(text string) (err error) {
		o.Run, err = regexp.Compile(text)
		return err
	})
	if status, ok := c.parse(fs, c, args); !ok {
		return status
	}
	if fs.NArg() != 1 {
		return c.usage(fs, errors.New("name one engine, or the path of one"))
	}
	if o.ProbesOnly && o.ContractOnly {
		return c.usage(fs, errors.New("-probes and -contract exclude each other"))
	}
	if *mib < 0 || *mib > maxStreamMiB {
		return c.usage(fs, fmt.Errorf("-stream-mib is from 0 to %d", maxStreamMiB))
	}
	o.StreamBytes = *mib << 20
	ctx, stop := untilSignalled()
	defer stop()
	command, err := c.engineCommand(ctx, *explicit, fs.Arg(0))
	if err == nil && ctx.Err() != nil {
		err = errInterrupted
	}
	if err != nil {
		return c.explainError(nil, nil, err)
	}
	defer closeAll(command.ExtraFiles)
	results, err := testEngine(ctx, command, o)
	if err != nil && !errors.Is(err, errInterrupted) {
		return c.fail(err)
	}
	if *asJSON {
		if status := c.printJSON(results); status != 0 {
			return status
		}
	} else if err := results.WriteTable(c.stdout, *failed); err != nil {
		return c.fail(fmt.Errorf("standard output: %w", err))
	}
	switch {
	case err != nil:
		return c.fail(err)
	case len(results.Bad()) > 0:
		return statusTestFailed
	}
	return 0
}

// maxStreamMiB keeps the number of bytes a number.
const maxStreamMiB = 1 << 20

var errInterrupted = errors.New("interrupted; not all was tried")

// untilSignalled gives a context that the first signal ends. The second has its usual
// effect, and so has one that our caller ignores.
func untilSignalled() (context.Context, context.CancelFunc) {
	signals := []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP}
	ignored := slices.DeleteFunc(slices.Clone(signals), func(s os.Signal) bool { return !signal.Ignored(s) })
	if len(ignored) > 0 {
		// An engine would inherit that, and its commands from it: of nohup's making,
		// and no fault of the engine's.
		signal.Notify(make(chan os.Signal, 1), ignored...)
	}
	signals = slices.DeleteFunc(signals, func(s os.Signal) bool { return slices.Contains(ignored, s) })
	if len(signals) == 0 {
		return context.WithCancel(context.Background()) // none would mean all
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// engineCommand gives what starts an engine, of a name or at a path.
func (c *enginesTestCommand) engineCommand(ctx context.Context, explicit, engine string) (*exec.Cmd, error) {
	s, err := c.load(ctx, explicit)
	if err != nil {
		return nil, err
	}
	options := s.options
	options.EnginesOnly, options.Reattach = true, nil
	name := engine
	if strings.Contains(engine, "/") {
		dir, err := c.cwd()
		if err != nil {
			return nil, err
		}
		if !filepath.IsAbs(engine) {
			engine = filepath.Join(dir, engine)
		}
		name = filepath.Base(engine)
		options.Engines = map[string]host.EngineSource{name: {Source: engine}}
		// Whoever names a program starts it, wherever it lies.
		options.Dir, options.Workspace = "/", host.WorkspaceOptions{}
	}
	h, err := host.New(ctx, options)
	if err != nil {
		return nil, err
	}
	defer h.Close()
	names, err := engineNames(h, []string{name})
	if err != nil {
		return nil, err
	}
	// A host says best why a program is no engine, or not one of this version.
	if _, err := h.EngineInfo(ctx, names[0]); err != nil {
		return nil, err
	}
	return h.EngineCommand(names[0])
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// testEngine runs the kit on processes that are started as a command says.
func testEngine(ctx context.Context, command *exec.Cmd, o enginetest.Options) (results enginetest.Results, err error) {
	o.Launch = func(ctx context.Context) (*shared.Launched, error) {
		cmd := &exec.Cmd{Path: command.Path, Args: command.Args, Env: command.Env, Dir: command.Dir, ExtraFiles: command.ExtraFiles}
		release, err := enginetest.PlantDescriptor(cmd)
		if err != nil {
			return nil, err
		}
		defer release()
		return shared.Launch(ctx, cmd, nil)
	}
	engine, err := o.Launch(ctx)
	if err != nil && ctx.Err() != nil {
		return results, errInterrupted
	}
	if err != nil {
		return results, err
	}
	defer engine.Kill()
	defer context.AfterFunc(ctx, engine.Kill)() // what still waits for it need not
	suite, err := enginetest.New(ctx, engine, o)
	if err != nil && ctx.Err() != nil {
		return results, errInterrupted
	}
	if err != nil {
		return results, err
	}
	defer func() { err = errors.Join(err, suite.Close()) }()
	if err := suite.NeedsOptions(ctx); err != nil && ctx.Err() == nil {
		return results, &hinted{err, `give its options, as its config block would have them: sbxhost engines test -options '{"NAME": VALUE}'`}
	}
	results = suite.Run(ctx, nil)
	if ctx.Err() != nil {
		return results, errInterrupted
	}
	if len(results.Results) == 0 {
		return results, &hinted{errors.New("no case was run"), "an engine that does not isolate has no probes without -unconfined; see -run"}
	}
	return results, nil
}
