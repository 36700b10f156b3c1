package bwrap

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/plugins/internal/inside"
	"github.com/sbxhost/sbxhost/shared"
)

const (
	filterVar = "SBXHOST_TEST_SYSTEM_CALLS"
)

// attempts are made inside and outside of sandboxes. They do no harm where they
// are let through: outside of a sandbox most of them fail in another way, or succeed.
var attempts = []struct {
	name string
	try  func(dir string) error
	// refused is the error that the filter of a plain sandbox gives; nil is none.
	refused error
	// option is the one that lets it through.
	option string
	// alike says that the kernel may refuse an ordinary user just so.
	alike bool
}{
	{"ptrace", raw(unix.SYS_PTRACE, unix.PTRACE_PEEKDATA, 0), unix.EPERM, "ptrace", false},
	{"process_vm_readv", raw(unix.SYS_PROCESS_VM_READV, uintptr(os.Getpid())), unix.EPERM, "ptrace", false},
	{"process_vm_writev", raw(unix.SYS_PROCESS_VM_WRITEV, uintptr(os.Getpid())), unix.EPERM, "ptrace", false},
	{"kcmp", raw(unix.SYS_KCMP, uintptr(os.Getpid()), uintptr(os.Getpid()), 1), unix.EPERM, "ptrace", false},
	{"personality", raw(unix.SYS_PERSONALITY, 0x40000), unix.EPERM, "ptrace", false},
	{"personality of another system", raw(unix.SYS_PERSONALITY, 8), unix.EPERM, "", false},
	{"personality asked", raw(unix.SYS_PERSONALITY, 0xffffffff), nil, "", false},

	{"unshare user", raw(unix.SYS_UNSHARE, unix.CLONE_NEWUSER), unix.EPERM, "nested_userns", false},
	{"unshare files", onOwnThread(raw(unix.SYS_UNSHARE, unix.CLONE_FILES)), nil, "", false},
	// A combination that no kernel takes, so that nothing is forked.
	{"clone user", raw(unix.SYS_CLONE, unix.CLONE_NEWUSER|unix.CLONE_FS|unix.CLONE_THREAD), unix.EPERM, "nested_userns", false},
	{"setns", raw(unix.SYS_SETNS, ^uintptr(0), 0), unix.EPERM, "nested_userns", false},
	{"mount", raw(unix.SYS_MOUNT), unix.EPERM, "nested_userns", false},
	{"umount2", raw(unix.SYS_UMOUNT2, 0, ^uintptr(0)), unix.EPERM, "nested_userns", false},
	{"chroot", raw(unix.SYS_CHROOT), unix.EPERM, "nested_userns", false},
	{"open_tree", raw(unix.SYS_OPEN_TREE, 0, 0, 0x80000000), unix.EPERM, "nested_userns", false},
	{"mount_setattr", raw(unix.SYS_MOUNT_SETATTR, 0, 0, ^uintptr(0)), unix.EPERM, "nested_userns", false},
	{"clone3", raw(unix.SYS_CLONE3), unix.ENOSYS, "", false},

	{"openat2", raw(unix.SYS_OPENAT2), unix.ENOSYS, "", false},
	{"io_uring_setup", raw(unix.SYS_IO_URING_SETUP), unix.ENOSYS, "", false},
	{"io_uring_enter", raw(unix.SYS_IO_URING_ENTER, ^uintptr(0), 1, 1), unix.ENOSYS, "", false},
	{"pidfd_getfd", raw(unix.SYS_PIDFD_GETFD, ^uintptr(0)), unix.EPERM, "", false},
	{"bpf", raw(unix.SYS_BPF, 9999, 0, 1<<30), unix.EPERM, "", false},
	{"userfaultfd", raw(unix.SYS_USERFAULTFD, 1|1<<30), unix.EPERM, "", false},
	{"perf_event_open", raw(unix.SYS_PERF_EVENT_OPEN), unix.EPERM, "", true},
	{"add_key", raw(unix.SYS_ADD_KEY), unix.EPERM, "", false},
	{"request_key", raw(unix.SYS_REQUEST_KEY), unix.EPERM, "", false},
	{"keyctl", raw(unix.SYS_KEYCTL, 9999), unix.EPERM, "", false},
	{"syslog", raw(unix.SYS_SYSLOG, 10), unix.EPERM, "", true},

	{"TIOCSTI", onNull(unix.TIOCSTI), unix.EPERM, "", false},
	{"TIOCLINUX", onNull(0x541c), unix.EPERM, "", false},
	{"TIOCGWINSZ", onNull(unix.TIOCGWINSZ), unix.ENOTTY, "", true},

	{"socket unix", socket(unix.AF_UNIX, unix.SOCK_STREAM), nil, "", false},
	{"socket inet", socket(unix.AF_INET, unix.SOCK_STREAM), nil, "", false},
	{"socket netlink", socket(unix.AF_NETLINK, unix.SOCK_RAW), nil, "", false},
	{"socket raw", socket(unix.AF_INET, unix.SOCK_RAW), unix.EPERM, "", true},
	{"socket packet", socket(unix.AF_PACKET, unix.SOCK_DGRAM), unix.EPERM, "", true},
	{"socket vsock", socket(unix.AF_VSOCK, unix.SOCK_STREAM), unix.EPERM, "", false},
	{"socket alg", socket(unix.AF_ALG, unix.SOCK_SEQPACKET), unix.EPERM, "", false},
	{"socketpair stream", pairOf(unix.SOCK_STREAM), nil, "", false},
	{"socketpair datagram", pairOf(unix.SOCK_DGRAM), nil, "", false},

	{"chmod", func(dir string) error { return unix.Chmod(made(dir, "a"), 0o755) }, nil, "", false},
	{"chmod sticky", func(dir string) error { return unix.Chmod(dir, 0o1777) }, nil, "", false},
	{"chmod set-user-id", func(dir string) error { return unix.Chmod(made(dir, "b"), 0o4755) }, unix.EPERM, "", false},
	{"fchmod set-group-id", func(dir string) error {
		f, err := os.Create(filepath.Join(dir, "c"))
		if err != nil {
			return err
		}
		defer f.Close()
		return unix.Fchmod(int(f.Fd()), 0o2755)
	}, unix.EPERM, "", false},
	{"fchmodat2 set-user-id", func(dir string) error {
		path, err := unix.BytePtrFromString(made(dir, "d"))
		if err != nil {
			return err
		}
		_, _, errno := unix.RawSyscall6(452, uintptr(unix.AT_FDCWD&(1<<64-1)), uintptr(unsafe.Pointer(path)), 0o4755, 0, 0, 0)
		return failure(errno)
	}, unix.EPERM, "", false},
	{"open set-user-id", func(dir string) error {
		fd, err := unix.Open(filepath.Join(dir, "e"), unix.O_CREAT|unix.O_WRONLY, 0o4755)
		unix.Close(fd)
		return err
	}, unix.EPERM, "", false},
	{"open unnamed set-user-id", func(dir string) error {
		fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_WRONLY, 0o6755)
		unix.Close(fd)
		return err
	}, unix.EPERM, "", false},
	{"mknod set-user-id", func(dir string) error { return unix.Mknod(filepath.Join(dir, "f"), unix.S_IFREG|0o4755, 0) }, unix.EPERM, "", false},
	{"mknod fifo", func(dir string) error { return unix.Mknod(filepath.Join(dir, "g"), unix.S_IFIFO|0o644, 0) }, nil, "", false},
	// The one device that every user may make.
	{"mknod whiteout", func(dir string) error { return unix.Mknod(filepath.Join(dir, "h"), unix.S_IFCHR|0o644, 0) }, unix.EPERM, "", false},

	{"x32", raw(0x40000000 | 39), unix.ENOSYS, "", true},
	{"newer", raw(100000), unix.ENOSYS, "", true},
}

