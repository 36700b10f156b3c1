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

// maxLooked is how many names are looked at to tell files from directories, and from what
// nobody misses: ten milliseconds.
const maxLooked = 10_000

// left counts the files that came to be there, were not removed, and may be missed.
func (f *fresh) left() uint64 {
	now := inodesUsed(f.path)
	if f.used == 0 || now <= f.used {
		return 0
	}
	var st unix.Stat_t
	if unix.Lstat(f.path, &st) != nil {
		return now - f.used
	}
	looked := 0
	return countFiles(f.path, "", st.Dev, &looked)
}

// dispensable reports whether nobody misses what lies at a path of a home: caches, logs and histories.
func dispensable(rel string) bool {
	if rel[0] != '.' {
		return rel == "go/pkg"
	}
	base := rel[strings.LastIndexByte(rel, '/')+1:]
	switch strings.ToLower(strings.TrimLeft(base, "._")) {
	case "cache", "caches", "cacache", "ccache", "log", "logs", "npm", "npx", "nv", "gradle", "m2", "registry", "state", "telemetry", "lesshst", "viminfo", "wget-hsts":
		return true
	}
	return strings.HasSuffix(base, "_history") || strings.HasSuffix(base, ".log")
}

// countFiles counts what is no directory, lies on the file system dev, and is not dispensable.
func countFiles(dir, rel string, dev uint64, looked *int) (n uint64) {
	d, err := os.Open(dir)
	if err != nil {
		return 0
	}
	defer d.Close()
	names, _ := d.Readdirnames(maxLooked)
	for _, name := range names {
		if *looked++; *looked > maxLooked {
			return n
		}
		if dispensable(rel + name) {
			continue
		}
		path := strings.TrimSuffix(dir, "/") + "/" + name
		var st unix.Stat_t
		switch err := unix.Lstat(path, &st); {
		case err != nil || st.Dev != dev:
		case st.Mode&unix.S_IFMT == unix.S_IFDIR:
			n += countFiles(path, rel+name+"/", dev, looked)
		default:
			n++
		}
	}
	return n
}
