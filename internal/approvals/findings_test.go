package approvals

import (
	"fmt"
	"testing"
	"time"
)

func TestTold(t *testing.T) {
	t.Parallel()
	s, _ := testStore(t)
	add := func(still func(*Finding) bool, paths ...string) {
		t.Helper()
		var list []Finding
		for _, p := range paths {
			list = append(list, Finding{Path: p, Description: "x", At: time.Now()})
		}
		if err := s.AddFindings(t.Context(), list, still); err != nil {
			t.Fatal(err)
		}
	}
	all := func(*Finding) bool { return true }
	want := func(paths ...string) {
		t.Helper()
		list, err := s.Findings()
		var got []string
		for _, told := range list {
			got = append(got, told.Path)
		}
		if err != nil || fmt.Sprint(got) != fmt.Sprint(paths) {
			t.Errorf("got %q, %v, want %q", got, err, paths)
		}
	}
	want()
	add(all, "/w/a", "/w/b\xff")
	add(all, "/w/c", "/w/a")
	want("/w/a", "/w/b\xff", "/w/c")
	gone := func(*Finding) bool { return false }
	add(gone, "/w/d")
	want("/w/a", "/w/b\xff", "/w/c", "/w/d")
	// What was found before, and waited for the list until it was seen.
	late := []Finding{{Path: "/w/e", Description: "x", At: time.Now()}}
	add(all, "/w/f")
	seen, err := s.Findings()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.AddFindings(t.Context(), late, all); err != nil {
		t.Fatal(err)
	}
	add(all, "/w/a")
	for range 2 {
		if err := s.AcknowledgeFindings(t.Context(), seen); err != nil {
			t.Fatal(err)
		}
		want("/w/a", "/w/e")
	}
	var many []string
	for i := range maxFindings + 5 {
		many = append(many, fmt.Sprintf("/w/%d", i))
	}
	add(all, many...)
	kept := append([]string{"/w/a", "/w/e"}, many[:maxFindings-3]...)
	want(append(kept, "/w")...)
	add(all, many[3], "/v/x")  // nor are the earlier ones of the next command
	want(append(kept, "/")...) // and what is found again keeps its place
	add(gone, "/w/f")
	want()
	add(all, "/w/a", "/w/a/b")
	if err := s.AddFindings(t.Context(), []Finding{{Path: "/w/a", Description: "harmless", At: time.Now()}}, all); err != nil {
		t.Fatal(err)
	}
	want("/w/a", "/w/a/b", "/w/a")
}
