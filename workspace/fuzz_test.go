package workspace

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Whatever the path, what resolves lies in a root by the kernel's own account,
// and resolves to itself.
func FuzzResolve(f *testing.F) {
	fx := newFixture(f)
	w := mustNew(f, fx.options())
	for _, seed := range []string{
		".", "file", "in/../out/file", "out/../../outside/file", "/tmp/up", "/tmp/../tmp/loopback", "~/tools/../../outside/file",
		"dangling-out", "dangling-out-dir/x", "chain1", "loop1", "dots/file", "back/../file", "a/../../outside/new", "\x00",
		fx.root + "-evil/file", "/proc/self/root/etc/passwd", "/proc/self/cwd", "vendor/../.env", "tmplink/../x", "~//x", "dir/updir/../..",
		strings.Repeat("../", 40) + "tmp/file", strings.Repeat("n", 256),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, path string) {
		for _, resolve := range []func(string) (string, error){w.ResolveForRead, w.ResolveForWrite} {
			got, err := resolve(path)
			if err != nil {
				if got != "" {
					t.Errorf("%q: %q with error %v", path, got, err)
				}
				continue
			}
			if innermost(w.roots, got) == nil || !filepath.IsAbs(got) || filepath.Clean(got) != got {
				t.Errorf("%q: resolved to %q", path, got)
			}
			// The kernel's account: the deepest ancestor that exists has no links.
			for dir := got; ; dir = filepath.Dir(dir) {
				real, err := filepath.EvalSymlinks(dir)
				if err != nil {
					if _, lerr := os.Lstat(dir); lerr == nil {
						t.Errorf("%q: resolved to %q, where %q does not resolve: %v", path, got, dir, err)
					}
					continue
				}
				if real != dir {
					t.Errorf("%q: resolved to %q, where %q is %q", path, got, dir, real)
				}
				break
			}
			if again, err := w.ResolveForRead(got); again != got || err != nil {
				t.Errorf("%q: %q, then %q, %v", path, got, again, err)
			}
		}
	})
}

// Links with any target: neither what resolves nor what opens is outside.
func FuzzSymlinkTarget(f *testing.F) {
	fx := newFixture(f)
	w := mustNew(f, fx.options())
	for _, seed := range []string{
		"file", "../outside/file", "../outside/new", "dir/../../outside", "/etc/passwd", "/tmp/file", "/tmp/../etc/passwd", "in", "out/file",
		"../proj-evil/file", "../proj/../outside/file", "/", ".", "..", "new/../../outside/file", "../ro/file", "fuzzed", "~/file",
	} {
		f.Add(seed, "")
		f.Add(seed, "file")
	}
	f.Fuzz(func(t *testing.T, target, tail string) {
		dir, err := os.MkdirTemp(fx.root, "fuzz-")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		if os.Symlink(target, dir+"/fuzzed") != nil {
			t.Skip("no such link can be made")
		}
		path := dir + "/fuzzed/" + tail
		got, err := w.ResolveForRead(path)
		if err != nil {
			return
		}
		if innermost(w.roots, got) == nil {
			t.Errorf("-> %q: resolved to %q", target, got)
		}
		if file, err := w.Open(path); err == nil {
			defer file.Close()
			var buf [8]byte
			if n, _ := file.Read(buf[:]); string(buf[:n]) == "secret" {
				t.Errorf("-> %q: read the secret through %q", target, got)
			}
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
		p, err := parseGitFile(data)
		if err == nil && (p == "" || len(p) > maxPath || strings.ContainsAny(p, "\x00\r\n") || !strings.Contains(string(data), p)) {
			t.Errorf("%q: parsed as %q", data, p)
		}
		if err := os.WriteFile(base+"/ws/.git", data, 0o644); err != nil {
			t.Fatal(err)
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

// The config reader never panics, and what it finds has no NUL.
func FuzzCoreWorktree(f *testing.F) {
	for _, seed := range []string{"[core]\nworktree = ../x\n", "[core]worktree=\"a\\", "[core", "[]\n=", "[core]\nworktree = \\n#"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if got := parseCoreWorktree(data); strings.IndexByte(got, 0) >= 0 || len(got) > len(data) {
			t.Errorf("%q: %q", data, got)
		}
	})
}
