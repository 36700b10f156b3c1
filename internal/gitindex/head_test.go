package gitindex

import (
	"strings"
	"testing"
)

func TestLeadsToNoRef(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"ref: commondir": true, "ref:\n\t shallow\n": true, "ref: hooks/x\x00": true, "ref: HEAD": true, "ref:": true, "ref: \vrefs/x": true,
		"ref:" + strings.Repeat(" ", MaxHead) + "refs/x": true, // git reads on
		"ref: refs/heads/x": false, "ref:refs/x\n": false, " ref: x": false, "": false, strings.Repeat("a", 40): false,
	} {
		if got := LeadsToNoRef([]byte(text)); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}
