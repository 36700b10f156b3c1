// Package gitindex reads git's index, which lists the files of a work tree.
//
// Git believes its index: `git restore .` writes the files that it names, to any path, such as
// .git/hooks/post-checkout or ../../.profile. So a program that can write an index can write these
// files.
package gitindex

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Version 4 leaves out the beginning that a name shares with the name before it. So a small index can
// spell long names, with which a command would fill the host's memory. A name is at most as long as a
// path, and all names together eight times as long as the index: to exceed that, a real index would need
// paths of 500 bytes on average.
const (
	maxName  = 4095
	maxNames = 8 // times the size of the index
	maxLinks = 10_000
	// The host walks to each link, step by step.
	maxLinkBytes = 1 << 20
)

// MaxDepth is how deep a link may lie: sbxhost hides deeper directories.
const MaxDepth = 128

// An Index is the content of an index file.
type Index struct {
	// Entries is a sum of its files, without their recorded times: two indexes that git status has
	// written one after the other are equal.
	Entries string
	// Misplaced is a file that git would write outside of the work tree or into a git directory.
	Misplaced string
	// Links are the entries for repositories: submodules, and others that were added.
	Links []string
}

// IsIndexName reports whether git uses that name for an index, or for the shared part of one.
func IsIndexName(base string) bool { return base == "index" || strings.HasPrefix(base, "sharedindex.") }

// HashSize returns the size of a hash in a repository's indexes, as its configuration says: 0 if git may
// understand the configuration in another way.
func HashSize(config string) int {
	config = strings.ToLower(config)
	n := strings.Count(config, "objectformat")
	if n == 0 {
		return 20
	}
	// The section in git's format, up to the last objectformat.
	format := regexp.MustCompile(`(?m)^\[extensions\]\r?\n(?:[ \t]*\w+[ \t]*=[ \t]*\w+\r?\n)*[ \t]*objectformat[ \t]*=[ \t]*(sha1|sha256)\r?$`).FindStringSubmatch(config)
	switch {
	case format == nil || strings.Count(format[0], "objectformat") < n || strings.Contains(config, "\\"): // which joins lines
		return 0
	case format[1] == "sha256":
		return 32
	}
	return 20
}

// window is more than an entry has, in bytes.
const window = 8 << 10

// maxExtension bounds an extension that Read holds in memory, in bytes, and maxExtensions the number of
// extensions: git writes less than ten, but a command can write millions of empty ones.
const (
	maxExtension  = 8 << 20
	maxExtensions = 64
)

// Read reads an index of that length, with hashes of that size. It returns false if git would read the
// index in another way, or not at all. It holds few bytes in memory, whatever a command wrote.
func Read(r io.ReaderAt, length int64, size int) (i Index, ok bool) {
	sum := sha256.New()
	i, ok = readTo(sum, r, length, size)
	i.Entries = string(sum.Sum(nil))
	return i, ok
}

// readTo is Read, and writes to sum what Entries is the sum of.
func readTo(sum io.Writer, r io.ReaderAt, length int64, size int) (i Index, ok bool) {
	end := length - int64(size) // without the checksum
	bytesAt := func(at, n int64) []byte {
		if at < 0 || n > min(end-at, maxExtension) {
			return nil
		}
		b := make([]byte, n)
		if _, err := r.ReadAt(b, at); err != nil {
			return nil
		}
		return b
	}
	head := bytesAt(0, 12)
	if size == 0 || head == nil || string(head[:4]) != "DIRC" {
		return i, false
	}
	version, count := binary.BigEndian.Uint32(head[4:]), binary.BigEndian.Uint32(head[8:])
	if version < 2 || version > 4 {
		return i, false
	}
	in := bufio.NewReaderSize(io.NewSectionReader(r, 12, end-12), 16*window) // else each entry is read anew
	name, line := "", []byte(nil)
	at, names, links := int64(12), 0, 0
	var starts []int32
	made := newTrees(size, count)
	for range count {
		entry, _ := in.Peek(window)
		var flags []byte
		shared, n := 0, 0
		if name, flags, shared, n = readEntry(entry, version, size, name); n == 0 {
			return i, false
		}
		const stage, intended = 0x30, 0x20
		mode := int32(binary.BigEndian.Uint32(entry[24:]))
		if flags[0]&stage != 0 || len(flags) > 2 && flags[2]&intended != 0 {
			mode = -1 // git makes no tree of an unfinished merge: with this mode, no tree is valid
		}
		line = append(line[:0], entry[24:28]...)  // type and permissions
		line = append(line, entry[40:40+size]...) // the object
		line = append(line, flags[0]>>4)          // the flags without the length of the name
		line = append(line, flags[2:]...)
		line = append(strconv.AppendInt(line, int64(len(name)), 10), ' ')
		line = append(line, name...)
		sum.Write(line)
		if names += len(name); len(name) > maxName || names > maxNames*int(end) || len(i.Links) > maxLinks {
			return i, false
		}
		if i.Misplaced == "" && misplaced(name) {
			i.Misplaced = name
		}
		switch kind := binary.BigEndian.Uint32(entry[24:]) & 0xf000; {
		case name == "" || kind == 0x4000: // of a split or sparse index: other files or objects have the names
			return i, false
		case kind == 0xe000:
			if links += len(name); links > maxLinkBytes || strings.Count(name, "/") >= MaxDepth {
				return i, false
			}
			i.Links = append(i.Links, name)
		}
		made.add(mode, name, entry[40:40+size])
		if starts = append(starts, int32(at)); shared > 0 {
			starts[len(starts)-1] = -1 // a thread that begins here does not have the name before
		}
		at += int64(n)
		in.Discard(n)
	}
	// Git looks for the extension EOIE at this offset from the end, even within other data.
	last := end - int64(12+size)
	if b := bytesAt(last, 12); last >= 0 && (b == nil || string(b[:4]) == "EOIE" && (last < at || int64(binary.BigEndian.Uint32(b[8:])) != at)) {
		return i, false
	}
	described := false
	for extensions := 0; at < end; extensions++ {
		b := bytesAt(at, 8)
		if b == nil || extensions == maxExtensions {
			return i, false
		}
		more := int64(binary.BigEndian.Uint32(b[4:]))
		switch at += 8; {
		case more > end-at, string(b[:4]) == "link", string(b[:4]) == "IEOT" && !startsMatch(bytesAt(at, more), starts):
			return i, false // a split index ("link") has entries in another file
		case string(b[:4]) == "TREE":
			if described || !made.match(bytesAt(at, more)) {
				return i, false
			}
			described = true // git writes one
		}
		at += more
	}
	return i, true
}

