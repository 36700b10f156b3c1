package host_test

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/shared"
)

// A gitAttack plants what git outside of the sandbox would run, behind links that lead
// nowhere yet, or that commands can replace.
type gitAttack struct {
	name    string
	outside string // lays it out, in a directory above the workspace w
	change  func(base string, o *host.Options)
	inside  []string // commands, one after the other
	victim  string   // what git does outside; empty: a commit in w
	refused string   // what the refusal of the last command names; empty: it runs
	told    string   // git runs it, and the report of the last command names that
}

const (
	newRepo = `mkdir -p w; cd w; git init -q -b main; echo 1 >f; git add f; git commit -qm 1; rm -rf .git/hooks; `
	// hook DIR plants one there, by whatever way there is.
	hookIn = `hook() { (mkdir -p $1; printf '#!/bin/sh\necho ran >>'$BASE'/ran\n' >$1/pre-commit; chmod 755 $1/pre-commit) 2>/dev/null; }; `
	commit = `cd w; git commit -q --allow-empty -m 2`
)

func gitAttacks() []gitAttack {
	writable := func(base string, o *host.Options) { o.Workspace.Writable = []string{base + "/s"} }
	nested := `mkdir w; cd w; echo 1 >f; mkdir n; cd n; git init -q -b main; git commit -q --allow-empty -m 1; rm -rf .git/hooks; `
	inNested := `cd w/n; git commit -q --allow-empty -m 2`
	return []gitAttack{
		{name: "hooks", outside: newRepo + `ln -s ../hk .git/hooks`, inside: []string{`mv .git away && mv away .git; ln -s other hk && rm hk; hook hk`}},
		{name: "hooks, deeper", outside: newRepo + `ln -s $BASE/w/a/b/hk .git/hooks`, inside: []string{`hook a/b/hk; mv a c; hook a/b/hk; rm -r a; hook a/b/hk`}},
		{name: "hooks, by two links", outside: newRepo + `ln -s ../l .git/hooks; ln -s hk l`, inside: []string{`hook hk; rm l; hook l`}, refused: "/w/l"},
		{name: "hooks that are there, by two links", outside: newRepo + `ln -s ../l .git/hooks; ln -s hk l; mkdir hk`, inside: []string{`rm l; hook l`}, refused: "/w/l"},
		{name: "hooks, through another directory", outside: newRepo + `ln -s ../d/hk .git/hooks; ln -s e d; mkdir e`, inside: []string{`hook d/hk`}, refused: "/w/d"},
		{name: "hooks, in a circle", outside: newRepo + `ln -s ../x .git/hooks; ln -s y x; ln -s x y`, inside: []string{`rm x; hook x`}, refused: "/w/x"},
		{name: "hooks that lead to themselves", outside: newRepo + `ln -s hooks .git/hooks`, inside: []string{`rm -f .git/hooks; hook .git/hooks`}},
		{name: "hooks beneath a file", outside: newRepo + `ln -s ../a/hk .git/hooks; echo 1 >a`, inside: []string{`rm -f a; mv a b; hook a/hk`}},
		{name: "hooks in the work tree", outside: newRepo + `ln -s .. .git/hooks`, inside: []string{`hook .`}, told: "would act on"},
		{name: "one hook", outside: newRepo + `mkdir .git/hooks; ln -s ../../s/pc .git/hooks/pre-commit`,
			inside: []string{`hook s; mv s/pre-commit s/pc; cp s/pre-commit s/pc; git commit -q --allow-empty -m inside`}},
		{name: "one hook of the work tree", outside: newRepo + `mkdir .git/hooks hk; echo '#!/bin/sh' >hk/pc; chmod 755 hk/pc; ln -s ../../hk/pc .git/hooks/pre-commit`,
			inside: []string{`hook hk; mv hk/pre-commit hk/pc; mv hk old; hook hk; mv .git/hooks .git/old; mv .git/hooks old; hook .git/hooks; rm -f .git/hooks/pre-commit; hook .git/hooks; git commit -q --allow-empty -m inside`}},
		{name: "info", outside: newRepo + `git config filter.x.clean "echo ran >>$BASE/ran; cat"; rm -rf .git/info; ln -s ../gi .git/info`,
			inside: []string{`mkdir -p gi; echo '* filter=x' >gi/attributes`}, victim: `cd w; echo 2 >f; git add f`},
		{name: "info that is there", outside: newRepo + `git config filter.x.clean "echo ran >>$BASE/ran; cat"; rm -rf .git/info; mkdir gi; ln -s ../gi .git/info`,
			inside: []string{`echo '* filter=x' >gi/attributes`}, victim: `cd w; echo 2 >f; git add f`},
		{name: "attributes", outside: newRepo + `git config filter.x.clean "echo ran >>$BASE/ran; cat"; mkdir -p .git/info; ln -s ../../gi/at .git/info/attributes`,
			inside: []string{`mkdir -p gi; echo '* filter=x' >gi/at`}, victim: `cd w; echo 2 >f; git add f`},
		{name: "a configuration", outside: newRepo + `ln -s ../cw .git/config.worktree; git config extensions.worktreeConfig true`,
			inside: []string{`printf '[core]\nhooksPath = hk\n' >cw; hook hk`}},
		{name: "hooksPath", outside: newRepo + `git config core.hooksPath lnk; ln -s hk lnk`, inside: []string{`hook hk; rm lnk; hook lnk`}, refused: "/w/lnk"},
		{name: "hooksPath in the git directory", outside: newRepo + `git config core.hooksPath .git/my; ln -s ../hk .git/my`, inside: []string{`hook hk; rm .git/my; hook .git/my`}},
		{name: "a worktree, within the repository", outside: `mkdir m; cd m; git init -q -b main; git commit -q --allow-empty -m 1; rm -rf .git/hooks; ln -s hk .git/hooks; git worktree add -q ../w; echo 1 >../w/f`,
			inside: []string{`hook $BASE/m/.git/hk`}},
		{name: "a worktree", outside: `mkdir m; cd m; git init -q -b main; git commit -q --allow-empty -m 1; rm -rf .git/hooks; ln -s ../../w/hk .git/hooks; git worktree add -q ../w; echo 1 >../w/f`,
			inside: []string{`hook hk`}},
		{name: "a nested repository", outside: nested + `ln -s ../../hk .git/hooks`, inside: []string{`hook hk; rm -f n/.git/hooks; hook n/.git/hooks`}, victim: inNested},
		{name: "hooksPath of a nested repository", outside: nested + `git config core.hooksPath lnk; ln -s hk lnk`, inside: []string{`hook n/hk`}, victim: inNested},
		{name: "hooksPath of a nested repository, replaced", outside: nested + `git config core.hooksPath lnk; ln -s hk lnk`, inside: []string{`rm n/lnk; hook n/lnk`}, victim: inNested, told: "would act on"},
		{name: "hooks of a nested repository, by two links", outside: nested + `ln -s ../../l .git/hooks; ln -s hk ../l; mkdir ../hk`, inside: []string{`rm l; hook l`}, victim: inNested, told: "would act on"},
		{name: "many nested repositories", outside: `mkdir w; cd w; echo 1 >f; for i in $(seq 35); do git init -q -b main --template= n$i; ln -s ../../hk$i n$i/.git/hooks; done`,
			inside: []string{`for i in $(seq 35); do hook hk$i; done`}, victim: `for i in w/n*; do git -C $i commit -q --allow-empty -m 2; done`},
		{name: "a submodule", outside: `git init -q -b main lib; git -C lib commit -q --allow-empty -m 1; ` + newRepo + `git -c protocol.file.allow=always submodule --quiet add ../lib lib 2>&1; git commit -qm sub;
			rm -rf .git/modules/lib/hooks; ln -s ../../../hk .git/modules/lib/hooks`, inside: []string{`hook hk; rm -f .git/modules/lib/hooks; hook .git/modules/lib/hooks`}, victim: `cd w/lib; git commit -q --allow-empty -m 2`},
		{name: "another writable root", outside: newRepo + `cd ..; mv w s; mkdir w; echo 1 >w/f; rm -f s/.git/hooks; ln -s ../hk s/.git/hooks`, change: writable,
			inside: []string{`hook $BASE/s/hk`}, victim: `cd s; git commit -q --allow-empty -m 2`},
		{name: "from one root into another", outside: newRepo + `mkdir ../s; echo 1 >../s/f; ln -s ../../s/hk .git/hooks`, change: writable, inside: []string{`hook $BASE/s/hk`}},
		{name: "another file system", outside: newRepo + `mkdir $SHM/d; ln -s $SHM/d/hk .git/hooks`,
			change: func(base string, o *host.Options) {
				d := o.Sandboxes["fast"]
				d.BindPaths = []host.Bind{{Host: shmOf(base) + "/d", Container: "/shm/d", Writable: true}}
				d.Env = map[string]string{"SHM": "/shm"}
				o.Sandboxes["fast"] = d
			}, inside: []string{`hook $SHM/d/hk`}},
		{name: "where nothing can be made now", outside: newRepo + `mkdir closed; chmod 555 closed; ln -s ../closed/hk .git/hooks`, inside: []string{`chmod 755 closed; hook closed/hk`}, refused: "/w/closed/hk"},
		{name: "git cannot be asked", outside: newRepo + `for i in $(seq 70); do echo >../c$i; git config --add include.path $BASE/c$i; done; ln -s ../hk .git/hooks`, inside: []string{`hook hk`}, refused: "/w"},

		// The first command makes the link, and the second what it leads to.
		{name: "two commands, a repository", outside: `mkdir w; echo 1 >w/f`,
			inside: []string{`git init -q -b main; git commit -q --allow-empty -m 1; rm -rf .git/hooks; ln -s ../hk .git/hooks`, `hook hk`}},
		{name: "two commands, a nested repository", outside: `mkdir w; echo 1 >w/f`,
			inside: []string{`mkdir n; cd n; git init -q -b main; git commit -q --allow-empty -m 1; rm -rf .git/hooks; ln -s ../../hk .git/hooks`, `hook hk`}, victim: inNested},
		{name: "two commands, a chain", outside: nested + `git config core.hooksPath lnk; ln -s hk lnk`,
			inside: []string{`rm n/lnk; ln -s ../a/b n/lnk`, `hook a/b; rm n/lnk; ln -s ../c n/lnk; hook a/b`, `hook c`}, victim: inNested},
		{name: "two commands, a file in the way", outside: newRepo + `ln -s ../a/hk .git/hooks`,
			inside: []string{`rm -rf a; echo 1 >a`, `rm -f a; hook a/hk`, `hook a/hk`}},
		{name: "two commands, a directory that is shut", outside: newRepo + `mkdir a; ln -s ../a/hk .git/hooks`,
			inside: []string{`chmod 0 a`, `chmod 755 a; hook a/hk`}},
		{name: "two commands, info", outside: newRepo + `git config filter.x.clean "echo ran >>$BASE/ran; cat"; rm -rf .git/info`,
			inside: []string{`rm -rf .git/info; ln -s ../gi .git/info`, `mkdir -p gi; echo '* filter=x' >gi/attributes`}, victim: `cd w; echo 2 >f; git add f`},
	}
}

