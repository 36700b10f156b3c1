package seatbelt

import (
	"bufio"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/shared"
)

// The entries in testdata/log.ndjson are put together: messages of the forms that
// are in testdata/recorded.txt, with a tag, in the frame of `log stream --style
// ndjson`, and forgeries.
func TestParseLog(t *testing.T) {
	t.Parallel()
	f, err := os.Open("testdata/log.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	want := []violation{
		{"cat", 4242, "file-read-data", "/Users/me/p/.env", "sbxhost-TEST"},
		{"bash", 5678, "file-write-create", "/Users/me/p/a b\nc", "sbxhost-TEST"},
		{"curl", 20693, "network-outbound", "*:443", "sbxhost-TEST"},
		{"git", 7, "mach-lookup", "com.apple.SecurityServer", "sbxhost-TEST"},
		{"node (vm)", 9, "file-read-metadata", "/Users/me/x", "sbxhost-TEST"},
		{"cat", 0, "file-read-data", "/Users/me/p/.env", "sbxhost-TEST"},
		{"osascript", 12, "appleevent-send", "com.apple.finder", "sbxhost-TEST"},
		{"ps", 3, "forbidden-exec-sugid", "", "sbxhost-TEST"},
		{"Helper (Renderer)", 31, "network-outbound", "remote:*:443", "sbxhost-TEST"},
		{"cp", 8, "file-read-data", "/Users/me/My Files/x (1) deny(1) y.txt", "sbxhost-TEST"},
	}
	var got []violation
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if v, ok := parseLog(lines.Bytes()); ok {
			got = append(got, v)
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%d violations: %+v", len(got), got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%+v, want %+v", got[i], want[i])
		}
	}
}

// What others have published of the system's log is read, too. None of it had a
// tag, which is put behind it here.
func TestParseRecorded(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/recorded.txt")
	if err != nil {
		t.Fatal(err)
	}
	entry, source, entries := "", "", 0
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		fields, isWant := strings.CutPrefix(line, "= ")
		switch {
		case strings.HasPrefix(line, "# http"):
			source = line[2:]
		case line == "", line[0] == '#':
		case line != "-" && !isWant:
			entry = line
		default:
			if entry == "" || source == "" {
				t.Fatalf("%q is of no entry, or of one without a source", line)
			}
			entries++
			want := strings.Split(fields, " | ")
			// The frame of the style is cut off: ndjson has the message alone.
			start := strings.Index(entry, "Sandbox: ")
			if i := strings.Index(entry, " duplicate report"); i >= 0 && i < start {
				start = strings.LastIndexByte(entry[:i], ' ') + 1
			}
			v, ok := parseMessage(entry[max(start, 0):] + "\nsbxhost-TEST")
			if ok != isWant {
				t.Errorf("%s: %q is read as %+v, %v", source, entry, v, ok)
			} else if got := []string{v.process, strconv.Itoa(v.pid), v.operation, v.target}; ok && (!slices.Equal(got, want) || v.tag != "sbxhost-TEST") {
				t.Errorf("%s: %q is read as %q", source, entry, got)
			}
			entry = ""
		}
	}
	if entries < 20 {
		t.Errorf("only %d entries", entries)
	}
}

func TestRemedies(t *testing.T) {
	t.Parallel()
	p := modelled(t, project(), shared.Command{}).policy
	for _, tt := range []struct{ operation, target, attribute, message string }{
		{"file-read-data", "/Users/me/p/.env", "deny_paths", "deny_paths \"**/.env\" hides it"},
		{"file-read-data", "/Users/me/p/secrets/key", "deny_paths", "hides it"},
		{"file-write-data", "/Users/me/p/.envrc", "protect", "keeps it"},
		{"file-read-data", "/Users/you/x", "bind_paths", "would show it"},
		{"file-write-data", "/Users/me/.gitconfig", "bind_paths[0]", "is read-only"},
		{"file-write-create", "/Users/me/p/.git/hooks/x", "protected: git hooks", "is read-only"},
		{"file-write-unlink", "/Users/me/p/.git", "", "stay in its place"},
		{"file-write-create", "/Users/me/Library/LaunchAgents/x", "", "no attribute"},
		{"network-outbound", "*:443", "network", "network = true"},
		{"network-outbound", "/private/var/run/docker.sock", "", "sockets in the file system"},
		{"mach-lookup", "com.apple.SecurityServer", "", "no attribute"},
		{"file-link", "/Users/me/p/x", "", "no attribute"},
	} {
		e := violation{process: "x", pid: 1, operation: tt.operation, target: tt.target}.event(p)
		if e.Kind != shared.EventViolation || e.Details["attribute"] != tt.attribute || e.Details["operation"] != tt.operation || e.Details["path"] != tt.target || !strings.Contains(e.Message, tt.message) {
			t.Errorf("%s of %s: %+v", tt.operation, tt.target, e)
		}
	}
	readOnly := project()
	readOnly.Table[0].Access = shared.ReadOnly
	p = modelled(t, readOnly, shared.Command{}).policy
	if attribute, _ := (violation{operation: "file-write-data", target: "/Users/me/p/x"}).remedy(p); attribute != "read_only" {
		t.Errorf("the workspace: %q", attribute)
	}
	if e := (violation{process: "a\nb", operation: "x", target: "/y\x1b"}).event(p); strings.ContainsAny(e.Message, "\n\x1b") {
		t.Errorf("%q", e.Message)
	}
}

func FuzzParseLog(f *testing.F) {
	f.Add([]byte(`{"eventMessage":"Sandbox: cat(1) deny(1) file-read-data /x\nsbxhost-T","senderImagePath":"/S/Sandbox"}`))
	f.Add([]byte(`{"eventMessage":"Sandbox: 2 duplicate reports for a deny(1) b deny(1) file-read-data /x\nT","senderImagePath":"Sandbox"}`))
	f.Add([]byte(`{"eventMessage":"5 duplicate reports for Sandbox: Electron Helper(1) deny(1) network-outbound remote:*:443\nT","senderImagePath":"Sandbox"}`))
	f.Add([]byte(`{"eventMessage":"Sandbox: (deny( deny()","senderImagePath":"Sandbox"}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		if v, ok := parseLog(line); ok && (v.operation == "" || strings.Contains(v.tag, "\n")) {
			t.Errorf("%q is %+v", line, v)
		}
	})
}