// MayReplace reports whether packed refs name objects that git reads in the place of others. After an
// error in reading, or with a line of more than 64 KiB, it returns true.
func MayReplace(refs io.Reader) bool {
	lines := bufio.NewScanner(refs)
	for lines.Scan() {
		if bytes.Contains(lines.Bytes(), []byte("refs/replace/")) {
			return true
		}
	}
	return lines.Err() != nil
}

// startsMatch reports whether a table of offsets, by which git's threads read the entries, has offsets
// where entries start.
func startsMatch(table []byte, starts []int32) bool {
	if len(table)%8 != 4 {
		return false
	}
	for table = table[4:]; len(table) > 0; table = table[8:] {
		at, n := int(binary.BigEndian.Uint32(table)), int(binary.BigEndian.Uint32(table[4:]))
		if n == 0 || n > len(starts) || int(starts[0]) != at {
			return false
		}
		starts = starts[n:]
	}
	return len(starts) == 0
}

// misplaced reports whether git itself would refuse a file of that name in an index.
func misplaced(name string) bool {
	for part := range strings.SplitSeq(strings.TrimSuffix(name, "/"), "/") {
		if part == "" || part == "." || part == ".." {
			return true
		}
		if c := part[0]; c < utf8.RuneSelf && c != '.' && c|0x20 != 'g' {
			continue // what follows cannot make it one of these
		}
		// Some file systems ignore case, formatting characters, and the text after a colon or backslash.
		part = strings.Map(func(r rune) rune {
			if unicode.Is(unicode.Cf, r) {
				return -1
			}
			return r
		}, part)
		if end := strings.IndexAny(part, `:\`); end >= 0 {
			part = part[:end]
		}
		if part = strings.TrimRight(part, " ."); strings.EqualFold(part, ".git") || strings.EqualFold(part, "git~1") {
			return true
		}
	}
	return false
}

// readEntry returns an entry's name and its two or four bytes of flags, the length of the part that the name
// shares with before, and the entry's length: 0 if it cannot read the entry. before is the name of the entry
// before it.
func readEntry(b []byte, version uint32, size int, before string) (name string, flags []byte, shared, n int) {
	const extended = 0x40 // there are four bytes
	at := 42 + size
	if at+2 > len(b) { // with these two, there is no space for the end of a name
		return "", nil, 0, 0
	}
	if b[at-2]&extended != 0 {
		if at += 2; version < 3 {
			return "", nil, 0, 0
		}
	}
	flags = b[40+size : at]
	if version == 4 {
		strip, n := varint(b[at:])
		if n == 0 || strip > len(before) {
			return "", nil, 0, 0
		}
		at += n
		shared = len(before) - strip
		name = before[:shared]
	}
	i := bytes.IndexByte(b[at:], 0)
	if i < 0 {
		return "", nil, 0, 0
	}
	name += string(b[at : at+i])
	if declared := int(binary.BigEndian.Uint16(flags) & 0xfff); declared != 0xfff && declared != len(name) {
		return "", nil, 0, 0 // git would use that length
	}
	if at += i + 1; version < 4 {
		at = (at-1)/8*8 + 8
	}
	if at > len(b) {
		return "", nil, 0, 0
	}
	return name, flags, shared, at
}

// varint reads a number in the form of git's index.
func varint(b []byte) (v, n int) {
	for n < len(b) && n < 4 {
		c := b[n]
		if n++; n > 1 {
			v++
		}
		v = v<<7 | int(c&0x7f)
		if c&0x80 == 0 {
			return v, n
		}
	}
	return 0, 0
}
