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
