package paths

import "strings"

// IsName reports whether something can be called s, so that one file's name can hold
// it on every system: 1 to 64 letters, digits, -, _ and ., the first of them a letter
// or digit.
func IsName(s string) bool {
	for i, c := range []byte(s) {
		alnum := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !alnum && (i == 0 || strings.IndexByte("._-", c) < 0) {
			return false
		}
	}
	return len(s) > 0 && len(s) <= 64
}
