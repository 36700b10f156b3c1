package host_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/shared"
)

// A Host that has run commands in a review can open it itself, once none runs, and go on with it.
func TestReview(t *testing.T) {
	t.Parallel()
	h := newHost(t, nil)
	in := func(script string) *host.Cmd {
		cmd := h.Command(t.Context(), "fast", "sh", "-c", script)
		cmd.Review = "lib"
		return cmd
	}
	cmd := in("echo one >made; echo started; cat")
	stdin, err := cmd.StdinPipe()
	must(t, err)
	stdout, err := cmd.StdoutPipe()
	must(t, err, cmd.Start())
	_, err = io.ReadFull(stdout, make([]byte, 7))
	must(t, err)
	if _, err := h.OpenReview(t.Context(), "lib"); !errors.Is(err, host.ErrReviewInUse) {
		t.Errorf("while a command of it runs: %v", err)
	}
	other := newHost(t, func(o *host.Options) { o.Workspace.Root, o.Dir = h.Root(), h.Root() })
	second := other.Command(t.Context(), "fast", "true")
	second.Review = "lib"
	if err := second.Run(); !errors.Is(err, host.ErrReviewInUse) || !strings.Contains(err.Error(), fmt.Sprintf(`review "lib" is in use by process %d`, os.Getpid())) {
		t.Errorf("another Host's command: %v", err)
	}
	must(t, stdin.Close())
	must(t, cmd.Wait())
	if report := cmd.Report(); report.Review != "lib" || len(report.Overlays) != 0 {
		t.Errorf("%+v", report)
	}
	must(t, in("test -e made && echo two >>made").Run())
	made := filepath.Join(h.Root(), "made")
	if _, err := os.Lstat(made); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("in the workspace: %v", err)
	}
	refused := h.Command(t.Context(), "open", "true")
	refused.Review = "refused"
	if err := refused.Run(); !errors.Is(err, shared.ErrUnsupported) {
		t.Errorf("a review in an engine that keeps none: %v", err)
	}
	if _, err := h.OpenReview(t.Context(), "refused"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a refused command has left a review: %v", err)
	}
	if name := refused.Report().Review; name != "" {
		t.Errorf("a refused command reports the review %q", name)
	}
	r, err := h.OpenReview(t.Context(), "lib")
	must(t, err)
	set, err := r.Changes(t.Context())
	must(t, err)
	if len(set.Changes) != 1 || set.Changes[0].Shown != "made" {
		t.Errorf("%+v", set.Changes)
	}
	out, err := r.Apply(t.Context(), set, host.ReviewChoice{Digest: set.Digest})
	must(t, err)
	r.Close()
	if text, err := os.ReadFile(made); err != nil || string(text) != "one\ntwo\n" || !out.Complete {
		t.Errorf("%q, %v, %+v", text, err, out)
	}
	if list, err := h.Reviews(); err != nil || len(list) != 1 || !list[0].Complete {
		t.Errorf("%+v, %v", list, err)
	}
	name, _, err := h.UndoReview(t.Context())
	if _, there := os.Lstat(made); err != nil || name != "lib" || there == nil {
		t.Errorf("%q, %v, %v", name, err, there)
	}
	r, err = h.OpenReview(t.Context(), "lib")
	must(t, err)
	set, err = r.Changes(t.Context())
	must(t, err)
	_, err = r.Apply(t.Context(), set, host.ReviewChoice{})
	must(t, err)
	r.Close()
	// The next of that name begins anew, on what there is now, and ends the undo.
	must(t, in("grep two made && rm made").Run())
	if list, err := h.Reviews(); err != nil || len(list) != 1 || list[0].Complete {
		t.Errorf("%+v, %v", list, err)
	}
	if _, _, err := h.UndoReview(t.Context()); !errors.Is(err, host.ErrReviewUndo) {
		t.Errorf("the apply before this review was undone: %v", err)
	}
	r, err = h.OpenReview(t.Context(), "lib")
	must(t, err)
	must(t, r.Discard(t.Context()))
	r.Close()
	if _, err := os.Lstat(made); err != nil {
		t.Error(err)
	}
	discardReviews(t, h)
}

// discardReviews leaves nothing of them: a user's tests cannot remove what overlays have made.
func discardReviews(t *testing.T, h *host.Host) {
	t.Helper()
	list, err := h.Reviews()
	must(t, err)
	for _, one := range list {
		r, err := h.OpenReview(t.Context(), one.Name)
		must(t, err)
		must(t, r.Discard(t.Context()))
		r.Close()
	}
	if list, err = h.Reviews(); err != nil || len(list) > 0 {
		t.Errorf("discarded, there are %+v, %v", list, err)
	}
}

