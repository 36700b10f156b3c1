// Package setup makes a Host and its command from a command line and the configuration in force,
// and says how to fix an error of the Host.
package setup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/hashicorp/go-hclog"

	"github.com/sbxhost/sbxhost/cmd/internal/inforce"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/prompt"
	"github.com/sbxhost/sbxhost/config"
	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/internal/launch"
	"github.com/sbxhost/sbxhost/internal/policy"
	"github.com/sbxhost/sbxhost/shared"
)

// WithHost returns a function that runs f with a Host for the configuration in force: for its
// engines alone, or for all of it.
func WithHost(a *cli.App, explicit *string, enginesOnly bool, f func(context.Context, *Setup, *host.Host) error) func() error {
	return func() error {
		ctx := context.Background()
		s, err := Load(ctx, a, *explicit)
		status := 0
		if err != nil && enginesOnly { // the machine is the same without the file
			status = a.Fail(err)
			s = &Setup{}
			s.File, _ = config.Load("", a.EvalInput())
			s.Options, _ = s.File.Options()
			err = Complete(a, &s.Options)
		}
		if err != nil {
			return err
		}
		options := s.Options
		options.EnginesOnly = enginesOnly
		h, err := host.New(ctx, options)
		if enginesOnly && err != nil {
			return WithHint(nil, err)
		} else if err != nil {
			return WithRemedy(a, s, &Flags{}, err)
		}
		defer h.Close()
		if err := f(ctx, s, h); err != nil {
			return err
		}
		return cli.Exit(status)
	}
}

// SessionOptions returns the session that a command line asks for.
func SessionOptions(a *cli.App, f *Flags) host.SessionOptions {
	name := cmp.Or(f.Session, a.Getenv("SBXHOST_SESSION"))
	return host.SessionOptions{Name: name, OneShot: true}
}

// Setup is a configuration that is ready for use.
type Setup struct {
	inforce.Config
	Sandbox string // the chosen one
}

// Load reads the configuration in force.
func Load(ctx context.Context, a *cli.App, explicit string) (*Setup, error) {
	c := a.Caller
	c.Trust = func(ctx context.Context, u *inforce.UntrustedFile) (bool, error) { return prompt.Trust(ctx, a, u) }
	found, err := c.Load(ctx, explicit)
	if err == nil {
		err = Complete(a, &found.Options)
	}
	if err != nil {
		return nil, Invalid(a, err)
	}
	return &Setup{Config: *found}, nil
}

// Invalid prints what is wrong with a file, if err says that.
func Invalid(a *cli.App, err error) error {
	e, ok := errors.AsType[*inforce.InvalidError](err)
	if !ok {
		return err
	}
	errs := cli.OnlyErrors(e.Diagnostics)
	a.Diagnose(errs)
	return a.PrintLast(fmt.Sprintf("%s: %s; nothing was run", NameOf(e.File), cli.Plural(len(errs), "error")), cli.StatusFailed)
}

// Complete sets the options that do not come from a file.
func Complete(a *cli.App, o *host.Options) (err error) {
	if err := a.Complete(o); err != nil {
		return err
	}
	o.OneShot = true
	o.Approver = func(ctx context.Context, r host.ApprovalRequest) (policy.Approval, error) {
		return prompt.Approve(ctx, a, r)
	}
	o.Logger, err = a.Logger(&hclog.LoggerOptions{Name: "sbxhost", Output: a.Stderr})
	return err
}

// Choose determines the sandbox and its options.
func Choose(ctx context.Context, a *cli.App, s *Setup, flags *Flags) error {
	name, err := s.File.Choose(flags.Sandbox)
	if err != nil && len(s.File.Names()) > 0 {
		return cli.Hint(err, "-sandbox names a sandbox of "+NameOf(s.File))
	} else if err != nil {
		return err
	}
	s.Sandbox = name
	if err := a.AddOptions(ctx, &s.Config, name); err != nil {
		return Invalid(a, err)
	}
	def := s.Options.Sandboxes[name]
	flags.apply(&def)
	s.Options.Sandboxes[name] = def
	if err := flags.readScript(a.WritableDirs(s.Options, flags.ScriptFile)); err != nil {
		return err
	}
	s.Options.Session = SessionOptions(a, flags)
	s.Options.Approvals.Session = s.Options.Session.Name
	return nil
}

