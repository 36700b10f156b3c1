package gitindex

import (
	"bytes"
	"encoding/hex"
)

// MaxHead is how much of a HEAD git reads to judge it.
const MaxHead = 255

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
