package main

import (
	"flag"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
	"github.com/sbxhost/sbxhost/shared/wire"
)

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

// showVersion says which sbxhost this is.
func showVersion(a *cli.App, fs *flag.FlagSet) func() error {
	asJSON := cli.JSONFlag(fs)
	return func() error {
		v := readVersion()
		return a.Result(*asJSON, v, v.line()+"\n")
	}
}

func readVersion() versionInfo {
	v := versionInfo{
		Version: "unknown", Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH,
		Protocol: int(wire.Handshake.ProtocolVersion),
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
