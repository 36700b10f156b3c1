package explain

import (
	"cmp"
	"fmt"
	"path/filepath"

	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/setup"
	"github.com/sbxhost/sbxhost/config"
	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/shared"
)

// settingJSON is one effective value and its origin.
type settingJSON struct {
	Attribute string `json:"attribute"`
	Value     string `json:"value"`
	// Origin is "file", "default", a flag such as "-network", or the name of a variable.
	Origin string `json:"origin"`
	File   string `json:"file"` // empty unless the origin is file
	Line   int    `json:"line"`
	// Differs says that somebody has set it to a value other than the default.
	Differs bool `json:"differs"`
}

// settings returns the effective values for a sandbox of a file with options, and those of its
// engine by the schema.
func settings(a *cli.App, file *config.File, sandbox string, options host.Options, schema shared.OptionSchema, flags *setup.Flags) []settingJSON {
	if flags.Sandbox != "" {
		options.DefaultSandbox = sandbox
	}
	defaults := map[string]string{}
	bare := host.Definition{Engine: options.Sandboxes[sandbox].Engine} // the default of fallback depends on it
	for _, s := range file.Settings(sandbox, host.Options{Sandboxes: map[string]host.Definition{sandbox: bare}}, schema) {
		defaults[s.Attribute] = s.Value
	}
	defaults["engine"] = "auto"
	list := []settingJSON{}
	for _, s := range file.Settings(sandbox, options, schema) {
		out := settingJSON{Attribute: s.Attribute, Value: s.Value, Origin: cmp.Or(flags.FlagOf(s.Attribute), setup.VariableOf(a, s.Attribute), "default")}
		if out.Origin == "default" && s.Line > 0 {
			out.Origin, out.File, out.Line = "file", file.Path(), s.Line
		}
		out.Differs = out.Origin != "default" && out.Value != defaults[s.Attribute]
		list = append(list, out)
	}
	return list
}

// settingRows formats the settings for people.
func settingRows(list []settingJSON) [][]string {
	var rows [][]string
	for _, s := range list {
		from := s.Origin
		if s.Line > 0 {
			from = fmt.Sprintf("%s:%d", cli.Quote(filepath.Base(s.File)), s.Line)
		}
		rows = append(rows, []string{s.Attribute, from, cli.Printable(s.Value)})
	}
	return rows
}
