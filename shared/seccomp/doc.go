// Package seccomp makes the system call filter that the engines native and bwrap put on
// every command.
//
// A filter is a value: [New] translates [Options] into a program for one
// architecture, on any system, and [Filter.Bytes] is what the kernel takes. The init loads it
// on the thread that then executes the command, so that the filter applies to the command and all
// that it starts, and nothing can remove it.
//
// # Promise
//
// The filter refuses the calls that reach the least tested parts of the kernel, or that undo what
// the other layers enforce. The list is in rules.go, and [Filter.String] prints it. The filter
// compares arguments as the kernel reads them: only the low 32 bits of an argument that the kernel
// takes for an int, and masks where a bit counts.
//
// A refused call gives EPERM, and the command goes on. A refused call for which programs have a
// substitute gives ENOSYS, so that they use the substitute: clone3, openat2 (whose arguments lie in
// memory, where a filter cannot look), io_uring, and every call that is newer than this package. A
// call of another architecture, such as a 32-bit program's, kills its process: its numbers mean
// other calls.
//
// # Limits
//
// The filter lists the calls that it refuses, and lets all others pass. It sees numbers, never
// paths or other memory. So its rules about modes also apply to directories: a set-group-id bit
// that a directory inherits stays, but `chmod g+s`, and a numeric chmod of a directory that has the
// bit, are refused.
//
// ioctl is allowed, except for the two requests that put input into a terminal. Every protocol of
// the allowed socket families is allowed.
//
// Even a process that may use ptrace cannot escape: since Linux 4.8, the kernel filters a call
// after its tracer has changed it.
package seccomp
