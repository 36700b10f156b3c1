package gitindex

import (
	"bytes"
	"encoding/hex"
)

// MaxHead is how much of a HEAD git reads to judge it.
const MaxHead = 255

// ValidHead reports whether git takes a file with that text for the HEAD of a repository. With any other one it
// passes over the directory that the file lies in.
func ValidHead(data []byte) bool {
	data, _, _ = bytes.Cut(data[:min(len(data), MaxHead)], []byte{0})
	if ref, ok := bytes.CutPrefix(data, []byte("ref:")); ok {
		return bytes.HasPrefix(bytes.TrimLeft(ref, " \t\r\n"), []byte("refs/"))
	}
	const hash = 40 // of a longer one the beginning is a shorter one
	_, err := hex.Decode(make([]byte, hash/2), data[:min(len(data), hash)])
	return err == nil && len(data) >= hash
}
