package paths

import "strings"

// IsName reports whether s can be a name, and also a file name on every system: 1 to 64 letters,
// digits, -, _ and ., and the first is a letter or digit.
func IsName(s string) bool {
	for i, c := range []byte(s) {
		alnum := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !alnum && (i == 0 || strings.IndexByte("._-", c) < 0) {
			return false
		}
	}
	return len(s) > 0 && len(s) <= 64
}
