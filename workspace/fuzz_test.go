package workspace

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/internal/paths"
)

// Whatever the path, what resolves is a directory in a root by the kernel's own account.
func FuzzResolveDir(f *testing.F) {
	fx := newFixture(f)
	w := mustNew(f, fx.options())
	for _, seed := range []string{
		".", "file", "in/../out", "out/../../outside/dir", "/tmp/up", "/tmp/../tmp/d", "~/tools/../../outside",
		"dots", "back/../dir", "a/../../outside/new", "\x00", fx.root + "-evil", "/proc/self/root/etc", "/proc/self/cwd", "~//x",
		strings.Repeat("../", 40) + "tmp/d", strings.Repeat("n", 256),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, path string) {
		got, err := w.ResolveDir(path)
		if err != nil {
			if got != "" {
				t.Errorf("%q: %q with error %v", path, got, err)
			}
			return
		}
		if real, err := filepath.EvalSymlinks(got); real != got || err != nil || !slices.ContainsFunc(w.roots, func(r RootDir) bool { return paths.Inside(r.Path, got) }) {
			t.Errorf("%q: resolved to %q, which is %q, %v", path, got, real, err)
		}
	})
}

// Whatever .git says, only a directory that points back is taken.
func FuzzGitFile(f *testing.F) {
	base := tempDir(f)
	tree(f, base, map[string]string{
		"ws":                           "dir",
		"victim/.git/HEAD":             head,
		"victim/.git/config":           "[core]\n",
		"victim/.git/objects":          "dir",
		"victim/.git/refs":             "dir",
		"victim/.git/worktrees/a/HEAD": head, "victim/.git/worktrees/a/commondir": "../..\n", "victim/.git/worktrees/a/gitdir": base + "/a/.git\n",
		"mine/.git/HEAD": head, "mine/.git/objects": "dir", "mine/.git/refs": "dir",
		"mine/.git/worktrees/ws/HEAD": head, "mine/.git/worktrees/ws/commondir": "../..\n", "mine/.git/worktrees/ws/gitdir": base + "/ws/.git\n",
	})
	for _, seed := range []string{
		"gitdir: ../mine/.git/worktrees/ws\n", "gitdir: ../victim/.git\n", "gitdir: ../victim/.git/worktrees/a", "gitdir: /etc", "gitdir: \x00",
		"gitdir: ", "gitdir:", "gitdir: .git", "gitdir: ../mine/.git/../../mine/.git/worktrees/ws\r\n", "gitdir: a\nb", "", "ref: refs/heads/main",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(base+"/ws/.git", data, 0o644); err != nil {
			t.Fatal(err)
		}
		p, err := pathIn(base+"/ws/.git", dotGitPrefix, "/from")
		if p = strings.TrimPrefix(p, "/from/"); err == nil && (p == "" || strings.ContainsAny(p, "\x00\r\n") || !strings.Contains(string(data), p)) {
			t.Errorf("%q: parsed as %q", data, p)
		}
		l, err := GitDirs(base + "/ws")
		if err == nil && (l.GitDir != base+"/mine/.git/worktrees/ws" || l.CommonDir != base+"/mine/.git") {
			t.Errorf("%q: %+v", data, l)
		}
		if err != nil && (l.GitDir != "" || l.Readable != nil || l.Writable != nil) {
			t.Errorf("%q: %+v with error %v", data, l, err)
		}
	})
}

// The config reader never panics, and adds nothing.
func FuzzCoreWorktree(f *testing.F) {
	for _, seed := range []string{"[core]\nworktree = ../x\n", "[core]worktree=\"a\\", "[core", "[]\n=", "[core]\nworktree = \\n#"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if got := parseCoreWorktree(data); len(got) > len(data) {
			t.Errorf("%q: %q", data, got)
		}
	})
}
