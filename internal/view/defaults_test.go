package view

import (
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The documents give a reason for each name, and say which are held.
func TestInstructionsAreDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/protected.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string][]string{}
	for _, row := range regexp.MustCompile(`(?m)^\| (yes|no) \| (.*) \| \S.*\|$`).FindAllStringSubmatch(string(text), -1) {
		for name := range strings.SplitSeq(row[2], ", ") {
			documented[row[1]] = append(documented[row[1]], strings.Trim(name, "`"))
		}
	}
	for held, want := range map[string][]string{"yes": unaskedInstructions[:], "no": append(askedInstructions[:], "*"+workspaceFile)} {
		slices.Sort(documented[held])
		if want = slices.Sorted(slices.Values(want)); !slices.Equal(documented[held], want) {
			t.Errorf("held %s: the documents have %q, and the list is %q", held, documented[held], want)
		}
	}
}

// The directory of a name is part of it, so that what git ignores is told as well.
func TestActingName(t *testing.T) {
	t.Parallel()
	for p, want := range map[string]string{
		"/w/.config/lefthook-local.yml": ".config/lefthook-local.yml", "/w/lefthook.jsonc": "lefthook.jsonc",
		"/w/.lefthook.toml": ".lefthook.toml", "/w/lefthook": "", "/w/.jj/repo/config.toml": ".jj/repo/config.toml",
		"/w/a/x.code-workspace": "*.code-workspace", "/w/.config/mise/config.toml": ".config/mise/config.toml", "/w/.mise.toml": ".mise.toml",
	} {
		if _, got := Instruction(p); got != want || got != "" && !MayBeInstruction(path.Base(p)) {
			t.Errorf("%s: %q", p, got)
		}
	}
}