// A diff looks for no renames: git's time for that has no bound.
func TestReviewDiffHasNoRenames(t *testing.T) {
	t.Parallel()
	h := newHost(t, nil)
	must(t, os.WriteFile(filepath.Join(h.Root(), "old"), []byte("text\n"), 0o644))
	cmd := h.Command(t.Context(), "fast", "mv", "old", "new")
	cmd.Review = "moved"
	must(t, cmd.Run())
	r, err := h.OpenReview(t.Context(), "moved")
	must(t, err)
	defer r.Close()
	set, err := r.Changes(t.Context())
	must(t, err)
	var patch strings.Builder
	left, err := r.Diff(t.Context(), &patch, set, nil)
	must(t, err)
	if text := patch.String(); len(left) > 0 || !strings.Contains(text, "deleted file") || !strings.Contains(text, "new file") {
		t.Errorf("%+v, %s", left, text)
	}
	// git has ended when the writer of so short a patch fails.
	if _, err := r.Diff(t.Context(), failingWriter{}, set, nil); !errors.Is(err, errTest) {
		t.Error(err)
	}
}

// A definition can ask for a review; an engine that keeps none refuses it by the attribute.
func TestReviewOfADefinition(t *testing.T) {
	t.Parallel()
	h := newHost(t, func(o *host.Options) {
		o.Sandboxes = map[string]host.Definition{"each": {Engine: "native", Review: host.NewReview}, "none": {Engine: "noop", Review: host.NewReview}}
	})
	names := map[string]bool{}
	for range 2 {
		cmd := h.Command(t.Context(), "each", "sh", "-c", "test ! -e made && touch made")
		must(t, cmd.Run())
		names[cmd.Report().Review] = true
	}
	if list, err := h.Reviews(); err != nil || len(list) != 2 || len(names) != 2 || names[""] {
		t.Errorf("%+v, %v, %v", list, names, err)
	}
	discardReviews(t, h)
	e, _ := errors.AsType[*shared.Error](h.Command(t.Context(), "none", "true").Run())
	if e == nil || e.Kind != shared.ErrUnsupported || e.Attribute != "review" {
		t.Errorf("%+v", e)
	}
}

// What patterns hide or protect is not applied, if it is new either.
func TestReviewOfWhatPatternsMatch(t *testing.T) {
	t.Parallel()
	h := newHost(t, func(o *host.Options) {
		o.HideSensitive = true
		o.Sandboxes = map[string]host.Definition{"fast": {Engine: "native", ProtectPaths: []string{"**/.vscode/", "*.lock", "!my.lock", "keep/**", "**/build/"}, DenyPaths: []string{"*.pem", "!a*"}}}
	})
	cmd := h.Command(t.Context(), "fast", "sh", "-c", "mkdir -p a/.vscode b/.vscode.d keep venv/.env; echo x | tee a/.vscode/tasks.json new.lock my.lock sub.lock.d keep/z .env a/.env.local k.pem a.pem build b/.vscode venv/.env/x")
	cmd.Review = "one"
	must(t, cmd.Run())
	r, err := h.OpenReview(t.Context(), "one")
	must(t, err)
	set, err := r.Changes(t.Context())
	must(t, err)
	got := map[string]string{}
	for i := range set.Changes {
		if c := &set.Changes[i]; c.Refused != "" {
			got[c.Shown] = c.Refused
		}
	}
	want := map[string]string{"a/.vscode": `protect_paths "**/.vscode/"`, "a/.vscode/tasks.json": `protect_paths "**/.vscode/"`, "new.lock": `protect_paths "*.lock"`,
		"keep/z": `protect_paths "keep/**"`, "k.pem": `deny_paths "*.pem"`, ".env": "sensitive file", "a/.env.local": "sensitive file"}
	if !maps.Equal(got, want) {
		t.Errorf("refused: %q", got)
	}
	if _, err := r.Apply(t.Context(), set, host.ReviewChoice{}); !errors.Is(err, host.ErrReviewBlocked) {
		t.Errorf("all of it: %v", err)
	}
	_, err = r.Apply(t.Context(), set, host.ReviewChoice{Paths: []string{"my.lock", "a.pem", "build", "b", "venv"}})
	must(t, err)
	r.Close()
	discardReviews(t, h)
}

// A look changes no digest, also if commands have changed the workspace's own permissions.
func TestReviewOfTheTop(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"711", "000"} {
		h := newHost(t, nil)
		cmd := h.Command(t.Context(), "fast", "sh", "-c", "echo 1 >new; chmod "+mode+" .")
		cmd.Review = "one"
		must(t, cmd.Run())
		digests := map[string]bool{}
		for range 2 {
			r, err := h.OpenReview(t.Context(), "one")
			must(t, err)
			set, err := r.Changes(t.Context())
			must(t, err)
			if len(set.Changes) != 2 || set.Changes[0].Shown != "." {
				t.Errorf("%+v", set.Changes)
			}
			digests[set.Digest] = true
			r.Close()
		}
		if len(digests) != 1 {
			t.Errorf("chmod %s: two looks have the digests %v", mode, digests)
		}
		discardReviews(t, h)
	}
}