func shmOf(base string) string {
	return "/dev/shm/sbxhost-test-" + filepath.Base(filepath.Dir(base)) + filepath.Base(base)
}

// No command has git outside of the sandbox run what it has made behind a link that leads
// nowhere yet: it cannot be made, the command is refused by name, or its report says so.
func TestLinksThatLeadNowhereYet(t *testing.T) {
	t.Parallel()
	requireGit(t)
	for i, a := range gitAttacks() {
		// The host decides; a short run has the second engine, and the control, for some.
		for n, how := range []string{"native", "bwrap", "control"} {
			if testing.Short() && n > 0 && i%4 != n {
				continue
			}
			t.Run(how+"/"+a.name, func(t *testing.T) {
				t.Parallel()
				if how == "control" {
					a.control(t)
				} else {
					a.run(t, how)
				}
			})
		}
	}
}

// control shows that git runs it without a sandbox.
func (a *gitAttack) control(t *testing.T) {
	base := realTemp(t)
	a.shell(t, base, base, a.outside)
	for _, script := range a.inside {
		a.shell(t, base, base+"/w", hookIn+script)
	}
	if !a.ran(t, base) {
		t.Error("git ran nothing")
	}
}

func requireGit(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		if slices.Contains(strings.Split(os.Getenv("SBXHOST_REQUIRE"), ","), "git") {
			t.Fatal(err)
		}
		t.Skip(err)
	}
}

