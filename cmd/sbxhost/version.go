package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/sbxhost/sbxhost/internal/wire"
)

// version is a line that says which sbxhost this is.
func version() string {
	version := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		version = info.Main.Version
	}
	return fmt.Sprintf("sbxhost %s (%s, %s/%s, engine protocol %d)\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH, wire.Handshake.ProtocolVersion)
}
