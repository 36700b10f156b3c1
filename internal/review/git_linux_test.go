package review

import (
	"context"
	"crypto/sha1"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A workspace in a directory of the name worktrees has perhaps its repository around it, and there a
// command of another workspace can have made anything.
func TestHashSizeAround(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	top := base + "/worktrees/p"
	if err := os.MkdirAll(top, 0o755); err != nil {
		t.Fatal(err)
	}
	tr, err := openTree(top, false)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.close()
	config := base + "/config"
	for name, tt := range map[string]struct {
		make func() error
		want int
	}{
		"none":     {func() error { return nil }, 20},
		"a fifo":   {func() error { return unix.Mkfifo(config, 0o600) }, 0},
		"a link":   {func() error { return os.Symlink("/dev/zero", config) }, 0},
		"a hole":   {func() error { return errors.Join(os.WriteFile(config, nil, 0o600), os.Truncate(config, 1<<40)) }, 0},
		"a config": {func() error { return os.WriteFile(config, []byte("[core]\n"), 0o600) }, 20},
	} {
		if err := tt.make(); err != nil {
			t.Fatal(err)
		}
		if got := hashSize("index", tr); got != tt.want {
			t.Errorf("%s: %d", name, got)
		}
		os.Remove(config)
	}
}

// What a review changes in a git directory is told or refused, whatever that is called and however it came to be one.
func TestGitDirs(t *testing.T) {
	t.Parallel()
	repository := []string{"HEAD x", "objects/", "refs/", "config x"}
	in := func(dir string, lines ...string) (list []string) {
		for _, line := range append(lines, repository...) {
			list = append(list, dir+"/"+line)
		}
		return list
	}
	for _, tt := range []struct {
		name         string
		lower, upper []string
		want         string // of each path, the beginning of what is said
	}{
		{"a HEAD that is none", []string{".git/HEAD ref: refs/heads/a", ".git/objects/", ".git/refs/"}, []string{".git/HEAD ref: x"}, ".git/HEAD: git would pass over"},
		{"another branch", []string{".git/HEAD ref: refs/heads/a", ".git/objects/", ".git/refs/"}, []string{".git/HEAD ref: refs/heads/b"}, ""},
		{"a HEAD that goes", in(".git"), []string{".git/HEAD -"}, ".git/HEAD: git would pass over"},
		{"refs that become a file", in(".git"), []string{".git/refs x"}, ".git/refs: git would pass over"},
		{"a repository that goes", in("r/.git", "x y"), []string{"r/.git -"}, ""},
		{"in one another", []string{"r/A/x y"}, append(in("r"), in("r/A")...), "r/A/HEAD: a repository: git outside of a sandbox acts on its hooks and its configuration, in \"ROOT/r\"; a repository:"},
		{"new", nil, in("r", "l -> config"), "r/HEAD: a repository|r/l: a symlink in"},
		{"in part", []string{"r/HEAD x", "r/refs/"}, []string{"r/objects/", "r/config y"}, "r/config: a repository"},
		{"its configuration", in("r"), []string{"r/config y", "r/description y", "r/hooks/x y", "r/commondir y", "r/config.worktree y"},
			"r/commondir: it leads to no|r/config: git outside|r/config.worktree: git outside|r/hooks: git outside|r/hooks/x: git outside"},
		{"its hooks", nil, in("r", "hooks/a.sample x", "hooks/b x"), "r/HEAD: a repository|r/hooks/b: git outside"},
		{"in an empty .git", []string{"r/.git/"}, in("r/.git"), "r/.git/HEAD: a repository"},
		{"a .git that was a file", []string{"r/.git x"}, []string{"r/.git gitdir: ../r"}, "r/.git: a repository"},
		{"a .git that leads on", nil, []string{"f/x y", "r/.git -> ../f"}, "r/.git: a repository"},
		{"a submodule", nil, in("sub/.git"), "sub/.git: git status|sub/.git/HEAD: git status|sub/.git/config: git status|sub/.git/objects: git status|sub/.git/refs: git status"},
		{"a submodule in an empty .git", []string{"sub/.git/"}, []string{"sub/.git/HEAD x", "sub/.git/objects/", "sub/.git/refs/"}, "sub/.git/HEAD: git status|sub/.git/objects: git status|sub/.git/refs: git status"},
		{"a submodule that becomes a link", append(in("r/.git"), "sub/x y"), []string{"sub -> r"}, "sub: git status"},
		{"a submodule that becomes a link to what is new", nil, append(in("r/.git"), "l -> r", "sub -> l"), "r/.git: git status|r/.git/HEAD: git status|r/.git/config: git status|r/.git/objects: git status|r/.git/refs: git status|sub: git status"},
		{"a submodule behind a link", []string{"r/x y", "sub -> r"}, []string{"r/.git gitdir: x"}, "r/.git: git status"},
		{"a submodule that is a link elsewhere", append(in("r/.git"), "d/"), []string{"sub -> d", "l -> r"}, ""},
		{"a link", in("r", "logs/HEAD x"), []string{"r/logs/HEAD -> ../config", "r/refs/heads/a -> b"}, "r/logs/HEAD: a symlink|r/refs/heads/a: a symlink"},
		{"refs", in("r"), []string{"r/ORIG_HEAD ref: commondir", "r/refs/heads/a ref: hooks/x", "r/refs/heads/b ref: refs/heads/c", "r/refs/heads/d 1", "ORIG_HEAD ref: x"},
			"r/ORIG_HEAD: a ref to|r/refs/heads/a: a ref to"},
		{"a link by which another is hidden", in(".git"), []string{".git/logs/.git y", ".git/logs/HEAD -> ../config"}, ".git/logs/.git: a repository|.git/logs/HEAD: a symlink"},
		{"a link with the name .git", in("r", "x/.git gitdir: x"), []string{"r/worktrees/.git -> ../refs", "r/refs/.git fifo", "r/x/y/.git -> ../../refs"},
			"r/refs/.git: a pipe|r/worktrees/.git: a symlink|r/x/y/.git: a repository"},
		{"a link beside a .git", in("r", "worktrees/.git x", "refs/.git x", "logs/.git x"), []string{"r/worktrees/l -> ../refs", "r/refs/l -> ../config", "r/logs/l -> ../config"},
			"r/logs/l: a symlink|r/refs/l: a symlink|r/worktrees/l: a symlink"},
		{"a link beside a .git where git fsck and git notes write", in("r", "lost-found/.git x", "NOTES_MERGE_WORKTREE/.git x"), []string{"r/lost-found/other/l -> ../../config", "r/NOTES_MERGE_WORKTREE/l -> ../config"},
			"r/NOTES_MERGE_WORKTREE/l: a symlink|r/lost-found/other/l: a symlink"},
		{"refs in what looks like a repository", in(".git"), []string{".git/refs/a/HEAD x", ".git/refs/a/objects/", ".git/refs/a/refs/", ".git/refs/a/b ref: commondir"},
			".git/refs/a/HEAD: a repository|.git/refs/a/b: a ref to"},
		{"a submodule in what looks like refs", append(in("."), "refs/sub/.git/"), []string{"refs/sub/.git/HEAD x"}, "refs/sub/.git/HEAD: git status"},
		{"a link that stays, or goes", in("r", "l -> config", "m -> config"), []string{"r/l -> config", "r/m -"}, ""},
		{"a link elsewhere", in("r", "in/.git gitdir: x"), []string{"l -> r", "r/in/l -> x", "r/in/.gitx -> x", "d/HEAD x", "d/refs/l -> x"}, ""},
		{"under way", in(".git", "rebase-apply/next 1"), []string{".git/rebase-merge/git-rebase-todo x", ".git/rebase-apply/next 2", ".git/sequencer y", ".git/refs/heads/sequencer y", "sequencer/x y"},
			".git/rebase-apply/next: git outside|.git/rebase-merge: git outside|.git/sequencer: git outside"},
		{"under way by files", in(".git"), []string{".git/BISECT_START x", ".git/gitweb/lighttpd x", ".git/pid 1", ".git/sl/config x", ".git/MERGE_RR", ".git/MERGE_HEAD x"}, ".git/BISECT_START: git outside|.git/gitweb: git outside|.git/gitweb/lighttpd: git outside|.git/pid: git outside|.git/sl: git outside|.git/sl/config: git outside"},
		{"a commit that would write", in("r"), []string{"r/MERGE_RR x", "r/MERGE_AUTOSTASH x", "MERGE_AUTOSTASH x"},
			"MERGE_AUTOSTASH: the next git commit|r/MERGE_AUTOSTASH: the next git commit|r/MERGE_RR: the next git commit"},
		{"under way, in what looks like another", in(".git"), []string{".git/rebase-merge/HEAD x", ".git/rebase-merge/commondir x"}, ".git/rebase-merge: git outside|.git/rebase-merge/commondir: it leads to no"},
		{"other objects", in(".git", "refs/replace/a 1"), []string{".git/refs/replace/b 1", ".git/shallow 1", ".git/info/grafts 1", ".git/packed-refs 1\trefs/replace/c", "packed-refs 1 refs/heads/c", ".git/lazygit.yml x"},
			".git/info/grafts: git outside of a sandbox reads|.git/lazygit.yml: git outside of a sandbox acts|.git/packed-refs: git outside of a sandbox reads|.git/refs/replace/b: git outside of a sandbox reads|.git/shallow: git outside of a sandbox reads"},
		{"pipes", in(".git", "index x"), []string{".git/index fifo", ".git/MERGE_RR fifo", "MERGE_RR fifo"}, ".git/MERGE_RR: a pipe|.git/index: a pipe"},
		{"objects from elsewhere", in(".git"), []string{".git/objects/info/alternates x", ".git/objects/info/commondir x", ".git/objects/info/HEAD x"},
			".git/objects/info/HEAD: a repository|.git/objects/info/alternates: git would take|.git/objects/info/commondir: it leads to no"},
		{"objects with another name", append(in(".git"), "store/ab/c 1"), []string{"store/info/alternates x"}, "store/info/alternates: git would take"},
		{"a branch with the name of other files", in(".git"), []string{".git/refs/heads/packed-refs ref: commondir", ".git/refs/heads/index ref: commondir"},
			".git/refs/heads/index: a ref to|.git/refs/heads/packed-refs: a ref to"},
		{"a .git where git puts conflicts", in(".", "rr-cache/.git x", "x/.git x"), []string{"rr-cache/l -> ../config", "x/l -> y"}, "rr-cache/l: a symlink"},
		{"a submodule whose .git leads on", []string{"sub/.git gitdir: ../st/ore\n"}, in("st/ore"), "st/ore/HEAD: git status|st/ore/config: git status|st/ore/objects: git status|st/ore/refs: git status"},
		{"a repository apart from another", append(in(".git/worktrees/t", "commondir ../.."), in(".git")...), []string{".git/worktrees/t/commondir -"}, ".git/worktrees/t/commondir: git would pass over"},
		{"a worktree that git only lists", in(".git"), []string{".git/worktrees/n/gitdir /elsewhere/.git"}, ".git/worktrees/n/gitdir: a repository"},
		{"a repository of two", nil, append(in("m"), "o/HEAD x", "o/commondir ../m"), "m/HEAD: a repository|o/HEAD: a repository"},
		{"a repository of two, a long way apart", []string{"l/x/.git gitdir: " + strings.Repeat("x/", 400_000)}, []string{"l/x/y z", "o/HEAD x", "o/commondir " + strings.Repeat("x/", 4<<20)}, "o/HEAD: a repository|o/commondir: it leads to no"},
		{"a repository of two, one of which seems to be none", []string{"m/objects/", "m/refs/"}, []string{"o/HEAD x", "o/commondir ../m\n", "m/config x"}, "o/HEAD: a repository|o/commondir: it leads to no"},
	} {
		w := newRoot(t, tt.lower...)
		w.begin()
		for _, line := range tt.upper {
			w.write(w.upper, line)
		}
		r := w.open()
		rules := anything
		rules.Submodules = []string{w.root + "/sub", w.root + "/refs/sub"}
		set, err := r.Changes(context.Background(), rules)
		r.Close()
		w.check(err)
		wants := strings.Split(tt.want, "|")
		for _, c := range set.Changes {
			got := c.path + ": " + c.Refused + strings.ReplaceAll(c.Note, w.root, "ROOT")
			switch {
			case c.Refused+c.Note == "":
			case len(wants) > 0 && wants[0] != "" && strings.HasPrefix(got, wants[0]):
				wants = wants[1:]
			default:
				t.Errorf("%s: %s, where %q are left", tt.name, got, wants)
			}
		}
		if len(wants) > 0 && wants[0] != "" {
			t.Errorf("%s: without %q", tt.name, wants)
		}
	}
}

// A look at a review costs no more time for each directory of a path: a command can make git directories in
// one another, and each change is judged in each.
func TestNestedGitDirs(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	for i := range 100 {
		dir := strings.Repeat("a/", i+1)
		w.write(w.upper, dir+"HEAD x")
		w.write(w.upper, dir+"commondir .")
	}
	r := w.open()
	defer r.Close()
	set, err := r.Changes(t.Context(), anything)
	w.check(err)
	for _, c := range set.Changes {
		if deep := strings.Count(c.path, "/") >= maxNested; deep && !strings.Contains(c.Refused, "too many") {
			t.Errorf("%s: %s%s", c.path, c.Refused, c.Note)
		}
	}
}

// A digest is not that of what somebody has read once the host has made a repository around it.
func TestDigestHasNotes(t *testing.T) {
	t.Parallel()
	w := newRoot(t, "d/x y")
	w.begin()
	w.write(w.upper, "d/config x")
	digest := func() string {
		r := w.open()
		defer r.Close()
		set, err := r.Changes(t.Context(), anything)
		w.check(err)
		return set.Digest
	}
	read := digest()
	w.write(w.root, "d/x z")
	if digest() != read {
		t.Error("another file beside it changes the digest")
	}
	for _, line := range []string{"d/HEAD x", "d/objects/", "d/refs/"} {
		w.write(w.root, line)
	}
	if digest() == read {
		t.Error("the digest is that of a file that git did not obey")
	}
}

// The note on a repository stands at the first change in it. Somebody may apply others, and look at no more.
func TestNoteOfPart(t *testing.T) {
	t.Parallel()
	w := newRoot(t, "r/A/x y")
	w.begin()
	for _, line := range []string{"r/A/new x", "r/HEAD x", "r/objects/", "r/refs/", "r/config x"} {
		w.write(w.upper, line)
	}
	out, err := w.apply(Choice{Paths: []string{"r/HEAD", "r/objects", "r/refs", "r/config"}})
	if !errors.Is(err, ErrBlocked) || len(out.Refused) != 1 || !strings.Contains(out.Refused[0].Refused, repository) {
		t.Errorf("%+v, %v", out, err)
	}
	_, err = w.apply(Choice{})
	w.check(err)
	// That a change has the note on another repository does not do.
	w = newRoot(t, "r/B/x y")
	w.begin()
	for _, line := range []string{"r/A x", "r/B/HEAD x", "r/B/objects/", "r/B/refs/", "r/HEAD x", "r/objects/", "r/refs/", "r/config x"} {
		w.write(w.upper, line)
	}
	out, err = w.apply(Choice{Paths: []string{"r/B", "r/HEAD", "r/objects", "r/refs", "r/config"}})
	if !errors.Is(err, ErrBlocked) || len(out.Refused) != 1 || out.Refused[0].path != "r/B/HEAD" {
		t.Errorf("%+v, %v", out, err)
	}
}

// What lies in one layer of a review makes a repository of what lies in another one.
func TestGitDirsOfLayers(t *testing.T) {
	t.Parallel()
	w := newRoot(t, "z/d/")
	w.begin()
	w.write(w.upper, "sub -> z/d")
	w.write(w.addLayer(filepath.Join(w.root, "z")), "d/.git gitdir: x")
	r := w.open()
	defer r.Close()
	rules := anything
	rules.Submodules = []string{w.root + "/sub"}
	set, err := r.Changes(t.Context(), rules)
	if err != nil || len(set.Changes) != 2 || set.Changes[0].Refused != actsOn || set.Changes[1].Refused != actsOn {
		t.Errorf("%+v, %v", set, err)
	}
}

// The index of a worktree lies in its repository, which can be elsewhere on the host.
func TestSubmodulesOfWorktreeFromElsewhere(t *testing.T) {
	t.Parallel()
	w := newRoot(t, "d/wt/.git gitdir: ../../../other/.git/worktrees/wt", "d/wt/sub/")
	for _, line := range []string{"HEAD x", "commondir ../..", "index " + gitlinkIndex("sub")} {
		w.write(filepath.Join(filepath.Dir(w.root), "other/.git/worktrees/wt"), line)
	}
	w.begin()
	for _, line := range []string{"d/wt/sub/.git gitdir: x", "d/wt/in/.git gitdir: x"} {
		w.write(w.upper, line)
	}
	r := w.open()
	defer r.Close()
	set, err := r.Changes(t.Context(), anything)
	w.check(err)
	refused := map[string]string{}
	for _, c := range set.Changes {
		refused[c.path] = c.Refused
	}
	if refused["d/wt/sub/.git"] != actsOn || refused["d/wt/in/.git"] != "" {
		t.Errorf("%+v", set.Changes)
	}
}

// gitlinkIndex is an index with one submodule.
func gitlinkIndex(name string) string {
	b := make([]byte, 12+62, 200)
	copy(b, "DIRC\x00\x00\x00\x02\x00\x00\x00\x01")
	b[12+24+2], b[12+61] = 0xe0, byte(len(name))
	b = append(b, name...)
	b = append(b, make([]byte, 8-(len(b)-12)%8)...)
	sum := sha1.Sum(b)
	return string(append(b, sum[:]...))
}

// A later review could make a repository where a commondir leads, which nobody would know by its paths.
func TestCommondirBeforeItsTarget(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	for _, line := range []string{"o/HEAD x", "o/commondir ../m", "m/HEAD x", "m/objects/", "m/refs/", "m/config x", "p/commondir ../q"} {
		w.write(w.upper, line)
	}
	for _, tt := range []struct {
		choice Choice
		want   string
	}{{Choice{Paths: []string{"o"}}, "o/commondir"}, {Choice{Ours: []string{"m/HEAD", "p"}}, "o/commondir"}, {Choice{Paths: []string{"p"}}, "p/commondir"}, {Choice{Ours: []string{"p"}}, ""}} {
		out, err := w.apply(tt.choice)
		if tt.want == "" {
			w.check(err)
		} else if !errors.Is(err, ErrBlocked) || len(out.Refused) != 1 || out.Refused[0].path != tt.want {
			t.Errorf("%+v: %+v, %v", tt.choice, out, err)
		}
	}
}

// A command can lead so many commondirs through so many directories that nobody looks where the last ones lead.
func TestCommondirAfterManySteps(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("a/", 1500)
	w := newRoot(t, deep)
	w.begin()
	for i := range 120 {
		w.write(w.upper, fmt.Sprintf("d%d/HEAD x", i))
		w.write(w.upper, fmt.Sprintf("d%d/commondir ../%snone", i, deep))
	}
	r := w.open()
	defer r.Close()
	set, err := r.Changes(t.Context(), anything)
	w.check(err)
	for _, c := range set.Changes {
		if path.Base(c.path) == "commondir" && c.Refused == "" {
			t.Errorf("%s: %s", c.path, c.Note)
		}
	}
}

// Files do not become objects, which an apply leaves as they are, by a repository that a review makes around them.
func TestNewObjects(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, "src/objects/a 1", "src/objects/b 1")
	for _, line := range []string{"src/HEAD x", "src/refs/", "src/objects/a 2", "src/objects/b -"} {
		w.write(w.upper, line)
	}
	_, err := w.apply(Choice{})
	w.check(err)
	if got := w.list(w.root); got != "src/ src/HEAD=x src/objects/ src/objects/a=2 src/refs/" {
		t.Error(got)
	}
}

