package actor

import "golang.org/x/sys/unix"

// int80 enters the kernel the way that 32-bit programs do: other numbers, and
// a filter that looks at numbers alone knows nothing of them.
func int80(number, a, b, c uintptr) uintptr

// archCalls adds the entries that this architecture has besides its own.
func archCalls(table map[string]systemCall) {
	const (
		keyctl32 = 288
		x32      = 0x40000000
	)
	table["int80-keyctl"] = func() unix.Errno {
		tried(endsBy(unix.SIGSEGV)) // which it is where the kernel has no such entry
		if r := int32(int80(keyctl32, unix.KEYCTL_GET_KEYRING_ID, processK&0xffffffff, 1)); r < 0 {
			return unix.Errno(-r)
		}
		return 0
	}
	table["x32-keyctl"] = made(x32|unix.SYS_KEYCTL, unix.KEYCTL_GET_KEYRING_ID, processK, 1)
	table["x32-getpid"] = made(x32 | unix.SYS_GETPID)
	table["iopl"] = made(unix.SYS_IOPL, 3)
}
