// Package traced says at which system calls a traced command stops, and what is kept of those that
// fail.
//
// The filter that stops a command at these calls identifies each by a [Mark], so that the tracer
// needs to know no numbers. The package uses only the standard library: it is part of the init's
// lean binary.
package traced

import (
	"container/list"
	"sync"
	"syscall"
)

// An Operation is what a call wants.
type Operation byte

const (
	Read Operation = iota
	Write
	Execute
	Connect
	operations
)

// String is the operation in a denial.
func (o Operation) String() string { return [...]string{"read", "write", "execute", "connect"}[o] }

// None means an argument that a call does not have.
const None = -1

// A Place is where a call's arguments name a file.
type Place struct {
	Dir  int // the descriptor that a relative path begins at
	Path int // the path; None if there is no second one
}

// A Syscall is one at which a traced command stops.
type Syscall struct {
	Name   string
	Wants  Operation
	Places [2]Place
	// Flags is the argument with the flags of open, Mode that with the mode of access: both can
	// make a Read a Write. Address is that with a socket's address.
	Flags, Mode, Address int
}

func reads(name string, places ...Place) Syscall { return newSyscall(name, Read, places) }

func writes(name string, places ...Place) Syscall { return newSyscall(name, Write, places) }

func newSyscall(name string, o Operation, places []Place) Syscall {
	w := Syscall{Name: name, Wants: o, Places: [2]Place{{None, None}, {None, None}}, Flags: None, Mode: None, Address: None}
	copy(w.Places[:], places)
	return w
}

func (w Syscall) flags(i int) Syscall { w.Flags = i; return w }

func (w Syscall) mode(i int) Syscall { w.Mode = i; return w }

func (w Syscall) address(i int) Syscall { w.Address = i; return w }

// at is a path alone, and from one that begins at a descriptor.
func at(path int) Place { return Place{None, path} }

func from(dir, path int) Place { return Place{dir, path} }

var (
	once  sync.Once
	calls []Syscall
)

// Calls returns all of them. An architecture may lack some. The first use makes the list: each program that
// imports package host would make it before main.
func Calls() []Syscall {
	once.Do(func() {
		calls = []Syscall{
			reads("open", at(0)).flags(1), reads("openat", from(0, 1)).flags(2), writes("creat", at(0)),
			reads("stat", at(0)), reads("lstat", at(0)), reads("newfstatat", from(0, 1)), reads("statx", from(0, 1)), reads("statfs", at(0)),
			reads("access", at(0)).mode(1), reads("faccessat", from(0, 1)).mode(2), reads("faccessat2", from(0, 1)).mode(2),
			reads("readlink", at(0)), reads("readlinkat", from(0, 1)), reads("chdir", at(0)),
			newSyscall("execve", Execute, []Place{at(0)}), newSyscall("execveat", Execute, []Place{from(0, 1)}),
			writes("mkdir", at(0)), writes("mkdirat", from(0, 1)), writes("rmdir", at(0)), writes("unlink", at(0)), writes("unlinkat", from(0, 1)),
			writes("mknod", at(0)), writes("mknodat", from(0, 1)),
			writes("rename", at(0), at(1)), writes("renameat", from(0, 1), from(2, 3)), writes("renameat2", from(0, 1), from(2, 3)),
			writes("link", at(0), at(1)), writes("linkat", from(0, 1), from(2, 3)), writes("symlink", at(1)), writes("symlinkat", from(1, 2)),
			writes("chmod", at(0)), writes("fchmodat", from(0, 1)), writes("fchmodat2", from(0, 1)),
			writes("chown", at(0)), writes("lchown", at(0)), writes("fchownat", from(0, 1)), writes("utimensat", from(0, 1)), writes("truncate", at(0)),
			newSyscall("connect", Connect, nil).address(1), newSyscall("bind", Write, nil).address(1),
		}
	})
	return calls
}

// mark identifies our filter's data: a command can have its own filters, with calls for another
// tracer.
const mark = 0x5b00

// Mark is what the filter returns for call i of [Calls].
func Mark(i int) uint16 { return mark | uint16(i) }

// Marked is the call of a filter's data; nil for another filter's.
func Marked(data uint32) *Syscall {
	i := int(data) - mark
	if i < 0 || i >= len(Calls()) {
		return nil
	}
	return &Calls()[i]
}

// Operation is what the call wants with these arguments.
func (w *Syscall) Operation(args *[6]uint64) Operation {
	const writing = syscall.O_WRONLY | syscall.O_RDWR | syscall.O_CREAT | syscall.O_TRUNC
	if w.Flags != None && args[w.Flags]&writing != 0 || w.Mode != None && args[w.Mode]&2 != 0 {
		return Write
	}
	return w.Wants
}

// A Call is one that failed, or several equal ones.
type Call struct {
	Wants Operation
	// Target is an absolute path as the command sees it, or an address and a port.
	Target string
	Errno  syscall.Errno
}

// MayBeSandbox reports whether a sandbox can be the cause of an error.
func MayBeSandbox(errno syscall.Errno) bool {
	switch errno {
	case syscall.ENOENT, syscall.ENOTDIR, syscall.ENXIO, syscall.EACCES, syscall.EPERM, syscall.EROFS, syscall.EBUSY, syscall.EXDEV,
		syscall.ECONNREFUSED, syscall.ENETUNREACH, syscall.EHOSTUNREACH:
		return true
	}
	return false
}

// Bounds of the record of one command: the calls that failed last.
const (
	MaxCalls  = 4096
	MaxTarget = 4096
	// MaxBytes bounds the targets together.
	MaxBytes = 192 << 10
)

// A Fold keeps calls, each once.
type Fold struct {
	calls map[Call]*list.Element
	order list.List // by the last time
	bytes int
}

// Add counts a call.
func (f *Fold) Add(c Call) {
	if len(c.Target) > MaxTarget {
		return
	}
	if e := f.calls[c]; e != nil {
		f.order.MoveToBack(e)
		return
	}
	if f.calls == nil {
		f.calls = map[Call]*list.Element{}
	}
	f.calls[c] = f.order.PushBack(c)
	f.bytes += len(c.Target)
	for f.bytes > MaxBytes || len(f.calls) > MaxCalls {
		oldest := f.order.Remove(f.order.Front()).(Call)
		f.bytes -= len(oldest.Target)
		delete(f.calls, oldest)
	}
}

// Calls returns the calls, the latest first.
func (f *Fold) Calls() []Call {
	var out []Call
	for e := f.order.Back(); e != nil; e = e.Prev() {
		out = append(out, e.Value.(Call))
	}
	return out
}
