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
	const ms = time.Millisecond
	for _, tt := range []struct {
		name                 string
		changed, attribute   time.Duration // before now
		granularity          time.Duration // of what is stored
		anywhere, onlyLocals bool
	}{
		{"just now", 0, 0, 1, false, false},
		{"in the same tick", 10 * ms, 10 * ms, 1, false, false},
		{"a moment ago", 150 * ms, 150 * ms, 1, false, true},
		{"a moment ago, and its mode just now", 150 * ms, 10 * ms, 1, false, false},
		{"a moment ago, in seconds", 1500 * ms, 1500 * ms, time.Second, false, false},
		{"a moment ago, in hundredths", 150 * ms, 150 * ms, 10 * ms, false, false},
		{"long ago", 3 * time.Second, 3 * time.Second, time.Second, true, true},
		{"in the future", -time.Hour, -time.Hour, 1, false, false},
	} {
		id := identity{mtime: now.Add(-tt.changed).Truncate(tt.granularity).UnixNano(), ctime: now.Add(-tt.attribute).Truncate(tt.granularity).UnixNano()}
		for _, local := range []bool{false, true} {
			want := tt.anywhere || local && tt.onlyLocals
			if got := settled(id, now, func() bool { return local }); got != want {
				t.Errorf("%s, local %t: %t", tt.name, local, got)
			}
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
	s := New(Query{Name: func(name string) bool { return name == "x" }})
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
		result, err := s.Scan(dir)
		if err != nil {
			t.Fatal(err)
		}
		if len(result.Found) != want {
			t.Fatalf("%d: %+v", i, result.Found)
		}
	}
}

// When somebody sets the clock, a Scanner forgets.
func TestClockSet(t *testing.T) {
	t.Parallel()
	dir := newTree(t)
	s := New(Query{})
	seen := func() *tree {
		if _, err := s.Scan(dir); err != nil {
			t.Fatal(err)
		}
		return s.trees[dir]
	}
	before := seen()
	if seen() != before {
		t.Error("what was seen is forgotten")
	}
	s.lead += 2 * stepped
	if seen() == before {
		t.Error("what was seen before is believed")
	}
}
