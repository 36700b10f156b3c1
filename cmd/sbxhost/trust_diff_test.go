package main

import (
	"strings"
	"testing"
)

func TestUnifiedDiff(t *testing.T) {
	t.Parallel()
	many := strings.Repeat("same\n", 20)
	for _, tt := range []struct{ name, before, after, want string }{
		{"nothing", "a\nb\n", "a\nb\n", ""},
		{"new", "", "a\nb\n", "@@ -0,0 +1,2 @@\n+a\n+b\n"},
		{"gone", "a\n", "", "@@ -1 +0,0 @@\n-a\n"},
		{"changed", "a\nb\nc\n", "a\nx\nc\n", "@@ -1,3 +1,3 @@\n a\n-b\n+x\n c\n"},
		{"two places", "1\n" + many + "2\n", "x\n" + many + "y\n",
			"@@ -1,4 +1,4 @@\n-1\n+x\n same\n same\n same\n@@ -19,4 +19,4 @@\n same\n same\n same\n-2\n+y\n"},
		{"no newline", "a", "a\n", "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n"},
		{"escaped", "", "\x1b[2J\u202e\rx\n", "@@ -0,0 +1 @@\n+\ufffd[2J\ufffd\ufffdx\n"},
	} {
		if got := unifiedDiff(tt.before, tt.after); got != tt.want {
			t.Errorf("%s:\n%s", tt.name, got)
		}
	}
	// Too long to be compared, it is shown as replaced, and it is all there.
	a, b := strings.Repeat("a\n", 5000), strings.Repeat("b\n", 5000)
	if got := unifiedDiff(a, b); strings.Count(got, "\n-a")+strings.Count(got, "\n+b") != 10000 {
		t.Error("lines are missing")
	}
}

// A difference, applied to what was before, gives what is.
func FuzzCompareLines(f *testing.F) {
	f.Add("a\nb\nc\n", "a\nc\nd")
	f.Add("", "x\n")
	f.Add("x\nx\ny\nx\n", "y\nx\nx\n")
	f.Fuzz(func(t *testing.T, before, after string) {
		var was, is strings.Builder
		for _, l := range compareLines(splitLines(before), splitLines(after)) {
			if l.op != '+' {
				was.WriteString(l.text)
			}
			if l.op != '-' {
				is.WriteString(l.text)
			}
		}
		if was.String() != before || is.String() != after {
			t.Errorf("%q and %q", was.String(), is.String())
		}
		if (unifiedDiff(before, after) == "") != (before == after) {
			t.Errorf("%q, %q: %q", before, after, unifiedDiff(before, after))
		}
	})
}

// What does not fit a terminal that one can scroll back in is not asked about,
// however few its lines are.
func TestTrustQuestionCanBeRead(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text  string
		whole bool
	}{
		{"sandbox \"a\" {}\n", true},
		{strings.Repeat("# b\n", maxTrustLines-1), true},
		{strings.Repeat("# b\n", maxTrustLines), false},
		{"evil\n" + strings.Repeat(" ", 80*maxTrustLines) + "\n", false},
		{"evil\n" + strings.Repeat("\t", 10*maxTrustLines) + "\n", false},
	} {
		if _, whole := trustQuestion("/x", "", c.text, false); whole != c.whole {
			t.Errorf("%.20q, %d bytes: %v", c.text, len(c.text), whole)
		}
	}
	long := strings.Repeat("+x\n", 100)
	if got := cutRows(long, 10); got != strings.Repeat("+x\n", 10)+"... and 90 further lines\n" {
		t.Errorf("%q", got)
	}
	if got := cutRows(long, 100); got != long {
		t.Errorf("%q", got)
	}
	if got := cutRows("+"+strings.Repeat("x", 900)+"\n+y\n", 10); got != "... and 2 further lines\n" {
		t.Errorf("%q", got)
	}
}
