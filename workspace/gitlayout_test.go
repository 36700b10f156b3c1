package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/sbxhost/sbxhost/internal/paths"
)

// git runs the real one, with no config but the test's.
func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "protocol.file.allow=always", "-c", "init.defaultBranch=main"}, args...)...)
	cmd.Dir = dir
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C",
		"GIT_AUTHOR_NAME=t", "GIT_AUTHOR_EMAIL=t@example.com", "GIT_COMMITTER_NAME=t", "GIT_COMMITTER_EMAIL=t@example.com",
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return string(out)
}

// repo makes a repository with one commit.
func repo(t *testing.T, dir string) string {
	t.Helper()
	git(t, filepath.Dir(dir), "init", "-q", dir)
	tree(t, dir, map[string]string{"file": "x"})
	git(t, dir, "add", "file")
	git(t, dir, "commit", "-qm", "one")
	return dir
}

func wantLayout(t *testing.T, root string, want GitLayout) {
	t.Helper()
	got, err := GitDirs(root)
	if err != nil {
		t.Errorf("%s: %v", root, err)
		return
	}
	if got.GitDir != want.GitDir || got.CommonDir != want.CommonDir {
		t.Errorf("%s: got %q %q, want %q %q", root, got.GitDir, got.CommonDir, want.GitDir, want.CommonDir)
	}
	for what, lists := range map[string][2][]string{
		"readable": {got.Readable, want.Readable}, "writable": {got.Writable, want.Writable}, "protected": {got.Protected, want.Protected},
		"present": {got.Present, want.Present}, "elsewhere": {got.OtherWorktrees, want.OtherWorktrees},
	} {
		if slices.Sort(lists[0]); !slices.Equal(lists[0], slices.Sorted(slices.Values(lists[1]))) {
			t.Errorf("%s: %s:\ngot  %q\nwant %q", root, what, lists[0], lists[1])
		}
	}
}

func below(dir string, names ...string) []string {
	var list []string
	for _, n := range names {
		list = append(list, dir+"/"+n)
	}
	return list
}

var guarded = []string{"hooks", "config", "config.worktree", "commondir", "info/attributes", "modules",
	"remotes", "branches"} // the last two of the common directory alone

// inOthers are those in a git directory of another name than .git.
var inOthers = append(slices.Clip(guarded), ".git")

