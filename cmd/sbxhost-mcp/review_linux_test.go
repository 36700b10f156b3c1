package main

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/internal/testing/programs"
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
	if got, refusal := call[reviewResult](c, "review", map[string]any{"action": "list"}); refusal != "" || len(got.Reviews) != 1 || got.Reviews[0].Name != name {
		t.Errorf("%+v, %s", got, refusal)
	}
	diff, refusal := call[reviewResult](c, "review", map[string]any{"action": "diff", "name": name})
	if refusal != "" || !strings.Contains(diff.Diff.Text, "\n-1\n+2\n") || !strings.Contains(diff.Diff.Text, "\n+new\n") || diff.Changes.Digest != out.Changes.Digest {
		t.Errorf("%+v, %s", diff, refusal)
	}
	for _, wrong := range []string{"", "sha256:0", diff.Changes.Digest + "0"} {
		if _, refusal := call[reviewResult](c, "review", map[string]any{"action": "apply", "name": name, "digest": wrong}); refusal == "" {
			t.Errorf("digest %q applies", wrong)
		}
	}
	if text, _ := os.ReadFile(b.work + "/old"); string(text) != "1\n" {
		t.Errorf("before it is applied: %q", text)
	}
	done, refusal := call[reviewResult](c, "review", map[string]any{"action": "apply", "name": name, "digest": diff.Changes.Digest})
	if text, _ := os.ReadFile(b.work + "/old"); refusal != "" || string(text) != "2\n" || len(done.Changes.Lines) != 2 {
		t.Errorf("%+v, %s, %q", done, refusal, text)
	}
}