// WithRemedy adds to an error of the host what its user can do: the line or the flag with the
// error, or a hint. s is nil before the choice of a sandbox.
func WithRemedy(a *cli.App, s *Setup, flags *Flags, err error) error {
	if denied, ok := errors.AsType[*host.DeniedError](err); ok {
		return deniedHint(a, denied, flags)
	}
	err = WithHint(s, err)
	e, ok := errors.AsType[*shared.Error](err)
	if !ok || s == nil || e.Attribute == "" {
		return err
	}
	if name := flags.FlagOf(e.Attribute); name != "" {
		given := *e
		given.Attribute = name
		return &given
	}
	byVariable := strings.HasPrefix(e.Attribute, "audit.") && a.Getenv("SBXHOST_AUDIT") != ""
	if byVariable || !fromFile(e.Attribute) || s.File.Path() == "" {
		return err
	}
	a.Diagnose(s.File.Diagnose(s.Sandbox, err))
	printed := a.PrintLast(fmt.Sprintf("sandbox %q cannot be used; nothing was run", s.Sandbox), cli.ExitStatus(err))
	a.SayHint(cli.HintOf(err))
	return printed
}

// WithHint adds a hint that the library cannot know: a command, a flag or a file that fixes err.
func WithHint(s *Setup, err error) error {
	e, _ := errors.AsType[*shared.Error](err)
	var hint string
	switch {
	case errors.Is(err, host.ErrRefusedRoot) && s != nil && s.Options.Workspace.Root != "":
		hint = "a command may write all of its workspace: name the directory of one project as workspace.root in " + NameOf(s.File)
	case errors.Is(err, host.ErrRefusedRoot): // the usual first error in a home directory
		hint = "a command may write all of its workspace, which is the git top level here or else the current directory: cd to a project first, or set workspace.root in a configuration"
	case errors.Is(err, host.ErrSessionWorkspace):
		hint = "sbxhost sessions rm removes it"
	case errors.Is(err, host.ErrSessionName):
		hint = "it comes from -session or the variable SBXHOST_SESSION"
	case errors.Is(err, launch.ErrChecksum), e != nil && strings.HasPrefix(e.Attribute, "engine.") && strings.HasSuffix(e.Attribute, ".sha256"):
		hint = "if you have checked this file, write its checksum, which sha256sum prints, into the engine block"
	default:
		return err
	}
	return cli.Hint(err, hint)
}

// fromFile reports whether a file can set an attribute.
func fromFile(attribute string) bool {
	first := strings.FieldsFunc(attribute, func(r rune) bool { return r == '.' || r == '[' || r == ' ' })[0]
	for block, name := range config.Reference {
		if block == first || name == first && (block == "" || block == "sandbox") {
			return true
		}
	}
	return first == "config"
}

// NameOf returns a file's path, or a name for its absence.
func NameOf(file *config.File) string {
	if path := file.Path(); path != "" {
		return path
	}
	return "the built-in configuration"
}

// NewCmd makes the command for flags and arguments.
func NewCmd(ctx context.Context, a *cli.App, h *host.Host, s *Setup, flags *Flags, args []string) *host.Cmd {
	cmd := h.Command(ctx, s.Sandbox, args...)
	cmd.Env, cmd.TTY, cmd.NoSandbox = flags.env, flags.Tty, flags.NoSandbox
	if flags.Scripted {
		cmd.Script = flags.script
		if cmd.Script == "" {
			cmd.Script = "\n" // an empty Script means no script, but an empty -c must run and do nothing
		}
	}
	if flags.Workdir != "" {
		cmd.Dir = a.Absolute(flags.Workdir)
	}
	return cmd
}

// Command makes the command for flags and arguments, for inspection alone.
func Command(ctx context.Context, a *cli.App, flags *Flags, args []string) (*Setup, *host.Host, *host.Cmd, error) {
	s, err := Load(ctx, a, flags.Config)
	if err != nil {
		return nil, nil, nil, err
	}
	if err := Choose(ctx, a, s, flags); err != nil {
		return s, nil, nil, err
	}
	h, err := host.New(ctx, s.Options)
	if err != nil {
		return s, nil, nil, err
	}
	return s, h, NewCmd(ctx, a, h, s, flags, args), nil
}
