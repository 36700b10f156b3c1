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
func inheritDirectory(s *scene.Scene) {
	fd, err := unix.Open(s.Outside, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	s.Must(err)
	s.Cleanup(func() { unix.Close(fd) })
}

// takeHandle takes the file handle of the secret, which needs no permission. {handle} is a struct file_handle.
func takeHandle(s *scene.Scene) {
	handle, _, err := unix.NameToHandleAt(unix.AT_FDCWD, s.Path("outside/secret"), 0)
	s.Needs(err == nil, "this file system has no handles: %v", err)
	form := binary.NativeEndian.AppendUint32(nil, uint32(handle.Size()))
	form = binary.NativeEndian.AppendUint32(form, uint32(handle.Type()))
	s.Values["handle"] = strings.Trim(strconv.Quote(string(append(form, handle.Bytes()...))), `"`)
}

func makeSharedMemory(s *scene.Scene) {
	byKey(s, "shared memory", unix.SYS_SHMCTL, unix.SYS_SHMGET, 4096, 0o600|unix.IPC_CREAT|unix.IPC_EXCL)
}

func makeMessageQueue(s *scene.Scene) {
	byKey(s, "message queues", unix.SYS_MSGCTL, unix.SYS_MSGGET, 0o600|unix.IPC_CREAT|unix.IPC_EXCL, 0)
}

// byKey makes an object that others find by its {key}.
func byKey(s *scene.Scene, what string, control, get, a, b uintptr) {
	id, _, errno := unix.Syscall(get, uintptr(s.IPCKey()), a, b)
	s.Needs(errno == 0, "no %s: %v", what, errno)
	s.Cleanup(func() { unix.Syscall(control, id, unix.IPC_RMID, 0) })
	s.Values["key"] = strconv.Itoa(int(s.IPCKey()))
}

// scopesSockets reports whether the kernel has Landlock's scopes for abstract sockets.
func scopesSockets() bool {
	const since = 6
	abi, _ := confine.ABI()
	return abi >= since
}

func exchange(a, b string) error {
	return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
}
