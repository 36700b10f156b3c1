package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/sbxhost/sbxhost/shared"
)

// versionCommand says which sbxhost this is.
type versionCommand struct{ *app }

func (*versionCommand) Synopsis() string   { return "Say which version this is" }
func (*versionCommand) takesCommand() bool { return false }

func (*versionCommand) Help() string {
	return `Usage: sbxhost version [-json]

Say which version of sbxhost this is, what it was built with, and the version of
the protocol that it speaks with engines.`
}

// versionInfo is what -json gives.
type versionInfo struct {
	Version  string `json:"version"`
	Revision string `json:"revision"` // of the source; empty where it is not known
	Modified bool   `json:"modified"` // the source was changed since
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
	Protocol int    `json:"protocol"` // of engines
}

// Run implements subcommand.
func (c *versionCommand) Run(args []string) int {
	fs := newFlags("version")
	asJSON := fs.Bool("json", false, "")
	if status, ok := c.parse(fs, c, args); !ok {
		return status
	}
	if status, ok := c.noArguments(fs); !ok {
		return status
	}
	v := readVersion()
	if *asJSON {
		return c.printJSON(v)
	}
	return c.print(v.line() + "\n")
}

func readVersion() versionInfo {
	v := versionInfo{
		Version: "unknown", Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH,
		Protocol: int(shared.Handshake.ProtocolVersion),
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if info.Main.Version != "" {
		v.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}

func (v versionInfo) line() string {
	return fmt.Sprintf("sbxhost %s (%s, %s/%s, engine protocol %d)", v.Version, v.Go, v.OS, v.Arch, v.Protocol)
}
