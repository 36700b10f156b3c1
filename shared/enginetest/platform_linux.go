package enginetest

import (
	"encoding/base64"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// outsideAttr gives a process all capabilities: root's own, in a mount
// namespace that is its own, or those of a new user namespace.
func outsideAttr(privileged bool) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if !privileged {
		return &syscall.SysProcAttr{}
	}
	attr.Pdeathsig = 0 // would follow the thread
	attr.Unshareflags = syscall.CLONE_NEWNS
	if os.Geteuid() != 0 {
		attr.Cloneflags = syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	return attr
}

// inheritDirectory opens the secret's directory so that every child of this
// process would inherit it.
func inheritDirectory(s *scene) error {
	fd, err := unix.Open(s.outside, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	s.inherited = os.NewFile(uintptr(fd), s.outside)
	s.cleanup(func() { s.inherited.Close() })
	return nil
}

// takeHandle takes the file handle of the secret, which needs no permission.
func takeHandle(s *scene) error {
	handle, _, err := unix.NameToHandleAt(unix.AT_FDCWD, s.path("outside/secret"), 0)
	if err != nil {
		return &absentError{"this file system has no handles: " + err.Error()}
	}
	s.values["handle"] = strconv.Itoa(int(handle.Type())) + ":" + base64.StdEncoding.EncodeToString(handle.Bytes())
	return nil
}

// ipcKey is a key that no other scene has.
func (s *scene) ipcKey() uintptr {
	hash := fnv.New32a()
	hash.Write([]byte(s.canary))
	return uintptr(hash.Sum32() & 0x7fffffff)
}

func makeSharedMemory(s *scene) error {
	key := s.ipcKey()
	id, _, errno := unix.Syscall(unix.SYS_SHMGET, key, 4096, 0o600|unix.IPC_CREAT|unix.IPC_EXCL)
	if errno != 0 {
		return &absentError{"no shared memory: " + errno.Error()}
	}
	s.cleanup(func() { unix.Syscall(unix.SYS_SHMCTL, id, unix.IPC_RMID, 0) })
	s.values["key"] = strconv.Itoa(int(key))
	return nil
}

func makeMessageQueue(s *scene) error {
	key := s.ipcKey()
	id, _, errno := unix.Syscall(unix.SYS_MSGGET, key, 0o600|unix.IPC_CREAT|unix.IPC_EXCL, 0)
	if errno != 0 {
		return &absentError{"no message queues: " + errno.Error()}
	}
	s.cleanup(func() { unix.Syscall(unix.SYS_MSGCTL, id, unix.IPC_RMID, 0) })
	s.values["key"] = strconv.Itoa(int(key))
	return nil
}

// needScoping wants Landlock's scopes for abstract sockets.
func needScoping() error {
	const scopesSince = 6
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 || abi < scopesSince {
		return &absentError{"this kernel cannot keep a command from abstract sockets of its network (Landlock ABI 6)"}
	}
	return nil
}

func makeFifo(path string) error { return unix.Mkfifo(path, 0o600) }

func exchange(a, b string) error {
	return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
}

// openTerminal makes a pair.
func openTerminal() (*terminal, error) {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		master.Close()
		return nil, fmt.Errorf("pseudo-terminal: %w", err)
	}
	slave, err := os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		master.Close()
		return nil, err
	}
	return &terminal{master, slave}, nil
}

// sigaction is the kernel's struct with its default disposition.
type sigaction struct {
	handler, flags, restorer uintptr
	mask                     uint64
}

// dieBy ends this process by a signal as any other program would end: the Go
// runtime's handler, which would print and exit, is taken away.
func dieBy(sig syscall.Signal) error {
	// No core, neither into a file nor to a program that core_pattern names, which no
	// limit of its size keeps from it.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return err
	}
	var zero sigaction
	if _, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(&zero)), 0, 8, 0, 0); errno != 0 {
		return errno
	}
	var none uint64 // threads may have it blocked
	unix.RawSyscall6(unix.SYS_RT_SIGPROCMASK, 2, uintptr(unsafe.Pointer(&none)), 0, 8, 0, 0)
	return errors.Join(unix.Tgkill(unix.Getpid(), unix.Gettid(), sig), errors.New("it lives on"))
}
