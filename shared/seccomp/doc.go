// Package seccomp makes the system call filter that the engines native and bwrap put on
// every command.
//
// A filter is a value: [New] translates [Options] into a program for one
// architecture, on any system, and [Filter.Bytes] is what the kernel takes. The init loads it
// on the thread that then executes the command, so that the command and all it starts are
// under it for good.
//
// # Promise
//
// The calls are refused that reach the kernel where it is least tested, or
// that undo what the other layers hold: the list is in rules.go, and
// [Filter.String] prints it. Arguments are compared as the kernel reads them:
// only the low 32 bits of those that it takes for an int, and masks where a bit counts.
//
// A refused call gives EPERM, and the command goes on. The calls that programs
// have a substitute for give ENOSYS, upon which they use that: clone3, openat2
// (whose arguments lie in memory, where a filter cannot look), io_uring, and
// whatever is newer than this package. A call of another architecture, such
// as a 32-bit program's, kills its process: its numbers mean other calls.
//
// # Limits
//
// The filter lists what is refused, and lets pass what is not. It sees numbers, never paths
// or other memory. What it says of modes therefore holds for directories too:
// a set-group-id bit that a directory inherits stays, but `chmod g+s`, and a
// chmod in numbers of a directory that has the bit, are refused.
//
// ioctl is allowed but for the two requests that put input into a terminal, and
// so is every protocol of the socket families that are let through.
//
// A process that may use ptrace can still not escape: since Linux 4.8 the
// kernel filters a call after its tracer has changed it.
package seccomp
