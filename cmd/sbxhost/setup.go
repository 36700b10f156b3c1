package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/sbxhost/sbxhost/approvals"
	"github.com/sbxhost/sbxhost/config"
	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/host/launch"
	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/wire"
)

// setup is a configuration that is ready to be used.
type setup struct {
	file    *config.File
	origin  config.Origin
	options host.Options
	sandbox string // the one to use
}

// load reads the configuration in force.
func (a *app) load(ctx context.Context, explicit string) (*setup, error) {
	path, origin, err := a.find(explicit)
	if err != nil {
		return nil, err
	}
	var file *config.File
	var diags config.Diagnostics
	if origin == config.OriginWorkspace {
		text, err := a.trustedText(ctx, path)
		if err != nil {
			return nil, err
		}
		file, diags = config.Parse(path, text, a.evalInput())
	} else {
		if origin == config.OriginUser {
			if err := checkUserFile(path); err != nil {
				return nil, err
			}
		}
		file, diags = config.Load(path, a.evalInput())
	}
	options, _ := file.Options()
	if diags.HasErrors() {
		return nil, a.invalid(file, diags)
	}
	if origin == config.OriginWorkspace {
		// Where a symlink stands in its place, a command may lead that elsewhere:
		// trust is in the text, and another one is refused the next time.
		if options.Protected[0], err = filepath.EvalSymlinks(path); err != nil {
			return nil, err
		}
	}
	s := &setup{file: file, origin: origin, options: options}
	return s, a.complete(&s.options)
}

// read finds and parses the configuration that would be in force, trusted or
// not: for those who only look at it.
func (a *app) read(explicit string) (*config.File, config.Origin, config.Diagnostics, error) {
	path, origin, err := a.find(explicit)
	if err != nil {
		return nil, 0, nil, err
	}
	if origin == config.OriginWorkspace {
		// A command can lead one to any file of its user's, and would have the lines
		// of that shown as errors.
		if info, err := os.Lstat(path); err == nil && info.Mode().Type() == fs.ModeSymlink && !a.trusts(path) {
			return nil, 0, nil, &hinted{fmt.Errorf("%s was found in the workspace, is a symlink, and you have not trusted it", quote(path)),
				fmt.Sprintf("look where it leads, then name it: -config %s", shellQuote(path))}
		}
	}
	file, diags := config.Load(path, a.evalInput())
	return file, origin, diags, nil
}

// find says which file is in force.
func (a *app) find(explicit string) (string, config.Origin, error) {
	if a.dir == "" {
		return "", 0, errors.New("the current directory was removed")
	}
	if err := a.findEngines(&host.Options{}); err != nil {
		return "", 0, err
	}
	path, origin, err := config.Find(config.LookupOptions{Explicit: explicit, Dir: a.dir, Getenv: a.getenv,
		Foreign: func(path string) { a.foreign = append(a.foreign, path) }})
	if err == nil && origin == config.OriginWorkspace {
		path, err = trustPlace(path)
	}
	if err == nil && (origin == config.OriginUser || origin == config.OriginBuiltin) {
		err = a.checkPassedBy(a.dir)
	}
	return path, origin, err
}

// checkPassedBy refuses a directory in which a configuration that the user trusts is
// not in force for no other reason than that there is a .git below it. A command can
// make that, and the next one would run by another policy: with other files hidden,
// and unlogged.
func (a *app) checkPassedBy(dir string) error {
	files, top, err := config.PassedBy(config.LookupOptions{Dir: dir})
	if err != nil || len(files) == 0 {
		return err
	}
	store, err := a.store()
	if err != nil {
		return nil // nothing is trusted
	}
	list, err := store.TrustList()
	if err != nil {
		return nil // likewise
	}
	for _, file := range files {
		place, err := trustPlace(file)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(list, func(t approvals.Trusted) bool { return t.Path == place }) {
			return &hinted{fmt.Errorf("%s, which you trust, is passed by here, since %s is a git repository of its own; nothing was run", quote(place), quote(top)),
				fmt.Sprintf("if it is none of yours, a command has made %s: remove it; else say what is to hold in it, by a config.hcl of its own or by -config %s", shellQuote(filepath.Join(top, ".git")), shellQuote(place))}
		}
	}
	return nil
}

func (a *app) evalInput() config.EvalInput {
	input := config.InputFor(a.lookupEnv, a.dir)
	input.Engines = func() []string {
		var o host.Options
		if a.findEngines(&o) != nil {
			return nil // read has told
		}
		return append(sortedKeys(o.Reattach), sortedKeys(launch.Installed(o.EnginePath))...)
	}
	return input
}

// findEngines says where engines come from that no file names.
func (a *app) findEngines(o *host.Options) (err error) {
	if o.EnginePath, err = launch.Path(a.lookupEnv); err != nil {
		return err
	}
	o.Reattach, err = wire.ParseReattach(a.getenv(wire.ReattachEnv))
	return err
}