func gitEnv(base string) []string {
	return []string{"PATH=/usr/bin:/bin", "HOME=" + base, "BASE=" + base, "SHM=" + shmOf(base), "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b"}
}

func (a *gitAttack) shell(t *testing.T, base, dir, script string) {
	t.Helper()
	if strings.Contains(script, "$SHM") {
		must(t, os.MkdirAll(shmOf(base), 0o755))
		t.Cleanup(func() { os.RemoveAll(shmOf(base)) })
	}
	cmd := exec.Command("sh", "-c", script)
	cmd.Dir, cmd.Env = dir, gitEnv(base)
	if out, err := cmd.CombinedOutput(); err != nil && script == a.outside {
		t.Fatalf("%v\n%s", err, out)
	}
}

// ran reports whether git, outside, runs what was planted.
func (a *gitAttack) ran(t *testing.T, base string) bool {
	t.Helper()
	victim := a.victim
	if victim == "" {
		victim = commit
	}
	a.shell(t, base, base, victim)
	_, err := os.Lstat(base + "/ran")
	return err == nil
}

func (a *gitAttack) run(t *testing.T, engine string) {
	base := realTemp(t)
	a.shell(t, base, base, a.outside)
	h := newHost(t, func(o *host.Options) {
		o.Dir, o.Workspace.Root = base+"/w", base+"/w"
		o.Environ = gitEnv(base)
		o.Sandboxes["fast"] = host.Definition{Engine: engine, EnvPassthrough: []string{"BASE", "SHM", "GIT_*"}}
		if a.change != nil {
			a.change(base, o)
		}
	})
	var report host.Report
	for i, script := range a.inside {
		cmd := h.Command(t.Context(), "fast", "sh", "-c", hookIn+script)
		out, err := cmd.CombinedOutput()
		report = cmd.Report()
		t.Logf("%v: %s", err, out)
		if e, ok := errors.AsType[*shared.Error](err); ok {
			named := a.refused != "" && strings.Contains(err.Error(), base+a.refused) && e.Hint != ""
			// As root, bubblewrap cannot look into a directory that is shut.
			if shut := os.Getuid() == 0 && engine == "bwrap" && strings.HasSuffix(a.name, "is shut"); i < len(a.inside)-1 || !named && !shut {
				t.Errorf("refused: %v", err)
			}
			return
		}
	}
	if root := os.Getuid() == 0 && strings.HasPrefix(a.name, "where nothing"); a.refused != "" && !root { // who can make it
		t.Errorf("it is not refused")
	}
	must(t, h.Close())
	os.Chmod(base+"/w/a", 0o755) // or it cannot be removed
	ran, told := a.ran(t, base), ""
	for _, r := range report.Repositories {
		told += r.String() + "\n"
	}
	switch {
	case a.told == "" && ran:
		t.Errorf("git outside ran it; reported: %q %q; degraded: %q", told, report.Instructions, report.Degraded)
	case a.told != "" && !(ran && strings.Contains(told, a.told)):
		t.Errorf("ran: %v, reported: %q", ran, told)
	}
}