func TestGitDirsOfRealRepositories(t *testing.T) {
	t.Parallel()
	need(t, "git")
	base := tempDir(t)
	main := repo(t, base+"/main")
	git(t, main, "worktree", "add", "-q", "../wt", "-b", "side")
	git(t, main, "worktree", "add", "-q", "--detach", "../other")
	git(t, main, "worktree", "add", "-q", "--detach", "near")
	git(t, main, "worktree", "add", "-q", "--detach", "gone")
	if err := os.RemoveAll(main + "/gone"); err != nil {
		t.Fatal(err)
	}
	lib := repo(t, base+"/lib")
	super := repo(t, base+"/super")
	git(t, super, "submodule", "--quiet", "add", lib, "deps/lib")
	git(t, super, "commit", "-qm", "submodule")
	git(t, super+"/deps/lib", "submodule", "--quiet", "add", main, "nested")
	git(t, base, "clone", "-q", "--bare", main, base+"/bare.git")
	git(t, base+"/bare.git", "worktree", "add", "-q", "--detach", "inner")
	tree(t, base, map[string]string{"plain/file": "x", "empty/.git": "dir", "link": "-> wt", "main/.git/sequencer": "dir", "main/.git/sharedindex.12": "x"})

	wantLayout(t, base+"/plain", GitLayout{})
	wantLayout(t, base+"/empty", GitLayout{})

	m := main + "/.git"
	wantLayout(t, main, GitLayout{
		GitDir: m, CommonDir: m, Writable: []string{m},
		Protected: slices.Concat(below(m, guarded...),
			// Worktrees that are elsewhere altogether, those in the workspace but for their indexes.
			below(m+"/worktrees", "wt", "other", "gone"), below(m+"/worktrees/near", "commondir", "gitdir", "config.worktree")),
		OtherWorktrees: below(m+"/worktrees", "wt", "other", "gone"),
		Split:          true,
	})
	w := m + "/worktrees/wt"
	worktree := GitLayout{
		GitDir: w, CommonDir: m, Readable: []string{m},
		Writable: []string{m},
		Protected: slices.Concat(below(base+"/wt", ".git"), below(m, guarded...), below(w, inOthers...),
			below(w, "gitdir"), below(m+"/worktrees", "other", "near", "gone")),
		Present:        below(m, "HEAD", "index", "sequencer"),
		Split:          true,
		OtherWorktrees: below(m+"/worktrees", "other", "near", "gone"),
	}
	wantLayout(t, base+"/wt", worktree)
	wantLayout(t, base+"/link", worktree)

	// What a submodule's configuration has besides core.worktree is left as it is.
	top, err := GitDirs(super)
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"deps/lib", "deps/lib/modules/nested"} {
		file := super + "/.git/modules/" + dir + "/config"
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		for line := range strings.Lines(string(data)) {
			if !strings.Contains(line, "worktree = ") {
				want = append(want, line)
			}
		}
		if got := string(top.FixedContents[file]); got != strings.Join(want, "") || len(want) < 5 || len(want)+1 != strings.Count(string(data), "\n") {
			t.Errorf("%s: got %q of %q", file, got, data)
		}
	}

	// With the main worktree to write to, what is its is the command's, too.
	both, err := GitDirs(base+"/wt", main)
	if err != nil || len(both.Present) > 0 || !slices.Equal(slices.Sorted(slices.Values(both.OtherWorktrees)), below(m+"/worktrees", "gone", "other")) {
		t.Errorf("with the main worktree: %+v, %v", both, err)
	}

	g := super + "/.git"
	s := g + "/modules/deps/lib"
	n := s + "/modules/nested"
	wantLayout(t, super, GitLayout{
		GitDir: g, CommonDir: g, Writable: []string{g, s, n},
		Protected: slices.Concat(below(g, guarded...), below(s, inOthers...), below(n, inOthers...)),
		Present:   below(super, ".gitmodules"),
	})
	wantLayout(t, super+"/deps/lib", GitLayout{
		GitDir: s, CommonDir: s, Readable: []string{s}, Writable: []string{s, n},
		Protected: slices.Concat(below(super+"/deps/lib", ".git"), below(s, inOthers...), below(n, inOthers...)),
		Present:   below(super+"/deps/lib", ".gitmodules"),
	})
	wantLayout(t, super+"/deps/lib/nested", GitLayout{
		GitDir: n, CommonDir: n, Readable: []string{n}, Writable: []string{n},
		Protected: slices.Concat(below(super+"/deps/lib/nested", ".git"), below(n, inOthers...)),
	})

	b := base + "/bare.git"
	wantLayout(t, b, GitLayout{
		GitDir: b, CommonDir: b, Writable: []string{b},
		Protected: slices.Concat(below(b, inOthers...), below(b+"/worktrees/inner", "commondir", "gitdir", "config.worktree")),
	})
	// A worktree inside the bare repository: the parts are shown, not the whole.
	inner, err := GitDirs(b + "/inner")
	if err != nil || inner.CommonDir != b {
		t.Errorf("inner: %+v, %v", inner, err)
	}
	for _, p := range inner.Readable {
		if paths.Inside(p, b+"/inner") || paths.Inside(b+"/inner", p) {
			t.Errorf("inner: %q lies over the workspace", p)
		}
	}

	git(t, base, "init", "-q", "--separate-git-dir", base+"/sep/.store", base+"/sep")
	wantLayout(t, base+"/sep", GitLayout{
		GitDir: base + "/sep/.store", CommonDir: base + "/sep/.store", Writable: []string{base + "/sep/.store"},
		Protected: slices.Concat(below(base+"/sep", ".git"), below(base+"/sep/.store", inOthers...)),
	})
	git(t, base, "init", "-q", "--separate-git-dir", base+"/store", base+"/sep2")
	if l, err := GitDirs(base + "/sep2"); !errors.Is(err, ErrGitLayout) {
		t.Errorf("separate directory outside: %+v, %v", l, err)
	}

	// What git writes for a commit lies in Writable, outside Protected, and packed
	// refs are replaced.
	for _, root := range []string{main, base + "/wt", super + "/deps/lib"} {
		l, err := GitDirs(root)
		if err != nil {
			t.Fatal(err)
		}
		before := snapshot(t, base)
		tree(t, root, map[string]string{"added": root})
		git(t, root, "add", "added")
		git(t, root, "commit", "-qm", "two")
		git(t, root, "branch", "another-"+filepath.Base(root))
		git(t, root, "pack-refs", "--all")
		written := 0
		for p, state := range snapshot(t, base) {
			within := func(dir string) bool { return paths.Inside(dir, p) }
			if before[p] == state || !strings.Contains(p, "/.git/") {
				continue
			}
			if written++; !slices.ContainsFunc(l.Writable, within) || isProtected(&l, p) {
				t.Errorf("%s: a commit writes %q, which is not writable", root, p)
			}
		}
		if written < 4 {
			t.Errorf("%s: only %d files written", root, written)
		}
	}
	// A worktree that moved must be repaired first; its name may be another's.
	if err := os.Rename(base+"/wt", base+"/moved"); err != nil {
		t.Fatal(err)
	}
	if l, err := GitDirs(base + "/moved"); !errors.Is(err, ErrGitLayout) || !strings.Contains(err.Error(), "worktree repair") {
		t.Errorf("moved worktree: %+v, %v", l, err)
	}
	git(t, main, "worktree", "repair", base+"/moved")
	if l, err := GitDirs(base + "/moved"); l.CommonDir == l.GitDir || err != nil {
		t.Errorf("repaired worktree: %+v, %v", l, err)
	}
}