// By modes, too, git passes over a repository.
func TestModesOfGitDirs(t *testing.T) {
	t.Parallel()
	for p, mode := range map[string]os.FileMode{".git/objects": 0o600, ".git/refs": 0o077, ".git/HEAD": 0o200, ".git": 0o600} {
		w := newRoot(t, ".git/HEAD ref: refs/heads/a", ".git/objects/", ".git/refs/")
		w.begin()
		for _, line := range []string{".git/objects/", ".git/refs/", ".git/HEAD ref: refs/heads/a"} {
			w.write(w.upper, line)
		}
		w.check(os.Chmod(filepath.Join(w.upper, p), mode))
		r := w.open()
		set, err := r.Changes(context.Background(), anything)
		r.Close()
		w.check(err)
		if len(set.Changes) != 1 || set.Changes[0].path != p || set.Changes[0].Refused == "" {
			t.Errorf("%s: %+v", p, set.Changes)
		}
		w.check(os.Chmod(filepath.Join(w.upper, p), 0o700))
	}
}

// Of a repository that the host has no object goes or changes, whatever it is called and wherever it lies. What else
// is called objects is none, and a repository can go as a whole.
func TestObjects(t *testing.T) {
	t.Parallel()
	host := []string{"HEAD x", "refs/heads/objects/b 1", "refs/heads/objects/c 1", "objects/ab/cd 1", "objects/pack/p 1", "objects/info/packs 1"}
	for _, dir := range []string{".git", "r.git", ".", ".git/modules/objects", ".git/modules/a/b", "elsewhere/p3.git"} {
		for name, tt := range map[string]struct {
			upper string
			kept  bool   // the objects
			ref   string // what becomes of the branches
			block string // what is refused
		}{
			"taken away":               {"objects/ab/cd -|objects/pack/p 2|objects/ee/ff 1|objects/info/packs 2|refs/heads/objects/b -|refs/heads/objects/c 2", true, "c=2", ""},
			"as a whole":               {"objects -|refs/heads/objects/b -", true, "c=1", ""},
			"replaced":                 {"objects/ opaque|objects/ee/ff 1", true, "b=1 c=1", ""},
			"of what is no repository": {"HEAD -|objects/ab -|objects/pack/p 2", true, "b=1 c=1", "HEAD"},
			"of what is another one":   {"objects/ab/HEAD x|objects/ab/commondir ../..|objects/ab/cd -", true, "b=1 c=1", ""},
			"a directory":              {"objects/ab/cd/x 1|refs/heads/objects/b -", true, "b=1 c=1", "objects/ab/cd"},
			"a pipe":                   {"objects/pack/p fifo", true, "b=1 c=1", "objects/pack/p"},
			"a file":                   {"objects x", true, "b=1 c=1", "objects"},
			"gone":                     {"", false, "", ""},
		} {
			w := newRoot(t, ".git/HEAD x", ".git/refs/", ".git/objects/", "f 1")
			at, dir := dir, dir
			if other, outside := strings.CutPrefix(dir, "elsewhere/"); outside {
				at = "../" + other
			}
			for _, line := range host {
				w.write(filepath.Join(w.root, at), line)
			}
			w.begin()
			if at != dir {
				w.upper = w.addLayer(filepath.Join(w.root, at))
				dir = "."
			}
			if name == "gone" && dir == "." {
				continue
			} else if name == "gone" {
				w.write(w.upper, dir+" -")
			} else {
				for line := range strings.SplitSeq(tt.upper, "|") {
					w.write(filepath.Join(w.upper, dir), line)
				}
			}
			name = at + " " + name
			out, err := w.apply(Choice{})
			if tt.block != "" {
				if !errors.Is(err, ErrBlocked) || out == nil || len(out.Refused) != 1 || out.Refused[0].path != filepath.Join(dir, tt.block) {
					t.Errorf("%s: %v", name, err)
				}
			} else if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			there := func(p, want string) {
				t.Helper()
				p = filepath.Join(w.root, at, p)
				if info, err := os.Lstat(p); err != nil || !info.Mode().IsRegular() {
					t.Errorf("%s: %s is no file: %v", name, p, err)
				} else if b, _ := os.ReadFile(p); string(b) != want {
					t.Errorf("%s: %s has %q, want %q", name, p, b, want)
				}
			}
			if !tt.kept {
				if _, err := os.Lstat(filepath.Join(w.root, at)); err == nil {
					t.Errorf("%s: it is there", name)
				}
				continue
			}
			there("objects/ab/cd", "1")
			there("objects/pack/p", "1")
			if strings.Contains(tt.upper, "objects/ee") {
				there("objects/ee/ff", "1")
			}
			if got := w.list(filepath.Join(w.root, at, "refs/heads/objects")); got != tt.ref {
				t.Errorf("%s: branches %q, want %q", name, got, tt.ref)
			}
		}
	}
}

