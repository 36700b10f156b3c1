package proc

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

func TestCloseOnExecFrom(t *testing.T) {
	t.Parallel()
	fd, err := unix.Open(os.DevNull, unix.O_RDONLY, 0) // without the flag
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := CloseOnExecFrom(3); err != nil {
		t.Fatal(err)
	}
	if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("flags %x, %v", flags, err)
	}
}