// isProtected reports whether the innermost of a layout's paths that p lies in is
// protected.
func isProtected(l *GitLayout, p string) bool {
	longest := func(dirs ...string) (n int) {
		for _, dir := range dirs {
			if paths.Inside(dir, p) {
				n = max(n, len(dir))
			}
		}
		return n
	}
	return longest(slices.Concat(l.Protected, l.Present)...) >= longest(l.Writable...)
}

// snapshot tells files apart by identity and time of change.
func snapshot(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		fi, err := d.Info()
		if err == nil {
			files[p] = fmt.Sprint(fi.ModTime().UnixNano(), fi.Size(), fi.Sys().(*syscall.Stat_t).Ino)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

const head = "ref: refs/heads/main\n"

// What a workspace may put into its .git to have another directory shown. The
// control believes the file, as a parser without the checks would.
// Which of two repositories git takes, that of .git or the directory itself, is asked of a real git.
func TestGitDirsAreThoseThatGitTakes(t *testing.T) {
	t.Parallel()
	need(t, "git")
	const bare = "mkdir objects refs; echo ref: refs/heads/x >HEAD; "
	for i, tt := range []struct {
		change string
		first  string // GitDir by GitDirs, without the top; "error"
	}{
		{"true", "/.git"},
		{bare, "/.git"},
		{bare + "chmod 600 .git/objects", "error"},
		{bare + "chmod 600 .git/refs", "error"},
		{bare + "chmod 600 .git", "error"},
		{bare + "chmod 0 .git", "error"},
		{bare + "chmod 0 .git/HEAD", "error"},
		{bare + "chmod 711 .git; chmod 111 .git/refs", "/.git"},
		{bare + "mv .git/refs .git/r; echo >.git/refs; chmod +x .git/refs", "error"},
		{bare + "mv .git/refs .git/r", "error"},
		{bare + "rm .git/HEAD", "error"},
		{bare + "mv .git was; mkdir .git", ""},
		{bare + "mv .git was", ""},
		{bare + "mv .git was; chmod 600 refs", "error"},
		{bare + "mv .git was; echo objects >objects.; rmdir objects; mv objects. objects; chmod +x objects", "error"},
		{bare + "mv .git was; rmdir objects; mkdir c; mv refs c; mkdir c/objects; echo c >commondir", "error"},
		{"mv .git was", "none"},
		{"mv .git was; mkdir .git", "none"},
		{bare + "mv .git was; echo x >HEAD", "error"}, // a command can change HEAD
		{bare + `printf "ref:%300srefs/heads/x" "" >.git/HEAD`, "error"},
		{bare + `printf "ref: \n\r\t refs/heads/x" >.git/HEAD`, "/.git"},
		{bare + `printf "ref:\0refs/heads/x" >.git/HEAD`, "error"},
		{bare + `printf "ref:\v\frefs/heads/x" >.git/HEAD`, "error"},
		{bare + `printf "ref: refs/heads/%0900d" 1 >.git/HEAD`, "/.git"},
		{bare + "printf 012345678901234567890123456789012345678 >.git/HEAD", "error"},
		{bare + "printf 0123456789012345678901234567890123456789xyz >.git/HEAD", "/.git"},
		{bare + "printf ABCDEF7890123456789012345678901234567890 >.git/HEAD", "/.git"},
		{bare + `printf "  ref: refs/heads/x" >.git/HEAD`, "error"},
		{bare + "ln -sf refs/heads/x .git/HEAD", "error"}, // which git takes
	} {
		base := tempDir(t)
		top := base + "/w"
		git(t, base, "init", "-q", "--template=", top)
		sh := exec.Command("sh", "-c", tt.change)
		sh.Dir = top
		if out, err := sh.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", tt.change, err, out)
		}
		l, err := GitDirs(top)
		got := strings.TrimPrefix(l.GitDir, top)
		if err != nil {
			got = "error"
		} else if l.GitDir == "" {
			got = "none"
		}
		if got != tt.first || (l.GitDir != "" && filepath.Base(l.GitDir) != ".git") != (tt.first == "") {
			t.Errorf("%d: %s: got %q (%v), want %q", i, tt.change, got, err, tt.first)
		}
		ask := exec.Command("git", "rev-parse", "--absolute-git-dir")
		ask.Dir, ask.Env = top, []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CEILING_DIRECTORIES=" + base, "LC_ALL=C"}
		out, err := ask.Output()
		taken := strings.TrimPrefix(strings.TrimSuffix(string(out), "\n"), top)
		if err != nil {
			taken = "none"
		}
		if got != "error" && taken != got {
			t.Errorf("%d: %s: git takes %q, and this %q", i, tt.change, taken, got)
		}
		if pointed := PointedLayouts(top); got == "error" && err == nil && taken == "" && !slices.ContainsFunc(pointed, func(l GitLayout) bool { return l.GitDir == top || l.CommonDir == top }) {
			t.Errorf("%d: %s: git takes the directory itself, and what is pointed to is %v", i, tt.change, pointed)
		}
		if warning := BareWithDotGit(top); (warning != "") != (strings.HasPrefix(tt.change, bare) && !strings.Contains(tt.change, "mv .git was")) {
			t.Errorf("%d: %s: the warning is %q", i, tt.change, warning)
		}
		if out, err := exec.Command("chmod", "-R", "u+rwX", top).CombinedOutput(); err != nil { // to be removed
			t.Fatalf("%v: %s", err, out)
		}
	}
}

func TestGitDirsRefusesHostilePointers(t *testing.T) {
	t.Parallel()
	base := tempDir(t)
	victim := base + "/victim"
	tree(t, base, map[string]string{
		"ws/file":   "x",
		"keys/id":   "secret",
		"fake/HEAD": "secret", "fake/objects": "dir", "fake/refs": "dir",
		"victim/.git/HEAD": head, "victim/.git/config": "[core]\n\tworktree = ../../victim\n", "victim/.git/objects": "dir", "victim/.git/refs": "dir",
		"victim/.git/worktrees/a/HEAD": head, "victim/.git/worktrees/a/commondir": "../..\n", "victim/.git/worktrees/a/gitdir": base + "/a/.git\n",
		"a/.git":                       "gitdir: " + victim + "/.git/worktrees/a\n",
		"victim/.git/modules/m/HEAD":   head,
		"victim/.git/modules/m/config": "[core]\n\tworktree = ../../../m\n", "victim/.git/modules/m/objects": "dir", "victim/.git/modules/m/refs": "dir",
		"victim/m": "dir",
		// Made by the workspace itself, to name the victim as common directory.
		"ws/own/HEAD": head, "ws/own/commondir": victim + "/.git\n", "ws/own/gitdir": base + "/ws/.git\n",
		"ws/own2/worktrees/x/HEAD": head, "ws/own2/worktrees/x/commondir": victim + "/.git\n", "ws/own2/worktrees/x/gitdir": base + "/ws/.git\n",
		"ws/loop":     "-> loop",
		"ws/escape":   "-> ../victim/.git",
		"ws/nul/HEAD": "ref: refs/\x00", "ws/chain/HEAD": head, "ws/chain/objects": "dir", "ws/chain/refs": "dir", "ws/chain/commondir": "../chain\n",
		"self/.git/HEAD": head, "self/.git/objects": "dir", "self/.git/refs": "dir", "self/.git/commondir": SelfCommonDir,
		"ws/nohead/objects": "dir", "ws/nohead/refs": "dir",
		"ws/linkhead/HEAD": "-> ../../victim/.git/HEAD", "ws/linkhead/objects": "dir", "ws/linkhead/refs": "dir",
	})
	// One that changes nothing does no harm, and may be there to do none.
	if got, err := GitDirs(base + "/self"); err != nil || got.CommonDir != got.GitDir {
		t.Errorf("a commondir that names itself: %+v, %v", got, err)
	}
	for _, tt := range []struct {
		name, file string
		believed   bool // the control takes it
	}{
		{"system directory", "gitdir: /etc\n", true},
		{"keys", "gitdir: ../keys", true},
		{"looks alike but for HEAD", "gitdir: ../fake", true},
		{"another repository", "gitdir: ../victim/.git", true},
		{"another repository through a link", "gitdir: escape", true},
		{"another's worktree", "gitdir: ../victim/.git/worktrees/a", true},
		{"another's submodule", "gitdir: ../victim/.git/modules/m", true},
		{"own worktree, another's common directory", "gitdir: own", true},
		{"the same, with the right shape", "gitdir: own2/worktrees/x", true},
		{"the directory above", "gitdir: ..", true},
		{"root", "gitdir: /", true},
		{"a file", "gitdir: file", true},
		{"itself", "gitdir: .git", true},
		{"no HEAD", "gitdir: nohead", true},
		{"HEAD is a link", "gitdir: linkhead", true},
		{"commondir to itself", "gitdir: chain", true},
		{"loop", "gitdir: loop/x", false},
		{"missing", "gitdir: ../missing", false},
		{"empty", "", false},
		{"no path", "gitdir: \n", false},
		{"no prefix", "/etc", false},
		{"NUL", "gitdir: ../victim\x00/.git", false},
		{"two lines", "gitdir: own\ngitdir: own\n", false},
		{"long name", "gitdir: " + strings.Repeat("n", 256), false},
		{"long path", "gitdir: " + strings.Repeat("n/", 3000), false},
		{"huge", "gitdir: " + strings.Repeat("/", maxGitPointer), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dotGit := base + "/ws/.git"
			os.Remove(dotGit)
			tree(t, base, map[string]string{"ws/.git": tt.file})
			if got, err := GitDirs(base + "/ws"); !errors.Is(err, ErrGitLayout) || got.GitDir != "" || len(got.Writable) != 0 {
				t.Errorf("got %+v, %v", got, err)
			}
			p, ok := strings.CutPrefix(strings.TrimSpace(tt.file), "gitdir: ")
			if !filepath.IsAbs(p) {
				p = base + "/ws/" + p
			}
			_, err := os.Stat(p)
			if believed := ok && err == nil; believed != tt.believed {
				t.Errorf("the control believes it: %v, want %v", believed, tt.believed)
			}
		})
	}
	// The same victim's worktree is accepted from where it belongs.
	if l, err := GitDirs(base + "/a"); err != nil || l.CommonDir == l.GitDir {
		t.Errorf("control: %+v, %v", l, err)
	}
	os.Remove(base + "/ws/.git")
	tree(t, base, map[string]string{"ws/.git": "-> ../victim/.git"})
	if l, err := GitDirs(base + "/ws"); !errors.Is(err, ErrGitLayout) {
		t.Errorf("symlink: %+v, %v", l, err)
	}
	// A directory that is no repository, and one that says its common part is elsewhere.
	os.Remove(base + "/ws/.git")
	tree(t, base, map[string]string{"ws/.git/HEAD": "nonsense"})
	if l, err := GitDirs(base + "/ws"); !errors.Is(err, ErrGitLayout) {
		t.Errorf("no repository: %+v, %v", l, err)
	}
	tree(t, base, map[string]string{"ws/.git/HEAD": head, "ws/.git/objects": "dir", "ws/.git/refs": "dir", "ws/.git/commondir": victim + "/.git"})
	if l, err := GitDirs(base + "/ws"); !errors.Is(err, ErrGitLayout) {
		t.Errorf("plain with commondir: %+v, %v", l, err)
	}
	if err := os.Remove(base + "/ws/.git/commondir"); err != nil {
		t.Fatal(err)
	}
	if l, err := GitDirs(base + "/ws"); err != nil || l.CommonDir == "" {
		t.Errorf("control: %+v, %v", l, err)
	}
}

