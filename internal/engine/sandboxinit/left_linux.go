package sandboxinit

import (
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/proc"
)

// fresh is a directory of fresh memory, with its state before the command.
type freshDir struct {
	path string
	used uint64
}

// inodesUsed asks the file system, which has a count; 0 if it has none.
func inodesUsed(path string) uint64 {
	var st unix.Statfs_t
	if path == "" || unix.Statfs(path, &st) != nil || st.Type != unix.TMPFS_MAGIC || st.Ffree > st.Files {
		return 0
	}
	return st.Files - st.Ffree
}

// maxLooked is how many names are checked to tell files from directories, and from files that
// nobody misses: ten milliseconds.
const maxLooked = 10_000

// countNew counts the new files that still exist and may be missed.
func (f *freshDir) countNew() uint64 {
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

// dispensable reports whether nobody misses what is at a path of a home: caches, logs and
// histories.
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

// countFiles counts what is not a directory, is on the file system dev, and is not dispensable.
func countFiles(dir, rel string, dev uint64, looked *int) (n uint64) {
	d, err := os.OpenFile(dir, unix.O_DIRECTORY, 0) // it may have become a fifo, on which to wait forever
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

// killChildren is for an init that is not pid 1, but a subreaper: the children of a process that it
// kills become its own before it learns of the death. Repeated after each death, it reaches all
// descendants.
func killChildren() {
	if childless() { // mostly: then it need not search all of /proc
		return
	}
	parents, _ := parents()
	for pid, parent := range parents {
		if parent == os.Getpid() {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// childless reports whether nothing that was started here is left, not even to reap: pid 1 or a
// subreaper gets all processes that lost their parent.
func childless() bool {
	return unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil) == syscall.ECHILD
}

// parents returns the parent of each process, and the processes that still run. It reads all, because
// not every kernel has /proc/PID/task/TID/children.
func parents() (of map[int]int, alive []int) {
	of = map[int]int{}
	for _, pid := range proc.All() {
		stat, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		of[pid], _ = strconv.Atoi(proc.StatField(string(stat), proc.StatParent))
		if state := proc.StatField(string(stat), proc.StatState); state != "" && state != "Z" && state != "X" {
			alive = append(alive, pid)
		}
	}
	return of, alive
}

// running counts the running descendants of a process.
func running(ancestor int) (n uint64) {
	parents, alive := parents()
	for _, pid := range alive {
		for up, steps := parents[pid], 0; steps < len(parents); up, steps = parents[up], steps+1 { // other processes may take the numbers meanwhile
			if up == ancestor {
				n++
				break
			}
		}
	}
	return n
}
