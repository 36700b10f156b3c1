package gitindex

import (
	"bytes"
	"encoding/hex"
	"regexp"
	"sync"
)

// MaxHead is the number of bytes of a HEAD that git reads to decide whether it is valid.
const MaxHead = 255

var refPath = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?is)^(worktrees/[^/]*/)?(refs/.*|[A-Z_]*HEAD|AUTO_MERGE|BISECT_EXPECTED_REV|MERGE_AUTOSTASH|NOTES_MERGE_(PARTIAL|REF))$`)
})

// MayBeRef reports whether git uses a file at that path in a git directory as a ref. Some file systems
// ignore case.
func MayBeRef(path string) bool { return refPath().MatchString(path) }

// LeadsToNoRef reports whether a ref with that text, or with those first MaxHead bytes, leads to a file
// that is no ref, such as commondir: git would write a hash to that file.
func LeadsToNoRef(text []byte) bool {
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

// Unfinished lists the files and directories of a git directory by which git continues an operation: their
// steps can be commands, and before git 2.40, BISECT_NAMES is shell text. An empty MERGE_RR has no effect.
var Unfinished = [...]string{"rebase-merge", "rebase-apply", "sequencer", "BISECT_START", "BISECT_NAMES", "MERGE_RR", "MERGE_AUTOSTASH"}

// AppliedByCommit reports whether git commit applies a file of Unfinished: the resolved conflicts of
// MERGE_RR to the files that it names, and the stash of MERGE_AUTOSTASH to the work tree.
func AppliedByCommit(name string) bool { return name == "MERGE_RR" || name == "MERGE_AUTOSTASH" }
