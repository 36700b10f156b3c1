package config

import (
	"fmt"

	"github.com/hashicorp/hcl/v2"
)

// Check warns of what is right by itself and cannot work on the operating
// system named, as Go names it: a file may hold sandboxes for several.
func (f *File) Check(goos string) Diagnostics {
	var diags hcl.Diagnostics
	for _, name := range f.names {
		engine := f.options.Sandboxes[name].Engine
		if _, declared := f.options.Engines[engine]; declared {
			continue
		}
		needs := ""
		switch engine {
		case "native", "bwrap", "landlock":
			needs = "linux"
		case "seatbelt":
			needs = "darwin"
		}
		if needs == "" || needs == goos {
			continue
		}
		at, _ := f.Locate(name, "engine")
		diags = append(diags, &hcl.Diagnostic{
			Severity: hcl.DiagWarning,
			Summary:  "Engine not available here",
			Detail:   fmt.Sprintf("Engine %s works on %s only: sandbox %q cannot be used on this machine.", showEngine(engine, f.sandboxes[name].engineHidden), systemName(needs), name),
			Subject:  &at,
		})
	}
	return f.finish(diags)
}

func systemName(goos string) string {
	switch goos {
	case "darwin":
		return "macOS"
	case "linux":
		return "Linux"
	}
	return goos
}
