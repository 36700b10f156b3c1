package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"

	"github.com/sbxhost/sbxhost/config"
)

// validateCommand checks a configuration.
type validateCommand struct{ *app }

func (*validateCommand) Synopsis() string   { return "Check the configuration" }
func (*validateCommand) takesCommand() bool { return false }

func (*validateCommand) Help() string {
	return `Usage: sbxhost validate [-config FILE] [-json]

Check the configuration in force and show everything that is wrong with it, with
the place: what is unknown, misspelled, of the wrong type or not available in this
version. The options of built-in engines are checked, too; those of other engines
when they are used. Nothing is started. Where there is no error, every value that
holds is shown with the place it came from: a line of the file, a variable of the
environment, or the default. A sandbox whose engine does not exist on this
platform is a warning here, and an error on use.

Flags:
  -config FILE      check this file; default: what exec would use
  -json             for machines

Exit status: 0 when there is no error, warnings or not; 125 otherwise.

Examples:
  sbxhost validate
  sbxhost validate -config ci/sandbox.hcl -json`
}

// validation is what -json gives.
type validation struct {
	Version      int              `json:"version"` // 1
	Valid        bool             `json:"valid"`
	File         string           `json:"file"` // empty for the built-in configuration
	ErrorCount   int              `json:"error_count"`
	WarningCount int              `json:"warning_count"`
	Diagnostics  []diagnosticJSON `json:"diagnostics"`
	// Trusted is false for a file that was found in the workspace and that
	// nothing obeys before it is trusted.
	Trusted bool `json:"trusted"`
	// Settings are those of each sandbox; null where there is an error.
	Settings map[string][]settingJSON `json:"settings"`
}

type diagnosticJSON struct {
	Severity string     `json:"severity"` // "error" or "warning"
	Summary  string     `json:"summary"`
	Detail   string     `json:"detail"`
	Range    *rangeJSON `json:"range"`
}

// rangeJSON is a place in a file. Lines and columns count from 1, bytes from 0.
type rangeJSON struct {
	Filename string  `json:"filename"`
	Start    posJSON `json:"start"`
	End      posJSON `json:"end"`
}

type posJSON struct {
	Line   int `json:"line"`
	Column int `json:"column"`
	Byte   int `json:"byte"`
}

// Run implements subcommand.
func (c *validateCommand) Run(args []string) int {
	fs := newFlags("validate")
	explicit := configFlag(fs)
	asJSON := fs.Bool("json", false, "")
	if status, ok := c.parse(fs, c, args); !ok {
		return status
	}
	if status, ok := c.noArguments(fs); !ok {
		return status
	}
	file, origin, diags, err := c.read(*explicit)
	if err != nil {
		return c.fail(err)
	}
	diags = append(diags, c.checkEngines(file)...)
	v := newValidation(file, diags)
	v.Trusted = origin != config.OriginWorkspace || c.trusts(file.Path())
	if v.Valid {
		options, _ := file.Options()
		options.Dir, err = c.cwd()
		if err == nil {
			err = c.completePolicy(&options)
		}
		if err != nil {
			return c.fail(err)
		}
		if root, err := c.evalInput().Root(); err == nil && options.Workspace.Root == "" {
			options.Workspace.Root = root
		}
		v.Settings = map[string][]settingJSON{}
		for _, name := range file.Names() {
			def := options.Sandboxes[name]
			schema := c.knownSchema(options, def.Engine)
			if raw, diags := file.EngineOptions(name, schema); !diags.HasErrors() {
				def.Config = raw
				options.Sandboxes[name] = def
			}
			v.Settings[name] = c.settings(file, name, options, schema, nil)
		}
	}
	if *asJSON {
		if status := c.printJSON(v); status != 0 {
			return status
		}
	} else if err := c.show(file, diags, v); err != nil {
		return c.fail(err)
	}
	if !v.Valid {
		return statusFailed
	}
	return 0
}

// checkEngines checks the options of built-in engines, and warns of engines
// that do not exist on this platform.
func (c *validateCommand) checkEngines(file *config.File) (diags config.Diagnostics) {
	options, invalid := file.Options()
	if invalid.HasErrors() {
		return nil
	}
	for _, name := range file.Names() {
		info, ok := c.builtinInfo(context.Background(), options, options.Sandboxes[name].Engine)
		if !ok {
			continue
		}
		_, more := file.EngineOptions(name, info.Options)
		diags = append(diags, more...)
	}
	return append(diags, file.Check(runtime.GOOS)...)
}

func (c *validateCommand) show(file *config.File, diags config.Diagnostics, v *validation) error {
	if len(diags) > 0 {
		c.diagnose(diags)
	}
	if !v.Valid {
		return &hinted{fmt.Errorf("%s: %s", nameOf(file), plural(v.ErrorCount, "error")), "nothing that it says is in force"}
	}
	text := fmt.Sprintf("%s: valid, %s", nameOf(file), plural(len(file.Names()), "sandbox"))
	if len(file.Names()) != 1 {
		text = fmt.Sprintf("%s: valid, %d sandboxes", nameOf(file), len(file.Names()))
	}
	if v.WarningCount > 0 {
		text += ", " + plural(v.WarningCount, "warning")
	}
	if !v.Trusted {
		text += "; not trusted yet: see sbxhost trust -help"
	}
	var b strings.Builder
	b.WriteString(printable(text) + "\n")
	for _, name := range file.Names() {
		fmt.Fprintf(&b, "\nsandbox %s\n", quote(name))
		table(&b, "  ", settingRows(v.Settings[name]))
	}
	if c.print(b.String()) != 0 {
		return errors.New("standard output cannot be written")
	}
	return nil
}

func newValidation(file *config.File, diags config.Diagnostics) *validation {
	v := &validation{Version: 1, File: file.Path(), Diagnostics: []diagnosticJSON{}}
	for i, d := range diags {
		out := diagnosticJSON{Severity: "warning", Summary: d.Summary, Detail: d.Detail}
		if diags[i : i+1].HasErrors() {
			out.Severity = "error"
			v.ErrorCount++
		} else {
			v.WarningCount++
		}
		if s := d.Subject; s != nil {
			out.Range = &rangeJSON{s.Filename,
				posJSON{s.Start.Line, s.Start.Column, s.Start.Byte}, posJSON{s.End.Line, s.End.Column, s.End.Byte}}
		}
		v.Diagnostics = append(v.Diagnostics, out)
	}
	v.Valid = v.ErrorCount == 0
	return v
}