// Git reads .git, commondir and gitdir to a NUL byte, and the last two through a symlink. What it would find there
// is followed by nobody here: the layout is refused, and so no git is asked.
func TestGitDirsRefusesOddPointers(t *testing.T) {
	t.Parallel()
	need(t, "git")
	for _, tt := range []struct {
		name, top, change string
		taken             string // the common directory that git takes
	}{
		{"NUL in .git", "ws", `mv .git ../other; printf 'gitdir: ../other\0x' >.git`, "/other"},
		{"NUL at the end of .git", "ws", `mv .git ../other; printf 'gitdir: ../other\0' >.git`, "/other"},
		{"NUL in commondir", "ws", `printf '../../victim/.git\0x' >.git/commondir`, "/victim/.git"},
		{"NUL at the end of commondir", "ws", `printf '.\0' >.git/commondir`, "/ws/.git"},
		{"a commondir that begins with NUL", "ws", `printf '\0../../victim/.git' >.git/commondir`, "/ws/.git"},
		{"commondir is a symlink", "ws", `printf ../../victim/.git >c; ln -s ../c .git/commondir`, "/victim/.git"},
		{"a symlink to what changes nothing", "ws", `printf . >c; ln -s ../c .git/commondir`, "/ws/.git"},
		{"a commondir that leads nowhere", "ws", `ln -s nowhere .git/commondir`, ""},
		{"commondir is a fifo", "ws", `mkfifo .git/commondir`, ""}, // git would wait for it
		{"commondir of the directory itself", "bare", `printf ../victim/.git >c; ln -s c commondir`, "/victim/.git"},
		{"NUL in a worktree's commondir", "wt", `printf '../..\0x' >../main/.git/worktrees/wt/commondir`, "/main/.git"},
		{"a worktree's commondir is a symlink", "wt", `cd ../main/.git/worktrees/wt; mv commondir c; ln -s c commondir`, "/main/.git"},
		{"NUL in gitdir", "wt", `printf "$PWD/.git\0x" >../main/.git/worktrees/wt/gitdir`, "/main/.git"},
		{"gitdir is a symlink", "wt", `cd ../main/.git/worktrees/wt; mv gitdir g; ln -s g gitdir`, "/main/.git"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			base := tempDir(t)
			repo(t, base+"/victim")
			repo(t, base+"/ws")
			git(t, repo(t, base+"/main"), "worktree", "add", "-q", "../wt")
			git(t, base, "clone", "-q", "--bare", "ws", "bare")
			tree(t, base, map[string]string{"victim/.git/config": "[core]\n\tfsmonitor = touch " + base + "/ran; false\n"})
			top := base + "/" + tt.top
			if _, err := GitDirs(top); err != nil {
				t.Fatalf("control: %v", err)
			}
			sh := exec.Command("sh", "-ec", tt.change)
			sh.Dir = top
			if out, err := sh.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if l, err := GitDirs(top); !errors.Is(err, ErrGitLayout) || l.GitDir != "" || len(l.Writable) != 0 {
				t.Errorf("got %+v, %v", l, err)
			}
			w := mustNew(t, Options{Dir: top, Root: top, LookupEnv: lookupIn(nil)})
			acts := w.GitActions(t.Context(), func(dir string) (GitLayout, error) { return GitDirs(dir) }, func(string) bool { return true }, []string{top}, nil, NewBudget())
			if on := acts[top].On; len(on) == 0 || !strings.HasPrefix(slices.Max(slices.Collect(maps.Keys(on))), actsUnclear) {
				t.Errorf("told %q", acts)
			}
			for _, l := range PointedLayouts(top) {
				if paths.Inside(base+"/victim", l.GitDir) || paths.Inside(base+"/victim", l.CommonDir) {
					t.Errorf("it was followed: %+v", l)
				}
			}
			if _, err := os.Lstat(base + "/ran"); err == nil {
				t.Error("a program ran")
			}
			if tt.taken == "" {
				return
			}
			cmd := exec.Command("git", "rev-parse", "--path-format=absolute", "--git-common-dir")
			cmd.Dir, cmd.Env = top, []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CEILING_DIRECTORIES=" + base}
			out, err := cmd.CombinedOutput()
			if got := strings.TrimPrefix(strings.TrimSpace(string(out)), base); err != nil || got != tt.taken {
				t.Errorf("git takes %q, %v", got, err)
			}
		})
	}
}

