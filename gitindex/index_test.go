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

// What git on the host would write where no file of a work tree belongs.
func TestMisplaced(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil {
		t.Fatal(err)
	}
	for name, script := range map[string]string{
		"version 2": "", "version 4": "git config index.version 4; ", "SHA-256": "rm -r .git; git init -q --object-format=sha256 .; ", "threads": threads,
	} {
		plain := index(t, script+"mkdir -p abcd/def; echo >abcd/def/x; git add abcd")
		if i, ok := Read(plain); !ok || i.Misplaced != "" || i.Base != nil {
			t.Errorf("%s: %v, %q", name, ok, i.Misplaced)
		}
		for _, bad := range []string{".git/def/x", ".GIT/def/x", "abcd/../x/", "/bcd/def/x", "./cd/def/x", "abcd/def//"[:9] + "/", "../d/def/x"} {
			if i, ok := Read(bytes.Replace(plain, []byte("abcd/def/x"), []byte(bad), 1)); !ok || i.Misplaced != bad {
				t.Errorf("%s: %q: %v, %q", name, bad, ok, i.Misplaced)
			}
		}
		if _, ok := Read(bytes.Replace(plain, []byte("abcd/def/x"), []byte("abcd\x00def/x"), 1)); ok {
			t.Errorf("%s: a name that ends before its length", name)
		}
	}
	split := index(t, "echo >a; git add a; git update-index --split-index; echo >b; git add b")
	if i, ok := Read(split); !ok || len(i.Base) != 20 {
		t.Errorf("split: %v, %x", ok, i.Base)
	}
}

// By these tables git finds entries and extensions elsewhere than one after the other.
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
		if _, ok := Read(other); ok {
			t.Errorf("%s that leads elsewhere", table)
		}
	}
}

// An index that a command has written is untrusted. What is understood of it does not change with the
// times of its first file, and does with its permissions.
func FuzzIndexEntries(f *testing.F) {
	f.Fuzz(func(t *testing.T, index []byte) {
		const first = 12
		entries := func(b []byte) (string, bool) {
			i, ok := Read(b)
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
