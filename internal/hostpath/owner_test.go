package hostpath

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"
)

// anybodys is a file of a system that does not tell the owner.
type anybodys struct{ fs.FileInfo }

func (anybodys) Sys() any { return nil }

// What an unknown owner has made is refused, whatever its mode is.
func TestUnknownOwner(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program := dir + "/program"
	if err := errors.Join(os.WriteFile(program, nil, 0o700), os.Chmod(dir, 0o700)); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(program)
	if err != nil {
		t.Fatal(err)
	}
	for name, check := range map[string]func(string, fs.FileInfo) error{
		"CheckExecutable": CheckExecutable, "checkFile": checkFile, "CheckOwner": CheckOwner, "checkDirectory": checkDirectory,
	} {
		if err := check(program, info); err != nil {
			t.Errorf("%s of one's own: %v", name, err)
		}
		if err := check(program, anybodys{info}); err == nil || !strings.Contains(err.Error(), "does not report") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
