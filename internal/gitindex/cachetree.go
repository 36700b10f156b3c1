package gitindex

import (
	"bufio"
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"io"
	"strconv"
	"strings"
)

// A cacheTree describes a directory in an index: it names the tree object that git commit uses for the
// directory without a look at the entries. A forged one adds files that git status and git diff do not
// show.
type cacheTree struct {
	count int // of entries in it; negative: git makes the tree anew
	tree  []byte
	below map[string]*cacheTree
	seen  bool // there are entries in it
}

// hasNoEntries reports whether git would use the tree of this directory, or of one in it, though it has
// no entries.
func (t *cacheTree) hasNoEntries() bool {
	if t.count >= 0 && !t.seen {
		return true
	}
	for _, sub := range t.below {
		if sub.hasNoEntries() {
			return true
		}
	}
	return false
}

// number reads a number in the form in which git writes it. Git reads other forms in its own way, such as
// numbers that do not fit into 32 bits.
func number(text string) (int, bool) {
	n, err := strconv.ParseInt(text, 10, 32)
	return int(n), err == nil && strconv.FormatInt(n, 10) == text
}

// maxDepth is how deep the directories of a name can lie.
const maxDepth = maxName / 2

// readCacheTree reads the description of a directory and of those in it: at most *left directories.
func readCacheTree(b []byte, size, depth int, left *int) (name string, t *cacheTree, rest []byte, ok bool) {
	text, b, ok := bytes.Cut(b, []byte{0})
	line, b, more := bytes.Cut(b, []byte{'\n'})
	entries, directories, two := strings.Cut(string(line), " ")
	count, isCount := number(entries)
	n, isNumber := number(directories)
	if t = (&cacheTree{count: count}); count >= 0 {
		if len(b) < size {
			return "", nil, nil, false
		}
		t.tree, b = b[:size], b[size:]
	}
	if *left -= n; !ok || !more || !two || !isCount || !isNumber || n < 0 || *left < 0 || depth > maxDepth {
		return "", nil, nil, false
	}
	t.below = map[string]*cacheTree{}
	for range n {
		var sub *cacheTree
		var dir string
		if dir, sub, b, ok = readCacheTree(b, size, depth+1, left); !ok || t.below[dir] != nil {
			return "", nil, nil, false
		}
		t.below[dir] = sub
	}
	return string(text), t, b, true
}

// treesMatch reports whether each tree in a TREE extension is the tree that the entries make.
func treesMatch(data []byte, entries *io.SectionReader, version, count uint32, size int) bool {
	dirs := min(minDirs+maxDirs*int(count), maxTrees)
	left := dirs
	_, t, rest, ok := readCacheTree(data, size, 0, &left)
	if !ok || len(rest) > 0 {
		return false
	}
	c := cursor{in: bufio.NewReaderSize(entries, window), version: version, size: size, left: int(count) + 1, dirs: dirs}
	c.next()
	_, _, ok = c.tree("", t)
	return ok && c.left == 0 && !t.hasNoEntries()
}

// A cursor goes through the entries of an index after Read.
type cursor struct {
	in      *bufio.Reader
	b       []byte // from the current one on
	version uint32
	size    int
	left    int // how many entries come, with the current one
	name    string
	n       int // the length of the current entry
	dirs    int // how many directories it may still enter
	held    int // bytes of the trees that are not yet complete
}

// treesMatch compares minDirs trees, and maxDirs more for each entry, but at most maxTrees. A command can
// write names with two thousand directories each.
const (
	minDirs  = 1000
	maxDirs  = 8
	maxTrees = 1 << 17
)

// maxHeld bounds cursor.held: a directory with some 200,000 files has as much.
const maxHeld = 8 << 20

func (c *cursor) next() {
	c.in.Discard(c.n)
	if c.left--; c.left > 0 {
		c.b, _ = c.in.Peek(window)
		if c.name, _, c.n = readEntry(c.b, c.version, c.size, c.name); c.n == 0 { // somebody has just written the file
			c.dirs, c.name = 0, "/"
		}
	}
}

// tree goes through the entries of a directory, and compares t, if there is one. It returns the hash of
// the tree, and whether git makes a tree of entries like these: of an unfinished merge, it makes none.
func (c *cursor) tree(prefix string, t *cacheTree) (sum []byte, whole, ok bool) {
	var content bytes.Buffer
	begun := c.left
	whole = true
	if t != nil {
		if t.seen { // unsorted
			return nil, false, false
		}
		t.seen = true
	}
	defer func() { c.held -= content.Len() }()
	add := func(mode uint32, name string, object []byte) bool {
		n, _ := fmt.Fprintf(&content, "%o %s\x00%s", mode, name, object)
		c.held += n
		return c.held <= maxHeld
	}
	for c.left > 0 && strings.HasPrefix(c.name, prefix) {
		name, _, below := strings.Cut(c.name[len(prefix):], "/")
		if below {
			var sub *cacheTree
			if t != nil {
				sub = t.below[name]
			}
			if c.dirs--; c.dirs < 0 {
				return nil, false, false
			}
			of, all, ok := c.tree(prefix+name+"/", sub)
			if !ok || !add(0o40000, name, of) {
				return nil, false, false
			}
			whole = whole && all
			continue
		}
		flags := binary.BigEndian.Uint16(c.b[40+c.size:])
		const stage, intended = 0x3000, 0x2000
		if flags&stage != 0 || flags&extended != 0 && binary.BigEndian.Uint16(c.b[42+c.size:])&intended != 0 {
			whole = false
		}
		if !add(binary.BigEndian.Uint32(c.b[24:]), name, c.b[40:40+c.size]) {
			return nil, false, false
		}
		c.next()
	}
	var h hash.Hash
	if h = sha1.New(); c.size == sha256.Size {
		h = sha256.New()
	}
	fmt.Fprintf(h, "tree %d\x00", content.Len())
	h.Write(content.Bytes())
	sum = h.Sum(nil)
	return sum, whole, t == nil || t.count < 0 || whole && t.count == begun-c.left && bytes.Equal(t.tree, sum)
}
