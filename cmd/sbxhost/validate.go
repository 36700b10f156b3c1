package main

import (
	"context"
	"flag"
	"fmt"
	"runtime"

	"github.com/sbxhost/sbxhost/config"
)

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

// validate checks a configuration.
func (a *app) validate(fs *flag.FlagSet) func() error {
	explicit, asJSON := configFlag(fs), jsonFlag(fs)
	return func() error {
		file, origin, diags, err := a.read(*explicit)
		if err != nil {
			return err
		}
		diags = append(diags, a.checkEngines(file)...)
		v := newValidation(file, diags)
		v.Trusted = origin != config.OriginWorkspace || a.trusts(file.Path())
		if v.Valid {
			if v.Settings, err = a.allSettings(file); err != nil {
				return err
			}
		}
		if !*asJSON {
			a.diagnose(diags)
		}
		switch {
		case v.Valid, *asJSON:
			if err := a.result(*asJSON, v, v.text(file)); err != nil || v.Valid {
				return err
			}
			return exit(statusFailed)
		}
		return &hinted{fmt.Errorf("%s: %s", nameOf(file), plural(v.ErrorCount, "error")), "nothing that it says is in force"}
	}
}

// allSettings gives what holds for each sandbox of a file.
func (a *app) allSettings(file *config.File) (map[string][]settingJSON, error) {
	options, _ := file.Options()
	options.Dir = a.dir
	if err := a.completePolicy(&options); err != nil {
		return nil, err
	}
	if root, err := a.evalInput().Root(); err == nil && options.Workspace.Root == "" {
		options.Workspace.Root = root
	}
	all := map[string][]settingJSON{}
	for _, name := range file.Names() {
		def := options.Sandboxes[name]
		schema := a.knownSchema(options, def.Engine)
		if raw, diags := file.EngineOptions(name, schema); !diags.HasErrors() {
			def.Config = raw
			options.Sandboxes[name] = def
		}
		all[name] = a.settings(file, name, options, schema, nil)
	}
	return all, nil
}

// checkEngines checks the options of built-in engines, and warns of engines
// that do not exist on this platform.
func (a *app) checkEngines(file *config.File) (diags config.Diagnostics) {
	options, invalid := file.Options()
	if invalid.HasErrors() {
		return nil
	}
	for _, name := range file.Names() {
		info, ok := a.builtinInfo(context.Background(), options, options.Sandboxes[name].Engine)
		if !ok {
			continue
		}
		_, more := file.EngineOptions(name, info.Options)
		diags = append(diags, more...)
	}
	return append(diags, file.Check(runtime.GOOS)...)
}

// text is what people are shown of a file without errors.
func (v *validation) text(file *config.File) string {
	sandboxes := plural(len(v.Settings), "sandbox")
	if len(v.Settings) != 1 {
		sandboxes = fmt.Sprintf("%d sandboxes", len(v.Settings))
	}
	text := fmt.Sprintf("%s: valid, %s", nameOf(file), sandboxes)
	if v.WarningCount > 0 {
		text += ", " + plural(v.WarningCount, "warning")
	}
	if !v.Trusted {
		text += "; not trusted yet: see sbxhost trust -help"
	}
	text = printable(text) + "\n"
	for _, name := range file.Names() {
		text += fmt.Sprintf("\nsandbox %s\n", quote(name)) + table("  ", settingRows(v.Settings[name]))
	}
	return text
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
