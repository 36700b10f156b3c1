package inforce

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/sbxhost/sbxhost/config"
	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/internal/approvals"
	"github.com/sbxhost/sbxhost/internal/launch"
	"github.com/sbxhost/sbxhost/internal/policy"
	"github.com/sbxhost/sbxhost/shared"
)

// EvalInput returns the values that expressions of a file can use.
func (c *Caller) EvalInput() config.EvalInput {
	return config.InputFor(c.LookupEnv, c.Dir)
}

// Complete sets the options that do not come from a file.
func (c *Caller) Complete(o *host.Options) (err error) {
	o.Dir, o.Environ, o.Builtins, o.Inject = c.Dir, c.Environ, c.Builtins, c.Inject
	if approvals.Dir(c.Getenv) != "" {
		if store, err := c.Store(); err == nil {
			o.Approvals.Dir = store.Dir()
		} else if !errors.Is(err, errors.ErrUnsupported) {
			return err
		}
	}
	if text := c.Getenv("SBXHOST_APPROVAL_MODE"); text != "" {
		if o.Approvals.Mode, err = policy.ParseMode(text); err != nil {
			return fmt.Errorf("SBXHOST_APPROVAL_MODE: %w", err)
		}
		o.Approvals.ModeOrigin = "SBXHOST_APPROVAL_MODE"
	}
	if text := c.Getenv("SBXHOST_SESSION_APPROVAL_TTL_MS"); text != "" {
		ms, err := strconv.ParseInt(text, 10, 64)
		if err != nil || ms <= 0 || ms > int64(maxTTL/time.Millisecond) {
			return fmt.Errorf("SBXHOST_SESSION_APPROVAL_TTL_MS: %q is no whole number of milliseconds above zero, and up to a year", text)
		}
		o.Approvals.SessionTTL = time.Duration(ms) * time.Millisecond
	}
	if path := c.Getenv("SBXHOST_AUDIT"); path != "" {
		o.AuditLog = c.Absolute(path)
	}
	o.HideSensitive = o.Approvals.Mode == policy.ModeDeny
	if text := c.Getenv("SBXHOST_START_TIMEOUT"); text != "" {
		o.StartTimeout, err = time.ParseDuration(text)
		if err != nil || o.StartTimeout <= 0 {
			return fmt.Errorf(`SBXHOST_START_TIMEOUT: %q is no time above zero with its unit, such as "10s"`, text)
		}
	}
	return nil
}

// Logger returns the log that SBXHOST_LOG asks for.
func (c *Caller) Logger(options *hclog.LoggerOptions) (hclog.Logger, error) {
	text := c.Getenv("SBXHOST_LOG")
	if text == "" {
		return nil, nil
	}
	if options.Level = hclog.LevelFromString(text); options.Level == hclog.NoLevel {
		return nil, fmt.Errorf("SBXHOST_LOG: %q is none of trace, debug, info, warn, error and off", text)
	}
	return hclog.New(options), nil
}

const maxTTL = 366 * 24 * time.Hour

// AddOptions adds to a sandbox its engine's options, from the file's config block.
func (c *Caller) AddOptions(ctx context.Context, s *Config, sandbox string) error {
	err := s.File.AddEngineOptions(ctx, &s.Options, sandbox)
	if diags, ok := errors.AsType[config.Diagnostics](err); ok {
		return &InvalidError{s.File, diags}
	}
	return err
}

// BuiltinInfo describes an engine in this program that the configuration does not replace.
func (c *Caller) BuiltinInfo(o host.Options, engine string) (shared.Info, bool) {
	return c.engines(o).Info(engine)
}

// KnownOptions returns the options of a sandbox's engine, or of "auto", if it knows them without
// starting an engine.
func (c *Caller) KnownOptions(o host.Options, sandbox string) (shared.OptionSchema, bool) {
	def := o.Sandboxes[sandbox]
	return c.engines(o).Options(def.Engine, def.Isolation == host.IsolationBestEffort)
}

// engines are those of a configuration, for questions and not to start.
func (c *Caller) engines(o host.Options) *launch.Engines {
	return launch.New(launch.Options{Builtins: c.Builtins, Declared: o.Engines, Inject: c.Inject})
}
