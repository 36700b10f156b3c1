// Package noop is the engine that does not isolate: it runs commands as they
// are, on the host's files, for a host whose policy has allowed that. It
// refuses every Spec that does not say Unconfined, so that it can never
// stand in for an engine that isolates.
//
// What it holds are the things that concern the process alone: arguments, exact environment,
// directory, terminal, user, timeout, and the end of the command's process
// group with the command. What a command moves out of its process group
// (daemons, an interactive shell's jobs) outlives it. Limits, networks, hidden
// paths and read-only entries are not held, and events say so.
package noop

import "github.com/sbxhost/sbxhost/shared"

// Version is the engine's version.
const Version = "0.1.0"

var info = shared.Info{
	Name:     "noop",
	Version:  Version,
	Doc:      "runs commands without any isolation",
	Features: shared.Features{shared.FeatureUnconfined, shared.FeatureTTY, shared.FeatureUser},
}