// What tools take for instructions is protected where it leads to in the end, and what is not
// is told: before, by a note, or when it has changed.
func TestLinksOfTools(t *testing.T) {
	t.Parallel()
	for _, engine := range []string{"native", "bwrap"} {
		for _, tt := range []struct {
			name, outside string
			inside        []string // one after the other
			written       string   // the file that they try to write
			told          string   // who writes it all the same is told of that, and of nothing else
			noted         string   // or a note names that
			unbound       bool     // commands cannot write the home
		}{
			{name: "nowhere", outside: "ln -s none .claude", inside: []string{"mkdir none; echo x >none/s"}, written: "none/s"},
			{name: "nowhere, and nothing done", outside: "ln -s none .claude; ln -s none sub/.vscode; ln -s l1 .zed; ln -s none l1; ln -s x y; ln -s y x; ln -s x .codex", inside: []string{"true", "true"}, written: "none/s"},
			{name: "nowhere, deep", outside: "ln -s $BASE/w/a/b/c .claude", inside: []string{"mkdir -p a/b/c; echo x >a/b/c/s; mv a c; mkdir -p a/b/c; echo x >a/b/c/s"}, written: "a/b/c/s"},
			{name: "below the top, nowhere", outside: "ln -s ../none sub/.vscode", inside: []string{"mkdir none; echo x >none/s"}, written: "none/s", told: "/w/sub/.vscode"},
			{name: "nowhere, in a pattern", outside: "ln -s ../none sub/x.lock", inside: []string{"echo x >none"}, written: "none"},
			{name: "a link in what is protected", outside: "mkdir .claude d; echo {} >d/s; ln -s ../d/s .claude/settings.json", inside: []string{"echo x >d/s; rm -f d/s; echo x >d/t && mv d/t d/s"}, written: "d/s"},
			{name: "a link in what is protected, to nowhere", outside: "mkdir .claude; ln -s ../d/s .claude/settings.json", inside: []string{"mkdir d; echo x >d/s"}, written: "d/s"},
			{name: "a link in a directory that such a link leads to", outside: "mkdir .claude d e; ln -s ../d .claude/skills; ln -s ../e/x d/x; echo 1 >e/x", inside: []string{"echo x >e/x; mv e f; mkdir e; echo x >e/x"}, written: "e/x"},
			{name: "start-up files of a shell in the project", outside: "ln -s br .bashrc", inside: []string{"echo x >br"}, written: "br"},
			{name: "start-up files of a shell", outside: "ln -s dot/bashrc $BASE/home/.bashrc", inside: []string{"mkdir -p $BASE/home/dot; echo x >$BASE/home/dot/bashrc"}, written: "../home/dot/bashrc"},
			{name: "start-up files of a shell, from a home that is read-only", unbound: true, outside: "echo 1 >br; ln -s $BASE/w/br $BASE/home/.bashrc", inside: []string{"echo x >br; mv br b; echo x >br"}, written: "br"},
			{name: "nowhere, from a home that is read-only", unbound: true, outside: "ln -s $BASE/w/none $BASE/home/.zshrc", inside: []string{"mkdir none; echo x >none/s; echo x >none"}, written: "none"},
			{name: "settings in a home that is read-only", unbound: true, outside: "mkdir fish $BASE/home/.config; ln -s ../../w/fish $BASE/home/.config/fish", inside: []string{"echo x >fish/s; mv fish d; mkdir fish; echo x >fish/s"}, written: "fish/s"},
			{name: "settings in a directory of a home that is read-only", unbound: true, outside: "mkdir -p units $BASE/home/.config/systemd; ln -s $BASE/w/units $BASE/home/.config/systemd/user", inside: []string{"echo x >units/s"}, written: "units/s"},
			{name: "a name of a file in a home that is read-only", unbound: true, outside: "echo 1 >br; ln br $BASE/home/.profile", inside: []string{"echo x >br"}, written: "br"},
			{name: "the workspace, from a home that is read-only", unbound: true, outside: "mkdir $BASE/home/.config; ln -s $BASE/w $BASE/home/.config/fish", inside: []string{"echo x >s"}, written: "s", noted: "/home/.config/fish"},
			{name: "a chain from a home that is read-only, replaced", unbound: true, outside: "mkdir d; ln -s d l1; ln -s $BASE/w/l1 $BASE/home/.ssh", inside: []string{"echo x >d/s; rm l1; mkdir l1; echo x >l1/s"}, written: "l1/s", told: "/home/.ssh"},
			{name: "replaced", outside: "ln -s none .claude", inside: []string{"rm .claude; mkdir .claude; echo x >.claude/s"}, written: ".claude/s", told: "/w/.claude"},
			{name: "a chain, replaced", outside: "mkdir d; ln -s l1 .claude; ln -s d l1", inside: []string{"rm l1; mkdir l1; echo x >l1/s"}, written: "l1/s", told: "/w/.claude"},
			{name: "a circle, undone", outside: "ln -s x .claude; ln -s y x; ln -s x y", inside: []string{"rm x; mkdir x; echo x >x/s"}, written: "x/s", told: "/w/.claude"},
			{name: "replaced, and then filled", outside: "ln -s none .claude", inside: []string{"rm .claude; ln -s other .claude", "mkdir other; echo x >other/s; rm .claude; ln -s sub .claude", "echo x >sub/s"}, written: "other/s"},
			{name: "the workspace", outside: "ln -s . .claude", inside: []string{"echo x >s"}, written: "s", noted: "/w/.claude"},
			{name: "another root", outside: "ln -s $BASE/s .claude", inside: []string{"echo x >$BASE/s/s"}, written: "../s/s", noted: "/w/.claude"},
			{name: "a bind", outside: "ln -s $BASE/home sub/.claude", inside: []string{"echo x >$BASE/home/s"}, written: "../home/s", told: "/w/sub/.claude"},
		} {
			t.Run(engine+"/"+tt.name, func(t *testing.T) {
				t.Parallel()
				base := realTemp(t)
				cmd := exec.Command("sh", "-c", "mkdir w w/sub s home; echo 1 >s/f; cd w; "+tt.outside)
				cmd.Dir, cmd.Env = base, gitEnv(base)
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
				h := newHost(t, func(o *host.Options) {
					o.Dir, o.Workspace.Root, o.Workspace.Writable = base+"/w", base+"/w", []string{base + "/s"}
					o.Environ = append(gitEnv(base), "HOME="+base+"/home")
					d := host.Definition{Engine: engine, EnvPassthrough: []string{"BASE"}, ProtectPaths: []string{"**/*.lock"}}
					if !tt.unbound {
						d.BindPaths = []host.Bind{{Host: base + "/home", Writable: true}}
					}
					o.Sandboxes["fast"] = d
				})
				var report host.Report
				for _, script := range tt.inside {
					cmd := h.Command(t.Context(), "fast", "sh", "-c", "("+script+") 2>/dev/null; true")
					must(t, cmd.Run())
					report = cmd.Report()
				}
				must(t, h.Close())
				text, _ := os.ReadFile(base + "/w/" + tt.written)
				notes := strings.Join(report.Degraded, "\n")
				noted := strings.Contains(notes, "can write or replace their targets: \""+base+tt.noted+"\"")
				switch wrote := strings.HasPrefix(string(text), "x"); {
				case wrote != (tt.told != "" || tt.noted != ""):
					t.Errorf("written: %v; %q; notes: %s", wrote, report.Instructions, notes)
				case tt.told != "" && !slices.Equal(report.Instructions, []string{base + tt.told}):
					t.Errorf("told: %q; notes: %s", report.Instructions, notes)
				case tt.noted != "" && !noted, tt.told+tt.noted == "" && strings.HasPrefix(tt.name, "nowhere") && len(report.Instructions) > 0:
					t.Errorf("told: %q; notes: %s", report.Instructions, notes)
				}
				if left := exec.Command("find", base+"/w", "-name", "none", "-o", "-name", "other", "-o", "-path", "*/w/a"); tt.name != "the workspace" && tt.name != "below the top, nowhere" {
					if out, err := left.Output(); err != nil || len(out) > 0 {
						t.Errorf("it is left: %s, %v", out, err)
					}
				}
			})
		}
	}
}

