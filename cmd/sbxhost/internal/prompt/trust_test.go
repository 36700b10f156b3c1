package prompt

import (
	"strings"
	"testing"
)

func TestUnifiedDiff(t *testing.T) {
	t.Parallel()
	many := strings.Join(strings.Split("bcdefghijklmnopqrstu", ""), "\n") + "\n"
	for _, tt := range []struct{ name, before, after, want string }{
		{"nothing", "a\nb\n", "a\nb\n", ""},
		{"new", "", "a\nb\n", "@@ -0,0 +1,2 @@\n+a\n+b\n"},
		{"gone", "a\n", "", "@@ -1,1 +0,0 @@\n-a\n"},
		{"changed", "a\nb\nc\n", "a\nx\nc\n", "@@ -1,3 +1,3 @@\n a\n-b\n+x\n c\n"},
		{"two places", "1\n" + many + "2\n", "x\n" + many + "y\n",
			"@@ -1,4 +1,4 @@\n-1\n+x\n b\n c\n d\n@@ -19,4 +19,4 @@\n s\n t\n u\n-2\n+y\n"},
		{"no newline", "a", "a\n", "@@ -1,1 +1,1 @@\n-a\n\\ No newline at end of file\n+a\n"},
		{"escaped", "", "\x1b[2J\u202e\rx\n", "@@ -0,0 +1,1 @@\n+\ufffd[2J\ufffd\ufffdx\n"},
	} {
		if got := Diff(tt.before, tt.after); got != tt.want {
			t.Errorf("%s:\n%s", tt.name, got)
		}
	}
	a, b := strings.Repeat("a\n", 5000), strings.Repeat("b\n", 5000)
	if got := Diff(a, b); strings.Count(got, "\n-a")+strings.Count(got, "\n+b") != 10000 {
		t.Error("lines are missing")
	}
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
}

// Letters that are written from right to left would put what stands between them in another order.
func TestTrustQuestionIsInOrder(t *testing.T) {
	t.Parallel()
	const line = "deny_paths = [\"\u05d0\", \"1\", \"\u05d1\"]\n"
	text, _ := trustQuestion("/w/\u0634/sbxhost.hcl", "", line, false)
	if strings.ContainsAny(text, "\u05d0\u05d1\u0634") || !strings.Contains(text, `["\u05d0", "1", "\u05d1"]`) || !strings.Contains(text, `"/w/\u0634/sbxhost.hcl"`) {
		t.Error(text)
	}
}
