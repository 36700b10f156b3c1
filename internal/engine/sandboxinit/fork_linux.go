package sandboxinit

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/engine/holder"
	"github.com/sbxhost/sbxhost/internal/engine/sandboxinit/confine"
	"github.com/sbxhost/sbxhost/internal/frame"
)

// Limits, a namespace of its own and a confinement belong to a process, so they are made between
// fork and exec, where Go's own packages do only a part of that. The child is a copy of one thread
// of a Go program: it can neither allocate nor call a function that may grow the stack. So
// everything is prepared before, and the child makes only system calls, as in
// syscall.forkAndExecInChild.

// The Go runtime keeps these names for programs that fork themselves.
//
//go:linkname runtime_BeforeFork syscall.runtime_BeforeFork
func runtime_BeforeFork()

//go:linkname runtime_AfterFork syscall.runtime_AfterFork
func runtime_AfterFork()

//go:linkname runtime_AfterForkInChild syscall.runtime_AfterForkInChild
func runtime_AfterForkInChild()

// A forkedCommand is a command between fork and exec.
type forkedCommand struct {
	path      *byte
	argv, env []*byte
	files     []int // become 0, 1, 2 and so on
	tty       bool
	locked    bool
	mapped    bool // it needs a map, or is traced
	ruleset   int  // a Landlock descriptor for a locked command; negative for none
	limits    []Rlimit
	filters   []unix.SockFprog
	steps     []Op // the step that fails with each of filters
	caps      unix.CapUserHeader
	none      [2]unix.CapUserData
	// ours and theirs are a socket: the parent tells the child to go on, and the child reports a
	// failure. It is close-on-exec: its end means success.
	ours, theirs int
	pid          int
	failed       failure
	name         string // of the file
}

// A failure is the child's report. index is that of the limit.
type failure struct {
	step         Op
	index, errno int32
}

// prepare makes all that the child needs. by is the confinement of the thread that forks; a locked
// command gets it between fork and exec, because it prevents new namespaces.
func prepare(cmd *Command, by *Confinement, prog Program, files []int) (u *forkedCommand, refused *ExecError) {
	u = &forkedCommand{tty: cmd.TTY, locked: by.Locked, mapped: by.Locked || len(cmd.Trace) > 0, files: files, ruleset: -1, ours: -1, theirs: -1, name: prog.Path}
	defer func() {
		if refused != nil {
			u.close()
		}
	}()
	var err error
	if u.path, err = syscall.BytePtrFromString(prog.Path); err == nil {
		if u.argv, err = syscall.SlicePtrFromStrings(prog.Argv); err == nil {
			u.env, err = syscall.SlicePtrFromStrings(cmd.Env)
		}
	}
	if err != nil {
		return u, execError(OpExec, prog.Path, err)
	}
	if by.Locked {
		if root := by.root(); root != nil {
			if u.ruleset, err = root.Ruleset(files[:3]...); err != nil {
				return u, execError(OpLandlock, restricted(err), err)
			}
		}
		u.filter(by.Filter, OpFilter)
	}
	u.filter(cmd.Trace, OpTrace)
	u.caps.Version = unix.LINUX_CAPABILITY_VERSION_3
	u.limits = append([]Rlimit{startersNOFILE()}, cmd.Rlimits...)
	pair, err := frame.Socketpair()
	if err != nil {
		return u, execError(OpFork, "", err)
	}
	u.ours, u.theirs = pair[0], pair[1]
	for _, fd := range [...]*int{&u.theirs, &u.ruleset} { // out of the way of 0, 1, 2 and 3
		if *fd < 0 || *fd > scriptFD {
			continue
		}
		above, err := unix.FcntlInt(uintptr(*fd), unix.F_DUPFD_CLOEXEC, scriptFD+1)
		if err != nil {
			return u, execError(OpFork, "", err)
		}
		unix.Close(*fd)
		*fd = above
	}
	return u, nil
}

func (u *forkedCommand) filter(program []byte, step Op) {
	if len(program) > 0 {
		u.filters, u.steps = append(u.filters, confine.Program(program)), append(u.steps, step)
	}
}

// close closes this process's parts of it.
func (u *forkedCommand) close() {
	for _, fd := range [...]*int{&u.ours, &u.theirs, &u.ruleset} {
		if *fd >= 0 {
			unix.Close(*fd)
			*fd = -1
		}
	}
}