// A command of one definition does not choose what another one shows.
func TestSourcesThatAnotherDefinitionWrites(t *testing.T) {
	t.Parallel()
	for _, swap := range []string{"mv p/a/d p/a/e; ln -s ../../secret/d p/a/d", "mv p/a p/b; ln -s ../secret p/a"} {
		base := realTemp(t)
		for _, dir := range []string{"w", "p/a/d", "secret/d"} {
			must(t, os.MkdirAll(base+"/"+dir, 0o755))
		}
		must(t, os.WriteFile(base+"/secret/d/key", []byte("key"), 0o600))
		h := newHost(t, func(o *host.Options) {
			o.Dir, o.Workspace.Root = base+"/w", base+"/w"
			o.Sandboxes["writes"] = host.Definition{Engine: "native", BindPaths: []host.Bind{{Host: base + "/p", Writable: true}}}
			o.Sandboxes["shows"] = host.Definition{Engine: "native", BindPaths: []host.Bind{{Host: base + "/p/a/d", Container: "/d", Writable: true}}}
		})
		if out, err := h.Command(t.Context(), "shows", "ls", "-d", "/d").Output(); err != nil || string(out) != "/d\n" {
			t.Fatalf("%s, %v", out, err)
		}
		out, err := h.Command(t.Context(), "writes", "sh", "-c", "cd "+base+"; "+swap).CombinedOutput()
		t.Logf("%s: %v %s", swap, err, out)
		out, err = h.Command(t.Context(), "shows", "sh", "-c", "cat /d/key; echo x >/d/made").Output()
		if e, ok := errors.AsType[*shared.Error](err); !ok || e.Attribute != "bind_paths[0]" {
			t.Errorf("%s: %q, %v", swap, out, err)
		}
		if _, err := os.Lstat(base + "/secret/d/made"); err == nil {
			t.Errorf("%s: it wrote there", swap)
		}
	}
}

