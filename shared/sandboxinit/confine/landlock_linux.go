package confine

import (
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/hostpath"
)

// ABI is the newest version of Landlock that this kernel knows. The error is why it
// has none.
func ABI() (int, error) {
	n, _, errno := syscall.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// Scope is a domain that reaches no abstract unix socket and signals no process outside
// itself, and knows nothing of files.
var Scope = Landlock{Scoped: unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL}

// Enter puts the calling thread into the domain, for good, and sets no_new_privs. terminal is
// that of the command, which may open it by its name; -1 is none. The error is an
// *[os.PathError] if it is about one of the Rules.
func (l *Landlock) Enter(terminal int) error {
	if err := NoNewPrivileges(); err != nil {
		return err
	}
	// The first three fields of landlock_ruleset_attr: what ABI 6 knows. An older kernel takes
	// those that it does not know while they are zero.
	attr := struct{ files, network, scoped uint64 }{files: l.Handled, scoped: l.Scoped}
	fd, _, errno := syscall.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	if errno != 0 {
		return errno
	}
	defer syscall.Close(int(fd))
	for _, r := range l.Rules {
		if err := allowPath(int(fd), r); err != nil {
			return &os.PathError{Op: "landlock", Path: r.Path, Err: err}
		}
	}
	if l.Handled != 0 {
		// What sets limits between fork and exec is this program once more.
		if err := allowPath(int(fd), Rule{Path: "/proc/self/exe", Access: unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE, Links: true}); err != nil {
			return err
		}
		if terminal >= 0 {
			if err := allow(int(fd), terminal, Rule{Access: l.Handled & terminalAccess}); err != nil {
				return err
			}
		}
	}
	if _, _, errno = syscall.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

const ofFiles = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV

const terminalAccess = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV

// allowPath adds a rule for what is at a path. What has become a symlink was put there since.
func allowPath(ruleset int, r Rule) error {
	var fd int
	var err error
	if r.Links {
		fd, err = unix.Open(r.Path, unix.O_PATH|unix.O_CLOEXEC, 0)
	} else {
		fd, err = hostpath.OpenNoSymlinks(r.Path, unix.O_PATH|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	}
	if err != nil && r.Optional {
		return nil // nothing is granted by that
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return allow(ruleset, fd, r)
}

func allow(ruleset, fd int, r Rule) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if r.Ino != 0 && (r.Ino != st.Ino || r.Dev != st.Dev) {
		return unix.ESTALE
	}
	access := r.Access
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		access &= ofFiles // the kernel takes no other right for one
	}
	// struct landlock_path_beneath_attr is packed: its 12 bytes are the first of these.
	attr := struct {
		access uint64
		parent int32
	}{access, int32(fd)}
	_, _, errno := syscall.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&attr)), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
