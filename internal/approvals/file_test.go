package approvals

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestTampered(t *testing.T) {
	t.Parallel()
	write := func(text string) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	must := func(t *testing.T, err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		tamper func(t *testing.T, path string)
		says   string
	}{
		"writable by others": {func(t *testing.T, path string) { must(t, os.Chmod(path, 0o622)) }, "can be written by others (mode 0622)"},
		"writable directory": {func(t *testing.T, path string) { must(t, os.Chmod(filepath.Dir(path), 0o777)) }, "can be written by others"},
		"symlink": {func(t *testing.T, path string) {
			must(t, os.Rename(path, path+".real"))
			must(t, os.Symlink(path+".real", path))
		}, "is a symlink"},
		"hard link": {func(t *testing.T, path string) { must(t, os.Link(path, path+".too")) }, "has another name"},
		"fifo": {func(t *testing.T, path string) {
			must(t, os.Remove(path))
			must(t, syscall.Mkfifo(path, 0o600))
		}, "is not a regular file"},
		"truncated": {func(t *testing.T, path string) {
			info, err := os.Stat(path)
			must(t, err)
			must(t, os.Truncate(path, info.Size()/2))
		}, "only a part of it"},
		"empty":         {func(t *testing.T, path string) { must(t, os.Truncate(path, 0)) }, "is empty"},
		"version 1":     {write(`{"version": 1, "approvals": []}`), "is of version 1"},
		"version 3":     {write(`{"version": 3, "rules": {}}`), "is of version 3"},
		"no version":    {write(`{"approvals": []}`), "is of version 0"},
		"unknown field": {write(`{"version": 2, "approvals": [{"scope": "always", "argv": ["x"], "unless": "y"}]}`), "makes no sense"},
		"unknown scope": {write(`{"version": 2, "approvals": [{"scope": "ever", "argv": ["x"]}]}`), "makes no sense"},
		"two documents": {write(`{"version": 2, "approvals": []} {"version": 2, "approvals": []}`), "not JSON"},
		"very deep":     {write(strings.Repeat("[", 1<<20)), "not JSON"},
		"huge":          {func(t *testing.T, path string) { must(t, os.Truncate(path, maxFile+1)) }, "is longer than"},
		"bad encoding":  {write(`{"version": 2, "approvals": [{"scope": "always", "argv": ["base64:?"]}]}`), "makes no sense"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, _ := testStore(t)
			mustAdd(t, s, testKey("x"), Always, "")
			path := filepath.Join(s.Dir(), FileName)
			c.tamper(t, path)
			before, _ := os.Lstat(path)
			check := func(what string, err error) {
				t.Helper()
				if !errors.Is(err, ErrTampered) || !strings.Contains(err.Error(), c.says) {
					t.Errorf("%s: %v", what, err)
				}
			}
			a, err := s.Find(t.Context(), testKey("x"), "")
			if a != nil {
				t.Error("it is approved")
			}
			check("find", err)
			list, err := s.List()
			if len(list) > 0 {
				t.Error("it is listed")
			}
			check("list", err)
			_, err = s.Add(t.Context(), testKey("y"), Always, "", 0, "")
			check("add", err)
			_, err = s.Revoke(t.Context(), func(*Approval) bool { return true })
			check("revoke", err)
			if after, _ := os.Lstat(path); !os.SameFile(before, after) || !after.ModTime().Equal(before.ModTime()) {
				t.Error("it was overwritten")
			}
		})
	}
}

func TestForeignOwner(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can give a file away")
	}
	for _, what := range []string{"", FileName} {
		s, _ := testStore(t)
		mustAdd(t, s, testKey("x"), Always, "")
		if err := os.Chown(filepath.Join(s.Dir(), what), 12345, -1); err != nil {
			t.Fatal(err)
		}
		if a, err := s.Find(t.Context(), testKey("x"), ""); a != nil || !errors.Is(err, ErrTampered) || !strings.Contains(err.Error(), "belongs to user 12345") {
			t.Errorf("%q: %v, %v", what, a, err)
		}
	}
}

func TestFiles(t *testing.T) {
	t.Parallel()
	s, _ := testStore(t)
	if list, err := s.List(); list != nil || err != nil {
		t.Errorf("where there is none: %v, %v", list, err)
	}
	if _, err := os.Lstat(s.Dir()); !os.IsNotExist(err) {
		t.Errorf("asking has made it: %v", err)
	}
	// A writer that was killed leaves its half.
	mustAdd(t, s, testKey("a"), Always, "")
	left := filepath.Join(s.Dir(), FileName+".new")
	if err := os.WriteFile(left, []byte("half"), 0o644); err != nil {
		t.Fatal(err)
	}
	mustAdd(t, s, testKey("b"), Always, "")
	for path, mode := range map[string]os.FileMode{s.Dir(): os.ModeDir | 0o700, filepath.Join(s.Dir(), FileName): 0o600} {
		if info, err := os.Lstat(path); err != nil || info.Mode() != mode {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	if _, err := os.Lstat(left); !os.IsNotExist(err) {
		t.Errorf("a half file stays: %v", err)
	}
	// Whoever holds the lock for long is named rather than waited for.
	err := s.approvals().locked(t.Context(), func(*os.File) error {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		_, err := s.Add(ctx, testKey("c"), Always, "", 0, "")
		return err
	})
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "holds the lock") {
		t.Errorf("%v", err)
	}
}
