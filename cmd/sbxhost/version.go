package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/sbxhost/sbxhost/internal/wire"
)

// version returns a line that identifies this sbxhost.
func version() string {
	version := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		version = info.Main.Version
	}
	return fmt.Sprintf("sbxhost %s (%s, %s/%s, engine protocol %d)\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH, wire.Handshake.ProtocolVersion)
}
