package facts

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/shared"
)

// asUser asks the kernel, for a caller that is root, what another user may do, with modes, access
// lists and all other rules. It does so on a thread with that user's rights on files, which ends
// with it.
type asUser struct {
	ask    chan string
	answer chan bool
}

func becomeUser(u *shared.User) (*asUser, error) {
	a := &asUser{ask: make(chan string), answer: make(chan bool)}
	ready := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		groups := append([]uint32{u.GID}, u.Groups...)
		if _, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(unsafe.Pointer(&groups[0])), 0); errno != 0 {
			ready <- fmt.Errorf("asking what uid %d may search: setgroups: %w", u.UID, errno)
			return
		}
		unix.SetfsgidRetGid(int(u.GID))
		unix.SetfsuidRetUid(int(u.UID)) // this also drops the capabilities on files
		if now, _ := unix.SetfsuidRetUid(-1); now != int(u.UID) {
			ready <- fmt.Errorf("asking what uid %d may search: setfsuid was refused", u.UID)
			return
		}
		ready <- nil
		for dir := range a.ask {
			var st unix.Stat_t
			err := unix.Stat(dir+"/.", &st)
			for err == unix.EINTR {
				err = unix.Stat(dir+"/.", &st)
			}
			a.answer <- err != unix.EACCES
		}
	}()
	return a, <-ready
}

// searches reports whether the user may search a directory and all above it.
func (a *asUser) searches(dir string) bool {
	a.ask <- dir
	return <-a.answer
}

func (a *asUser) close() { close(a.ask) }
