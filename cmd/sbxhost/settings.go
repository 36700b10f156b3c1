package main

import (
	"fmt"
	"path/filepath"

	"github.com/sbxhost/sbxhost/config"
	"github.com/sbxhost/sbxhost/host"
)

// settingJSON is one effective value and where it came from.
type settingJSON struct {
	Attribute string `json:"attribute"`
	Value     string `json:"value"`
	// Origin is "file", "default", a flag such as "-network", or the name of a
	// variable.
	Origin string `json:"origin"`
	File   string `json:"file"` // empty unless the origin is file
	Line   int    `json:"line"`
}

// settings gives what holds for a sandbox of a file with options. The flags may
// be nil.
func (a *app) settings(file *config.File, sandbox string, options host.Options, flags *runFlags) []settingJSON {
	list := []settingJSON{}
	for _, s := range file.Settings(sandbox, options) {
		out := settingJSON{Attribute: s.Attribute, Value: s.Value, Origin: "default"}
		switch variable := a.variableOf(s.Attribute); {
		case flags != nil && flags.flagOf(s.Attribute) != "":
			out.Origin = flags.flagOf(s.Attribute)
		case variable != "":
			out.Origin = variable
		case s.Line > 0:
			out.Origin, out.File, out.Line = "file", s.File, s.Line
		}
		list = append(list, out)
	}
	return list
}

// variableOf names the variable of the environment that has set an attribute.
func (a *app) variableOf(attribute string) string {
	name := ""
	switch attribute {
	case "approvals.mode":
		name = "SBXHOST_APPROVAL_MODE"
	case "approvals.session_ttl":
		name = "SBXHOST_SESSION_APPROVAL_TTL_MS"
	case "audit.path":
		name = "SBXHOST_AUDIT"
	}
	if name == "" || a.getenv(name) == "" {
		return ""
	}
	return name
}

// settingRows are the settings for people.
func settingRows(list []settingJSON) [][]string {
	var rows [][]string
	for _, s := range list {
		from := s.Origin
		if s.Line > 0 {
			from = fmt.Sprintf("%s:%d", quote(filepath.Base(s.File)), s.Line)
		}
		rows = append(rows, []string{s.Attribute, printable(s.Value), from})
	}
	return rows
}
