package engines

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/setup"
	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/enginetest"
)

const statusTestFailed = 1

// Test runs the conformance kit.
func Test(a *cli.App, fs *flag.FlagSet) func() error {
	var o enginetest.Options
	explicit, asJSON := cli.ConfigFlag(fs), cli.JSONFlag(fs)
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
	return func() error {
		switch {
		case fs.NArg() != 1:
			return cli.Usage(fs, errors.New("name one engine, or the path of one"))
		case o.ProbesOnly && o.ContractOnly:
			return cli.Usage(fs, errors.New("-probes and -contract exclude each other"))
		case *mib < 0 || *mib > maxStreamMiB:
			return cli.Usage(fs, fmt.Errorf("-stream-mib is from 0 to %d", maxStreamMiB))
		}
		o.StreamBytes = *mib << 20
		ctx, stop := untilSignalled()
		defer stop()
		command, release, err := engineCommand(ctx, a, *explicit, fs.Arg(0))
		if err != nil {
			return setup.WithHint(nil, err)
		}
		defer release()
		if ctx.Err() != nil {
			return errInterrupted
		}
		if name, ok := strings.CutPrefix(filepath.Base(fs.Arg(0)), "sbxhost-engine-"); ok {
			o.Name = name
		}
		results, err := runKit(ctx, command, o, progress(a))
		if err != nil && !errors.Is(err, errInterrupted) {
			return err
		}
		var text strings.Builder
		results.WriteTable(&text, *failed)
		if err := a.Result(*asJSON, results, text.String()); err != nil {
			return err
		}
		if err == nil && len(results.Bad()) > 0 {
			return cli.Exit(statusTestFailed)
		}
		return err
	}
}

// maxStreamMiB keeps the number of bytes within its type.
const maxStreamMiB = 1 << 20

var errInterrupted = errors.New("interrupted; not all was tried")

// untilSignalled returns a context that the first signal ends. The second signal has its usual
// effect, and so does a signal that the caller ignores.
func untilSignalled() (context.Context, context.CancelFunc) {
	signals := []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP}
	ignored := slices.DeleteFunc(slices.Clone(signals), func(s os.Signal) bool { return !signal.Ignored(s) })
	if len(ignored) > 0 {
		// An engine would inherit an ignored signal, and pass it to its commands: it comes from
		// nohup, and is not the engine's fault.
		signal.Notify(make(chan os.Signal, 1), ignored...)
	}
	signals = slices.DeleteFunc(signals, func(s os.Signal) bool { return slices.Contains(ignored, s) })
	if len(signals) == 0 {
		return context.WithCancel(context.Background()) // no signals would mean all signals
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// engineCommand returns the command that starts an engine, by its name or path.
func engineCommand(ctx context.Context, a *cli.App, explicit, engine string) (command *exec.Cmd, release func(), err error) {
	caller := *a
	if explicit == "" && strings.Contains(engine, "/") {
		caller.Dir = "/" // it needs no configuration of the workspace
	}
	s, err := setup.Load(ctx, &caller, explicit)
	if err != nil {
		return nil, nil, err
	}
	options := s.Options
	options.EnginesOnly = true
	name := engine
	if strings.Contains(engine, "/") {
		engine = a.Absolute(engine)
		name = filepath.Base(engine)
		options.Engines = map[string]host.EngineSource{name: {Source: engine}}
		// A person who names a program by its path may start it anywhere.
		options.Dir, options.Workspace = "/", host.WorkspaceOptions{}
	}
	h, err := host.New(ctx, options)
	if err != nil {
		return nil, nil, err
	}
	defer h.Close()
	names, err := engineNames(h, []string{name})
	if err != nil {
		return nil, nil, err
	}
	// A host explains best why a program is not an engine, or not one of this version.
	if _, err := h.EngineInfo(ctx, names[0]); err != nil {
		return nil, nil, err
	}
	return h.EngineCommand(names[0])
}

// progress shows on a terminal how far a run is; nil if the output is not a terminal.
func progress(a *cli.App) func(done, of int) {
	if !cli.IsTerminal(a.Stderr) {
		return nil
	}
	return func(done, of int) {
		text := fmt.Sprintf("%d of %d", done, of)
		if done == of {
			text = ""
		}
		fmt.Fprintf(a.Stderr, "\r\033[K%s", text)
	}
}

// runKit runs the kit on processes that the command starts.
func runKit(ctx context.Context, command *exec.Cmd, o enginetest.Options, tell func(done, of int)) (results enginetest.Results, err error) {
	defer func() {
		if ctx.Err() != nil {
			err = errInterrupted
		}
	}()
	o.Launch = enginetest.Launcher(command)
	engine, err := o.Launch(ctx)
	if err != nil {
		return results, err
	}
	defer engine.Kill()
	defer context.AfterFunc(ctx, engine.Kill)() // nothing needs to wait for it any more
	suite, err := enginetest.New(ctx, engine, o)
	if e, ok := errors.AsType[*shared.Error](err); ok && strings.HasPrefix(e.Attribute, "config.") {
		err = cli.Hint(err, `give its options, as its config block would have them: sbxhost engines test -options '{"NAME": VALUE}'`)
	}
	if err != nil {
		return results, err
	}
	defer func() { err = errors.Join(err, suite.Close()) }()
	if results = suite.Run(ctx, tell); len(results.Results) == 0 {
		err = cli.Hint(errors.New("no case was run"), "an engine that does not isolate has no probes without -unconfined; see -run")
	}
	return results, err
}
