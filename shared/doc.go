// Package shared is the contract between sbxhost and the engines that isolate commands: the
// interfaces that an engine implements, the data and errors that cross between the two, and
// [Serve], the main of an engine's program.
//
// The promise: an engine behaves the same in the host's process and as a plugin behind gRPC.
// Values, errors and files do not differ; a process of its own adds only one failure,
// [ErrEngineLost]. This package reads no configuration, decides no policy, does not touch the file
// system, and shows no type of gRPC, protobuf or go-plugin. Package dial is the host's end of the
// protocol.
//
// # Lifetimes
//
// An [Engine] serves until its process ends. The caller must Close the [Sandbox] that [Engine.Open]
// returns, and call Wait on the [Process] that [Sandbox.Start] returns, until Wait returns a result
// or an error other than the context's. Close kills the commands that still run in the Sandbox. A
// method's context covers only the call: a command outlives the context of Start, and ends by
// Signal, its timeout or Close.
//
// All of it is safe for concurrent use.
//
// # Growth
//
// [Engine], [Sandbox] and [Process] keep their methods during a version of the protocol. An
// engine's further methods are in interfaces of their own, such as [EarlyStarter], and its further
// abilities are features. The zero value of a new field of a struct means the old behavior. So an
// implementation needs nothing to embed.
//
// # Zero values isolate
//
// The zero [Spec] has no network, shows only the engine's curated operating system files, and
// permits no write that lasts. An engine refuses what it does not understand with [ErrUnsupported]
// or [ErrInvalidSpec]. It ignores nothing.
package shared
