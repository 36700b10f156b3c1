package gitindex

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// What git commit takes for a directory has what the entries have, in every state of an index.
func TestCacheTree(t *testing.T) {
	t.Parallel()
	const commit = "git -c user.name=a -c user.email=a@b commit -qm c"
	const made = "mkdir -p a/b/c a-b z; echo 1 >a/b/c/x; echo 2 >a/b/y; echo 3 >a.txt; echo 4 >a-b/x; echo 5 >z/x; ln -s x z/l; chmod +x z/x; git add .; " + commit + "; "
	for name, script := range map[string]string{
		"a commit":              made,
		"version 4":             "git config index.version 4; " + made,
		"SHA-256":               "rm -r .git; git init -q --object-format=sha256 .; " + made,
		"threads":               threads + made,
		"a changed directory":   made + "echo 6 >a/b/y; git add .",
		"a new directory":       made + "mkdir a/n; echo 6 >a/n/y; git add .",
		"written by write-tree": made + "mkdir a/n; echo 6 >a/n/y; git add .; git write-tree",
		"a removed directory":   made + "git rm -rq a/b; " + commit,
		"a file in its place":   made + "git rm -rq a/b; mkdir -p a; echo >a/b; git add .; " + commit,
		"intended":              made + "echo 6 >a/n; git add -N a/n; git status; git write-tree",
		"a conflict":            made + "git switch -qc s; echo s >a/b/y; git add .; " + commit + "; git switch -q -; echo m >a/b/y; git add .; " + commit + "; ! git merge -q s; git status",
		"a repository":          made + "git init -q z/r; (cd z/r; " + commit + " --allow-empty); git add z/r 2>&1; " + commit,
		"skipped":               made + "git update-index --skip-worktree a/b/y; echo >z/n; git add z/n; " + commit,
		"another branch":        made + "git rm -rq a; " + commit + "; git switch -qC s HEAD~1; git reset -q --hard HEAD",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plain, size := index(t, script), 20
			if name == "SHA-256" {
				size = 32
			}
			if _, ok := read(plain, size); !ok {
				t.Fatal("it is not understood")
			}
			at := strings.LastIndex(string(plain), "TREE")
			if at < 0 {
				t.Fatal("git wrote no TREE")
			}
			// Each byte of it matters, but for the name of a directory whose tree git makes anew.
			end := len(plain) - size
			if eoie := strings.LastIndex(string(plain), "EOIE"); eoie > at {
				end = eoie
			}
			known := 0
			for i := at + 8; i < end; i++ {
				other := bytes.Clone(plain)
				other[i] ^= 1
				if _, ok := read(other, size); !ok {
					known++
				}
			}
			if known < size {
				t.Errorf("%d of %d changed bytes were seen", known, end-at-8)
			}
		})
	}
	// The tree of a directory with a file more, in a repository that has that tree.
	forged := index(t, made+`
		good=$(git rev-parse HEAD:a/b) bad=$({ git ls-tree HEAD:a/b; printf '100644 blob %s\tevil\n' $(git rev-parse HEAD:a.txt); } | git mktree)
		perl -e 'my ($g, $b) = map { pack "H*", $_ } @ARGV; undef $/; open F, "<.git/index"; my $i = <F>; $i =~ s/\Q$g\E/$b/ or die; open F, ">.git/index"; print F $i' $good $bad`)
	if _, ok := read(forged, 20); ok {
		t.Error("a forged tree is understood")
	}
	// An unfinished merge has no tree that covers it, whatever is said of it.
	intended := index(t, made+"echo 6 >a/n; git add -N a/n")
	other := bytes.Replace(intended, []byte("a\x00-1 1\n"), []byte("a\x004 1\n"+strings.Repeat("x", 20)), 1)
	at := bytes.LastIndex(other, []byte("TREE"))
	other[at+7] += byte(len(other) - len(intended))
	if _, ok := read(other, 20); ok || len(other) == len(intended) {
		t.Error("a tree with what is only intended is understood")
	}
	// A count that git cuts to 32 bits, and a directory without entries.
	for from, to := range map[string]string{"a-b\x001 0\n": "a-b\x00-4294967295 0\n", "z\x002 0\n": "y\x002 0\n"} {
		plain := index(t, made)
		other := bytes.Replace(plain, []byte(from), []byte(to), 1)
		other[bytes.LastIndex(other, []byte("TREE"))+7] += byte(len(other) - len(plain))
		if _, ok := read(other, 20); ok || bytes.Equal(other, plain) {
			t.Errorf("%q is understood", to)
		}
	}
	// Git writes one description. Each one more, and each directory, costs a reader time.
	plain := index(t, made)
	at = bytes.LastIndex(plain, []byte("TREE"))
	if _, ok := read(slices.Concat(plain[:len(plain)-20], plain[at:]), 20); ok {
		t.Error("two descriptions are understood")
	}
	names := made + "for n in 1 2 3; do mkdir -p $n%s; echo >$n%[1]s/f; done; git add ."
	if _, ok := read(index(t, fmt.Sprintf(names, strings.Repeat("/d", 300))), 20); !ok {
		t.Error("a thousand directories are not understood")
	}
	if _, ok := read(index(t, fmt.Sprintf(names, strings.Repeat("/d", 400))), 20); ok {
		t.Error("a description of three files in 1200 directories is understood")
	}
	for n, want := range map[int]bool{maxName / 2: true, maxName/2 + 1: false} {
		deep := "\x00-1 1\n" + strings.Repeat("d\x00-1 1\n", n-1) + "d\x00-1 0\n"
		if newTrees(20, 1000).match([]byte(deep)) != want {
			t.Errorf("a tree of depth %d is understood: %v", n, !want)
		}
	}
	many, description := newTrees(20, 70_000), fmt.Appendf(nil, "\x00-1 %d\n", 70_000)
	for i := range 70_000 {
		many.add(0o100644, fmt.Sprintf("%05d/f", i), make([]byte, 20))
		description = fmt.Appendf(description, "%05d\x00-1 0\n", i)
	}
	if !many.match(description) {
		t.Error("70,000 directories are not understood")
	}
}