// Nor does it choose what is shown as a toolchain.
func TestToolchainThatAnotherDefinitionWrites(t *testing.T) {
	t.Parallel()
	base := realTemp(t)
	for _, dir := range []string{"w", "home/.cargo/registry", "home/private"} {
		must(t, os.MkdirAll(base+"/"+dir, 0o755))
	}
	must(t, os.WriteFile(base+"/home/private/key", []byte("key"), 0o600))
	h := newHost(t, func(o *host.Options) {
		o.Dir, o.Workspace.Root, o.Workspace.Toolchains = base+"/w", base+"/w", true
		o.Environ = []string{"PATH=/usr/bin:/bin", "HOME=" + base + "/home"}
		o.Sandboxes["writes"] = host.Definition{Engine: "native", BindPaths: []host.Bind{{Host: base + "/home/.cargo", Writable: true}}}
		o.Sandboxes["shows"] = host.Definition{Engine: "native"}
	})
	registry := base + "/home/.cargo/registry"
	must(t, os.WriteFile(registry+"/crate", []byte("crate"), 0o600))
	show := func() (string, []string) {
		cmd := h.Command(t.Context(), "shows", "sh", "-c", "cd "+base+"/home; cat .cargo/registry/* private/*")
		out, _ := cmd.Output()
		return string(out), cmd.Report().Degraded
	}
	if out, _ := show(); out != "crate" {
		t.Fatalf("before: %s", out)
	}
	if out, err := h.Command(t.Context(), "writes", "sh", "-c", "cd "+base+"/home/.cargo; mv registry r; ln -s ../private registry").CombinedOutput(); err != nil {
		t.Fatalf("%s, %v", out, err)
	}
	out, notes := show()
	if len(out) > 0 || !slices.ContainsFunc(notes, func(n string) bool { return strings.Contains(n, registry+`" is left out`) }) {
		t.Errorf("it shows %s and notes %q", out, notes)
	}
}