func TestParseCoreWorktree(t *testing.T) {
	t.Parallel()
	for config, want := range map[string]string{
		"[core]\n\tworktree = ../../../sub\n":                 "../../../sub",
		"[CORE]\nWorkTree=/a\n":                               "/a",
		"[core]\nworktree = \"/a b#c\\\"\\\\\"\n":             "/a b#c\"\\",
		"[core]\nworktree = /a\nworktree = /b\n":              "/b",
		"[core]\n# worktree = /a\n;worktree = /b\n":           "",
		"[core \"x\"]\nworktree = /a\n":                       "",
		"[user]\nworktree = /a\n":                             "",
		"worktree = /a\n":                                     "",
		"[core]\nworktree\n":                                  "",
		"":                                                    "",
		"[core]\n\tbare = false\n[x]\n[core]\nworktree = /c ": "/c",
	} {
		if got := parseCoreWorktree([]byte(config)); got != want {
			t.Errorf("%q: got %q, want %q", config, got, want)
		}
	}
}

// Git resolves the path in a .git file from the work tree, also if .git is a symlink to that file.
func TestPointedThroughALink(t *testing.T) {
	t.Parallel()
	need(t, "git")
	base := tempDir(t)
	tree(t, base, map[string]string{"top/r/HEAD": head, "top/r/objects": "dir", "top/r/refs": "dir", "top/d/r": "dir", "top/d/f": "gitdir: r\n", "top/.git": "-> d/f"})
	if got := git(t, base+"/top", "rev-parse", "--git-dir"); got != base+"/top/r\n" {
		t.Errorf("git uses %q", got)
	}
	if list := PointedLayouts(base + "/top"); len(list) != 1 || list[0].GitDir != base+"/top/r" {
		t.Errorf("got %+v", list)
	}
}
