package sandboxinit

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// fresh is a directory of fresh memory, and what there was in it before the
// command.
type fresh struct {
	path string
	used uint64
}

// freshAt looks at Command.Fresh.
func freshAt(path string) fresh {
	return fresh{path, inodesUsed(path)}
}

// inodesUsed asks the file system, which counts for itself; 0 is one that does not
// tell.
func inodesUsed(path string) uint64 {
	var st unix.Statfs_t
	if path == "" || unix.Statfs(path, &st) != nil || st.Type != unix.TMPFS_MAGIC || st.Ffree > st.Files {
		return 0
	}
	return st.Files - st.Ffree
}

// maxLooked is how many names are looked at to tell files from directories: ten
// milliseconds. Of more, all that is new counts.
const maxLooked = 10_000

// left counts the files that came to be there and were not removed.
func (f *fresh) left() uint64 {
	now := inodesUsed(f.path)
	if f.used == 0 || now <= f.used {
		return 0
	}
	var st unix.Stat_t
	if now-f.used > maxLooked || unix.Lstat(f.path, &st) != nil {
		return now - f.used
	}
	looked := 0
	return countFiles(f.path, st.Dev, &looked)
}

// countFiles counts what is no directory, and lies on the file system dev.
func countFiles(dir string, dev uint64, looked *int) (n uint64) {
	d, err := os.Open(dir)
	if err != nil {
		return 0
	}
	defer d.Close()
	names, _ := d.Readdirnames(maxLooked)
	for _, name := range names {
		if *looked++; *looked > 2*maxLooked {
			return n // a process of the command's is at it still
		}
		path := strings.TrimSuffix(dir, "/") + "/" + name
		var st unix.Stat_t
		switch err := unix.Lstat(path, &st); {
		case err != nil || st.Dev != dev:
		case st.Mode&unix.S_IFMT == unix.S_IFDIR:
			n += countFiles(path, dev, looked)
		default:
			n++
		}
	}
	return n
}
