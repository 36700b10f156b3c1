package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/go-hclog"

	"github.com/sbxhost/sbxhost/config"
	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/host/launch"
	"github.com/sbxhost/sbxhost/inforce"
	"github.com/sbxhost/sbxhost/shared"
)

// setup is a configuration that is ready to be used.
type setup struct {
	file    *config.File
	origin  config.Origin
	options host.Options
	sandbox string // the one to use
}

// caller is the world that a configuration is read in.
func (a *app) caller() *inforce.Caller {
	return &inforce.Caller{Dir: a.dir, Environ: a.environ, Builtins: a.builtins, Inject: a.inject, Warn: a.say, Trust: a.askTrust,
		Foreign: func(path string) { a.foreign = append(a.foreign, path) }}
}

// load reads the configuration in force.
func (a *app) load(ctx context.Context, explicit string) (*setup, error) {
	found, err := a.caller().Load(ctx, explicit)
	if err == nil {
		err = a.complete(&found.Options)
	}
	if err != nil {
		return nil, a.invalid(err)
	}
	return &setup{file: found.File, origin: found.Origin, options: found.Options}, nil
}

// invalid shows what is wrong with a file, if that is what err says.
func (a *app) invalid(err error) error {
	e, ok := errors.AsType[*inforce.InvalidError](err)
	if !ok {
		return err
	}
	errs := onlyErrors(e.Diagnostics)
	a.diagnose(errs)
	return a.told(fmt.Sprintf("%s: %s; nothing was run", nameOf(e.File), plural(len(errs), "error")), statusFailed)
}

// complete fills in what does not come from a file.
func (a *app) complete(o *host.Options) (err error) {
	if err := a.caller().Complete(o); err != nil {
		return err
	}
	o.OneShot, o.Approver = true, a.approve
	o.Logger, err = a.caller().Logger(&hclog.LoggerOptions{Name: "sbxhost", Output: a.stderr})
	return err
}

// commandDirs gives the directories that commands can write to, by some options and,
// for a path that lies elsewhere, by the repositories that it names on its way.
func (a *app) commandDirs(o host.Options, path string) func() []string {
	return a.caller().WritableDirs(o, path)
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
	c := &inforce.Config{File: s.file, Origin: s.origin, Options: s.options}
	if err := a.caller().AddOptions(ctx, c, name); err != nil {
		return a.invalid(err)
	}
	s.options = c.Options
	def := s.options.Sandboxes[name]
	flags.apply(&def)
	s.options.Sandboxes[name] = def
	s.options.Session = a.sessionOptions(flags)
	s.options.Approvals.Session = s.options.Session.Name
	return nil
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
	a.sayHint(hintOf(err))
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