// fork makes the child, which waits for [forkedCommand.begin]. The command inherits the thread's
// attributes.
func (u *forkedCommand) fork() *ExecError {
	flags := uintptr(unix.SIGCHLD)
	if u.locked {
		// The first two together make the kernel lock the mounts. An init from before the control
		// group is not at the top of its cgroup namespace.
		flags |= unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP
	}
	// A process that is not dumpable belongs to root, and nobody may trace it: this process could
	// then not write the child's map, nor trace it. Other commands are in user namespaces of their
	// own.
	if u.mapped {
		unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0)
	}
	pid, errno := u.clone(flags)
	unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	unix.Close(u.theirs)
	u.theirs = -1
	if errno != 0 {
		op := OpFork
		if u.locked && errno != syscall.EAGAIN && errno != syscall.ENOMEM {
			op = OpNamespaces
		}
		return &ExecError{op, "", errno}
	}
	if u.pid = pid; !u.locked {
		return nil
	}
	maps := ownMaps()
	err := u.write("uid_map", maps.users)
	if err == nil {
		// Without it an ordinary user cannot write the other map; with it a command cannot drop a
		// group that denies it a file.
		if err = u.write("setgroups", "deny"); err == nil || err == syscall.ENOENT {
			err = u.write("gid_map", maps.groups)
		}
	}
	if err != nil {
		u.end()
		return execError(OpNamespaces, "", err)
	}
	// The last process to close a mount namespace takes its mounts apart, which can take milliseconds.
	// So this process keeps the namespace open until its own end, for which nobody waits.
	syscall.Open(u.proc("ns/mnt"), syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	return nil
}

// idMaps are the maps of users and groups for a child. oneUser says that this user namespace has
// only one user, not root, and one group: then no capability is necessary to write them.
type idMaps struct {
	users, groups string
	oneUser       bool
}

// ownMaps keep the value of each number of this process's own maps; if one of these cannot be read,
// only that of the process's own number. They do not change.
var ownMaps = sync.OnceValue(func() idMaps {
	maps := idMaps{oneUser: true}
	for _, of := range [...]struct {
		file string
		id   int
		to   *string
	}{{"uid_map", os.Geteuid(), &maps.users}, {"gid_map", os.Getegid(), &maps.groups}} {
		list, err := holder.IdentityMap("/proc/self/" + of.file)
		if err != nil {
			list = []syscall.SysProcIDMap{{ContainerID: of.id, HostID: of.id, Size: 1}}
		}
		maps.oneUser = maps.oneUser && err == nil && len(list) == 1 && list[0].Size == 1 && list[0].HostID != 0
		for _, m := range list {
			*of.to += fmt.Sprintln(m.ContainerID, m.HostID, m.Size)
		}
	}
	return maps
})

// proc is the path of a file of the child in /proc.
func (u *forkedCommand) proc(file string) string { return "/proc/" + strconv.Itoa(u.pid) + "/" + file }