// Several commands share a review by its name, in any sandbox, and an agent discards what its own have begun.
func TestReviewByName(t *testing.T) {
	t.Parallel()
	b := newBench(t, plain)
	c := b.client(t)
	for _, text := range []string{"echo 1 >one", "cat one && echo 2 >two"} {
		out := c.run(map[string]any{"script": text, "review": "together"})
		if out.ExitCode == nil || *out.ExitCode != 0 || out.Changes == nil || out.Changes.Review != "together" {
			t.Fatalf("%q: %+v", text, out)
		}
	}
	of := func(c *client, action string) (reviewResult, string) {
		return call[reviewResult](c, "review", map[string]any{"action": action, "name": "together"})
	}
	if diff, refusal := of(c, "diff"); refusal != "" || !slices.Equal(diff.Changes.Lines, []string{"added    one", "added    two"}) {
		t.Errorf("%+v, %s", diff.Changes, refusal)
	}
	other := b.client(t)
	other.run(map[string]any{"script": "echo 3 >three", "review": "together"})
	if _, refusal := of(other, "discard"); !strings.Contains(refusal, "its user's to discard") {
		t.Errorf("another connection's: %q", refusal)
	}
	if _, refusal := of(c, "discard"); refusal != "" {
		t.Error(refusal)
	}
	other.run(map[string]any{"script": "echo 4 >four", "review": "together"})
	if _, refusal := of(c, "discard"); !strings.Contains(refusal, "its user's to discard") {
		t.Errorf("another one of that name: %q", refusal)
	}
	if _, refusal := of(other, "discard"); refusal != "" {
		t.Error(refusal)
	}
	if list, refusal := of(c, "list"); refusal != "" || len(list.Reviews) != 0 {
		t.Errorf("%+v, %s", list, refusal)
	}
	if _, err := os.Stat(b.work + "/one"); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// What an agent chooses by is said before its first call.
func TestInstructions(t *testing.T) {
	t.Parallel()
	b := newBench(t, `
default_sandbox = "a"
sandbox "a" {
  read_only = true
  limits {
    timeout = "90s"
  }
}
sandbox "b" {
  network = ["one.example", "h1", "h2", "h3", "h4", "h5", "h6", "h7", "h8", "h9"]
  review  = true
}
sandbox "c" {
  network = true
  session {
    processes = true
  }
}
mcp {
  sandboxes = ["a", "b", "c"]
}
`)
	text := newServer(t.Context(), b.policy(t)).instructions()
	if want := "sandboxes: a (no network; read-only; time limit 1m30s), b (network: only one.example, h1, h2, h3, h4, h5, h6, h7 and 2 more; writes to a review), c (network; keeps processes). The first"; !strings.Contains(text, want) {
		t.Error(text)
	}
}

// An agent applies nothing that no diff has named to it.
func TestReviewOfMany(t *testing.T) {
	t.Parallel()
	b := newBench(t, strings.ReplaceAll(reviewing, "APPLY", "true"))
	c := b.client(t)
	out := c.run(script("mkdir a b; cd a; touch $(seq 250); cd ../b; git init -q --bare r; git -C r config core.pager x; truncate -s 20M large; mkfifo pipe; touch open; chmod 666 open"))
	if out.Changes == nil || len(out.Changes.Lines) != maxLines || out.Changes.More == 0 {
		t.Fatalf("%+v, %+v", out, out.Changes)
	}
	review := func(action string, paths ...string) (reviewResult, string) {
		return call[reviewResult](c, "review", map[string]any{"action": action, "name": out.Changes.Review, "digest": out.Changes.Digest, "paths": paths})
	}
	for _, paths := range [][]string{{}, {"a"}, {"a", "b"}} {
		if _, refusal := review("apply", paths...); !strings.Contains(refusal, "name paths with fewer") {
			t.Errorf("%q: %q", paths, refusal)
		}
	}
	diff, refusal := review("diff", "b")
	said, left := strings.Join(diff.Changes.Lines, "\n"), strings.Join(diff.Omitted, "\n")
	if refusal != "" || diff.Changes.More != 0 || strings.Contains(said, "added    a") || !strings.Contains(said, "b/r/HEAD; a repository: git outside") || strings.Contains(diff.Diff.Text, "a/1") {
		t.Errorf("%+v, %s, %s", diff.Changes, diff.Diff.Text, refusal)
	}
	for _, want := range []string{"added    b/large", "added    b/pipe (fifo)", "added    b/open (mode 0666)"} {
		if !strings.Contains(left, want) {
			t.Errorf("left: %s", left)
		}
	}
	if done, refusal := review("apply", "b"); refusal != "" || len(done.Changes.Lines) != len(diff.Changes.Lines) {
		t.Errorf("%+v, %s", done.Changes, refusal)
	}
}

func TestReviewIsAppliedByTheUser(t *testing.T) {
	t.Parallel()
	b := newBench(t, strings.ReplaceAll(reviewing, "APPLY", "false"))
	c := b.client(t)
	out := c.run(script("echo new >new"))
	if _, refusal := call[reviewResult](c, "review", map[string]any{"action": "apply", "name": out.Changes.Review, "digest": out.Changes.Digest}); !strings.Contains(refusal, "does not let agents apply") {
		t.Errorf("%q", refusal)
	}
}

// What the sandbox hides when an agent looks is not shown, whatever was there when the command ran: neither
// names nor contents, of either side.
func TestReviewShowsNothingHidden(t *testing.T) {
	t.Parallel()
	b := newBench(t, `
default_sandbox = "fast"
approvals {
  mode = "deny"
}
workspace {
  writable = ["OTHER"]
}
sandbox "fast" {
  engine     = "native"
  review     = true
  deny_paths = ["vault", "**/*.key", "later/"]
}
sandbox "open" {
  engine = "native"
}
mcp {
  sandboxes = ["fast"]
  apply     = true
}
`)
	other := filepath.Join(filepath.Dir(b.work), "other")
	text, err := os.ReadFile(b.config)
	must(t, err, os.WriteFile(b.config, []byte(strings.ReplaceAll(string(text), "OTHER", other)), 0o644))
	write := func(name, text string) {
		t.Helper()
		must(t, os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644))
	}
	// Nothing of these is hidden while the command runs.
	for _, dir := range []string{b.work + "/removed", b.work + "/moved", other + "/removed"} {
		write(dir+"/plain", "plain of "+filepath.Base(dir)+"\n")
	}
	write(b.work+"/renamed", "text that is renamed, so that git sees that\nwith a second line\n")
	c := b.client(t)
	out := c.run(script("rm -r removed " + other + "/removed; mv moved elsewhere; mv renamed new.key; echo made-inside >made.key; echo seen >seen; ln -s plain link.key; mkdir later; echo later-inside >later/x"))
	if out.Changes == nil || out.Changes.Error != "" {
		t.Fatalf("%+v, %+v", out, out.Changes)
	}
	name := out.Changes.Review
	// What commands have removed, the user makes again, with secrets in it.
	const secret = "SECRET"
	for _, p := range []string{
		b.work + "/removed/" + secret + ".key", b.work + "/removed/deep/a.key/" + secret, b.work + "/removed/.env", b.work + "/removed/.env.local", other + "/removed/" + secret + ".key", other + "/removed/.env",
	} {
		write(p, secret+" of "+p+"\n")
	}
	must(t, os.Symlink("../"+secret, b.work+"/removed/"+secret+"-link.key"), os.Link(b.work+"/removed/"+secret+".key", b.work+"/removed/hard"))
	for _, arguments := range []map[string]any{{}, {"paths": []string{"removed"}}, {"paths": []string{"removed/" + secret + ".key"}}, {"paths": []string{"new.key", "renamed"}}} {
		arguments["action"], arguments["name"] = "diff", name
		got, refusal := call[reviewResult](c, "review", arguments)
		if refusal != "" {
			t.Fatal(refusal)
		}
		all := got.Diff.Text + strings.Join(got.Changes.Lines, "\n")
		for _, hidden := range []string{secret, "made-inside", "made.key", "new.key", ".env", "hard", "link.key", "a.key", "later"} {
			if strings.Contains(all, hidden) {
				t.Errorf("%v: %q is shown: %s", arguments, hidden, all)
			}
		}
		if last := got.Changes.Lines[len(got.Changes.Lines)-1]; !regexp.MustCompile(`^and \d+ at paths that the sandbox hides`).MatchString(last) {
			t.Errorf("%v: it says %q", arguments, last)
		}
		if _, only := arguments["paths"]; only {
			continue
		}
		for _, shown := range []string{"-plain of removed\n", "+seen\n", "-with a second line\n", "elsewhere/plain", "deleted  removed/plain"} {
			if !strings.Contains(all, shown) {
				t.Errorf("%q is not shown: %s", shown, all)
			}
		}
	}
	// Nor is it found out by asking for it.
	diff, _ := call[reviewResult](c, "review", map[string]any{"action": "diff", "name": name})
	asked := map[string]string{}
	for _, p := range []string{"removed/" + secret + ".key", "removed/none.key", "none"} {
		_, refusal := call[reviewResult](c, "review", map[string]any{"action": "apply", "name": name, "digest": diff.Changes.Digest, "paths": []string{p}})
		asked[strings.ReplaceAll(refusal, p, "")] = p
	}
	if len(asked) != 1 || asked[""] != "" {
		t.Errorf("apply tells them apart: %q", asked)
	}
	// All at once is refused, for the user has put there what it would remove; what is seen is applied.
	if _, refusal := call[reviewResult](c, "review", map[string]any{"action": "apply", "name": name, "digest": diff.Changes.Digest}); refusal == "" || strings.Contains(refusal, secret) {
		t.Errorf("all: %q", refusal)
	}
	done, refusal := call[reviewResult](c, "review", map[string]any{"action": "apply", "name": name, "digest": diff.Changes.Digest, "paths": []string{"seen", "elsewhere"}})
	if refusal != "" || !slices.Contains(done.Changes.Lines, "added    seen") {
		t.Errorf("%+v, %s", done, refusal)
	}
	// The user sees all of it.
	h, err := host.New(t.Context(), b.policy(t).options)
	must(t, err)
	defer h.Close()
	r, err := h.OpenReview(t.Context(), name)
	must(t, err)
	defer r.Close()
	set, err := r.Changes(t.Context())
	must(t, err)
	var whole strings.Builder
	_, err = r.Diff(t.Context(), &whole, set, nil)
	must(t, err)
	if !strings.Contains(whole.String(), "-"+secret+" of") || !strings.Contains(whole.String(), "+made-inside") {
		t.Errorf("the user's: %s", &whole)
	}
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// An agent looks at a review without anybody: nothing that a command wrote runs for that.
func TestReviewRunsNothingOfACommand(t *testing.T) {
	t.Parallel()
	b := newBench(t, `
default_sandbox = "fast"
workspace {
  writable = ["TOP/second"]
}
sandbox "fast" {
  engine = "native"
  review = true
}
sandbox "own" {
  engine     = "native"
  bind_paths = [{ host = "TOP/bound", read_only = false }]
}
mcp {
  sandboxes   = ["fast"]
  directories = ["TOP/work", "TOP/neighbour"]
}
`)
	top := filepath.Dir(b.work)
	text, err := os.ReadFile(b.config)
	must(t, err, os.WriteFile(b.config, []byte(strings.ReplaceAll(string(text), "TOP", top)), 0o644))
	ran := filepath.Join(t.TempDir(), "ran")
	var dirs []string
	for _, dir := range []string{
		b.work + "/.venv/bin", b.work + "/node_modules/.bin", top + "/second/bin", top + "/bound/bin", top + "/neighbour/.venv/bin",
		top + "/cache/sbxhost/sessions/n-1/home/bin", top + "/.sbxhost-reviews/0123456789abcdef/r/upper/bin",
	} {
		must(t, os.MkdirAll(dir, 0o755))
		for _, name := range []string{"git", "less", "delta", "cat", "sh"} {
			must(t, programs.Write(dir+"/"+name, []byte("#!/bin/sh\necho $0 >>"+ran+"\n")))
		}
		dirs = append(dirs, dir)
	}
	must(t, os.Mkdir(top+"/links", 0o755), os.Symlink(dirs[0]+"/git", top+"/links/git"))
	evil := dirs[0] + "/git"
	must(t, os.WriteFile(b.work+"/gitconfig", []byte("[diff]\n\texternal = "+evil+"\n[core]\n\tpager = "+evil+"\n\tfsmonitor = "+evil+"\n"), 0o644))
	b.caller.Environ = append(b.caller.Environ, "PATH="+strings.Join(append(dirs, top+"/links", ".venv/bin", "", os.Getenv("PATH")), ":"), "XDG_CACHE_HOME="+top+"/cache",
		"GIT_EXTERNAL_DIFF="+evil, "GIT_PAGER="+evil, "GIT_CONFIG_GLOBAL="+b.work+"/gitconfig", "GIT_EXEC_PATH="+dirs[0])
	c := b.stdio(t)
	out := c.run(script("echo new >new; echo '* -diff' >.gitattributes"))
	if out.Changes == nil || out.Changes.Error != "" {
		t.Fatalf("%+v, %+v", out, out.Changes)
	}
	diff, refusal := call[reviewResult](c, "review", map[string]any{"action": "diff", "name": out.Changes.Review})
	if refusal != "" || !strings.Contains(diff.Diff.Text, "\n+new\n") {
		t.Errorf("%+v, %s", diff, refusal)
	}
	if said, err := os.ReadFile(ran); err == nil {
		t.Errorf("outside of the sandbox ran %s", said)
	}
}