// An object that cannot be copied is refused by name, and the rest can be applied without it.
func TestUnreadableObject(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, ".git/HEAD ref: refs/heads/main", ".git/objects/ab/old 1")
	w.write(w.upper, ".git/objects/ab/shut 2")
	w.write(w.upper, "f 1")
	w.check(os.Chmod(filepath.Join(w.upper, ".git/objects/ab/shut"), 0))
	out, err := w.apply(Choice{})
	if err == nil || len(out.Refused) != 1 || out.Refused[0].path != ".git/objects/ab/shut" || !strings.Contains(out.Refused[0].Refused, "cannot read") {
		t.Fatalf("%+v", out)
	}
	_, err = w.apply(Choice{Paths: []string{"f"}})
	w.check(err)
}

// Objects stay when an apply is taken back, because new refs of the host may need them. The review has them, too: git
// on the host removes what nothing there needs.
func TestUndoKeepsObjects(t *testing.T) {
	t.Parallel()
	for _, repository := range []string{".git", "r.git", "."} {
		for name, choice := range map[string][]string{"all": nil, "a part": {"objects", "refs/heads"}} {
			t.Run(repository+" "+name, func(t *testing.T) {
				t.Parallel()
				in := func(line string) string { return path.Join(repository, line) }
				w := newWorkspace(t, in("HEAD ref: refs/heads/main"), in("refs/heads/main 1"), in("objects/ab/old 1"), in("objects/info/packs 1"), "f 1")
				for _, line := range []string{"refs/heads/main 2", "objects/ab/one 2", "objects/ee/two 3", "objects/pack/p 4", "objects/info/packs 2", "more 6"} {
					w.write(w.upper, in(line))
				}
				w.check(os.Link(filepath.Join(w.upper, in("objects/pack/p")), filepath.Join(w.upper, in("q")))) // a part makes a copy
				var paths []string
				for _, p := range choice {
					paths = append(paths, in(p))
				}
				_, err := w.apply(Choice{Paths: paths})
				w.check(err)
				w.write(w.root, in("refs/tags/v1 2"))
				w.write(w.root, in("objects/ee/ours 3"))
				if _, told, err := w.shelf.Undo(t.Context()); err != nil || len(told) > 0 {
					t.Fatalf("%v, %q", err, told)
				}
				has := func(root, p, text string) {
					t.Helper()
					if b, err := os.ReadFile(filepath.Join(root, in(p))); err != nil || string(b) != text {
						t.Errorf("%s has %q: %v", p, b, err)
					}
				}
				has(w.root, "refs/heads/main", "1")
				has(w.root, "objects/info/packs", "1")
				has(w.upper, "refs/heads/main", "2")
				for p, text := range map[string]string{"objects/ab/one": "2", "objects/ee/two": "3", "objects/pack/p": "4"} {
					has(w.root, p, text)
					has(w.upper, p, text)
					var a, b unix.Stat_t
					w.check(errors.Join(unix.Stat(filepath.Join(w.root, in(p)), &a), unix.Stat(filepath.Join(w.upper, in(p)), &b)))
					if a.Ino == b.Ino || a.Mode != b.Mode {
						t.Errorf("%s: %+v, %+v", p, a, b)
					}
				}
				for range 2 { // and again
					_, err = w.apply(Choice{})
					w.check(err)
					has(w.root, "refs/heads/main", "2")
					_, _, err := w.shelf.Undo(t.Context())
					w.check(err)
				}
			})
		}
	}
}