// invalid shows what is wrong with a file.
func (a *app) invalid(file *config.File, diags config.Diagnostics) error {
	errs := onlyErrors(diags)
	a.diagnose(errs)
	return a.told(fmt.Sprintf("%s: %s; nothing was run", nameOf(file), plural(len(errs), "error")), statusFailed)
}

// complete fills in what does not come from a file.
func (a *app) complete(o *host.Options) (err error) {
	o.Dir, o.Environ, o.Builtins, o.Inject, o.OneShot = a.dir, a.environ, a.builtins, a.inject, true
	if err := a.findEngines(o); err != nil {
		return err
	}
	for _, name := range sortedKeys(o.Reattach) {
		a.say(fmt.Sprintf("WARNING: %s: engine %q is process %d, which sbxhost has not started or checked: it decides alone what is isolated", wire.ReattachEnv, name, o.Reattach[name].PID))
	}
	if err := a.completePolicy(o); err != nil {
		return err
	}
	switch text := a.getenv("SBXHOST_INDEX"); text {
	case "", "on":
	case "off":
		o.FullSearch = true
	default:
		return fmt.Errorf(`SBXHOST_INDEX: %q is neither "on" nor "off"`, text)
	}
	if text := a.getenv("SBXHOST_START_TIMEOUT"); text != "" {
		o.StartTimeout, err = time.ParseDuration(text)
		if err != nil || o.StartTimeout <= 0 {
			return fmt.Errorf(`SBXHOST_START_TIMEOUT: %q is no time above zero with its unit, such as "10s"`, text)
		}
	}
	if text := a.getenv("SBXHOST_LOG"); text != "" {
		level := hclog.LevelFromString(text)
		if level == hclog.NoLevel {
			return fmt.Errorf("SBXHOST_LOG: %q is none of trace, debug, info, warn, error and off", text)
		}
		o.Logger = hclog.New(&hclog.LoggerOptions{Name: "sbxhost", Level: level, Output: a.stderr})
	}
	return nil
}

// commandDirs gives the directories that commands can write to, by some options and,
// for a path that lies elsewhere, by the repositories that it names on its way.
func (a *app) commandDirs(o host.Options, path string) func() []string {
	return func() []string {
		o.Dir, o.Environ = a.dir, a.environ
		dirs := host.WritableDirs(o)
		for dir := filepath.Dir(a.absolute(path)); dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
			if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
				dirs = append(dirs, host.WritableDirs(host.Options{Dir: dir, Environ: a.environ})...)
			}
		}
		return dirs
	}
}

// choose settles which sandbox is used, and with which options.
func (a *app) choose(ctx context.Context, s *setup, flags *runFlags) error {
	name, err := s.file.Choose(flags.sandbox)
	if err != nil && flags.sandbox != "" {
		return &hinted{err, fmt.Sprintf("-sandbox names one of those that %s defines: %s", nameOf(s.file), strings.Join(s.file.Names(), ", "))}
	} else if err != nil {
		return &hinted{err, "with -sandbox"}
	}
	s.sandbox = name
	def := s.options.Sandboxes[name]
	schema, err := a.schema(ctx, s, def.Engine)
	if err != nil {
		return err
	}
	raw, diags := s.file.EngineOptions(name, schema)
	if diags.HasErrors() {
		return a.invalid(s.file, diags)
	}
	def.Config = raw
	flags.apply(&def)
	s.options.Sandboxes = maps.Clone(s.options.Sandboxes)
	s.options.Sandboxes[name] = def
	s.options.Session = a.sessionOptions(flags)
	s.options.Approvals.Session = s.options.Session.Name
	return nil
}

// schema gives the options of the chosen sandbox's engine. A foreign engine is
// started for it only where there are options to check.
func (a *app) schema(ctx context.Context, s *setup, engine string) (shared.OptionSchema, error) {
	if info, ok := a.builtinInfo(ctx, s.options, engine); ok {
		return info.Options, nil
	}
	if engine == "" || engine == "auto" {
		return shared.OptionSchema{}, nil // see File.EngineOptions
	}
	if _, diags := s.file.EngineOptions(s.sandbox, shared.OptionSchema{}); !diags.HasErrors() {
		return shared.OptionSchema{}, nil // no config block
	}
	options := s.options
	options.EnginesOnly = true
	h, err := host.New(ctx, options)
	if err != nil {
		return shared.OptionSchema{}, err
	}
	defer h.Close()
	info, err := h.EngineInfo(ctx, engine)
	return info.Options, err
}

// builtinInfo describes an engine that is part of this program and that the
// configuration does not replace.
func (a *app) builtinInfo(ctx context.Context, o host.Options, engine string) (shared.Info, bool) {
	if _, declared := o.Engines[engine]; declared {
		return shared.Info{}, false
	}
	if injected, ok := a.inject[engine]; ok {
		info, err := injected.Info(ctx)
		return info, err == nil
	}
	return a.builtins.Info(engine)
}

