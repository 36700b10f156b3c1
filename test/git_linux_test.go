package test

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
	"testing"
)

// everyday is what people and agents do with git all day, in a repository with a
// file f, six commits, and a branch and a tag "packed".
var everyday = []string{
	"echo new >new && git add -A && git commit -qm new && test -z \"$(git status --porcelain)\"",
	"was=$(git branch --show-current) && git switch -qc topic HEAD~2 && echo t >t && git add -A && git commit -qm t && git rebase -q $was && git switch -q $was && git merge -q topic && git branch -qD topic",
	"git branch -d packed",
	"git tag -d packed",
	"echo x >>f && git stash -q && git stash list | grep -q stash && git stash pop -q && git checkout -q f",
	"git bisect start HEAD HEAD~3 && git bisect run sh -c '! test -f new' && git bisect reset",
	"git commit -q --amend -m amended && git revert --no-edit HEAD && git reset -q --hard HEAD~1",
	"GIT_SEQUENCE_EDITOR=: git rebase -qi HEAD~2 --exec true",
	"echo u >u && mkdir d && echo x >d/x && git stash -qu && test ! -e u && git stash pop -q && git clean -fdq && test ! -e d && test ! -e u",
	"git gc -q --prune=now",
	"git pack-refs --all && git worktree list",
	"git fsck --no-progress --no-dangling",
}

// TestGitWorks does everyday's work in a sandbox of defaults, and tries to write
// what git obeys and what other worktrees have.
func TestGitWorks(t *testing.T) {
	need(t, "bwrap", "git")
	bin := t.TempDir()
	build(t, bin, "cmd/sbxhost")
	shared := []string{"config", "config.worktree", "hooks/post-commit", "commondir", "info/attributes"}
	for _, layout := range []struct {
		name, root string
		more       []string // commands
		protected  []string // files, by their paths in base
		made       []string // directories that cannot be made
	}{
		{
			name: "plain", root: "main",
			protected: slices.Concat(pathsIn("main/.git", shared...), pathsIn("main/.git/worktrees/other", "HEAD", "index", "commondir", "gitdir", "rebase-merge/done")),
			made:      []string{"main/.git/modules/new"},
		},
		{
			name: "worktree", root: "wt",
			protected: slices.Concat(pathsIn("main/.git", shared...), pathsIn("main/.git", "HEAD", "index"),
				pathsIn("main/.git/worktrees/other", "HEAD", "index", "commondir", "gitdir", "rebase-merge/done"),
				pathsIn("main/.git/worktrees/wt", "commondir", "gitdir", "config.worktree"), []string{"wt/.git"}),
			made: []string{"main/.git/modules/new", "main/.git/worktrees/other/new"},
		},
		{
			name: "superproject", root: "super",
			more: []string{
				"echo n >libs/lib/n && git -C libs/lib add -A && git -C libs/lib commit -qm n && git add libs/lib && git commit -qm bump",
				"git checkout -q HEAD~1 && git submodule --quiet update && test ! -e libs/lib/n && git checkout -q - && git submodule --quiet update && test -e libs/lib/n",
				"git -C libs/lib gc -q && git -C libs/lib stash list && git submodule --quiet foreach git status",
				"git -C libs/lib/deep commit -q --allow-empty -m deep && git -C libs/lib commit -qam deep && git commit -qam deeper",
			},
			protected: slices.Concat(pathsIn("super/.git", shared...), pathsIn("super/.git/modules/libs/lib", shared...),
				pathsIn("super/.git/modules/libs/lib/modules/deep", shared...), []string{"super/libs/lib/.git", "super/.gitmodules"}),
			made: []string{"super/.git/modules/new", "super/.git/modules/libs/new", "super/.git/modules/libs/lib/modules/new"},
		},
	} {
		for _, who := range whoseBriefly() {
			t.Run(layout.name+"/"+who, func(t *testing.T) {
				t.Parallel()
				g := newGitPlace(t, bin)
				if who == "owner" {
					g.giveAway(ownerUID)
				}
				root := g.path(layout.root)
				for _, command := range slices.Concat(everyday, layout.more) {
					out, err := g.inside(root, command)
					if err != nil || strings.Contains(out, "fatal:") || strings.Contains(out, "error:") && !strings.Contains(out, "could not write config file") {
						t.Errorf("%s: %v\n%s", command, err, out)
					}
				}
				before := g.contents(layout.protected)
				var tries strings.Builder
				try := func(command string) { fmt.Fprintf(&tries, "(%s) && echo 'it could: %s'\n", command, command) }
				for _, p := range layout.protected {
					for _, command := range []string{"echo x >>P", "rm -f P", "mv P P.aside", "echo x >other && mv -f other P", "mv $(dirname P) $(dirname P).aside", "chmod 777 P"} {
						if _, err := os.Lstat(g.path(p)); err != nil && (command[:2] == "rm" || command[:2] == "mv") {
							continue // there is nothing to take away
						}
						try(strings.ReplaceAll(command, "P", g.path(p)))
					}
				}
				for _, p := range layout.made {
					try("mkdir -p " + g.path(p))
				}
				if out, err := g.inside(root, tries.String()+"echo tried"); err != nil || strings.Contains(out, "it could: ") || !strings.Contains(out, "\ntried\n") {
					t.Errorf("%v\n%s", err, out)
				}
				if after := g.contents(layout.protected); !maps.Equal(after, before) {
					t.Errorf("got  %q\nwant %q", after, before)
				}
				for _, tree := range []string{"main", "other", "wt", "super", "super/libs/lib"} {
					if out := g.git(tree, "status", "--porcelain", "--ignored"); tree != layout.root && out != "" {
						t.Errorf("%s has changed:\n%s", tree, out)
					}
					g.git(tree, "fsck", "--no-progress", "--no-dangling")
				}
				// The control: what is protected is so by this and not by accident.
				if who == "caller" {
					g.outside(root, "echo x >>"+g.path(layout.protected[0]))
				}
			})
		}
	}
}

