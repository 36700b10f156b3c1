// Package trace stops a process at the calls of package traced, and keeps those that fail. The
// process controls what it reads: it is bounded, and only shown.
package trace

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/engine/traced"
)

// A Tracer is, for the kernel, the thread that its methods are called on: the parent of the process
// that it follows, with no other children.
type Tracer struct {
	entered map[int]entry // by thread: the call that it is in
	fold    traced.Fold
}

// entry is a call at its beginning.
type entry struct {
	call *traced.Syscall
	args [6]uint64
}

// traceOptions kill all traced processes when the tracer ends.
const traceOptions = unix.PTRACE_O_EXITKILL | unix.PTRACE_O_TRACESECCOMP | unix.PTRACE_O_TRACESYSGOOD |
	unix.PTRACE_O_TRACEFORK | unix.PTRACE_O_TRACEVFORK | unix.PTRACE_O_TRACECLONE | unix.PTRACE_O_TRACEEXEC

const syscallStop = syscall.SIGTRAP | 0x80

// Seize begins with the thread of a child that will execute the program.
func (t *Tracer) Seize(thread int) error {
	t.entered = map[int]entry{}
	return ptrace(unix.PTRACE_SEIZE, thread, 0, traceOptions)
}

// Follow follows the process to its end, and calls executed after it has executed its program.
func (t *Tracer) Follow(process int, executed func()) (syscall.WaitStatus, error) {
	running := false
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, unix.WALL, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return ws, err
		case ws.Stopped():
			if ws.TrapCause() == unix.PTRACE_EVENT_EXEC && pid == process && !running {
				running = true
				executed()
			}
			t.stopped(pid, ws)
		case pid == process:
			return ws, nil
		default:
			delete(t.entered, pid)
		}
	}
}

// Calls returns the failed calls, the latest first.
func (t *Tracer) Calls() []traced.Call { return t.fold.Calls() }

// stopped lets a thread go on. If it is gone meanwhile, that is no error: its end comes next.
func (t *Tracer) stopped(pid int, ws syscall.WaitStatus) {
	event, sig := int(uint32(ws)>>16), ws.StopSignal()
	next, delivered := unix.PTRACE_CONT, syscall.Signal(0)
	switch {
	case event == unix.PTRACE_EVENT_SECCOMP:
		next = t.enter(pid)
	case event == unix.PTRACE_EVENT_STOP:
		switch sig {
		case syscall.SIGSTOP, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU:
			// Job control has stopped it: it stays so until somebody continues it.
			next = unix.PTRACE_LISTEN
		}
	case event == unix.PTRACE_EVENT_EXEC:
		// It has succeeded. A thread that was not the first has the process's number now.
		former, _ := unix.PtraceGetEventMsg(pid)
		delete(t.entered, int(former))
		delete(t.entered, pid)
	case event != 0:
	case sig == syscallStop:
		t.leave(pid)
	default:
		delivered = sig
	}
	ptrace(next, pid, 0, uintptr(delivered))
}

// enter records a call that begins, and returns how its thread goes on.
func (t *Tracer) enter(pid int) (next int) {
	info, err := syscallInfo(pid)
	if err != nil || info.op != unix.PTRACE_SYSCALL_INFO_SECCOMP {
		return unix.PTRACE_CONT
	}
	w := traced.Marked(uint32(info.rest[7]))
	if w == nil {
		// A filter of the command's own wants a tracer that does not exist.
		refuseCall(pid)
		return unix.PTRACE_CONT
	}
	t.entered[pid] = entry{w, [6]uint64(info.rest[1:7])}
	return unix.PTRACE_SYSCALL
}

// leave looks at how it ended.
func (t *Tracer) leave(pid int) {
	e, ok := t.entered[pid]
	delete(t.entered, pid)
	info, err := syscallInfo(pid)
	if !ok || err != nil || info.op != unix.PTRACE_SYSCALL_INFO_EXIT || byte(info.rest[1]) == 0 {
		return
	}
	errno := syscall.Errno(-int64(info.rest[0]))
	if !traced.MayBeSandbox(errno) {
		return
	}
	call := traced.Call{Wants: e.call.Operation(&e.args), Errno: errno}
	if e.call.Address != traced.None {
		if call.Target = socketAddress(pid, e.args[e.call.Address], e.args[e.call.Address+1]); call.Target == "" {
			return
		}
		if call.Wants == traced.Write && call.Target[0] != '/' {
			return // an address that cannot be bound to, which no sandbox causes
		}
		t.fold.Add(call)
		return
	}
	for _, p := range e.call.Places {
		if p.Path == traced.None {
			break
		}
		if call.Target = pathOf(pid, p, &e.args); call.Target != "" {
			t.fold.Add(call)
		}
	}
}