// hinted gives an error of the host what its user can do about it: the line of the
// file or the flag that is at fault, or a hint. s is nil where no sandbox was chosen.
func (a *app) hinted(s *setup, flags *runFlags, err error) error {
	if denied, ok := errors.AsType[*host.DeniedError](err); ok {
		return a.deniedHint(denied, flags)
	}
	err = withHint(s, err)
	e, ok := errors.AsType[*shared.Error](err)
	if !ok || s == nil || e.Attribute == "" {
		return err
	}
	if name := flags.flagOf(e.Attribute); name != "" {
		given := *e
		given.Attribute = name
		return &given
	}
	byVariable := strings.HasPrefix(e.Attribute, "audit.") && a.getenv("SBXHOST_AUDIT") != ""
	if byVariable || !fromFile(e.Attribute) || s.file.Path() == "" {
		return err
	}
	a.diagnose(s.file.Diagnose(s.sandbox, err))
	told := a.told(fmt.Sprintf("sandbox %q cannot be used; nothing was run", s.sandbox), exitStatus(err))
	if e, ok := errors.AsType[*hinted](err); ok {
		a.sayHint(e.hint)
	}
	return told
}

// withHint names what mends that which err is about and the library does not know of: a
// command, a flag or a file.
func withHint(s *setup, err error) error {
	e, _ := errors.AsType[*shared.Error](err)
	switch {
	case errors.Is(err, host.ErrRefusedRoot) && s != nil && s.options.Workspace.Root != "":
		return &hinted{err, "a command may write all of its workspace: name the directory of one project as workspace.root in " + nameOf(s.file)}
	case errors.Is(err, host.ErrRefusedRoot): // what a first try in a home directory meets
		return &hinted{err, "a command may write all of its workspace, which is the git top level here or else the current directory: cd to a project first, or set workspace.root in a configuration"}
	case errors.Is(err, host.ErrSessionWorkspace):
		return &hinted{err, "sbxhost sessions rm removes it"}
	case errors.Is(err, host.ErrSessionName):
		return &hinted{err, "it comes from -session or the variable SBXHOST_SESSION"}
	case errors.Is(err, host.ErrSessionFull) && s != nil && s.options.Session.Name != "":
		return &hinted{err, "sbxhost sessions rm " + s.options.Session.Name}
	case errors.Is(err, launch.ErrChecksum), e != nil && strings.HasPrefix(e.Attribute, "engine.") && strings.HasSuffix(e.Attribute, ".sha256"):
		return &hinted{err, "sbxhost engines pin writes the checksum"}
	}
	return err
}

// told tells the last of what there is to tell.
func (a *app) told(message string, status int) error {
	a.say(message)
	return &exited{status, message}
}

// fromFile reports whether an attribute is one that a file can set.
func fromFile(attribute string) bool {
	first := strings.FieldsFunc(attribute, func(r rune) bool { return r == '.' || r == '[' || r == ' ' })[0]
	return first == "config" || slices.ContainsFunc(config.Reference(), func(a config.AttributeReference) bool {
		return a.Block == first || a.Name == first && (a.Block == "" || a.Block == "sandbox")
	})
}

// nameOf is a file's path, or what there is instead.
func nameOf(file *config.File) string {
	if path := file.Path(); path != "" {
		return path
	}
	return "the built-in configuration"
}

func onlyErrors(diags config.Diagnostics) config.Diagnostics {
	var errs config.Diagnostics
	for i := range diags {
		if one := diags[i : i+1]; one.HasErrors() {
			errs = append(errs, one...)
		}
	}
	return errs
}

// newCmd makes the command that flags and arguments ask for.
func (a *app) newCmd(ctx context.Context, h *host.Host, s *setup, flags *runFlags, args []string) *host.Cmd {
	cmd := h.Command(ctx, s.sandbox, args...)
	cmd.Env, cmd.TTY, cmd.NoSandbox = flags.env, flags.tty, flags.noSandbox
	if flags.scripted {
		cmd.Script = flags.script
		if cmd.Script == "" {
			cmd.Script = "\n" // an empty Script is none; an empty -c does nothing
		}
	}
	if flags.workdir != "" {
		cmd.Dir = a.absolute(flags.workdir)
	}
	return cmd
}

// command makes the command that flags and arguments ask for, to look at.
func (a *app) command(ctx context.Context, flags *runFlags, args []string) (*setup, *host.Host, *host.Cmd, error) {
	s, err := a.load(ctx, flags.config)
	if err != nil {
		return nil, nil, nil, err
	}
	if err := a.choose(ctx, s, flags); err != nil {
		return s, nil, nil, err
	}
	h, err := host.New(ctx, s.options)
	if err != nil {
		return s, nil, nil, err
	}
	return s, h, a.newCmd(ctx, h, s, flags, args), nil
}
