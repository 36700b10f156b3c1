package setup

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
	"github.com/sbxhost/sbxhost/host"
)

// PlaceDenial sets where the attribute that causes a denial is written, and the change in the
// caller's form.
func (f *Flags) PlaceDenial(a *cli.App, s *Setup, d *host.Denial) {
	flag := f.FlagOf(d.Attribute)
	if d.At = cmp.Or(flag, VariableOf(a, d.Attribute), s.Place(a.Dir, d.Attribute)); flag != "" {
		d.Change = f.Change(d)
	}
}

// VariableOf names the variable of the environment that has set an attribute.
func VariableOf(a *cli.App, attribute string) string {
	name := map[string]string{"approvals.mode": "SBXHOST_APPROVAL_MODE", "audit.path": "SBXHOST_AUDIT"}[attribute]
	if a.Getenv(name) == "" {
		return ""
	}
	return name
}

// DenialLine returns what was denied, what would allow it, and where to write that.
func (f *Flags) DenialLine(d *host.Denial) string {
	at, change := "at "+d.At, d.Change
	switch {
	case d.Attribute == "", change == "" && d.At == "":
		return d.Reason
	case change == "" && strings.HasPrefix(d.At, "SBXHOST_"):
		return d.Reason + "; see " + d.Attribute + " in " + d.At
	case change == "":
		return d.Reason + "; see " + d.Attribute + " " + at
	case strings.HasPrefix(d.At, "-"):
		at = "instead"
	case d.At == "":
		at = "in a configuration, which sbxhost init writes"
	}
	if strings.HasPrefix(change, "network = ") {
		change = f.Change(d) + ", or " + change
	}
	if d.Attribute == "git" || d.Attribute == "protect_paths_except" { // what tools outside obey is seldom for a command to write
		return fmt.Sprintf("%s; do it outside of the sandbox, or to allow it: %s %s", d.Reason, change, at)
	}
	return fmt.Sprintf("%s; to allow it: %s %s", d.Reason, change, at)
}

// Place is FILE:LINE of an attribute, for a person in a directory; "" if no file sets it.
func (s *Setup) Place(dir, attribute string) string {
	if s == nil {
		return ""
	}
	return s.Config.Place(dir, s.Sandbox, attribute)
}
