// Package noop is the engine that does not isolate: it runs commands unchanged, on the host's
// files, if the host's policy permits that. It refuses every Spec that is not Unconfined, so that
// it can never replace an engine that isolates.
//
// It handles only the process itself: arguments, exact environment, directory, terminal, user,
// timeout, and the end of the command's process group with the command. Processes that leave the
// group (daemons, an interactive shell's jobs) outlive it. It does not enforce limits, networks,
// hidden paths and read-only entries, and events say so.
package noop

import "github.com/sbxhost/sbxhost/shared"

const Version = "0.1.0"

var info = shared.Info{
	Name:     "noop",
	Version:  Version,
	Doc:      "runs commands without any isolation",
	Features: shared.Features{shared.FeatureUnconfined, shared.FeatureTTY, shared.FeatureUser},
}