// Nothing is taken back if git has packed an object since. A repository that came with the review goes with its objects.
func TestUndoOfObjects(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, ".git/HEAD ref: refs/heads/main", ".git/refs/", ".git/objects/")
	for _, line := range []string{".git/objects/ab/one 2", "new/.git/HEAD ref: refs/heads/main", "new/.git/refs/", "new/.git/objects/ab/two 2", "shut/.git/HEAD x", "shut/.git/refs/", "shut/.git/objects/ab/three 3"} {
		w.write(w.upper, line)
	}
	w.check(os.Link(filepath.Join(w.upper, "shut/.git/objects/ab/three"), filepath.Join(w.shelf.dir, "r", "elsewhere"))) // so that it is made anew
	_, err := w.apply(Choice{})
	w.check(err)
	w.check(os.Rename(filepath.Join(w.root, ".git/objects/ab/one"), filepath.Join(w.root, "one")))
	if _, changed, err := w.shelf.Undo(t.Context()); !errors.Is(err, ErrUndo) || !slices.Equal(changed, []string{".git/objects/ab/one"}) {
		t.Errorf("%v, %q", err, changed)
	}
	w.check(os.Rename(filepath.Join(w.root, "one"), filepath.Join(w.root, ".git/objects/ab/one")))
	_, _, err = w.shelf.Undo(t.Context())
	w.check(err)
	if got, want := w.list(w.root), ".git/ .git/HEAD=ref: refs/heads/main .git/objects/ .git/objects/ab/ .git/objects/ab/one=2 .git/refs/"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// git status writes an index again, also one that came with its repository.
