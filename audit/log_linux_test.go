package audit

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A log in a directory that is not its writer's to change grows: to refuse all
// commands from that size on would be no use to anybody.
func TestDirectoryOfAnother(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "audit.jsonl")
	l := testLog(t, Options{Path: path, MaxSize: 1000})
	mustAppend(t, l, Record{PID: 0})
	for path, mode := range map[string]os.FileMode{filepath.Dir(dir): 0o755, dir: 0o555, path: 0o666} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	defer os.Chmod(dir, 0o755)
	if os.Geteuid() == 0 {
		// As an ordinary user, as far as files go; the thread ends with the test.
		runtime.LockOSThread()
		if _, err := unix.SetfsuidRetUid(65534); err != nil {
			t.Fatal(err)
		}
		defer unix.SetfsuidRetUid(0)
	}
	for i := 1; i < 20; i++ {
		mustAppend(t, l, Record{PID: i, Reason: strings.Repeat("r", 200)})
	}
	if list := readLog(t, path); len(list) != 20 {
		t.Errorf("%d lines", len(list))
	}
}

func TestPlantedFile(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can give a file away")
	}
	l := testLog(t, Options{})
	mustAppend(t, l, Record{})
	dir := filepath.Dir(l.Path())
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
		if err := errors.Join(os.Chmod(dir, tt.mode), os.Chown(dir, tt.dir, -1), os.Chown(l.Path(), tt.file, -1)); err != nil {
			t.Fatal(err)
		}
		err := l.Append(Record{})
		if (err != nil) != tt.refused || err != nil && (!errors.Is(err, ErrUnwritable) || !strings.Contains(err.Error(), "belongs to user 12345")) {
			t.Errorf("%+v: %v", tt, err)
		}
	}
}
