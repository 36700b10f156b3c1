package actor

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// platformActions are those of Linux alone.
func platformActions() map[string]action {
	table := map[string]action{
		"create-uncapped":    anyOf(createUncapped),
		"block-devices":      blockDevices,
		"syslog":             kernelLog,
		"peek":               peek,
		"inherited":          inherited,
		"handle":             openHandle,
		"chroot-escape":      upwards,
		"remount":            remount,
		"tmpfile":            func(args []string) (string, error) { return "was made", opens(args[0], unix.O_TMPFILE|os.O_WRONLY) },
		"setxattr":           func(args []string) (string, error) { return "", unix.Setxattr(args[0], "user.sbxhost", []byte("x"), 0) },
		"reopen-path":        reopen,
		"open-write-below":   openWriteBelow,
		"chmod-others":       chmodOthers,
		"mknod":              mknod,
		"immutable":          immutable,
		"descriptors-opened": descriptorsOpened,
		"hostname":           hostname,
		"read-tty":           func([]string) (string, error) { return "can be opened", opens("/dev/tty", os.O_RDWR) },
		"oom-score": func(args []string) (string, error) {
			return "was written", os.WriteFile("/proc/self/oom_score_adj", []byte(args[0]), 0)
		},
	}
	maps.Copy(table, namespaceActions())
	maps.Copy(table, kernelActions())
	return table
}

// blockDevices looks for nodes of them, whether they can be opened or not.
func blockDevices([]string) (string, error) {
	var found []string
	err := filepath.WalkDir("/dev", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type()&fs.ModeDevice != 0 && d.Type()&fs.ModeCharDevice == 0 {
			found = append(found, path)
		}
		return nil
	})
	if err == nil && len(found) == 0 {
		err = errors.New("none is there")
	}
	return strings.Join(found, " "), err
}

func kernelLog([]string) (string, error) {
	const readAll = 3
	n, err := unix.Klogctl(readAll, make([]byte, 4096))
	if err == nil && n == 0 {
		err = errors.New("the log is empty")
	}
	return fmt.Sprintf("%d bytes", n), err
}

// peek reads what belongs to process PID, or to a child.
func peek(args []string) (string, error) {
	pid := args[0]
	if pid == "child" {
		c := ownChild("hold")
		defer c.End()
		pid = strconv.Itoa(c.Process.Pid)
	}
	dir := "/proc/" + pid + "/"
	return each([]string{"environ", "mem", "exe", "fd"}, func(name string) (string, error) {
		switch name {
		case "environ":
			return readSome(dir + name)
		case "mem":
			return "can be opened", opens(dir+name, os.O_RDONLY)
		case "exe":
			return os.Readlink(dir + name)
		}
		links, err := filepath.Glob(dir + "fd/*")
		if err == nil && len(links) == 0 {
			err = errors.New("no descriptor is shown")
		}
		for _, link := range links {
			if _, e := os.Readlink(link); e != nil {
				err = e
			}
		}
		return fmt.Sprintf("%d descriptors", len(links)), err
	})
}

