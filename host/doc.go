// Package host runs commands in sandboxes for a program. The sbxhost command uses this API.
//
// A [Host] has sandbox definitions, and the engines that make the sandboxes, each in a process of
// its own. [Host.Command] returns a [Cmd], like os/exec:
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
// The promise: a command runs inside what its definition says, or not at all. If an engine cannot
// enforce an attribute, the host runs nothing, and the error names the attribute. An [ExitError] is
// always the command's own failure, never the sandbox's.
//
// The limits: the host trusts its caller, its definitions and its engines' executables. It has no
// package-level state, installs no signal handlers and never ends the process, except in
// [ServeBuiltin]. Hosts, and all that they return, are safe for concurrent use unless a type says
// otherwise.
package host
