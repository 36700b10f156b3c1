package probes

import (
	"encoding/binary"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/engine/sandboxinit/confine"
	"github.com/sbxhost/sbxhost/shared/enginetest/internal/scene"
)

// inheritDirectory opens the secret's directory so that every child of this
// process would inherit it.
func inheritDirectory(s *scene.Scene) error {
	fd, err := unix.Open(s.Outside, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	s.Cleanup(func() { unix.Close(fd) })
	return err
}

// takeHandle takes the file handle of the secret, which needs no permission. {handle} is a struct file_handle.
func takeHandle(s *scene.Scene) error {
	handle, _, err := unix.NameToHandleAt(unix.AT_FDCWD, s.Path("outside/secret"), 0)
	if err != nil {
		return scene.AbsentError("this file system has no handles: " + err.Error())
	}
	form := binary.NativeEndian.AppendUint32(nil, uint32(handle.Size()))
	form = binary.NativeEndian.AppendUint32(form, uint32(handle.Type()))
	s.Values["handle"] = strings.Trim(strconv.Quote(string(append(form, handle.Bytes()...))), `"`)
	return nil
}

func makeSharedMemory(s *scene.Scene) error {
	return byKey(s, "shared memory", unix.SYS_SHMCTL, unix.SYS_SHMGET, 4096, 0o600|unix.IPC_CREAT|unix.IPC_EXCL)
}

func makeMessageQueue(s *scene.Scene) error {
	return byKey(s, "message queues", unix.SYS_MSGCTL, unix.SYS_MSGGET, 0o600|unix.IPC_CREAT|unix.IPC_EXCL, 0)
}

// byKey makes an object that others find by its {key}.
func byKey(s *scene.Scene, what string, control, get, a, b uintptr) error {
	id, _, errno := unix.Syscall(get, uintptr(s.IPCKey()), a, b)
	if errno != 0 {
		return scene.AbsentError("no " + what + ": " + errno.Error())
	}
	s.Cleanup(func() { unix.Syscall(control, id, unix.IPC_RMID, 0) })
	s.Values["key"] = strconv.Itoa(int(s.IPCKey()))
	return nil
}

// needScoping wants Landlock's scopes for abstract sockets.
func needScoping(*scene.Scene) error {
	const scopesSince = 6
	if abi, _ := confine.ABI(); abi < scopesSince {
		return scene.AbsentError("this kernel cannot keep a command from abstract sockets of its network (Landlock ABI 6)")
	}
	return nil
}

func exchange(a, b string) error {
	return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
}