// inherited tries every descriptor as a directory with the secret in it.
func inherited(args []string) (string, error) {
	for dir := 3; dir < 256; dir++ {
		fd, err := unix.Openat(dir, "secret", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		buf := make([]byte, 256)
		n, err := unix.Read(fd, buf)
		unix.Close(fd)
		if err == nil && strings.Contains(string(buf[:n]), args[0]) {
			return fmt.Sprintf("by descriptor %d", dir), nil
		}
	}
	return "", errors.New("by none")
}

// openHandle opens the file of a handle, on the file system of DIR.
func openHandle(args []string) (string, error) {
	kind, text, _ := strings.Cut(args[1], ":")
	n, err1 := strconv.Atoi(kind)
	data, err2 := base64.StdEncoding.DecodeString(text)
	tried(errors.Join(err1, err2))
	dir, err := unix.Open(args[0], unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	tried(err)
	fd, err := unix.OpenByHandleAt(dir, unix.NewFileHandle(int32(n), data), unix.O_RDONLY)
	if err != nil {
		return "", err
	}
	f := os.NewFile(uintptr(fd), "handle")
	defer f.Close()
	buf := make([]byte, 256)
	n, err = f.Read(buf)
	if err == nil && !strings.Contains(string(buf[:n]), args[2]) {
		err = errors.New("it is another file")
	}
	return "was read", err
}

// upwards looks for PATH above every directory that this process can hold.
func upwards(args []string) (string, error) {
	for _, dir := range []string{"/", ".", "/proc/self/cwd", "/tmp", "/proc", "/dev"} {
		path := dir + strings.Repeat("/..", 20) + args[1]
		if _, err := readCanary(args[0], path); err == nil {
			return path, nil
		}
		// With a root of its own that the directory lies outside of.
		fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		unix.Chroot(os.TempDir())
		unix.Fchdir(fd)
		_, err = readCanary(args[0], strings.Repeat("../", 20)+strings.TrimPrefix(args[1], "/"))
		unix.Close(fd)
		if err == nil {
			return "by chroot and fchdir", nil
		}
	}
	return "", errors.New("by none")
}

// remount makes a read-only mount writable, and undoes it.
func remount(args []string) (string, error) {
	// Where it is no mount of its own, outside, it is made one first.
	if err := unix.Mount("none", args[0], "", unix.MS_REMOUNT|unix.MS_BIND, ""); err == unix.EINVAL {
		if err := unix.Mount(args[0], args[0], "", unix.MS_BIND, ""); err != nil {
			return "", err
		}
		defer unix.Unmount(args[0], unix.MNT_DETACH)
	}
	if err := unix.Mount("none", args[0], "", unix.MS_REMOUNT|unix.MS_BIND, ""); err != nil {
		return "", err
	}
	return create(filepath.Join(args[0], "remounted"))
}

// reopen opens a descriptor that this process has once more, for writing, and writes.
func reopen(args []string) (string, error) {
	f, err := os.Open(args[0])
	tried(err)
	defer f.Close()
	return appendTo("/proc/self/fd/" + strconv.Itoa(int(f.Fd())))
}

// openWriteBelow looks for a regular file that can be opened for writing.
func openWriteBelow(args []string) (string, error) {
	denied, tried := fs.ErrNotExist, 0
	found := ""
	filepath.WalkDir(args[0], func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil
		}
		if tried++; tried > 500 {
			return fs.SkipAll
		}
		if _, err := openWrite(path); err != nil {
			denied = err
			return nil
		}
		found = path
		return fs.SkipAll
	})
	if found == "" {
		return "", denied
	}
	return found, nil
}

// chmodOthers are the other system calls that set a mode.
func chmodOthers(args []string) (string, error) {
	const mode = 0o4755
	f, err := os.Open(args[0])
	tried(err)
	defer f.Close()
	ways := map[string]func() error{
		"fchmod":    func() error { return unix.Fchmod(int(f.Fd()), mode) },
		"fchmodat":  func() error { return unix.Fchmodat(unix.AT_FDCWD, args[0], mode, 0) },
		"fchmodat2": func() error { return unix.Fchmodat(unix.AT_FDCWD, args[0], mode, unix.AT_SYMLINK_NOFOLLOW) },
	}
	return each(slices.Collect(maps.Keys(ways)), func(name string) (string, error) {
		if err := ways[name](); err != nil {
			return "", err
		}
		return hasMode(args[0], mode)
	})
}

// mknod makes a device node that opens nothing but the null device, or a block
// device that no driver has.
func mknod(args []string) (string, error) {
	mode, dev := uint32(unix.S_IFCHR|0o600), unix.Mkdev(1, 3)
	if args[1] == "block" {
		mode, dev = unix.S_IFBLK|0o600, unix.Mkdev(7, 999)
	}
	return "was made", unix.Mknod(args[0], mode, int(dev))
}

// fsImmutable is FS_IMMUTABLE_FL.
const fsImmutable = 0x10

// immutable sets the attribute and takes it back.
func immutable(args []string) (string, error) {
	f, err := os.Open(args[0])
	tried(err)
	defer f.Close()
	flags, err := unix.IoctlGetInt(int(f.Fd()), unix.FS_IOC_GETFLAGS)
	if err != nil {
		return "", err
	}
	if err := unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, flags|fsImmutable); err != nil {
		return "", err
	}
	return "was set", unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, flags)
}

// descriptorsOpened is the control of descriptors: there is one more.
func descriptorsOpened([]string) (string, error) {
	f, err := os.Open(os.Args[0])
	tried(err)
	defer f.Close()
	return descriptors(nil)
}

func hostname(args []string) (string, error) {
	name, err := os.Hostname()
	if err == nil && name != args[0] {
		err = fmt.Errorf("it is %q", name)
	}
	return name, err
}

// errnoError is nil for no error.
func errnoError(errno syscall.Errno) error {
	if errno == 0 {
		return nil
	}
	return errno
}

// smallMemory is what a file system in memory may hold without being one by
// which the machine's memory can be used up.
const smallMemory = 64 << 20

// createUncapped makes a file, and removes it, where more than a little can be
// written.
func createUncapped(path string) (string, error) {
	detail, err := create(path)
	if err != nil {
		return "", err
	}
	defer os.Remove(path)
	var fs unix.Statfs_t
	tried(unix.Statfs(path, &fs))
	if size := fs.Blocks * uint64(fs.Bsize); size > 0 && size <= smallMemory {
		return "", fmt.Errorf("no more than %d MiB fit there", size>>20)
	}
	return detail, nil
}