func failure(errno unix.Errno) error {
	if errno == 0 {
		return nil
	}
	return errno
}

func raw(number uintptr, args ...uintptr) func(string) error {
	var a [6]uintptr
	copy(a[:], args)
	return func(string) error {
		_, _, errno := unix.Syscall6(number, a[0], a[1], a[2], a[3], a[4], a[5])
		return failure(errno)
	}
}

// onOwnThread tries on a thread that ends afterwards: one that has unshared its
// descriptors does not know those that a goroutine opens on another thread.
func onOwnThread(try func(string) error) func(string) error {
	return func(dir string) error {
		done := make(chan error)
		go func() {
			runtime.LockOSThread()
			done <- try(dir)
		}()
		return <-done
	}
}

func onNull(request uintptr) func(string) error {
	return func(string) error {
		f, err := os.Open(os.DevNull)
		if err != nil {
			return err
		}
		defer f.Close()
		// The kernel drops the high half, and so must the filter.
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), request|0xabcd<<32, 0)
		return failure(errno)
	}
}

func socket(family, kind int) func(string) error {
	return func(string) error {
		fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, 0)
		unix.Close(fd)
		return err
	}
}

func pairOf(kind int) func(string) error {
	return func(string) error {
		fds, err := unix.Socketpair(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err // there are none, and 0 is another's
		}
		unix.Close(fds[0])
		unix.Close(fds[1])
		return nil
	}
}

