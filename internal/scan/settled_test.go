package scan

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestSettled(t *testing.T) {
	t.Parallel()
	now := time.Unix(1e9, 987654321)
	for _, tt := range []struct {
		name               string
		changed, attribute time.Duration // before now
		want               bool
	}{
		{"just now", 0, 0, false},
		{"a moment ago", time.Second, time.Second, false},
		{"long ago, and its mode a moment ago", time.Minute, time.Second, false},
		{"long ago", 3 * time.Second, 3 * time.Second, true},
		{"in the future", -time.Hour, -time.Hour, false},
	} {
		id := identity{mtime: now.Add(-tt.changed).UnixNano(), ctime: now.Add(-tt.attribute).UnixNano()}
		if got := timesReliable(id, now); got != tt.want {
			t.Errorf("%s: %t", tt.name, got)
		}
	}
}

// TestTicks has a directory change again and again, right after it was looked at:
// what was there is seen each time.
func TestTicks(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := New(Query{Set: patterns(t), Name: func(name string) bool { return name == "x" }}, dir)
	for i := range 2000 {
		var want int
		if i%2 == 0 {
			want, err = 1, os.WriteFile(dir+"/x", nil, 0o600)
		} else {
			err = os.Remove(dir + "/x")
		}
		if err != nil {
			t.Fatal(err)
		}
		result, err := s.Scan()
		if err != nil {
			t.Fatal(err)
		}
		if len(result) != want {
			t.Fatalf("%d: %+v", i, result)
		}
	}
}

// When somebody sets the clock, a Scanner forgets.
func TestClockSet(t *testing.T) {
	t.Parallel()
	dir := newTree(t)
	s := New(Query{Set: patterns(t)}, dir)
	seen := func() *node {
		if _, err := s.Scan(); err != nil {
			t.Fatal(err)
		}
		return s.root
	}
	before := seen()
	if seen() != before {
		t.Error("what was seen is forgotten")
	}
	s.lead += 2 * clockStep
	if seen() == before {
		t.Error("what was seen before is believed")
	}
}