// TestGitFull gives up what is protected of git, and is told what has changed.
func TestGitFull(t *testing.T) {
	need(t, "bwrap", "git")
	bin := t.TempDir()
	build(t, bin, "cmd/sbxhost")
	g := newGitPlace(t, bin)
	for _, root := range []string{"main", "wt", "super"} {
		for _, tt := range []struct{ command, refused, told string }{
			{"git config user.name somebody", "config", ""},
			{"git remote remove x; git remote add x https://example.com/x", "config", ""},
			{"git branch -f old && git branch -M old new", "config", ""},
			{"git config alias.x '!true'", "config", `: a git that is run there outside of a sandbox would act on "setting alias.x"`},
			{"git config alias.x '!false'", "config", `: a git that is run there outside of a sandbox would act on "setting alias.x"`},
			{"hooks=$(git rev-parse --git-path hooks) && echo true >$hooks/post-commit && chmod +x $hooks/post-commit", "", `: a git that is run there outside of a sandbox would act on "hook post-commit"`},
			{"echo false >>$(git rev-parse --git-path hooks)/post-commit", "", `: a git that is run there outside of a sandbox would act on "hook post-commit"`},
			{"git config --unset alias.x", "config", ""},
			{"git commit -q --allow-empty -m x", "-", ""},
		} {
			if out, err := g.inside(g.path(root), tt.command); tt.refused != "-" && (err == nil || !strings.Contains(out, "(protected: git config); do it outside of the sandbox, or to allow it: git = \"full\" ") && tt.refused != "") {
				t.Errorf("protected, in %s: %s: %v\n%s", root, tt.command, err, out)
			}
			out, err := g.in("full", g.path(root), tt.command)
			if err != nil {
				t.Errorf("in %s: %s: %v\n%s", root, tt.command, err, out)
			}
			said := strings.Contains(out, fmt.Sprintf("the command changed the git repository %q", g.path(root))+tt.told)
			if said != (tt.told != "") {
				t.Errorf("in %s: %s: it says\n%s\nwant %q", root, tt.command, out, tt.told)
			}
		}
	}
	out, err := g.run(g.path("main"), "sbxhost", "exec", "-sandbox", "full", "-quiet", "-result", g.path("home/result"), "--", "git", "config", "alias.y", "!true")
	data, _ := os.ReadFile(g.path("home/result"))
	if want := `"repositories":[{"path":"` + g.path("main") + `","acts_on":["settingalias.y"],"more":0,"unclear":"","superproject":"","existing":true}]`; err != nil ||
		!strings.Contains(strings.Join(strings.Fields(string(data)), ""), want) {
		t.Errorf("%v\n%s%s\nwant %s", err, out, data, want)
	}
	// Other worktrees are not given up.
	if out, err := g.in("full", g.path("wt"), "echo x >../main/.git/worktrees/other/HEAD || echo x >../main/.git/HEAD"); err == nil {
		t.Errorf("another worktree's HEAD was written\n%s", out)
	}
	g.outside(g.path("super"), "git submodule --quiet deinit -f libs/lib && rm -rf .git/modules/libs")
	if out, err := g.in("full", g.path("super"), "git submodule init"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func pathsIn(dir string, names ...string) (list []string) {
	for _, n := range names {
		list = append(list, dir+"/"+n)
	}
	return list
}

// A gitPlace has the repositories main, with the worktrees wt and other, the
// latter in a rebase that has stopped, and super, with the submodule libs/lib and
// in that the submodule deep.
type gitPlace struct {
	t    *testing.T
	bin  string
	base string
	env  []string
}

func newGitPlace(t *testing.T, bin string) *gitPlace {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	g := &gitPlace{t: t, bin: bin, base: base}
	g.env = []string{
		"PATH=" + bin + ":/usr/local/bin:/usr/bin:/bin", "HOME=" + g.path("home"), "TMPDIR=/tmp", "LC_ALL=C",
		"SBXHOST_CONFIG=" + g.path("home/sandbox.hcl"), "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*",
	}
	who := `{ GIT_AUTHOR_NAME = "n", GIT_AUTHOR_EMAIL = "e@x", GIT_COMMITTER_NAME = "n", GIT_COMMITTER_EMAIL = "e@x", GIT_EDITOR = "true" }`
	if err := errors.Join(os.Mkdir(g.path("home"), 0o755),
		os.WriteFile(g.path("home/.gitconfig"), []byte("[user]\nname = n\nemail = e@x\n[init]\ndefaultBranch = main\n[protocol \"file\"]\nallow = always\n[advice]\ndetachedHead = false\n"), 0o644),
		os.WriteFile(g.path("home/sandbox.hcl"), []byte("sandbox \"fast\" {\n  engine = \"native\"\n  env    = "+who+"\n}\n\nsandbox \"full\" {\n  engine = \"native\"\n  git    = \"full\"\n  env    = "+who+"\n}\n"), 0o644)); err != nil {
		t.Fatal(err)
	}
	g.outside(base, `
		repository() {
			git init -q $1 && cd $1
			for n in 1 2 3 4 5 6; do echo $n >f && git add f && git commit -qm $n; done
			git branch packed && git tag packed && git pack-refs --all && cd ..
		}
		repository main
		git -C main worktree add -q ../wt -b wt
		git -C main worktree add -q ../other -b other
		GIT_SEQUENCE_EDITOR=: git -C other rebase -qi HEAD~2 --exec false 2>/dev/null && exit 1
		git -C other reset -q --hard
		repository lib
		git init -q deep && git -C deep commit -q --allow-empty -m deep
		git -C lib submodule --quiet add ../deep deep && git -C lib commit -qm deep
		repository super
		git -C super submodule --quiet add ../lib libs/lib
		git -C super submodule --quiet update --init --recursive
		git -C super commit -qm lib
	`)
	return g
}

func (g *gitPlace) path(p string) string { return filepath.Join(g.base, p) }

// giveAway makes all of the place another user's.
func (g *gitPlace) giveAway(uid int) {
	g.t.Helper()
	err := filepath.WalkDir(g.base, func(p string, d fs.DirEntry, err error) error {
		if err != nil || strings.HasPrefix(p, g.path("home")) {
			return err
		}
		return os.Lchown(p, uid, uid)
	})
	if err := errors.Join(err, os.Chmod(filepath.Dir(g.base), 0o755)); err != nil {
		g.t.Fatal(err)
	}
}

func (g *gitPlace) run(dir, program string, args ...string) (string, error) {
	if program == "sbxhost" {
		program = g.bin + "/sbxhost"
	}
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Env = dir, g.env
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// inside runs a script in the sandbox "fast", with the workspace root.
func (g *gitPlace) inside(root, script string) (string, error) { return g.in("fast", root, script) }

func (g *gitPlace) in(sandbox, root, script string) (string, error) {
	g.t.Helper()
	return g.run(root, "sbxhost", "exec", "-sandbox", sandbox, "--", "sh", "-c", script)
}

func (g *gitPlace) outside(dir, script string) {
	g.t.Helper()
	if out, err := g.run(dir, "sh", "-ec", script); err != nil {
		g.t.Fatalf("%s: %v\n%s", script, err, out)
	}
}

func (g *gitPlace) git(dir string, args ...string) string {
	g.t.Helper()
	out, err := g.run(g.path(dir), "git", args...)
	if err != nil {
		g.t.Errorf("git %q in %s: %v\n%s", args, dir, err, out)
	}
	return out
}

// contents are what lies at the paths, "" where nothing does.
func (g *gitPlace) contents(paths []string) map[string]string {
	m := map[string]string{}
	for _, p := range paths {
		data, _ := os.ReadFile(g.path(p))
		m[p] = string(data)
	}
	return m
}
