package gitindex

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"fmt"
	"path"
	"strconv"
	"strings"
)

// A cache tree, the extension TREE of an index, names for each directory the tree object that git commit
// uses without a look at the entries. A forged one adds files that git status and git diff do not show.
// So Read makes the trees itself, while it goes through the entries, and compares.
type trees struct {
	size int
	dirs int              // how many more directories it makes, or compares then
	held int              // bytes of paths
	open []byte           // the contents of the directories that are not yet complete, one behind another
	in   *tree            // the directory of the last entry
	made map[string]*tree // by path; nil if there are too many, or if the entries are not sorted
}

// A tree is that of one directory.
type tree struct {
	path  string // of a/b: "/a/b/"
	above *tree
	begin int    // of its content, which reaches to the end
	sum   []byte // when it is complete
	count int    // of entries in it
}

// A command can write names with two thousand directories each. So newTrees takes minDirs directories, and
// maxDirs more for each entry, but at most maxTrees.
const (
	minDirs  = 1000
	maxDirs  = 8
	maxTrees = 1 << 17
	// maxHeld bounds trees.held and trees.open together: a directory with some 400,000 files has as much.
	maxHeld = 16 << 20
)

// newTrees makes the trees of that many entries, with hashes of that size.
func newTrees(size int, entries uint32) *trees {
	return &trees{size: size, dirs: min(minDirs+maxDirs*int(entries), maxTrees), in: &tree{path: "/"}, made: map[string]*tree{}}
}

func (t *trees) take(dirs, bytes int) {
	t.dirs -= dirs
	if t.held += bytes; t.dirs < 0 || t.held+len(t.open) > maxHeld {
		t.made = nil
	}
}

// add adds the next entry.
func (t *trees) add(mode int32, name string, object []byte) {
	for !strings.HasPrefix(name, t.in.path[1:]) {
		t.complete()
	}
	for t.made != nil {
		base, _, below := strings.Cut(name[len(t.in.path)-1:], "/")
		if !below {
			t.write(mode, base, object, 1)
			return
		}
		t.in = &tree{path: t.in.path + base + "/", above: t.in, begin: len(t.open)}
		t.take(1, len(t.in.path))
	}
}

// write adds a line to the directory, for a number of entries.
func (t *trees) write(mode int32, name string, object []byte, entries int) {
	t.open = append(strconv.AppendInt(t.open, int64(mode), 8), ' ')
	t.open = append(append(append(t.open, name...), 0), object...)
	t.in.count += entries
	t.take(0, 0)
}

// complete makes the tree object of the directory, and goes on with the one above.
func (t *trees) complete() {
	dir, sum := t.in, sha1.New()
	if t.size == sha256.Size {
		sum = sha256.New()
	}
	content := t.open[dir.begin:]
	fmt.Fprintf(sum, "tree %d\x00", len(content))
	sum.Write(content)
	dir.sum, t.open = sum.Sum(nil), t.open[:dir.begin]
	if t.made[dir.path] != nil {
		t.made = nil
	} else if t.made != nil {
		t.made[dir.path] = dir
	}
	if t.in = dir.above; t.in != nil {
		t.write(0o40000, path.Base(dir.path), dir.sum, dir.count)
	}
}

// match reports whether each tree in a TREE extension is the tree that the entries make.
func (t *trees) match(data []byte) bool {
	for t.in != nil {
		t.complete()
	}
	t.dirs = maxTrees // as many as are made
	rest, ok := t.describes("", data)
	return ok && len(rest) == 0
}

// describes reads the description of a directory, and of those in it. It takes numbers only in the form in
// which git writes them: git reads others in its own way, such as those that do not fit into 32 bits.
func (t *trees) describes(above string, b []byte) (rest []byte, ok bool) {
	name, b, _ := bytes.Cut(b, []byte{0})
	line, b, _ := bytes.Cut(b, []byte{'\n'})
	entries, directories, _ := strings.Cut(string(line), " ")
	n, _ := strconv.Atoi(directories)
	t.take(max(n, 0), 0)
	dir := above + string(name) + "/"
	if n < 0 || strconv.Itoa(n) != directories || t.made == nil || len(dir) > maxName {
		return nil, false
	}
	if entries != "-1" { // else git makes the tree anew
		made := t.made[dir]
		if made == nil || strconv.Itoa(made.count) != entries || !bytes.HasPrefix(b, made.sum) {
			return nil, false
		}
		b = b[t.size:]
	}
	for range n {
		if b, ok = t.describes(dir, b); !ok {
			return nil, false
		}
	}
	return b, true
}