// What git obeys behind a link is not applied: nothing at its end, nothing on the way there, and no
// other link. Where git is not protected, it is told of each.
func TestReviewOfWhatLinksLeadTo(t *testing.T) {
	t.Parallel()
	requireGit(t)
	for _, tt := range []struct {
		name, before, inside, after string
		git                         host.Git
		refused, noted              string // the path of a change
	}{
		{name: "hooks", inside: "mkdir hk; echo x >hk/pre-commit", after: "ln -s ../hk .git/hooks", refused: "hk/pre-commit"},
		{name: "hooks, meanwhile", before: "ln -s ../hk .git/hooks", inside: "mkdir hk; echo x >hk/pre-commit; echo x >other"},
		{name: "on the way", inside: "mkdir -p evil/hk; echo x >evil/hk/pre-commit; ln -s evil a", after: "ln -s ../a/hk .git/hooks", refused: "a"},
		{name: "another link", before: "mkdir n; cd n; git init -q; git config core.hooksPath l; mkdir hk; ln -s hk l", inside: "rm n/l; ln -s ../x n/l; mkdir x; echo x >x/pre-commit", noted: "n/l"},
		{name: "hooks of another repository", before: "mkdir n; cd n; git init -q; git config core.hooksPath ../hk", inside: "mkdir hk; echo x >hk/pre-commit", noted: "hk"},
		{name: "hooks of what is no repository", before: "git config core.hooksPath hk; ln -sf refs/heads/main .git/HEAD", inside: "mkdir hk; echo x >hk/pre-commit", noted: "hk/pre-commit"},
		{name: "hooks of another, which is none", before: "mkdir n; cd n; git init -q; git config core.hooksPath ../hk; ln -sf refs/heads/main .git/HEAD", inside: "mkdir hk; echo x >hk/pre-commit", noted: "hk/pre-commit"},
		{name: "hooks of one repository among many", before: "for i in $(seq 10 50); do git init -q --template= n$i; done; git -C n50 config core.hooksPath hk", inside: "mkdir n50/hk; echo x >n50/hk/pre-commit", noted: "n50/hk/pre-commit"},
		{name: "a tool's link", before: "mkdir d; ln -s d .claude", inside: "rm .claude; mkdir .claude; echo x >.claude/settings.json", refused: ".claude"},
		{name: "hooks, which are not protected", before: "ln -s ../hk .git/hooks", inside: "mkdir hk; echo x >hk/pre-commit", git: host.GitFull, noted: "hk/pre-commit"},
		{name: "the control", before: "ln -s ../hk .git/hooks", inside: "mkdir other; echo x >other/pre-commit; ln -s other link"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t, func(o *host.Options) {
				o.Linger = -1 // nothing holds the place of what is made afterwards
				o.Sandboxes = map[string]host.Definition{"fast": {Engine: "native", Git: tt.git}}
			})
			outside := func(script string) {
				t.Helper()
				cmd := exec.Command("sh", "-c", script)
				cmd.Dir, cmd.Env = h.Root(), gitEnv(h.Root())
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
			}
			outside("git init -q; rm -rf .git/hooks; echo 1 >f; " + tt.before)
			cmd := h.Command(t.Context(), "fast", "sh", "-c", "("+tt.inside+") 2>/dev/null; true")
			cmd.Review = "one"
			must(t, cmd.Run())
			outside("true; " + tt.after)
			r, err := h.OpenReview(t.Context(), "one")
			must(t, err)
			set, err := r.Changes(t.Context())
			must(t, err)
			refused, noted := "", ""
			for i := range set.Changes {
				switch c := &set.Changes[i]; {
				case c.Refused != "" && (refused == "" || c.Shown == tt.refused):
					refused = c.Shown
				case c.Note != "" && (noted == "" || c.Shown == tt.noted):
					noted = c.Shown
				}
			}
			if refused != tt.refused || noted != tt.noted {
				t.Errorf("refused %q, noted %q: %+v", refused, noted, set.Changes)
			}
			if _, err := r.Apply(t.Context(), set, host.ReviewChoice{}); (err != nil) != (tt.refused != "") {
				t.Errorf("%v", err)
			}
			r.Close()
			if tt.refused == "" {
				_, _, err := h.UndoReview(t.Context())
				must(t, err)
			}
			discardReviews(t, h)
		})
	}
}
