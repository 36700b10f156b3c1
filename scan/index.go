//go:build unix

package scan

import (
	"encoding/binary"
	"hash/crc32"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/hostpath"
)

// An Index is what Scanners remember, kept in a file from one process to the next. Nil
// keeps nothing. What is read from it is believed as what a Scanner has seen itself, so
// nobody whom a scan is about may write the file or its directory: both are this user's
// alone, or the file is not read.
type Index struct {
	file    string
	open    sync.Once
	writing chan struct{} // held by who writes the file

	mu       sync.Mutex
	era      era
	reader   string // which program reads, and for whom
	saved    bool
	scanners []*Scanner
	trees    []indexed // of the file, the last used first
}

type indexed struct{ key, tree string }

// era is what two moments have in common between which stamps can be compared.
type era struct {
	boot string // the numbers of mounts begin anew with each
	// The wall clock's lead over the time since boot: it changes when somebody sets the
	// clock, and not when the clock is only slowed down. A change to a directory can have
	// an old stamp again once the clock was set back.
	lead int64
}

func (e era) same(other era) bool {
	d := e.lead - other.lead
	return e.boot == other.boot && -stepped < d && d < stepped
}

// stepped is a change of the lead that is no inaccuracy of reading two clocks. Stamps
// that are believed are older by twice as much, at least.
const stepped = int64(settlingLocal / 2)

// NewIndex makes an Index whose file has that path.
func NewIndex(file string) *Index { return &Index{file: file, writing: make(chan struct{}, 1)} }

// New is [New], with that index. key stands for the query: two with the same key, in
// processes of the same program, must ask the same.
func (x *Index) New(key string, q Query) *Scanner {
	s := New(q)
	if x == nil {
		return s
	}
	s.index, s.key = x, key
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.saved {
		x.scanners = append(x.scanners, s)
	}
	return s
}

// recall gives what the index says of a scanner's tree, or nil.
func (x *Index) recall(s *Scanner, roots string) *node {
	if x == nil {
		return nil
	}
	x.open.Do(x.read)
	key := x.key(s, roots)
	x.mu.Lock()
	i := slices.IndexFunc(x.trees, func(t indexed) bool { return t.key == key })
	var text string
	if i >= 0 {
		text = x.trees[i].tree
	}
	x.mu.Unlock()
	d := &decoder{text: text, query: &s.query}
	root := &node{}
	if root.dirs = d.nodes(nil); d.broken || i < 0 {
		return nil
	}
	return root
}

// key is that of a tree. A program that is another by now may find other things.
func (x *Index) key(s *Scanner, roots string) string {
	return strings.Join([]string{x.reader, s.key, roots}, "\x00\x00")
}

// The whole file is written, and so only where much is new: so many directories, and one
// more for so many that are known.
const (
	worthSaving = 16
	perKnown    = 32
)

// What bounds the file: its bytes, of which a directory takes about 60 and a file 8, and
// the trees in it. One for each definition and program that searches the workspace.
const (
	maxIndex = 16 << 20
	maxTrees = 8
)

// indexFormat changes with what the file's bytes mean, or with what a search finds.
const indexFormat = "sbxhost tree index 2\n"

// Save writes what was found, for the next process. Later scans are not written.
func (x *Index) Save() error {
	if x == nil {
		return nil
	}
	x.writing <- struct{}{}
	defer func() { <-x.writing }()
	x.mu.Lock()
	saved, scanners, old, era := x.saved, x.scanners, x.trees, x.era
	x.saved, x.scanners, x.trees = true, nil, nil
	x.mu.Unlock()
	if saved || era.boot == "" {
		return nil
	}
	var trees []indexed
	fresh, known := 0, 0
	for _, s := range scanners {
		s.mu.Lock()
		own := maps.Clone(s.trees)
		s.mu.Unlock()
		for roots, t := range own {
			t.mu.Lock()
			if t.root != nil {
				trees = append(trees, indexed{x.key(s, roots), string(appendNodes(nil, t.root))})
				for _, n := range t.root.dirs {
					known += n.size
				}
				fresh += t.fresh
			}
			t.mu.Unlock()
		}
	}
	if fresh < worthSaving+known/perKnown {
		return nil
	}
	for _, t := range old {
		if !slices.ContainsFunc(trees, func(have indexed) bool { return have.key == t.key }) {
			trees = append(trees, t)
		}
	}
	b := make([]byte, crc32.Size)
	b = appendText(append(b, indexFormat...), era.boot)
	b = binary.LittleEndian.AppendUint64(b, uint64(era.lead))
	for i, t := range trees {
		if i < maxTrees && len(b)+len(t.key)+len(t.tree) < maxIndex {
			b = appendText(appendText(b, t.key), t.tree)
		}
	}
	binary.LittleEndian.PutUint32(b, crc32.ChecksumIEEE(b[crc32.Size:]))
	return x.write(b)
}

