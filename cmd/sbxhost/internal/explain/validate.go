package explain

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/setup"
	"github.com/sbxhost/sbxhost/config"
	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/internal/view"
	"github.com/sbxhost/sbxhost/shared"
)

// Validation is the result of validate, as -json prints it.
type Validation struct {
	Version      int              `json:"version"` // 1
	Valid        bool             `json:"valid"`
	File         string           `json:"file"` // empty for the built-in configuration
	ErrorCount   int              `json:"error_count"`
	WarningCount int              `json:"warning_count"`
	Diagnostics  []diagnosticJSON `json:"diagnostics"`
	// Trusted is false for a file in the workspace that has no effect before its user trusts it.
	Trusted bool `json:"trusted"`
	// Settings are those of each sandbox; null if the file itself has an error.
	Settings map[string][]settingJSON `json:"settings"`
	// Sandboxes has the result of each sandbox's trial; none if the file has an error.
	Sandboxes []*sandboxTrial `json:"sandboxes"`
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

// sandboxTrial says whether commands could run in a sandbox on this machine.
type sandboxTrial struct {
	Sandbox string   `json:"sandbox"`
	Done    bool     `json:"tried"`
	Usable  bool     `json:"usable"`
	Engine  string   `json:"engine"` // the engine for commands, once it is known
	Reason  string   `json:"reason"` // why there was no trial; the diagnostics say what the machine lacks
	Notes   []string `json:"notes"`  // for people
}

// Validate checks a configuration.
func Validate(a *cli.App, fs *flag.FlagSet) func() error {
	explicit, asJSON, all := cli.ConfigFlag(fs), cli.JSONFlag(fs), fs.Bool("v", false, "")
	return func() error {
		file, origin, diags, err := a.Read(*explicit)
		if err != nil {
			return err
		}
		diags = append(diags, checkEngines(a, file)...)
		trusted := origin != config.OriginWorkspace || a.Trusts(file.Path())
		var settings map[string][]settingJSON
		trials := []*sandboxTrial{}
		if !diags.HasErrors() {
			options, err := completed(a, file)
			if err != nil {
				return err
			}
			settings = allSettings(a, file, options)
			var more config.Diagnostics
			if trials, more, err = tryAll(a, file, options, trusted); err != nil {
				return err
			}
			diags = append(diags, more...)
		}
		v := newValidation(file, diags)
		v.Trusted, v.Settings, v.Sandboxes = trusted, settings, trials
		if !*asJSON {
			a.Diagnose(diags)
		}
		if v.Valid || *asJSON {
			if err := a.Result(*asJSON, v, v.text(file, *all)); err != nil || v.Valid {
				return err
			}
			return cli.Exit(cli.StatusFailed)
		}
		err = fmt.Errorf("%s: %s", setup.NameOf(file), cli.Plural(v.ErrorCount, "error"))
		if settings == nil {
			err = cli.Hint(err, "sbxhost does not use this file")
		}
		return err
	}
}

// completed adds to a file's options those that do not come from the file.
func completed(a *cli.App, file *config.File) (host.Options, error) {
	options, _ := file.Options()
	if err := setup.Complete(a, &options); err != nil {
		return options, err
	}
	options.Session = host.SessionOptions{OneShot: true}
	for _, name := range file.Names() {
		def := options.Sandboxes[name]
		schema, _ := a.KnownOptions(options, name)
		if raw, diags := file.EngineOptions(name, schema); !diags.HasErrors() {
			def.Config = raw
			options.Sandboxes[name] = def
		}
	}
	return options, nil
}

// allSettings returns the effective values for each sandbox of a file.
func allSettings(a *cli.App, file *config.File, options host.Options) map[string][]settingJSON {
	if root, err := a.EvalInput().Root(); err == nil && options.Workspace.Root == "" {
		options.Workspace.Root = root
	}
	all := map[string][]settingJSON{}
	for _, name := range file.Names() {
		schema, _ := a.KnownOptions(options, name)
		all[name] = settings(a, file, name, options, schema, &setup.Flags{})
	}
	return all
}

// checkEngines checks the options of built-in engines, and that docker has its own.
func checkEngines(a *cli.App, file *config.File) (diags config.Diagnostics) {
	options, invalid := file.Options()
	if invalid.HasErrors() {
		return nil
	}
	for _, name := range file.Names() {
		schema, ok := a.KnownOptions(options, name)
		if !ok && options.Sandboxes[name].Engine == "docker" {
			// Its use asks it; here only find out whether there is an engine to ask.
			_, given := file.EngineOptions(name, shared.OptionSchema{})
			ok, schema.Attributes = !given.HasErrors(), []shared.OptionAttribute{{Name: "image", Required: true}}
		}
		if ok {
			_, more := file.EngineOptions(name, schema)
			diags = append(diags, more...)
		}
	}
	return diags
}

// tryAll tries each sandbox of a trusted file with the engines of this program.
func tryAll(a *cli.App, file *config.File, options host.Options, trusted bool) (trials []*sandboxTrial, diags config.Diagnostics, err error) {
	chosen, _ := file.Choose("")
	for _, name := range file.Names() {
		t := &sandboxTrial{Sandbox: name, Notes: []string{}}
		trials = append(trials, t)
		engine := options.Sandboxes[name].Engine
		_, known := a.BuiltinInfo(options, engine)
		system := map[string]string{"native": "linux", "bwrap": "linux", "landlock": "linux", "seatbelt": "darwin", "": runtime.GOOS, "auto": runtime.GOOS}[engine]
		switch {
		case !trusted:
			t.Reason = "the file is not trusted"
		case system == "" && known:
			t.Reason = engine + " does not isolate"
		case system == "":
			t.Reason = engine + " is another program"
		case system != runtime.GOOS && name != chosen:
			t.Reason = engine + " is not for this system"
		default:
			more, err := try(file, options, t)
			if err != nil {
				return nil, nil, err
			}
			diags = append(diags, more...)
		}
	}
	return trials, diags, nil
}

// try opens a sandbox as for a command. It reports the first fault that it finds.
func try(file *config.File, options host.Options, t *sandboxTrial) (diags config.Diagnostics, err error) {
	t.Done = true
	warnings, err := open(options, t)
	switch {
	case err == nil:
		t.Usable = true
		for _, w := range warnings {
			more := config.AsWarnings(file.Diagnose(t.Sandbox, w))
			for _, d := range more {
				d.Summary = "Is it meant?"
			}
			diags = append(diags, more...)
		}
		return diags, nil
	case errors.Is(err, host.ErrRefusedRoot):
		refused := &setup.Setup{}
		refused.File, refused.Options = file, options
		return nil, setup.WithHint(refused, err)
	}
	diags = file.Diagnose(t.Sandbox, err)
	if errors.Is(err, shared.ErrUnusable) { // such as a file for several machines
		diags = config.AsWarnings(diags)
	}
	return diags, nil
}

// open makes a host and a plan.
func open(options host.Options, t *sandboxTrial) ([]*shared.Error, error) {
	ctx := context.Background()
	h, err := host.New(ctx, options)
	if err != nil {
		return nil, err
	}
	defer h.Close()
	if err := h.Check(ctx, t.Sandbox); err != nil {
		return nil, err
	}
	e, err := h.Command(ctx, t.Sandbox, "true").Explain()
	if err != nil {
		return nil, err
	}
	t.Engine, t.Notes = e.Engine, append(t.Notes, e.Plan.Notes...)
	return warnings(h, options.Sandboxes[t.Sandbox], &e.Spec), nil
}

// warnings are about valid values that may be mistakes: readable keys for commands with a network,
// and missing sockets.
func warnings(h *host.Host, def host.Definition, spec *shared.Spec) (list []*shared.Error) {
	for i, text := range def.UnixSockets {
		p := view.Absolute(spec.Home, h.Root(), text)
		if _, err := os.Stat(p); errors.Is(err, fs.ErrNotExist) && !spec.Unconfined {
			list = append(list, &shared.Error{Attribute: fmt.Sprintf("unix_sockets[%d]", i), Message: fmt.Sprintf("%s does not exist: commands have it once it does", cli.Quote(p))})
		}
	}
	for _, place := range view.SecretDirs {
		p := filepath.Join(spec.Home, place)
		entry, at := shared.Cover(spec.Table, p)
		if _, err := os.Lstat(at); entry != nil && entry.Access.Shows() && err == nil && spec.Network.Mode != shared.NetworkNone && !spec.Unconfined {
			attribute, _, _ := strings.Cut(entry.Why, " ")
			list = append(list, &shared.Error{Attribute: attribute, Message: fmt.Sprintf("commands read the keys in %s and have a network, so that they can send them anywhere that it leads to", cli.Quote(p))})
		}
	}
	return list
}

// text is the output for people, for a file without errors.
func (v *Validation) text(file *config.File, all bool) string {
	sandboxes := cli.Plural(len(v.Settings), "sandbox")
	if len(v.Settings) != 1 {
		sandboxes = fmt.Sprintf("%d sandboxes", len(v.Settings))
	}
	text := fmt.Sprintf("%s: valid, %s", setup.NameOf(file), sandboxes)
	if v.WarningCount > 0 {
		text += ", " + cli.Plural(v.WarningCount, "warning")
	}
	if !v.Trusted {
		text += "; not trusted yet: see sbxhost trust -help"
	}
	names := map[string][]string{} // of sandboxes, by their message
	for _, t := range v.Sandboxes {
		say := "usable here by " + t.Engine
		if !t.Done {
			say = "not tried, since " + t.Reason
		} else if !t.Usable {
			say = "not usable here"
		}
		names[say] = append(names[say], cli.Quote(t.Sandbox))
	}
	var found []string
	for _, say := range slices.Backward(cli.SortedKeys(names)) { // working sandboxes come first
		found = append(found, say+": "+strings.Join(names[say], ", "))
	}
	text += "\n" + strings.Join(found, "; ") + "\n"
	if !all {
		return cli.Printable(text + "every value in force, and where it comes from: sbxhost validate -v; what a command sees: sbxhost explain\n")
	}
	text = cli.Printable(text)
	for _, t := range v.Sandboxes {
		text += fmt.Sprintf("\nsandbox %s\n", cli.Quote(t.Sandbox)) + cli.Table("  ", settingRows(v.Settings[t.Sandbox])) + cli.List("  ", t.Notes)
	}
	return text
}

func newValidation(file *config.File, diags config.Diagnostics) *Validation {
	v := &Validation{Version: 1, File: file.Path(), Diagnostics: []diagnosticJSON{}}
	for i, d := range diags {
		out := diagnosticJSON{Severity: "warning", Summary: d.Summary, Detail: d.Detail}
		if diags[i : i+1].HasErrors() {
			out.Severity = "error"
			v.ErrorCount++
		} else {
			v.WarningCount++
		}
		if s := d.Subject; s != nil {
			out.Range = &rangeJSON{s.Filename, posJSON(s.Start), posJSON(s.End)}
		}
		v.Diagnostics = append(v.Diagnostics, out)
	}
	v.Valid = v.ErrorCount == 0
	return v
}
