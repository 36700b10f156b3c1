package actor

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// platformActions are those of Linux alone.
func platformActions() map[string]action {
	table := map[string]action{
		"create-uncapped":  anyOf(createUncapped),
		"block-devices":    blockDevices,
		"inherited":        inherited,
		"chroot-escape":    upwards,
		"tmpfile":          func(args []string) (string, error) { return "was made", opens(args[0], unix.O_TMPFILE|os.O_WRONLY) },
		"open-write-below": openWriteBelow,
		"immutable":        immutable,
		"hostname":         hostname,
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

func hostname(args []string) (string, error) {
	name, err := os.Hostname()
	if err == nil && name != args[0] {
		err = fmt.Errorf("it is %q", name)
	}
	return name, err
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