// Close has nothing written any more, and waits for a Save that is under way, but no longer than
// patience: a file system may not answer.
func (x *Index) Close(patience time.Duration) {
	if x == nil {
		return
	}
	x.mu.Lock()
	x.saved = true
	x.mu.Unlock()
	select {
	case x.writing <- struct{}{}:
		<-x.writing
	case <-time.After(patience):
	}
}

// write replaces the file as a whole. Of two that do so at once, one does it: the lock is
// that of the file that is written, and whose name is taken away before it is unlocked.
func (x *Index) write(b []byte) error {
	next := x.file + ".next"
	f, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := hostpath.TryLock(int(f.Fd()), unix.LOCK_EX); err != nil {
		return err // another process writes
	}
	mine, err := f.Stat()
	if err != nil {
		return err
	}
	if named, err := os.Lstat(next); err != nil || !os.SameFile(mine, named) {
		return nil // another process has made it the index
	}
	if err := f.Truncate(0); err != nil { // a writer was killed
		return err
	}
	if _, err := f.Write(b); err != nil {
		os.Remove(next) // the disk may be full
		return err
	}
	return os.Rename(next, x.file)
}

// read reads the file. One that makes no sense, or is of another era, says nothing.
func (x *Index) read() {
	now, reader := currentEra(), reader()
	if now.boot == "" || reader == "" {
		return
	}
	trees, then := readIndex(x.file, now)
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.reader, x.era = reader, then; !x.saved {
		x.trees = trees
	}
}