func made(dir, name string) string {
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		panic(err)
	}
	return path
}

// TestInsideFilter is what the tests below run inside, and nothing elsewhere.
func TestInsideFilter(t *testing.T) {
	dir := os.Getenv(filterVar)
	if dir == "" {
		return
	}
	for _, a := range attempts {
		var errno unix.Errno
		switch err := a.try(dir); {
		case err == nil:
			fmt.Println(a.name + ": done")
		case errors.As(err, &errno):
			fmt.Println(a.name + ": " + unix.ErrnoName(errno))
		default:
			fmt.Println(a.name + ": " + err.Error())
		}
	}
}

// attempted runs all attempts in a sandbox with these options.
func attempted(t *testing.T, options string) map[string]string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := inside.Workspace(t)
	const program = "/home/u/attempts"
	spec := shared.Spec{Home: "/home/u", Options: []byte(options),
		Table: []shared.Entry{inside.BindRW(dir), {Source: self, Path: program, Why: "bind_paths[0]", Access: shared.ReadOnly}}}
	out := inside.Run(t, needBwrap(t), spec, shared.Command{Args: []string{program, "-test.run", "^TestInsideFilter$"}, Env: append(inside.Env, filterVar+"="+dir)})
	if !out.Status.Success() {
		t.Fatalf("%v\n%s\n%s", out.Status, out.Stdout, out.Stderr)
	}
	return results(out.Stdout)
}

func results(text string) map[string]string {
	got := map[string]string{}
	for line := range strings.Lines(text) {
		if name, result, ok := strings.Cut(strings.TrimSpace(line), ": "); ok {
			got[name] = result
		}
	}
	return got
}

func TestFilter(t *testing.T) {
	t.Parallel()
	outside := results(attemptOutside(t))
	for _, options := range []string{"", `{"ptrace":true}`, `{"nested_userns":true}`, `{"unix_sockets":false}`} {
		t.Run(options, func(t *testing.T) {
			t.Parallel()
			got := attempted(t, options)
			for _, a := range attempts {
				refused := a.refused
				if a.option != "" && strings.Contains(options, a.option) {
					refused = nil
				}
				if strings.Contains(options, "unix_sockets") && (a.name == "socket unix" || a.name == "socketpair datagram") {
					refused = unix.EPERM
				}
				switch want := ""; {
				case got[a.name] == "":
					t.Errorf("%s was not tried", a.name)
				case refused == nil:
					// As without a sandbox, so that what is refused is refused by the filter.
					if got[a.name] != outside[a.name] {
						t.Errorf("%s: %s, and %s outside", a.name, got[a.name], outside[a.name])
					}
				default:
					want = unix.ErrnoName(refused.(syscall.Errno))
					if got[a.name] != want {
						t.Errorf("%s: %s, want %s", a.name, got[a.name], want)
					}
					if outside[a.name] == want && !a.alike {
						t.Errorf("%s: %s outside, too, which shows nothing", a.name, want)
					}
				}
			}
		})
	}
}
