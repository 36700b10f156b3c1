package gitindex

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// index is a real one, of the files of that name, with what is done to it by git.
func index(t *testing.T, script string) []byte {
	t.Helper()
	cmd := exec.Command("sh", "-ec", "git init -q .\n"+script)
	cmd.Dir, cmd.Env = t.TempDir(), append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	b, err := os.ReadFile(cmd.Dir + "/.git/index")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

const threads = "git config index.threads 2; git config index.recordOffsetTable true; git config index.recordEndOfIndexEntries true; for n in $(seq 100); do echo >f$n; done; git add .; "

func read(b []byte, size int) (Index, bool) { return Read(bytes.NewReader(b), int64(len(b)), size) }

// A command makes millions of empty extensions by a hole in a file.
func TestManyExtensions(t *testing.T) {
	t.Parallel()
	head := []byte("DIRC\x00\x00\x00\x02\x00\x00\x00\x00")
	for n, want := range map[int]bool{0: true, maxExtensions: true, maxExtensions + 1: false, 1 << 20: false} {
		if _, ok := read(append(bytes.Clone(head), make([]byte, 8*n+20)...), 20); ok != want {
			t.Errorf("%d: %v", n, ok)
		}
	}
}

// What git on the host would write where no file of a work tree belongs.
func TestMisplaced(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil {
		t.Fatal(err)
	}
	for name, script := range map[string]string{
		"version 2": "", "version 4": "git config index.version 4; ", "SHA-256": "rm -r .git; git init -q --object-format=sha256 .; ", "threads": threads,
	} {
		plain, hash := index(t, script+"mkdir -p abcd/def; echo >abcd/def/x; git add abcd"), 20
		if name == "SHA-256" {
			hash = 32
		}
		if _, ok := read(plain, 52-hash); ok {
			t.Errorf("%s: is read with hashes of another size", name)
		}
		if i, ok := read(plain, hash); !ok || i.Misplaced != "" {
			t.Errorf("%s: %v, %q", name, ok, i.Misplaced)
		}
		for _, bad := range []string{".git/def/x", ".GIT/def/x", "abcd/../x/", "/bcd/def/x", "./cd/def/x", "abcd/def//"[:9] + "/", "../d/def/x", ".git. /f/x", "a/GIT~1/f/", "git~1:/f/x", ".git\\def/x", ".\u200bgit/x/"} {
			if i, ok := read(bytes.Replace(plain, []byte("abcd/def/x"), []byte(bad), 1), hash); !ok || i.Misplaced != bad {
				t.Errorf("%s: %q: %v, %q", name, bad, ok, i.Misplaced)
			}
		}
		if _, ok := read(bytes.Replace(plain, []byte("abcd/def/x"), []byte("abcd\x00def/x"), 1), hash); ok {
			t.Errorf("%s: a name that ends before its length", name)
		}
	}
	split := index(t, "echo >a; git add a; git update-index --split-index; echo >b; git add b")
	if _, ok := read(split, 20); ok {
		t.Error("a split one is understood")
	}
}

// A sparse index has directories, and git reads the names in them from its objects.
func TestSparse(t *testing.T) {
	t.Parallel()
	const script = "mkdir in out; echo >in/a; echo >out/b; git add .; git -c user.name=a -c user.email=a@b commit -qm 1; git sparse-checkout set --cone --no-sparse-index in; "
	if i, ok := read(index(t, script), 20); !ok || i.Links != nil {
		t.Errorf("without: %v, %q", ok, i.Links)
	}
	if _, ok := read(index(t, script+"git sparse-checkout reapply --sparse-index"), 20); ok {
		t.Error("it is read")
	}
}

// By these tables git finds entries and extensions elsewhere than one after the other.
// An index of version 4 in which each name is that before it and one byte more grows with the square of its size.
func TestLongNames(t *testing.T) {
	t.Parallel()
	growing := func(entries, grow int, mode uint32) []byte {
		b := binary.BigEndian.AppendUint32([]byte("DIRC\x00\x00\x00\x04"), uint32(entries))
		length := 0
		for range entries {
			length += grow
			entry := make([]byte, 62, 64+grow)
			binary.BigEndian.PutUint32(entry[24:], mode)
			binary.BigEndian.PutUint16(entry[60:], uint16(min(length, 0xfff)))
			b = append(append(append(b, entry...), 0), bytes.Repeat([]byte("a"), grow)...)
			b = append(b, 0)
		}
		return append(b, make([]byte, 20)...)
	}
	for name, tt := range map[string]struct {
		index []byte
		ok    bool
	}{
		"short":         {growing(500, 1, 0o100644), true},
		"together":      {growing(2000, 1, 0o100644), false},
		"one":           {growing(1, 4095, 0o100644), true},
		"one, too long": {growing(1, 4096, 0o100644), false},
		"submodules":    {growing(400, 1, 0o160000), true},
		"of submodules": {growing(2000, 1, 0o160000), false},
	} {
		if _, ok := read(tt.index, 20); ok != tt.ok {
			t.Errorf("%s: understood: %v", name, ok)
		}
	}
}

// The host walks to each submodule: a small index could have it walk for hours.
func TestDeepLinks(t *testing.T) {
	t.Parallel()
	links := func(n, depth int) []byte {
		b := binary.BigEndian.AppendUint32([]byte("DIRC\x00\x00\x00\x04"), uint32(n))
		name := "a" + strings.Repeat("/a", depth)
		for i := range n {
			entry := make([]byte, 62)
			binary.BigEndian.PutUint32(entry[24:], 0o160000)
			binary.BigEndian.PutUint16(entry[60:], uint16(len(name)))
			b = append(append(b, entry...), 0)
			if i == 0 {
				b = append(b, name...)
			}
			b = append(b, 0)
		}
		return append(b, make([]byte, 20)...)
	}
	for _, tt := range []struct {
		n, depth int
		ok       bool
	}{{100, 20, true}, {1, 127, true}, {1, 128, false}, {5000, 120, false}} {
		if i, ok := read(links(tt.n, tt.depth), 20); ok != tt.ok || len(i.Links) > 5000 {
			t.Errorf("%d of depth %d: understood: %v", tt.n, tt.depth, ok)
		}
	}
}

func TestTables(t *testing.T) {
	t.Parallel()
	plain := index(t, threads)
	for _, table := range []string{"IEOT", "EOIE"} {
		at := strings.LastIndex(string(plain), table)
		if at < 0 {
			t.Fatalf("git wrote no %s", table)
		}
		other := bytes.Clone(plain)
		offset := at + 8
		if table == "IEOT" {
			offset += 4
		}
		binary.BigEndian.PutUint32(other[offset:], binary.BigEndian.Uint32(other[offset:])+8)
		if _, ok := read(other, 20); ok {
			t.Errorf("%s that leads elsewhere", table)
		}
	}
	last := len(plain) - 20 - 32
	other := append(bytes.Clone(plain[:last]), "ZZZZ\x00\x00\x00\x20"...)
	other = append(other, plain[last:]...)
	other[last+8+8]++
	if _, ok := read(other, 20); ok {
		t.Error("EOIE that leads elsewhere, in another extension")
	}
	four := index(t, "git config index.version 4; "+threads)
	if _, ok := read(four, 20); !ok {
		t.Fatal("version 4 with tables")
	}
	// A thread leaves out what an entry has in common with the one before, where it begins with that entry.
	at := binary.BigEndian.Uint32(four[strings.LastIndex(string(four), "IEOT")+12+8:])
	four[at+60], four[at+61] = 0x0f, 0xff // as long as it comes
	four[at+62]--
	if _, ok := read(four, 20); ok {
		t.Error("a block of entries that begins with a part of a name")
	}
}

func TestHashSize(t *testing.T) {
	t.Parallel()
	const extensions = "[core]\n\trepositoryformatversion = 1\n[extensions]\n"
	for config, want := range map[string]int{
		"": 20, "[core]\n\tbare = false\n": 20,
		extensions + "\tobjectformat = sha256\n":                    32,
		"[Extensions]\r\n\tother = x\r\nobjectFormat=SHA256\r\n":    32,
		extensions + "objectformat = sha256\nobjectformat = sha1\n": 20,
		extensions + "\tobjectformat = sha256 # or not\n":           0,
		extensions + "\tx = \\\nobjectformat = sha256\n":            0,
		"[core]\n\tx = \\\n[extensions]\n\tobjectformat = sha256\n": 0,
		"[extensions] x = y\n\tobjectformat = sha256\n":             0,
		"[core]\n\tobjectformat = sha256\n":                         0,
		"[extensions \"x\"]\n\tobjectformat = sha256\n":             0,
		extensions + "\tobjectformat = \"sha256\"\n":                0,
		extensions + "[x]\n\tobjectformat = sha256\n":               0,
	} {
		if got := HashSize(config); got != want {
			t.Errorf("%q: %d, want %d", config, got, want)
		}
	}
}

// An index that a command has written is untrusted. What is understood of it does not change with the
// times of its first file, and does with its permissions.
func FuzzIndexEntries(f *testing.F) {
	f.Fuzz(func(t *testing.T, index []byte) {
		const first = 12
		entries := func(b []byte) (string, bool) {
			i, ok := read(b, 20)
			if !ok {
				i, ok = read(b, 32)
			}
			return i.Entries, ok
		}
		entriesOf, ok := entries(index)
		if !ok || binary.BigEndian.Uint32(index[8:]) == 0 {
			return
		}
		for i := range 28 {
			other := bytes.Clone(index)
			other[first+i]++
			now, ok := entries(other)
			if same := ok && now == entriesOf; same != (i < 24) {
				t.Errorf("with another byte %d of its first entry, %x is the same: %v", i, index, same)
			}
		}
	})
}
