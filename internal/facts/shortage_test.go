//go:build unix

package facts

import (
	"io/fs"
	"strings"
	"syscall"
	"testing"
)

// The same error stands for a disk without space and one without inodes.
func TestShortageHintNamesInodes(t *testing.T) {
	t.Parallel()
	if hint := shortageHint(&fs.PathError{Op: "mkdir", Path: "/p", Err: syscall.ENOSPC}); !strings.Contains(hint, "inodes") {
		t.Errorf("%q", hint)
	}
}