// readIndex gives the trees of a file, and their era: that in which the first of them
// was read, so that small steps of the clock add up. Without trees it is now.
func readIndex(file string, now era) ([]indexed, era) {
	f, err := os.OpenFile(file, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, now
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0 || info.Size() <= crc32.Size || info.Size() > maxIndex {
		return nil, now
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != os.Geteuid() || hostpath.CheckPrivate(filepath.Dir(file)) != nil {
		return nil, now
	}
	b := make([]byte, info.Size())
	if _, err := io.ReadFull(f, b); err != nil || binary.LittleEndian.Uint32(b) != crc32.ChecksumIEEE(b[crc32.Size:]) {
		return nil, now
	}
	text, ok := strings.CutPrefix(string(b[crc32.Size:]), indexFormat)
	if !ok {
		return nil, now
	}
	d := &decoder{text: text}
	then := era{boot: d.string(), lead: int64(d.word())}
	var trees []indexed
	for d.at < len(d.text) && !d.broken {
		trees = append(trees, indexed{d.string(), d.string()})
	}
	if d.broken || !then.same(now) {
		return nil, now
	}
	return trees, then
}

// What a node is, as one byte of its encoding.
const (
	isLasting = 1 << iota
	isBare
	isAsAbove // its state is that of the directory above
)

// appendNodes appends the directories in above: of each its name and whether it is
// hidden, of one that can be believed later what is in it, and those beneath.
func appendNodes(b []byte, above *node) []byte {
	b = binary.AppendUvarint(b, uint64(len(above.dirs)))
	for _, n := range above.dirs {
		var flags byte
		if n.lasting {
			flags |= isLasting
		}
		if n.bare {
			flags |= isBare
		}
		if slices.Equal(n.state, above.state) {
			flags |= isAsAbove
		}
		b = appendText(append(b, flags), n.name)
		b = binary.AppendUvarint(b, uint64(n.hide))
		if n.lasting {
			b = appendContent(b, n)
		}
		b = appendNodes(b, n)
	}
	return b
}

func appendContent(b []byte, n *node) []byte {
	for _, word := range [...]uint64{n.id.dev, n.id.ino, n.id.mount, uint64(n.id.btime), uint64(n.id.mtime), uint64(n.id.ctime)} {
		b = binary.LittleEndian.AppendUint64(b, word)
	}
	b = binary.AppendUvarint(b, uint64(n.names))
	b = binary.AppendUvarint(b, uint64(len(n.found)))
	for _, e := range n.found {
		b = appendText(append(b, byte(e.what), byte(e.kind)), e.name)
		b = binary.AppendUvarint(b, uint64(e.pattern+1))
		b = binary.AppendUvarint(b, e.inode)
	}
	b = binary.AppendUvarint(b, uint64(len(n.links)))
	for _, l := range n.links {
		b = appendText(b, l.name)
	}
	return appendText(b, n.inodes)
}

func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

// A decoder takes what was appended from the front of a text.
type decoder struct {
	text   string
	at     int
	query  *Query
	depth  int
	taken  int  // directories
	broken bool // nothing of it is to be used
}

// minNode is how many bytes a directory takes at least.
const minNode = 4

// nodes gives the directories in above, which is nil for the roots.
func (d *decoder) nodes(above *node) []*node {
	count := d.number()
	if d.depth > MaxDepth+1 || count > uint64(len(d.text)/minNode-d.taken) {
		d.broken = true
	}
	if count == 0 || d.broken {
		return nil
	}
	d.taken += int(count)
	d.depth++
	defer func() { d.depth-- }()
	all, list := make([]node, count), make([]*node, count)
	for i := range all {
		d.node(&all[i], above)
		list[i] = &all[i]
	}
	return list
}

func (d *decoder) node(n, above *node) {
	flags := d.byte()
	n.name, n.hide = d.string(), int(d.number())
	switch {
	case above == nil:
		n.state, n.hide = stateAt(d.query.Set, n.name)
	case n.hide > 0:
	case flags&isAsAbove != 0:
		n.state = above.state
	default:
		n.state = d.query.Set.Next(above.state, n.name)
	}
	if flags&isLasting != 0 {
		n.settled, n.lasting, n.bare = true, true, flags&isBare != 0
		d.content(n)
	}
	n.dirs = d.nodes(n)
	n.size = 1
	for _, child := range n.dirs {
		n.size += child.size
	}
}

func (d *decoder) content(n *node) {
	n.id = identity{dev: d.word(), ino: d.word(), mount: d.word(), btime: int64(d.word()), mtime: int64(d.word()), ctime: int64(d.word())}
	n.names = int(d.number())
	for count := d.number(); count > 0 && !d.broken; count-- {
		e := entry{what: What(d.byte()), kind: kind(d.byte()), name: d.string()}
		e.pattern, e.inode = int(d.number())-1, d.number()
		n.found = append(n.found, e)
	}
	for count := d.number(); count > 0 && !d.broken; count-- {
		name := d.string()
		n.links = append(n.links, link{name, d.query.Set.Next(n.state, name)})
	}
	n.inodes = d.string()
}

// take gives so many bytes; zeros, where they are not there.
func (d *decoder) take(size int) string {
	if size < 0 || size > len(d.text)-d.at {
		d.broken, d.at = true, len(d.text)
		return "\x00\x00\x00\x00\x00\x00\x00\x00"
	}
	d.at += size
	return d.text[d.at-size : d.at]
}

func (d *decoder) string() string { return d.take(int(min(d.number(), maxIndex))) }

func (d *decoder) byte() byte { return d.take(1)[0] }

func (d *decoder) word() uint64 { return binary.LittleEndian.Uint64([]byte(d.take(8))) }

func (d *decoder) number() (v uint64) {
	for shift := 0; shift < 64; shift += 7 {
		c := d.byte()
		if v |= uint64(c&0x7f) << shift; c < 0x80 {
			return v
		}
	}
	d.broken = true
	return 0
}
