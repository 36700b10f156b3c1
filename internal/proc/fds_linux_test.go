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

// The runtime opens its epoll instance when it likes: one that was in the way was overwritten,
// and the init died of that.
func TestInARowLeavesOthersAlone(t *testing.T) {
	open := func(at int) (fd int, st unix.Stat_t) {
		var pipe [2]int
		if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
			t.Fatal(err)
		}
		unix.Close(pipe[1])
		fd, err := unix.FcntlInt(uintptr(pipe[0]), unix.F_DUPFD_CLOEXEC, at)
		unix.Close(pipe[0])
		if err != nil || unix.Fstat(fd, &st) != nil || fd < at {
			t.Fatal(fd, err)
		}
		t.Cleanup(func() { unix.Close(fd) })
		return fd, st
	}
	const high = 200 // where nobody else opens anything
	a, atA := open(high)
	b, atB := open(high)
	other, before := open(b + 2)
	first, err := InARow([]int{a, b})
	if err != nil || first != other+1 {
		t.Fatalf("first %d behind %d, %v", first, other, err)
	}
	for fd, want := range map[int]unix.Stat_t{other: before, first: atA, first + 1: atB} {
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil || st.Ino != want.Ino {
			t.Errorf("%d is another file: %v", fd, err)
		}
	}
	unix.Close(first)
	unix.Close(first + 1)
}
