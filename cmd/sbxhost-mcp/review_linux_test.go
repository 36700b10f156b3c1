package main

import (
	"os"
	"slices"
	"strings"
	"testing"
)

func TestReview(t *testing.T) {
	t.Parallel()
	b := newBench(t, strings.ReplaceAll(reviewing, "APPLY", "true"))
	if err := os.WriteFile(b.work+"/old", []byte("1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	c := b.client(t)
	out := c.run(script("echo 2 >old; echo new >new"))
	if out.Changes == nil || out.Changes.Error != "" || !slices.Equal(out.Changes.Lines, []string{"added    new", "modified old"}) {
		t.Fatalf("%+v, %+v", out, out.Changes)
	}
	name := out.Changes.Review
	if got, refusal := call[reviewed](c, "review", map[string]any{"action": "list"}); refusal != "" || len(got.Reviews) != 1 || got.Reviews[0].Name != name {
		t.Errorf("%+v, %s", got, refusal)
	}
	diff, refusal := call[reviewed](c, "review", map[string]any{"action": "diff", "name": name})
	if refusal != "" || !strings.Contains(diff.Diff.Text, "\n-1\n+2\n") || !strings.Contains(diff.Diff.Text, "\n+new\n") || diff.Changes.Digest != out.Changes.Digest {
		t.Errorf("%+v, %s", diff, refusal)
	}
	for _, wrong := range []string{"", "sha256:0", diff.Changes.Digest + "0"} {
		if _, refusal := call[reviewed](c, "review", map[string]any{"action": "apply", "name": name, "digest": wrong}); refusal == "" {
			t.Errorf("digest %q applies", wrong)
		}
	}
	if text, _ := os.ReadFile(b.work + "/old"); string(text) != "1\n" {
		t.Errorf("before it is applied: %q", text)
	}
	done, refusal := call[reviewed](c, "review", map[string]any{"action": "apply", "name": name, "digest": diff.Changes.Digest})
	if text, _ := os.ReadFile(b.work + "/old"); refusal != "" || string(text) != "2\n" || len(done.Changes.Lines) != 2 {
		t.Errorf("%+v, %s, %q", done, refusal, text)
	}
}

func TestReviewIsAppliedByTheUser(t *testing.T) {
	t.Parallel()
	b := newBench(t, strings.ReplaceAll(reviewing, "APPLY", "false"))
	c := b.client(t)
	out := c.run(script("echo new >new"))
	if _, refusal := call[reviewed](c, "review", map[string]any{"action": "apply", "name": out.Changes.Review, "digest": out.Changes.Digest}); !strings.Contains(refusal, "does not let agents apply") {
		t.Errorf("%q", refusal)
	}
}
