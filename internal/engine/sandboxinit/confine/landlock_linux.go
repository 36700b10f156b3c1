package confine

import (
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/hostpath"
)

// ABI is the newest version of Landlock in this kernel. The error is why it has none.
func ABI() (int, error) {
	n, _, errno := syscall.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// Scope is a domain that reaches no abstract unix socket and signals no process outside itself,
// without rules on files.
var Scope = Landlock{Scoped: unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL}

// Rooted is a domain that reaches only files beneath the root directory that the thread has then,
// and so none through a descriptor of a directory in another mount namespace. If writable is not
// empty, it writes only beneath these directories. It is nil if the kernel cannot enforce that:
// with version 1 of Landlock nobody could rename a file from one directory to another. With scope
// it includes [Scope], if the kernel knows that: a separate domain for it, without rules for
// renames, would prevent those too.
func Rooted(writable []string, scope bool) *Landlock {
	abi, err := ABI()
	if err != nil || abi < 2 {
		return nil
	}
	l := &Landlock{Handled: unix.LANDLOCK_ACCESS_FS_REFER<<1 - 1}
	if scope && abi >= 6 {
		l.Scoped = Scope.Scoped
	}
	if abi >= 3 {
		l.Handled |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if len(writable) == 0 {
		l.Rules = []Rule{{Path: "/", Access: l.Handled}}
		return l
	}
	l.Rules = []Rule{{Path: "/", Access: unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR}}
	for _, path := range writable {
		l.Rules = append(l.Rules, Rule{Path: path, Access: l.Handled})
	}
	return l
}

// Enter puts the calling thread into the domain, for good, and sets no_new_privs. stdio are
// descriptors of the command, which may open the files and terminals among them by name. The error
// is an *[os.PathError] if it is about one of the Rules.
func (l *Landlock) Enter(stdio ...int) error {
	if err := NoNewPrivileges(); err != nil {
		return err
	}
	fd, err := l.Ruleset(stdio...)
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	if _, _, errno := syscall.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(fd), 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// Ruleset is the descriptor with which [Landlock.Enter] restricts a thread, for a thread that can
// only make that call. Ruleset resolves the files. The caller closes the descriptor.
func (l *Landlock) Ruleset(stdio ...int) (int, error) {
	// The first three fields of landlock_ruleset_attr, those of ABI 6. An older kernel accepts
	// unknown fields that are zero.
	attr := struct{ files, network, scoped uint64 }{files: l.Handled, scoped: l.Scoped}
	r, _, errno := syscall.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	if errno != 0 {
		return -1, errno
	}
	fd := int(r)
	if err := l.fill(fd, stdio); err != nil {
		syscall.Close(fd)
		return -1, err
	}
	return fd, nil
}

func (l *Landlock) fill(ruleset int, stdio []int) error {
	for _, r := range l.Rules {
		if err := allowPath(ruleset, r); err != nil {
			return &os.PathError{Op: "landlock", Path: r.Path, Err: err}
		}
	}
	if l.Handled != 0 {
		for _, f := range stdio {
			// EBADFD: a pipe, or another file without a name.
			if err := allow(ruleset, f, Rule{Access: l.Handled & stdioAccess}); err != nil && err != unix.EBADFD {
				return err
			}
		}
	}
	return nil
}

const ofFiles = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV

const stdioAccess = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV

// allowPath adds a rule for a path. A symlink there is new.
func allowPath(ruleset int, r Rule) error {
	var fd int
	var err error
	if r.Links {
		fd, err = unix.Open(r.Path, unix.O_PATH|unix.O_CLOEXEC, 0)
	} else {
		fd, err = hostpath.OpenNoSymlinks(r.Path, unix.O_PATH|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	}
	if err != nil && r.Optional {
		return nil // it would grant nothing
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
		access &= ofFiles // the kernel accepts only these rights for a file
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
