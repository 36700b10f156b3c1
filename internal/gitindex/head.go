package gitindex

import (
	"bytes"
	"encoding/hex"
	"regexp"
	"sync"
)

// MaxHead is how much of a HEAD git reads to judge it.
const MaxHead = 255

var refPath = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?is)^(worktrees/[^/]*/)?(refs/.*|[A-Z_]*HEAD|AUTO_MERGE|BISECT_EXPECTED_REV|MERGE_AUTOSTASH|NOTES_MERGE_(PARTIAL|REF))$`)
})

// MayBeRef reports whether git uses a file at that path in a git directory as a ref. Some file systems
// ignore case.
func MayBeRef(path string) bool { return refPath().MatchString(path) }

// Astray reports whether a ref with that text, or with that beginning of MaxHead bytes, leads to what is
// none: git would write a hash to that file, such as commondir.
func Astray(text []byte) bool {
	return bytes.HasPrefix(text, []byte("ref:")) && !ValidHead(text)
}

// ValidHead reports whether git accepts a file with that text as the HEAD of a repository. With any
// other HEAD, it ignores the file's directory.
func ValidHead(data []byte) bool {
	data, _, _ = bytes.Cut(data[:min(len(data), MaxHead)], []byte{0})
	if ref, ok := bytes.CutPrefix(data, []byte("ref:")); ok {
		return bytes.HasPrefix(bytes.TrimLeft(ref, " \t\r\n"), []byte("refs/"))
	}
	const hash = 40 // the beginning of a longer hash is a shorter one
	_, err := hex.Decode(make([]byte, hash/2), data[:min(len(data), hash)])
	return err == nil && len(data) >= hash
}

// Unfinished are the files and directories of a git directory by which git continues an operation:
// their steps can be commands, and BISECT_NAMES is shell text before git 2.40. An empty MERGE_RR says
// nothing.
var Unfinished = [...]string{"rebase-merge", "rebase-apply", "sequencer", "BISECT_START", "BISECT_NAMES", "MERGE_RR", "MERGE_AUTOSTASH"}

// AppliedByCommit reports whether git commit applies a file of Unfinished: the resolved conflicts of
// MERGE_RR to the files that it names, and the stash of MERGE_AUTOSTASH to the work tree.
func AppliedByCommit(name string) bool { return name == "MERGE_RR" || name == "MERGE_AUTOSTASH" }