// Nor does it choose what is a workspace, also not by a link that exists only while the workspace is
// resolved.
func TestWorkspaceThatAnotherDefinitionWrites(t *testing.T) {
	t.Parallel()
	for _, field := range []string{"root", "writable[0]", "readable[0]"} {
		for _, exchanged := range []bool{false, true} {
			base := realTemp(t)
			for _, dir := range []string{"w", "p/a", "secret"} {
				must(t, os.MkdirAll(base+"/"+dir, 0o755))
			}
			must(t, os.WriteFile(base+"/secret/key", []byte("key"), 0o600))
			open := func() *host.Host {
				return newHost(t, func(o *host.Options) {
					o.Dir, o.Workspace.Root = base+"/w", base+"/w"
					switch field {
					case "root":
						o.Workspace.Root = base + "/p/a"
					case "writable[0]":
						o.Workspace.Writable = []string{base + "/p/a"}
					default:
						o.Workspace.Readable = []string{base + "/p/a"}
					}
					o.Sandboxes["writes"] = host.Definition{Engine: "native", BindPaths: []host.Bind{{Host: base + "/p", Container: "/c", Writable: true}}}
					o.Sandboxes["shows"] = host.Definition{Engine: "native"}
				})
			}
			if out, err := open().Command(t.Context(), "writes", "sh", "-c", "mv /c/a /c/b; ln -s ../secret /c/a").CombinedOutput(); err != nil {
				t.Fatalf("%s: %s, %v", field, out, err)
			}
			h := open()
			if exchanged { // as a command that goes on does it
				must(t, os.Remove(base+"/p/a"))
				must(t, os.Rename(base+"/p/b", base+"/p/a"))
			}
			out, err := h.Command(t.Context(), "shows", "sh", "-c", "cat "+base+"/p/a/key "+base+"/secret/key; echo x >"+base+"/p/a/made").Output()
			if e, ok := errors.AsType[*shared.Error](err); !ok || e.Attribute != "workspace."+field {
				t.Errorf("%s, exchanged %v: %q, %v", field, exchanged, out, err)
			}
			if _, err := os.Lstat(base + "/secret/made"); err == nil {
				t.Errorf("%s, exchanged %v: it wrote there", field, exchanged)
			}
		}
	}
}

