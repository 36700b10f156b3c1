package audit

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPlantedFile(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can give a file away")
	}
	l := testLog(t, "")
	mustAppend(t, l, Record{})
	dir := filepath.Dir(l.path)
	for _, tt := range []struct {
		mode      os.FileMode
		dir, file int
		refused   bool
	}{
		{0o777 | os.ModeSticky, 0, 0, false},
		{0o777 | os.ModeSticky, 0, 12345, true},
		{0o775, 0, 12345, true},
		{0o755, 0, 12345, false}, // only root can have put it there
		{0o755, 54321, 12345, true},
		{0o755, 12345, 12345, false},
		{0o755, 12345, 0, false},
	} {
		if err := errors.Join(os.Chmod(dir, tt.mode), os.Chown(dir, tt.dir, -1), os.Chown(l.path, tt.file, -1)); err != nil {
			t.Fatal(err)
		}
		err := l.Append(Record{})
		if (err != nil) != tt.refused || err != nil && (!errors.Is(err, ErrUnwritable) || !strings.Contains(err.Error(), "belongs to user 12345")) {
			t.Errorf("%+v: %v", tt, err)
		}
	}
}
