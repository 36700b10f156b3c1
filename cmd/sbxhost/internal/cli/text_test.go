package cli

import (
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sbxhost/sbxhost/cmd/internal/inforce"
)

func TestSpans(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{6 * time.Hour: "6h", 90 * time.Minute: "1h30m", 90 * time.Second: "1m30s", 30 * time.Second: "30s"} {
		if got := ShortTime(d); got != want {
			t.Errorf("%v: %q", d, got)
		}
	}
	for d, want := range map[time.Duration]string{0: "just now", time.Minute: "1 minute ago", 3 * time.Hour: "3 hours ago", 49 * time.Hour: "2 days ago"} {
		if got := inforce.Age(d); got != want {
			t.Errorf("%v: %q", d, got)
		}
	}
}

// A terminal acts on nothing of what is printed as JSON, whatever names a command has chosen.
func TestJSON(t *testing.T) {
	t.Parallel()
	const name = "a\u009b2J\u202e\U000e0001\x1b\\\"\u200b\ufffdé😀"
	var b strings.Builder
	if err := (&App{Stdout: &b}).Result(true, []string{name}, ""); err != nil {
		t.Fatal(err)
	}
	if want := "[\n  \"a\\u009b2J\\u202e\\udb40\\udc01\\u001b\\\\\\\"\\u200b\\ufffdé😀\"\n]\n"; b.String() != want {
		t.Errorf("got %q, want %q", b.String(), want)
	}
	var got []string
	if err := json.Unmarshal([]byte(b.String()), &got); err != nil || got[0] != name {
		t.Errorf("it reads as %q, %v", got, err)
	}
}

func TestQuoting(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ in, quoted, shell string }{
		{"plain", "plain", "plain"},
		{"", `""`, "''"},
		{"a b", "a b", "'a b'"},
		{"it's", `"it's"`, `'it'\''s'`},
		{"a\nb\x1b", `"a\nb\x1b"`, `$'a\nb\x1b'`},
		{"\n\"", `"\n\""`, `$'\n\"'`},
		{"\"\n\"\"", `"\"\n\"\""`, `$'\"\n\"\"'`},
		{"\n\\'", `"\n\\'"`, `$'\n\\\''`},
		{"\xff\u202e", `"\xff\u202e"`, `$'\xff\u202e'`},
		{"é", "é", "'é'"},
		// What is drawn as nothing, or as a space that parts no words.
		{"a\u200bb", `"a\u200bb"`, `$'a\u200bb'`},
		{"a\u00a0b", `"a\u00a0b"`, `$'a\u00a0b'`},
		{"a\u2800b", `"a\u2800b"`, `$'a\u2800b'`},
		{"a\u3164b", `"a\u3164b"`, `$'a\u3164b'`},
		{"a\u034fb", `"a\u034fb"`, `$'a\u034fb'`},
		{"a\ufe0fb", `"a\ufe0fb"`, `$'a\ufe0fb'`},
		{"a\U000e0101b", `"a\U000e0101b"`, `$'a\U000e0101b'`},
		{"a\ufffdb", `"a\ufffdb"`, `$'a\ufffdb'`},
	} {
		if got := Quote(tt.in); got != tt.quoted {
			t.Errorf("quote(%q) = %s", tt.in, got)
		}
		if got := ShellQuote(tt.in); got != tt.shell {
			t.Errorf("shellQuote(%q) = %s", tt.in, got)
		}
	}
}

// What is shown of a command line is pasted into shells: each word of it must be
// that word there, and nothing else.
func TestQuotingInShell(t *testing.T) {
	t.Parallel()
	bash, err := exec.LookPath("bash")
	if err != nil {
		if slices.Contains(strings.Split(os.Getenv("SBXHOST_REQUIRE"), ","), "bash") {
			t.Fatal(err)
		}
		t.Skip("no bash here; TestQuoting has the same by its letters")
	}
	words := []string{"", "plain", "-n", "a b", "it's", "$HOME `id` $(id)", "a\n", "\n\"", "; touch pwned #", "\\", "\x1b\\", "'\n'", "\r\t\a\b\f\v",
		"\x01\x7f\x80", "\xffab", "\u202ercs", "\u00e9\n", "\U0001f600\n", "!x", "~", "*", "{a,b}", "[x]", "#", "\u2800", strings.Repeat("x", 5000) + "\n\""}
	// All pairs, so that what ends one word badly meets every other.
	for _, first := range words {
		cmd := exec.Command(bash, "--norc", "-c", "printf '%s\\0' "+ShellQuote(append([]string{first}, words...)...))
		cmd.Env, cmd.Dir = []string{"LC_ALL=C.UTF-8"}, t.TempDir()
		out, err := cmd.CombinedOutput()
		if want := strings.Join(append([]string{first}, words...), "\x00") + "\x00"; err != nil || string(out) != want {
			t.Errorf("%q: %v, %q", first, err, out)
		}
	}
}
