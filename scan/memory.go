//go:build unix

package scan

import (
	"encoding/binary"
	"hash/crc32"
	"io"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// A Memory is what directories held, kept in a file from one process to the next. Of a
// directory that has the identity that it had then, it is believed: as what a Scanner
// remembers by itself. So nobody whom a scan is about may write the file; one that is not
// this user's alone is not read. Nil remembers nothing.
type Memory struct {
	file string
	load sync.Once

	mu    sync.Mutex
	known map[string]*remembered // by path; what the file says, and what was read since
	fresh int                    // how many were read
	saved bool                   // it is too late to remember more
}

// remembered is one directory.
type remembered struct {
	id      identity
	entries []byte // see encode
	used    bool   // it was asked for, or read
}

// NewMemory makes a Memory whose file has that path.
func NewMemory(file string) *Memory { return &Memory{file: file} }

// New is [New], with that memory.
func (m *Memory) New(q Query) *Scanner {
	s := New(q)
	s.memory = m
	return s
}

// recall gives what a directory holds, if it is the one that is remembered.
func (m *Memory) recall(path string) ([]dirent, identity, bool) {
	if m == nil {
		return nil, identity{}, false
	}
	m.load.Do(m.read)
	m.mu.Lock()
	d := m.known[path]
	if d != nil {
		d.used = true
	}
	m.mu.Unlock()
	if d == nil || identify([]byte(path)) != d.id {
		return nil, identity{}, false
	}
	entries, ok := decode(d.entries)
	return entries, d.id, ok
}

// keep remembers a directory that was read.
func (m *Memory) keep(path string, id identity, entries []dirent) {
	if m == nil {
		return
	}
	d := &remembered{id, encode(entries), true}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.saved {
		m.known[path] = d
		m.fresh++
	}
}

// The whole file is written, and so only where much is new: so many directories, and one
// more for so many that are known.
const (
	worthSaving = 16
	perKnown    = 32
)

// maxMemory bounds the file, in bytes: of half a million names.
const maxMemory = 32 << 20

// The file: the number of its format, the checksum of the rest, and for each directory
// the lengths of its path and of its entries, the path, the identity, the entries. What
// was not written to its end, or by two at once, has another checksum.
const memoryFormat = 1

// Save writes what was used or read, for the next process. Later scans are not remembered.
func (m *Memory) Save() error {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	known, fresh := m.known, m.fresh
	m.known, m.fresh, m.saved = nil, 0, true
	m.mu.Unlock()
	if fresh < worthSaving+len(known)/perKnown {
		return nil
	}
	b := make([]byte, 8)
	for path, d := range known {
		if !d.used || len(b) > maxMemory {
			continue
		}
		b = binary.LittleEndian.AppendUint32(b, uint32(len(path)))
		b = binary.LittleEndian.AppendUint32(b, uint32(len(d.entries)))
		b = append(b, path...)
		b, _ = binary.Append(b, binary.LittleEndian, [4]uint64{d.id.dev, d.id.ino, uint64(d.id.mtime), uint64(d.id.ctime)})
		b = append(b, d.entries...)
	}
	binary.LittleEndian.PutUint32(b, memoryFormat)
	binary.LittleEndian.PutUint32(b[4:], crc32.ChecksumIEEE(b[8:]))
	f, err := os.OpenFile(m.file, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.Write(b)
	return err
}

// read reads the file. One that makes no sense says nothing.
func (m *Memory) read() {
	known := map[string]*remembered{}
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if !m.saved { // meanwhile, while a later command's scan was the first
			m.known = known
		}
	}()
	f, err := os.OpenFile(m.file, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Mode()&0o022 != 0 || info.Size() < 8 || info.Size() > 2*maxMemory {
		return
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != os.Geteuid() {
		return
	}
	b := make([]byte, info.Size())
	if _, err := io.ReadFull(f, b); err != nil || binary.LittleEndian.Uint32(b) != memoryFormat || binary.LittleEndian.Uint32(b[4:]) != crc32.ChecksumIEEE(b[8:]) {
		return
	}
	for b = b[8:]; len(b) >= 8; {
		name, size := uint64(binary.LittleEndian.Uint32(b)), uint64(binary.LittleEndian.Uint32(b[4:]))
		if b = b[8:]; name+32+size > uint64(len(b)) {
			return
		}
		path, id, entries := string(b[:name]), b[name:name+32], b[name+32:name+32+size]
		number := func(i int) uint64 { return binary.LittleEndian.Uint64(id[8*i:]) }
		known[path] = &remembered{id: identity{number(0), number(1), int64(number(2)), int64(number(3))}, entries: entries}
		b = b[name+32+size:]
	}
}

// encode writes an entry as its kind, its inode, the length of its name, and that.
func encode(entries []dirent) (b []byte) {
	for _, e := range entries {
		b = append(b, byte(e.kind))
		b = binary.LittleEndian.AppendUint64(b, e.inode)
		b = binary.LittleEndian.AppendUint16(b, uint16(len(e.name)))
		b = append(b, e.name...)
	}
	return b
}

func decode(b []byte) (entries []dirent, ok bool) {
	const header = 11
	for len(b) >= header {
		e := dirent{kind: kind(b[0]), inode: binary.LittleEndian.Uint64(b[1:])}
		size := header + int(binary.LittleEndian.Uint16(b[9:]))
		if size > len(b) {
			return nil, false
		}
		e.name = string(b[header:size])
		entries, b = append(entries, e), b[size:]
	}
	return entries, len(b) == 0
}