// write writes a file of the child in /proc, with one call.
func (u *forkedCommand) write(file, text string) error {
	fd, err := syscall.Open(u.proc(file), syscall.O_WRONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	_, err = syscall.Write(fd, []byte(text))
	return err
}

// begin makes the child execute the program.
func (u *forkedCommand) begin() *ExecError {
	u.proceed()
	refused := u.outcome()
	if refused != nil {
		u.end()
	}
	return refused
}

// proceed tells the child to go on.
func (u *forkedCommand) proceed() { controlSocket(u.ours).send([]byte{0}) }

// outcome waits for the child to report a failure or to execute.
func (u *forkedCommand) outcome() *ExecError {
	defer u.close()
	f := &u.failed
	if _, err := io.ReadFull(controlSocket(u.ours), unsafe.Slice((*byte)(unsafe.Pointer(f)), unsafe.Sizeof(*f))); err != nil {
		return nil // executed; or dead, as its wait status will say
	}
	errno := syscall.Errno(f.errno)
	switch f.step {
	case OpExec:
		return execFailure(u.name, errno)
	case OpRlimit:
		var now syscall.Rlimit
		limit := u.limits[f.index]
		syscall.Getrlimit(limit.Resource, &now)
		return &ExecError{OpRlimit, fmt.Sprintf("%s to %d, above the hard limit %d", resourceName(limit.Resource), limit.Hard, now.Max), errno}
	}
	return &ExecError{f.step, "", errno}
}

// end ends a child that has executed nothing.
func (u *forkedCommand) end() {
	u.close()
	syscall.Kill(u.pid, syscall.SIGKILL)
	for {
		if _, err := syscall.Wait4(u.pid, nil, 0, nil); err != syscall.EINTR {
			return
		}
	}
}

// clone is the fork, and in the child all until exec. There it does not return.
//
// After runtime_BeforeFork, and in the child to its end, nothing may allocate, or call a function
// that may grow the stack: with RLIMIT_AS, and in a copy of one thread of many, no runtime could do
// that.
//
//go:noinline
//go:norace
//go:nocheckptr
func (u *forkedCommand) clone(flags uintptr) (pid int, errno syscall.Errno) {
	var (
		r    uintptr
		i    int
		step = OpFork
		at   int
	)
	runtime_BeforeFork()
	r, _, errno = syscall.RawSyscall6(syscall.SYS_CLONE, flags, 0, 0, 0, 0, 0)
	if errno != 0 || r != 0 {
		runtime_AfterFork()
		return int(r), errno
	}
	runtime_AfterForkInChild()

	// The child must see the end of the parent, which gives no answer when it ends, or gives up.
	syscall.RawSyscall(syscall.SYS_CLOSE, uintptr(u.ours), 0, 0)
	r, _, errno = syscall.RawSyscall(syscall.SYS_READ, uintptr(u.theirs), uintptr(unsafe.Pointer(&u.failed)), 1)
	if errno != 0 || r != 1 {
		goto exit
	}
	// It is a copy of the parent, with its descriptors, so nobody may look at it any more.
	if _, _, errno = syscall.RawSyscall6(syscall.SYS_PRCTL, unix.PR_SET_DUMPABLE, 0, 0, 0, 0, 0); errno != 0 {
		goto failed
	}
	// A session is also the process group for signals.
	if _, _, errno = syscall.RawSyscall(syscall.SYS_SETSID, 0, 0, 0); errno != 0 {
		goto failed
	}
	for i = 0; i < len(u.files); i++ {
		if u.files[i] == i { // only behind stdio: it is close-on-exec
			_, _, errno = syscall.RawSyscall(syscall.SYS_FCNTL, uintptr(i), syscall.F_SETFD, 0)
		} else {
			_, _, errno = syscall.RawSyscall(syscall.SYS_DUP3, uintptr(u.files[i]), uintptr(i), 0)
		}
		if errno != 0 {
			goto failed
		}
	}
	if u.tty {
		step = OpTTY
		if _, _, errno = syscall.RawSyscall(syscall.SYS_IOCTL, 0, syscall.TIOCSCTTY, 1); errno != 0 {
			goto failed
		}
	}
	if u.locked {
		// All that it can do in its namespaces goes before the limits, which a capability would
		// ignore, and before anything of the command: it could take the mounts apart.
		step = OpFork
		if _, _, errno = syscall.RawSyscall6(syscall.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0); errno != 0 {
			goto failed
		}
		for i = 0; ; i++ {
			_, _, errno = syscall.RawSyscall6(syscall.SYS_PRCTL, unix.PR_CAPBSET_DROP, uintptr(i), 0, 0, 0, 0)
			if errno == syscall.EINVAL {
				break // past the last capability of this kernel
			}
			if errno != 0 {
				goto failed
			}
		}
		if _, _, errno = syscall.RawSyscall(syscall.SYS_CAPSET, uintptr(unsafe.Pointer(&u.caps)), uintptr(unsafe.Pointer(&u.none)), 0); errno != 0 {
			goto failed
		}
		if u.ruleset >= 0 {
			step = OpLandlock
			if _, _, errno = syscall.RawSyscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(u.ruleset), 0, 0); errno != 0 {
				goto failed
			}
		}
	}
	step = OpRlimit
	for i = 0; i < len(u.limits); i++ {
		at = i
		_, _, errno = syscall.RawSyscall6(syscall.SYS_PRLIMIT64, 0, uintptr(u.limits[i].Resource), uintptr(unsafe.Pointer(&u.limits[i].Soft)), 0, 0, 0)
		if errno != 0 {
			goto failed
		}
	}
	for i = 0; i < len(u.filters); i++ {
		step = u.steps[i]
		if _, _, errno = syscall.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&u.filters[i]))); errno != 0 {
			goto failed
		}
	}
	step = OpExec
	_, _, errno = syscall.RawSyscall(syscall.SYS_EXECVE, uintptr(unsafe.Pointer(u.path)), uintptr(unsafe.Pointer(&u.argv[0])), uintptr(unsafe.Pointer(&u.env[0])))

failed:
	u.failed.step, u.failed.index, u.failed.errno = step, int32(at), int32(errno)
	syscall.RawSyscall(syscall.SYS_WRITE, uintptr(u.theirs), uintptr(unsafe.Pointer(&u.failed)), unsafe.Sizeof(u.failed))
exit:
	for {
		syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 253, 0, 0)
	}
}

// startersNOFILE is the limit of descriptors that this process started with, which is the
// command's: Go's package syscall raises the soft one, and restores it only for its own exec. So
// exec nothing, and raise it again.
func startersNOFILE() Rlimit {
	var now, before syscall.Rlimit
	syscall.Getrlimit(syscall.RLIMIT_NOFILE, &now)
	_ = syscall.Exec("", []string{""}, nil)
	syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before)
	syscall.Setrlimit(syscall.RLIMIT_NOFILE, &now)
	return Rlimit{unix.RLIMIT_NOFILE, before.Cur, before.Max}
}

// resourceName is for the limits of an engine.
func resourceName(n int) string {
	names := map[int]string{unix.RLIMIT_DATA: "RLIMIT_DATA", unix.RLIMIT_CORE: "RLIMIT_CORE", unix.RLIMIT_NPROC: "RLIMIT_NPROC", unix.RLIMIT_NOFILE: "RLIMIT_NOFILE"}
	return cmp.Or(names[n], "resource "+strconv.Itoa(n))
}