// Nor does it lead the host's copies of configurations, in which the host removes old files.
func TestCopiesThatAnotherDefinitionWrites(t *testing.T) {
	t.Parallel()
	base := realTemp(t)
	for _, dir := range []string{"w", "home/.cache", "secret"} {
		must(t, os.MkdirAll(base+"/"+dir, 0o700))
	}
	must(t, os.WriteFile(base+"/home/.gitconfig", []byte("[user]\n\tname = me\n"), 0o600))
	must(t, os.WriteFile(base+"/secret/old", []byte("old"), 0o600))
	must(t, os.Chtimes(base+"/secret/old", time.Time{}, time.Now().Add(-48*time.Hour)))
	if out, err := exec.Command("git", "init", "-q", base+"/w").CombinedOutput(); err != nil {
		t.Fatalf("%s, %v", out, err)
	}
	h := newHost(t, func(o *host.Options) {
		o.Dir, o.Workspace.Root = base+"/w", base+"/w"
		o.Environ = []string{"PATH=/usr/bin:/bin", "HOME=" + base + "/home"}
		o.Sandboxes["writes"] = host.Definition{Engine: "native", BindPaths: []host.Bind{{Host: base + "/home/.cache", Writable: true}}}
		o.Sandboxes["shows"] = host.Definition{Engine: "native"}
	})
	name := func() string {
		out, _ := h.Command(t.Context(), "shows", "git", "config", "user.name").Output()
		return string(out)
	}
	for _, first := range []bool{true, false} {
		if !first {
			if out := name(); out != "me\n" {
				t.Fatalf("before: %q", out)
			}
		}
		out, _ := h.Command(t.Context(), "writes", "sh", "-c", "cd "+base+"/home/.cache; mkdir -p sbxhost; rm -rf sbxhost/git; ln -s ../../../secret sbxhost/git").CombinedOutput()
		t.Logf("%s", out)
		if out := name(); out != "me\n" {
			t.Errorf("%q", out)
		}
		if list, err := os.ReadDir(base + "/secret"); err != nil || len(list) != 1 || list[0].Name() != "old" {
			t.Fatalf("first %v: %v, %v", first, list, err)
		}
	}
}

// Nor does it choose which socket is the agent's.
func TestAgentThatAnotherDefinitionWrites(t *testing.T) {
	t.Parallel()
	base := realTemp(t)
	for _, dir := range []string{"w", "p", "secret"} {
		must(t, os.MkdirAll(base+"/"+dir, 0o755))
	}
	l, err := net.Listen("unix", base+"/secret/s")
	must(t, err)
	defer l.Close()
	h := newHost(t, func(o *host.Options) {
		o.Dir, o.Workspace.Root = base+"/w", base+"/w"
		o.Environ = []string{"PATH=/usr/bin:/bin", "HOME=" + base, "SSH_AUTH_SOCK=" + base + "/p/agent"}
		o.Sandboxes["writes"] = host.Definition{Engine: "native", BindPaths: []host.Bind{{Host: base + "/p", Container: "/c", Writable: true}}}
		o.Sandboxes["shows"] = host.Definition{Engine: "native", Credentials: []string{"ssh-agent"}, Network: host.Network{Names: []string{"a.example.com"}}}
	})
	if out, err := h.Command(t.Context(), "writes", "ln", "-s", "../secret/s", "/c/agent").CombinedOutput(); err != nil {
		t.Fatalf("%s, %v", out, err)
	}
	out, err := h.Command(t.Context(), "shows", "sh", "-c", "echo $SSH_AUTH_SOCK").Output()
	if e, ok := errors.AsType[*shared.Error](err); !ok || e.Attribute != "credentials[0]" || !strings.Contains(e.Message, "could have been put there by one") || !strings.Contains(e.Hint, base+"/p/agent") {
		t.Errorf("%q, %v", out, err)
	}
}
