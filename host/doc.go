// Package host runs commands in sandboxes on behalf of a program. It is the
// API that the sbxhost command is written with.
//
// A [Host] holds sandbox definitions and the engines that carry them out, each
// engine in a process of its own. [Host.Command] gives a [Cmd] in the manner
// of os/exec:
//
//	builtins := host.ServeBuiltin(native.New()) // first line of main
//	h, err := host.New(ctx, host.Options{
//		Builtins:  builtins,
//		Sandboxes: map[string]host.Definition{"fast": {Engine: "native"}},
//	})
//	if err != nil { ... }
//	defer h.Close()
//	out, err := h.Command(ctx, "fast", "go", "version").Output()
//
// The promise: a command runs inside what its definition says, or not at all.
// What an engine cannot hold is refused before anything runs, with an error
// that names the attribute. A command's own failure ([ExitError]) is never
// confused with that of its sandbox.
//
// The limits: the host trusts its caller, its definitions and its engines'
// executables. It has no package-level state, installs no signal handlers and,
// with the one documented exception of [ServeBuiltin], never ends the process.
// Hosts, and everything they give, are safe for concurrent use unless a type
// says otherwise.
package host