func TestUndoAfterStatus(t *testing.T) {
	t.Parallel()
	entries := "DIRC\x00\x00\x00\x02\x00\x00\x00\x00"
	sum := sha1.Sum([]byte(entries))
	index := entries + string(sum[:])
	for name, made := range map[string]bool{"moved as a whole": false, "made anew": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorkspace(t, "here/.git/HEAD x", "here/.git/refs/", "here/.git/objects/", "here/.git/index x")
			for _, line := range []string{"HEAD ref: refs/heads/main", "refs/", "objects/", "index " + index} {
				w.write(w.upper, "new/.git/"+line)
			}
			w.write(w.upper, "here/.git/index "+index)
			if made {
				w.write(w.upper, "new/.git/linked 1")
				w.check(os.Link(filepath.Join(w.upper, "new/.git/linked"), filepath.Join(w.shelf.dir, "r", "elsewhere")))
			}
			before := w.list(w.root)
			if out, err := w.apply(Choice{}); err != nil {
				t.Fatalf("%v: %+v %+v", err, out.Refused, out.Conflicts)
			}
			for _, dir := range []string{"new", "here"} {
				at := filepath.Join(w.root, dir, ".git/index")
				w.write(w.root, filepath.Join(dir, ".git/index.lock")+" "+index)
				w.check(os.Chtimes(at+".lock", time.Time{}, time.Unix(1, 0)))
				w.check(os.Rename(at+".lock", at))
			}
			if _, told, err := w.shelf.Undo(t.Context()); err != nil || len(told) > 0 || w.list(w.root) != before {
				t.Errorf("%v, %q: %q", err, told, w.list(w.root))
			}
			w.open().Close()
			if _, err := w.apply(Choice{}); err != nil {
				t.Error(err)
			}
		})
	}
}
