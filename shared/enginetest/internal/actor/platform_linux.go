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
		"create-uncapped": anyOf(createUncapped),
		"block-devices":   blockDevices,
		"tmpfile":         func(args []string) (string, error) { return "was made", opens(args[0], unix.O_TMPFILE|os.O_WRONLY) },
		"hostname":        hostname,
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