// pathOf is the absolute path in a call's arguments, or "".
func pathOf(pid int, p traced.Place, args *[6]uint64) string {
	name, ok := textAt(pid, args[p.Path])
	if !ok || name == "" {
		return ""
	}
	if path.IsAbs(name) {
		return path.Clean(name)
	}
	base := "cwd"
	if p.Dir != traced.None && int32(args[p.Dir]) != unix.AT_FDCWD {
		base = "fd/" + strconv.Itoa(int(int32(args[p.Dir])))
	}
	return beneath(pid, base, name)
}

func beneath(pid int, base, name string) string {
	dir, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/" + base)
	if err != nil || !path.IsAbs(dir) {
		return ""
	}
	return path.Join(dir, name)
}

// textAt reads a string of another process. No path is longer than a page.
func textAt(pid int, address uint64) (string, bool) {
	var text []byte
	for len(text) < traced.MaxTarget {
		// Up to the end of a page: the next one may be missing.
		piece := make([]byte, min(256, 4096-int(address%4096)))
		n, err := readMemory(pid, address, piece)
		if err != nil || n == 0 {
			return "", false
		}
		if end := bytes.IndexByte(piece[:n], 0); end >= 0 {
			return string(append(text, piece[:end]...)), true
		}
		text = append(text, piece[:n]...)
		address += uint64(n)
	}
	return "", false
}

// socketAddress is a path, or an address with a port; "" for others.
func socketAddress(pid int, address, size uint64) string {
	raw := make([]byte, min(size, unix.SizeofSockaddrUnix))
	n, err := readMemory(pid, address, raw)
	if err != nil || n < 3 {
		return ""
	}
	switch family := binary.NativeEndian.Uint16(raw); {
	case family == unix.AF_UNIX:
		name, _, _ := strings.Cut(string(raw[2:]), "\x00")
		if name == "" || path.IsAbs(name) {
			return name // empty for an abstract one
		}
		return beneath(pid, "cwd", name)
	case family == unix.AF_INET && n >= 8:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(raw[4:8])), binary.BigEndian.Uint16(raw[2:])).String()
	case family == unix.AF_INET6 && n >= 24:
		return netip.AddrPortFrom(netip.AddrFrom16([16]byte(raw[8:24])).Unmap(), binary.BigEndian.Uint16(raw[2:])).String()
	}
	return ""
}

func readMemory(pid int, address uint64, into []byte) (int, error) {
	if len(into) == 0 {
		return 0, syscall.EINVAL
	}
	local := []unix.Iovec{{Base: &into[0]}}
	local[0].SetLen(len(into))
	n, err := unix.ProcessVMReadv(pid, local, []unix.RemoteIovec{{Base: uintptr(address), Len: len(into)}}, 0)
	if err != unix.EPERM && err != unix.ENOSYS {
		return n, err
	}
	// Docker's default profile refuses that call, and none of ptrace's.
	if n, err = unix.PtracePeekData(pid, uintptr(address), into); n > 0 {
		err = nil
	}
	return n, err
}

// callInfo is struct ptrace_syscall_info.
type callInfo struct {
	op     uint8
	_      [3]uint8
	arch   uint32
	ip, sp uint64
	// rest depends on op: number, six arguments and the filter's data, or the result and whether
	// that is an error.
	rest [8]uint64
}

func syscallInfo(pid int) (info callInfo, err error) {
	_, _, errno := syscall.Syscall6(syscall.SYS_PTRACE, unix.PTRACE_GET_SYSCALL_INFO, uintptr(pid), unsafe.Sizeof(info), uintptr(unsafe.Pointer(&info)), 0, 0)
	if errno != 0 {
		return info, errno
	}
	return info, nil
}

func ptrace(request, pid int, address, data uintptr) error {
	_, _, errno := syscall.Syscall6(syscall.SYS_PTRACE, uintptr(request), uintptr(pid), address, data, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
