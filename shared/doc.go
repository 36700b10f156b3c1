// Package shared is the contract between sbxhost and the engines that isolate
// commands: the interfaces an engine implements, the plain data that crosses
// between the two, the errors that survive the crossing, and [Serve], which is the
// main of an engine's program.
//
// The promise: an engine behaves the same whether it is called in process or
// runs as a plugin behind gRPC. A caller cannot tell the difference by the
// values, the errors or the files it sees; a process of its own only adds one
// way to fail, [ErrEngineLost]. Nothing here reads configuration, decides policy or
// touches the file system, and no type of gRPC, protobuf or go-plugin shows. The host's
// end of the wire is package dial.
//
// # Lifetimes
//
// An [Engine] serves until its process ends. [Engine.Open] gives a [Sandbox]
// that the caller must Close; [Sandbox.Start] gives a [Process] on which the
// caller must call Wait until it returns a result or an error other than the
// context's. Closing a Sandbox kills the commands that still run in it. The
// context of Start, like that of every other method here, covers the call
// alone: a command outlives it and is ended by Signal, by its own timeout or
// by Close.
//
// Everything is safe for concurrent use by many goroutines.
//
// # Growth
//
// [Engine], [Sandbox] and [Process] keep their methods for as long as the protocol has its
// version: what an engine may do besides is an interface of its own, such as [EarlyStarter],
// and what it may hold besides is a feature. Structs get fields whose zero value means
// what was before. So an implementation needs nothing to embed.
//
// # Zero values isolate
//
// The zero [Spec] has no network, sees nothing but the engine's curated
// operating system files and can write nothing that lasts. Whatever is not
// understood is refused with [ErrUnsupported] or [ErrInvalidSpec], never
// ignored.
package shared
