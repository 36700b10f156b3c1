package test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// An attack is what commands do in a workspace so that something happens outside
// of the sandbox, or a later command sees what is hidden from it.
//
// In its scripts $B is the directory that all lies in, $W the workspace in it, $V
// the file that must not come to be, and "evil" a program that makes it. They run
// in $W.
type attack struct {
	name       string
	setup      string   // what the user has made before
	definition string   // attributes of the sandbox
	top        string   // further blocks of the configuration
	env        []string // of everybody
	commands   []string // one after another, each in a sandbox of its own
	act        string   // what the user does then
	waits      string   // the git that runs each of commands, $COMMAND, and then goes on
	// refused is what is said when nothing may run, reported what is said of what
	// runs, and allowed a command that must work.
	refused, reported, allowed string
	// told says that the attack works and is reported: what is under way in a
	// repository is a command's own work.
	told bool
	// git is the body of the git that sbxhost finds; "none" for none.
	git string
	// root says where the workspace lies in $B; "" is "w".
	root string
}

// attackPlace is where one attack takes place.
type attackPlace struct {
	t    *testing.T
	a    *attack
	base string
	uid  uint32 // whose the workspace is
	env  []string
	bin  string // where sbxhost is
	path string // what else is on its PATH
}

func newAttackPlace(t *testing.T, a *attack, bin, who string) *attackPlace {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	p := &attackPlace{t: t, a: a, base: base, uid: uint32(os.Getuid()), bin: bin, path: "/usr/local/bin:/usr/bin:/bin"}
	root := a.root
	if root == "" {
		root = "w"
	}
	p.env = append([]string{
		"HOME=" + base + "/home", "TMPDIR=/tmp", "LC_ALL=C",
		"B=" + base, "W=" + base + "/" + root, "V=" + base + "/home/evil-ran",
	}, a.env...)
	for i := range p.env {
		p.env[i] = strings.ReplaceAll(p.env[i], "$B", base)
	}
	config := "approvals {\n  mode = \"deny\"\n}\nsandbox \"fast\" {\n  engine = \"native\"\n" +
		"  env = { GIT_AUTHOR_NAME = \"n\", GIT_AUTHOR_EMAIL = \"e@x\", GIT_COMMITTER_NAME = \"n\", GIT_COMMITTER_EMAIL = \"e@x\" }\n" + a.definition + "\n}\n" + a.top
	err = errors.Join(os.Mkdir(base+"/home", 0o755), os.Mkdir(base+"/tools", 0o755), os.MkdirAll(base+"/"+root, 0o755),
		os.WriteFile(base+"/home/.gitconfig", []byte("[user]\nname = n\nemail = e@x\n[init]\ndefaultBranch = main\n[protocol]\nallow = always\n[safe]\ndirectory = *\n"), 0o644),
		os.WriteFile(base+"/tools/sandbox.hcl", []byte(strings.ReplaceAll(config, "$B", base)), 0o644))
	if err != nil {
		t.Fatal(err)
	}
	// A file that this process writes could be open in a child of another test, and
	// not be executed.
	setup := "mkdir $B/fake; printf '#!/bin/sh\necho ran >>\"$V\"\n' >$B/tools/evil && chmod +x $B/tools/evil\n"
	if a.git != "" {
		if p.path = base + "/fake"; a.git != "none" {
			setup += "printf '#!/bin/sh\n" + a.git + "\n' >$B/fake/git && chmod +x $B/fake/git\n"
		}
	}
	if out, err := p.outside(setup + a.setup); err != nil {
		t.Fatalf("setup: %v\n%s", err, out)
	}
	if who == "owner" {
		p.uid = ownerUID
		err := filepath.WalkDir(base, func(at string, _ fs.DirEntry, err error) error {
			if err != nil || strings.HasPrefix(at, base+"/tools") || strings.HasPrefix(at, base+"/fake") {
				return err
			}
			return os.Lchown(at, int(p.uid), int(p.uid))
		})
		// What is $B belongs to root: the owner's is what is in it.
		if err := errors.Join(err, os.Chown(base, 0, 0), os.Chmod(filepath.Dir(base), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// outside runs a script as whom the workspace belongs to.
func (p *attackPlace) outside(script string) (string, error) {
	cmd := exec.Command("sh", "-c", script)
	cmd.Dir, cmd.Env = p.workspace(), append([]string{"PATH=/usr/local/bin:/usr/bin:/bin"}, p.env...)
	if p.uid != uint32(os.Getuid()) {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: p.uid, Gid: p.uid}}
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (p *attackPlace) workspace() string {
	for _, v := range p.env {
		if root, ok := strings.CutPrefix(v, "W="); ok {
			return root
		}
	}
	return ""
}

// inside runs a script in the sandbox. The variables that it goes by are set in it.
func (p *attackPlace) inside(script string) (string, error) {
	set := "export PATH=/usr/local/bin:/usr/bin:/bin\n"
	for _, v := range p.env[3:6] {
		name, value, _ := strings.Cut(v, "=")
		set += name + "='" + value + "'\n"
	}
	const command = `exec sbxhost exec -config "$B/tools/sandbox.hcl" -sandbox fast -- /bin/sh -c "$SCRIPT"`
	cmd := exec.Command("/bin/sh", "-c", command)
	if p.a.waits != "" {
		cmd = exec.Command("/bin/sh", "-c", p.a.waits)
	}
	cmd.Dir, cmd.Env = p.workspace(), append([]string{"PATH=" + p.bin + ":" + p.path, "COMMAND=" + command, "SCRIPT=" + set + script}, p.env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// happened reports whether the attack worked: something ran outside, or a command
// saw what is hidden.
func (p *attackPlace) happened(output string) bool {
	_, err := os.Lstat(p.base + "/home/evil-ran")
	return err == nil || strings.Contains(output, "the secret")
}

// whose says in whose workspaces commands run: the caller's and, for root, another user's.
// That the caller is root or not is for whoever runs the tests to choose.
func whose() []string {
	if os.Getuid() != 0 {
		return []string{"caller"} // only root has somebody else to run commands as
	}
	return []string{"caller", "owner"}
}

// whoseBriefly leaves out root's own in a short run: an ordinary user's run has a caller's.
func whoseBriefly() []string {
	list := whose()
	if testing.Short() {
		list = list[len(list)-1:]
	}
	return list
}

// inEachWay runs f for each of whose.
func inEachWay(t *testing.T, whose []string, f func(t *testing.T, who string)) {
	for _, who := range whose {
		t.Run(who, func(t *testing.T) {
			t.Parallel()
			f(t, who)
		})
	}
}

// tryAttacks makes each attack twice: without a sandbox, where it must work, and
// with one, where it must not.
func tryAttacks(t *testing.T, attacks []attack) {
	need(t, "git")
	bin := buildForAll(t)
	for i := range attacks {
		a := &attacks[i]
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			inEachWay(t, whoseBriefly(), func(t *testing.T, who string) {
				tryAttack(t, a, a.commands, bin, who)
				if len(a.commands) > 1 && !a.told && !testing.Short() {
					// What two commands cannot do, one cannot either.
					tryAttack(t, a, []string{strings.Join(a.commands, "\n")}, bin, who)
				}
			})
		})
	}
}

func tryAttack(t *testing.T, a *attack, commands []string, bin, who string) {
	t.Helper()
	free := newAttackPlace(t, a, bin, who)
	said := ""
	for _, c := range commands {
		if a.waits != "" {
			c = "export COMMAND='" + c + "'; " + a.waits
		}
		out, _ := free.outside(c)
		said += out
	}
	out, _ := free.outside(a.act)
	if !free.happened(said + out) {
		t.Fatalf("the control: without a sandbox it does not work either\n%s%s", said, out)
	}

	p := newAttackPlace(t, a, bin, who)
	said = ""
	for _, c := range commands {
		out, err := p.inside(c)
		said += out
		if exit, ok := errors.AsType[*exec.ExitError](err); a.refused != "" &&
			(!ok || exit.ExitCode() != 125 || !strings.Contains(strings.ToLower(out), a.refused)) {
			t.Errorf("it was to be refused with %q: %v\n%s", a.refused, err, out)
		}
	}
	acted, _ := p.outside(a.act)
	if p.happened(said+acted) != a.told {
		t.Errorf("%d commands: it worked: %v\n%s%s", len(commands), !a.told, said, acted)
	}
	if !strings.Contains(said, a.reported) {
		t.Errorf("%q is not reported:\n%s", a.reported, said)
	}
	if a.allowed != "" {
		if out, err := p.inside(a.allowed); err != nil {
			t.Errorf("%s: %v\n%s", a.allowed, err, out)
		}
	}
	if out, err := p.outside("find . -perm -1000 ! -path ./.git/objects/\\*"); err != nil || out != "" {
		t.Errorf("left behind: %v %s", err, out)
	}
}

// Scripts that attacks have in common.
const (
	initial = "git init -q . && echo one >file && git add file && git commit -qm one && mkdir -p tools scripts sub && echo : >scripts/check && chmod +x scripts/check && "
	commit  = "git commit -q --allow-empty -m two"
	// The payload names the program by its path, since hooks and settings are run
	// with various PATHs.
	hook  = `{ echo '#!/bin/sh'; echo "$B/tools/evil"; }`
	fsmon = `printf '[core]\n\tfsmonitor = "%s/tools/evil; :"\n' "$B"`
)

// another is a second repository of the user.
const another = `git init -q ../lib && git -C ../lib commit -q --allow-empty -m "the secret"`

// withLib makes a submodule.
const withLib = "git init -q ../lib && git -C ../lib commit -q --allow-empty -m l && git submodule --quiet add ../lib lib && git commit -qm lib && "

// evil makes another repository, too deep for reports.
const evil = "mkdir -p a/b/c/git; cp -r .git/objects .git/refs .git/HEAD a/b/c/git/; { printf '[core]\nrepositoryFormatVersion = 0\n'; " + fsmon + "; } >a/b/c/git/config; "

// ofLoss reports the loss of a file.
func ofLoss(file string) string { return "test -e " + file + " || echo the secret is lost" }

// waitingHook makes a hook of the user's that runs the command.
func waitingHook(name string) string {
	return "printf '#!/bin/sh\nsh -c \"$COMMAND\"\n' >.git/hooks/" + name + " && chmod +x .git/hooks/" + name
}

// inSub makes a subdirectory of a repository the workspace.
const inSub = "workspace {\n  root = \"$B/k/sub\"\n}\n"

// fsmonAs has another key run the program.
func fsmonAs(key string) string { return strings.ReplaceAll(fsmon, "fsmonitor", key) }

// storeOf makes a workspace of jj or Sapling with a repository of its own.
func storeOf(in string) string {
	return "echo one >file; mkdir -p ." + in + "/store; cd ." + in + "/store; echo git | tee git_target >gitdir; git init -q --bare git; git -C git remote add origin ssh://localhost/x; cd $W"
}

// Scripts that have git take another repository.
const (
	// apart leaves a repository without its .git, which is deeper than the host looks.
	apart = "git init -q sub && mkdir -p a/b/c && mv sub/.git a/b/c/g && "
	// bareParts make the directory itself one.
	bareParts = `mkdir objects refs; echo ref: refs/heads/x >HEAD; printf '[core]\nrepositoryFormatVersion = 0\nbare = false\nworktree = .\n' >config; ` + fsmon + " >>config; "
	// orRoot does for root, who may search and read everything, what modes do for others.
	orRoot     = "[ $(id -u) != 0 ] || echo none >.git/HEAD"
	plantedGit = "GIT_DIR=.git git init -q .; git config -f .git/config core.bare false; " + fsmon + " >>.git/config"
)

// hookIn makes a hook of what may be a directory on its way.
func hookIn(dir string) string {
	return "mkdir -p " + dir + "; " + hook + " >" + dir + "/pre-commit; chmod +x " + dir + "/pre-commit"
}

// indexOf makes an index of one file, which runs what must not run: that of a file with another
// name, with the other in the place of the name. Git compares no checksum when it reads one.
func indexOf(name string) string {
	other := strings.Repeat("x", len(name))
	return hook + " >" + other + "; chmod +x " + other + "; git add " + other + "; rm " + other + "; LC_ALL=C sed -i 's,'" + other + "'," + name + ",' .git/index"
}

// What git on the host obeys, no command can write, wherever it lies.
func TestAttacksOnGit(t *testing.T) {
	t.Parallel()
	tryAttacks(t, gitAttacks())
}

func gitAttacks() []attack {
	attacks := []attack{
		{name: "hooksPath from an included file", setup: initial + `printf '[core]\nhooksPath = tools/hooks\n' >ci.inc && git config include.path ../ci.inc`,
			commands: []string{hookIn("tools/hooks")}, act: commit, allowed: "echo x >tools/other"},
		{name: "hooksPath from a second include", setup: initial + `printf '[include]\npath = b.inc\n' >a.inc && printf '[core]\nhooksPath = tools/hooks\n' >b.inc && git config include.path ../a.inc`,
			commands: []string{hookIn("tools/hooks")}, act: commit},
		{name: "an included file", setup: initial + `echo >ci.inc && git config include.path ../ci.inc`,
			commands: []string{fsmon + " >>ci.inc"}, act: "git status"},
		{name: "an included file, replaced", setup: initial + `mkdir conf && echo >conf/ci.inc && git config include.path ../conf/ci.inc`,
			commands: []string{"mv conf was; mkdir conf", fsmon + " >conf/ci.inc"}, act: "git status"},
		{name: "an included file that is not there", setup: initial + `git config include.path ../conf/absent.inc`,
			commands: []string{"mkdir -p conf; " + fsmon + " >conf/absent.inc"}, act: "git status"},
		{name: "includeIf onbranch", setup: initial + `git config includeIf.onbranch:other.path ../other.inc`,
			commands: []string{"git switch -qc other", fsmon + " >other.inc"}, act: "git switch -q other; git status"},
		{name: "hooksPath from an includeIf onbranch", setup: initial + `git config includeIf.onbranch:other.path ../other.inc && printf '[core]\nhooksPath = otherhooks\n' >other.inc`,
			commands: []string{"git switch -qc other", hookIn("otherhooks")}, act: "git switch -q other; " + commit},
		{name: "a worktree's own hooksPath", root: "wt", setup: "cd .. && rmdir wt && mkdir main && cd main && " + initial +
			`git config extensions.worktreeConfig true && git worktree add -q ../wt && git -C ../wt config --worktree core.hooksPath own`,
			commands: []string{hookIn("own")}, act: commit, allowed: commit},
		{name: "a worktree's own configuration", root: "wt", setup: "cd .. && rmdir wt && mkdir main && cd main && " + initial +
			`git config extensions.worktreeConfig true && git worktree add -q ../wt`,
			commands: []string{fsmon + " >$B/main/.git/worktrees/wt/config.worktree"}, act: "git status"},
		{name: "a worktree of the workspace with a hooksPath of its own", setup: initial +
			`git config extensions.worktreeConfig true && git worktree add -q near && git -C near config --worktree core.hooksPath own`,
			commands: []string{"cd near; " + hookIn("own")}, act: "cd near; " + commit},
		{name: "a hook that is a symlink", setup: initial + "ln -s ../../scripts/check .git/hooks/pre-commit",
			commands: []string{hook + " >scripts/check"}, act: commit, allowed: "echo >scripts/other"},
		{name: "a hook that is a symlink, whose directory is replaced", setup: initial + "ln -s ../../scripts/check .git/hooks/pre-commit",
			commands: []string{"mv scripts was; mkdir scripts", hook + " >scripts/check; chmod +x scripts/check"}, act: commit},
		{name: "a hook that is a symlink to what is missing", setup: initial + "ln -s ../../scripts/absent .git/hooks/pre-commit",
			commands: []string{hook + " >scripts/absent; chmod +x scripts/absent"}, act: commit},
		{name: "a hook that is a symlink to a symlink", setup: initial + "ln -s check scripts/link; ln -s ../../scripts/link .git/hooks/pre-commit",
			commands: []string{"rm scripts/link; " + hook + " >scripts/link; chmod +x scripts/link"}, act: commit, refused: "scripts/link"},
		{name: "a hook in a hooksPath that is a symlink", setup: initial + "mkdir githooks && ln -s ../scripts/check githooks/pre-commit && git config core.hooksPath githooks",
			commands: []string{hook + " >scripts/check", "mv scripts was; mkdir scripts", hook + " >scripts/check; chmod +x scripts/check"}, act: commit},
		{name: "husky's hooks", setup: initial + "mkdir -p .husky/_ && printf 'sh .husky/pre-commit' >.husky/_/pre-commit && chmod +x .husky/_/pre-commit && echo : >.husky/pre-commit && git config core.hooksPath .husky/_",
			commands: []string{hook + " >.husky/pre-commit", "rm .husky/pre-commit; true", hook + " >.husky/pre-commit"}, act: commit, allowed: "git status"},
		{name: "a hooksPath with a way back", setup: initial + "mkdir githooks && git config core.hooksPath sub/../githooks",
			commands: []string{"rmdir sub; mkdir -p a/b; ln -s a/b sub", hookIn("a/githooks")}, act: commit, refused: "could replace \""},
		{name: "an included file with a way back", setup: initial + "echo >ci.inc; git config include.path ../sub/../ci.inc",
			commands: []string{"rmdir sub; mkdir -p a/b; ln -s a/b sub", fsmon + " >a/ci.inc"}, act: "git status", refused: "could replace \""},
		{name: "an included file with a way back from what is missing", setup: initial + "git config include.path ../none/x/../../ci.inc",
			commands: []string{"mkdir -p a/b/c; mkdir none; ln -s $W/a/b/c none/x; " + fsmon + " >a/ci.inc"}, act: "git status", refused: "could replace \""},
		{name: "an included file with a way back out of the workspace", setup: initial + "echo >$B/home/ci.inc; git config include.path ../sub/../../home/ci.inc",
			commands: []string{"rmdir sub; mkdir -p a/b/c a/home; ln -s a/b/c sub; true", fsmon + " >a/home/ci.inc"}, act: "git status", refused: "could replace \""},
		{name: "a hook that is a symlink with a way back", setup: initial + "ln -s ../../sub/../scripts/check .git/hooks/pre-commit",
			commands: []string{"rmdir sub; mkdir -p a/b; ln -s a/b sub", "mkdir -p a/scripts; " + hook + " >a/scripts/check; chmod +x a/scripts/check"}, act: commit, refused: "could replace \""},
		{name: "the program of a setting", setup: initial + "echo : >scripts/mon; chmod +x scripts/mon; git config core.fsmonitor scripts/mon",
			commands: []string{"mv scripts was; mkdir scripts; true", hook + " >scripts/mon; chmod +x scripts/mon"}, act: "git status"},
		{name: "the program of a setting that is a symlink", setup: initial + "ln -s check scripts/mon; git config core.fsmonitor scripts/mon",
			commands: []string{"rm scripts/mon", hook + " >scripts/mon; chmod +x scripts/mon"}, act: "git status", refused: "scripts/mon"},
		{name: "GIT_CONFIG_GLOBAL", env: []string{"GIT_CONFIG_GLOBAL=$B/w/global.conf"}, setup: "cp $B/home/.gitconfig $W/global.conf; " + initial + "true",
			commands: []string{fsmon + " >global.conf"}, act: "git status"},
		{name: "a hooks directory that is a symlink", setup: initial + "mkdir real && ln -s real githooks && git config core.hooksPath githooks",
			commands: []string{"rm githooks; mkdir githooks", hookIn("githooks")}, act: commit, refused: "githooks"},
		{name: "an included file that is a symlink", setup: initial + "echo >real.inc && ln -s real.inc ci.inc && git config include.path ../ci.inc",
			commands: []string{"rm ci.inc", fsmon + " >ci.inc"}, act: "git status", refused: "ci.inc"},
		{name: ".git/hooks that is a symlink", setup: initial + "rm -rf .git/hooks && mkdir shared && ln -s ../shared .git/hooks",
			commands: []string{"rm .git/hooks", hookIn(".git/hooks"), hookIn("shared")}, act: commit, reported: "is a symlink", allowed: "echo x >file"},
		{name: "a hook that is a hard link", setup: initial + "ln scripts/check .git/hooks/pre-commit",
			commands: []string{hook + " >scripts/check"}, act: commit},
		{name: "a hook that is a hard link, deep", setup: initial + "mkdir -p a/b/c && ln scripts/check a/b/c/d && rm scripts/check && ln a/b/c/d .git/hooks/pre-commit",
			commands: []string{"mv a away", hook + " >a/b/c/d; " + hook + " >away/b/c/d"}, act: commit},
		{name: ".envrc that is a hard link", setup: initial + "echo : >sub/env && ln sub/env .envrc",
			commands: []string{hook + " >sub/env"}, act: "sh ./.envrc"},
		{name: "a file of .vscode that is a hard link", setup: initial + "mkdir .vscode a && echo : >a/x && ln a/x .vscode/tasks.json",
			commands: []string{hook + " >a/x"}, act: "sh .vscode/tasks.json", allowed: "echo >a/y"},
		{name: "a file deep in .claude that is a hard link", setup: initial + "mkdir -p .claude/a/b a && echo : >a/x && ln a/x .claude/a/b/c",
			commands: []string{"mv a away", hook + " >a/x; " + hook + " >away/x"}, act: "sh .claude/a/b/c"},
		{name: "a file of .devcontainer that is a hard link", setup: initial + "mkdir .devcontainer && echo : >sub/x && ln sub/x .devcontainer/devcontainer.json",
			commands: []string{hook + " >sub/x"}, act: "sh .devcontainer/devcontainer.json"},
		{name: "a hard link of what .claude leads to", setup: initial + "mkdir .claude && echo : >tools/x && ln tools/x sub/x && ln -s ../tools/x .claude/x",
			commands: []string{hook + " >sub/x"}, act: "sh .claude/x"},
		{name: "a hard link in .git/remotes", setup: initial + "mkdir .git/remotes && echo >sub/x && ln sub/x .git/remotes/origin",
			commands: []string{`echo "URL: ext::$B/tools/evil" >sub/x`}, act: "git fetch -q origin"},
		{name: "the configuration in XDG_CONFIG_HOME", env: []string{"XDG_CONFIG_HOME=$B/home/xdg"}, definition: `bind_paths = [{ host = "$B/home/xdg", read_only = false }]`,
			setup: initial + "mkdir -p $B/home/xdg", commands: []string{"mkdir -p $B/home/xdg/git; " + fsmon + " >$B/home/xdg/git/config"}, act: "git status",
			allowed: "echo x >$B/home/xdg/other"},
		{name: "the hooks that XDG_CONFIG_HOME names", env: []string{"XDG_CONFIG_HOME=$B/home/xdg"},
			setup:    initial + "mkdir -p $B/home/xdg/git; printf '[core]\\nhooksPath = tools/hooks\\n' >$B/home/xdg/git/config",
			commands: []string{hookIn("tools/hooks")}, act: commit},
		{name: "GIT_CONFIG_SYSTEM", env: []string{"GIT_CONFIG_SYSTEM=$B/w/sys.conf"}, setup: initial + "echo >sys.conf",
			commands: []string{fsmon + " >sys.conf"}, act: "git status"},
		{name: "the user's hooks in a directory without a repository", setup: `git init -q ../lib; git config --global core.hooksPath "$W/own"`,
			commands: []string{"rmdir own; true", hookIn("own")}, act: "cd ../lib; " + commit, allowed: "echo x >file"},
		{name: "the user's configuration in a directory without a repository", setup: `git init -q ../lib; mkdir conf; echo >conf/inc; git config --global include.path "$W/conf/inc"`,
			commands: []string{fsmon + " >>conf/inc", "mv conf was; mkdir conf; " + fsmon + " >>conf/inc"}, act: "cd ../lib; git status", allowed: "echo x >conf/other"},
		{name: "hooks of a new repository, by the user's setting", told: true, reported: `w/n": a git that is run there outside of a sandbox would act on "hook `, setup: initial + "git config --global core.hooksPath .githooks",
			commands: []string{"git init -q n; cd n; " + hookIn(".githooks")}, act: "cd n; " + commit},
		{name: "an include of GIT_CONFIG_COUNT", env: []string{"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=include.path", "GIT_CONFIG_VALUE_0=$B/w/sub/count.inc"}, setup: initial + "true",
			commands: []string{fsmon + " >sub/count.inc"}, act: "git status"},
		{name: "a repository in the workspace", told: true, reported: `/nested/nested.inc"`, setup: initial + "git init -q nested && git -C nested config include.path ../nested.inc && echo >nested/nested.inc",
			commands: []string{"cd nested; " + fsmon + " >nested.inc"}, act: "cd nested; git status"},
		{name: "hooks that a repository in the workspace includes", told: true, reported: `w/nested": a git that is run there outside of a sandbox would act on "file `, setup: initial + "git init -q nested && git -C nested config include.path ../nested.inc && printf '[core]\nhooksPath = own\n' >nested/nested.inc",
			commands: []string{"cd nested; " + hookIn("own")}, act: "cd nested; " + commit},
		{name: "hooks of a repository in the workspace", told: true, reported: `a/nested": a git that is run there outside of a sandbox would act on "file `, setup: initial + "mkdir a && git init -q a/nested && git -C a/nested config core.hooksPath ../shared",
			commands: []string{"cd a/nested; " + hookIn("../shared")}, act: "cd a/nested; " + commit},
		{name: "what a hook of a repository in the workspace runs", told: true, reported: `n/.git/hooks/pre-commit.d"`, setup: initial + "git init -q n && mkdir n/.git/hooks/pre-commit.d && printf '#!/bin/sh\ncat .git/hooks/pre-commit.d/* | sh\n' >n/.git/hooks/pre-commit && chmod +x n/.git/hooks/pre-commit",
			commands: []string{hook + " >n/.git/hooks/pre-commit.d/x"}, act: "cd n; " + commit},
		{name: "hooks of a repository in the workspace, moved in", told: true, reported: `w/new": a git that is run there outside of a sandbox would act on "hook pre-commit"`, setup: initial + "mkdir -p a/b/c && git init -q a/b/c/nested",
			commands: []string{"cd a/b/c/nested; " + hookIn(".git/hooks"), "mv a/b/c/nested new"}, act: "cd new; " + commit},
		{name: "hooks of a repository in the index", setup: initial + "git init -q a/b/nested && git -C a/b/nested commit -q --allow-empty -m l && git add a/b/nested 2>/dev/null",
			commands: []string{"mv a away; mkdir -p a/b", "cd away/b/nested || cd a/b/nested; " + hookIn(".git/hooks")}, act: "cd away/b/nested || cd a/b/nested; " + commit},
		// What is the user's own stays so, or its loss is told.
		{name: "hooks of a repository that is taken out of the index", told: true, reported: `a/b/c/d"; a git`, setup: initial + "git init -q a/b/c/d && git -C a/b/c/d commit -q --allow-empty -m l && git add a 2>/dev/null",
			commands: []string{"git rm -qf --cached a/b/c/d; echo /a >>.git/info/exclude", "cd a/b/c/d; " + hookIn(".git/hooks")}, act: "cd a/b/c/d; " + commit},
		{name: "hooks of a clone around which there is a repository", told: true, reported: `w/two"; a git`, setup: "git init -q two && git -C two commit -q --allow-empty -m l && echo x >file",
			commands: []string{"git init -q .; echo '*' >.gitignore", "cd two; " + hookIn(".git/hooks")}, act: "cd two; " + commit},
		// What git ignores, by rules that the command has put there.
		{name: "hooks in a directory that has got old rules", told: true, reported: `src/n": a git that is run there outside of a sandbox would act on "hook pre-commit"`, setup: initial + "mkdir src cache; echo x >src/x; echo '*' >cache/.gitignore; sleep 0.05",
			commands: []string{"mv src t; mv cache src; mv t/* src; git init -q src/n; cd src/n; " + hookIn(".git/hooks")}, act: "cd src/n; " + commit},
		{name: "hooks in a directory that cannot be listed", told: true, reported: `w/a": a git that is run there outside of a sandbox would act on "hook pre-commit"`, setup: initial + "true",
			commands: []string{"git init -q a; cd a; " + hookIn(".git/hooks") + "; chmod 311 ."}, act: "cd a; " + commit + "; chmod 755 ."},
		{name: "a bare repository at the depth that is looked at", told: true, reported: `a/b": a git that is run there outside of a sandbox would act on "setting core.fsmonitor", "setting core.worktree"`, setup: initial + "mkdir -p a",
			commands: []string{"git init -q --bare a/b; cd a/b; git config core.bare false; git config core.worktree .; " + fsmon + " >>config"}, act: "cd a/b; git status"},
		{name: "hooks beside many that git ignores", told: true, reported: `w/z": a git that is run there outside of a sandbox would act on "hook pre-commit"`, setup: initial + "mkdir -p .git/info; echo /ign >>.git/info/exclude; sleep 0.05",
			commands: []string{"for i in $(seq 40); do git init -q --template= ign/$i; done; git init -q z; cd z; " + hookIn(".git/hooks")}, act: "cd z; " + commit},
		{name: "hooks of a submodule", setup: initial + "git init -q ../lib && git -C ../lib commit -q --allow-empty -m l && git submodule --quiet add ../lib lib && git -C lib config core.hooksPath \"$W/lib/own\"",
			commands: []string{"cd lib; " + hookIn("own")}, act: "cd lib; " + commit, allowed: "git -C lib commit -q --allow-empty -m inside"},
		// What repositories elsewhere obey in the workspace.
		{name: "hooks of the repository around", root: "k/sub", top: inSub, setup: "cd .. && " + initial + "git config core.hooksPath sub/own",
			commands: []string{hookIn("own")}, act: "cd ..; " + commit, allowed: "echo x >other"},
		{name: "an included file of the repository around", root: "k/sub", top: inSub, setup: "cd .. && " + initial + "git config include.path ../sub/ci.inc",
			commands: []string{fsmon + " >ci.inc"}, act: "git status"},
		{name: "a hook of the repository around that is a symlink", root: "k/sub", top: inSub, setup: "cd .. && " + initial + "ln -s ../../sub/check .git/hooks/pre-commit",
			commands: []string{hook + " >check; chmod +x check"}, act: "cd ..; " + commit},
		{name: "a git directory of the repository around", root: "k/sub", top: inSub, setup: "cd .. && mkdir -p sub/a/b/c && git init -q --separate-git-dir sub/a/b/c/git . && git commit -q --allow-empty -m one",
			commands: []string{fsmon + " >>a/b/c/git/config", hookIn("a/b/c/git/hooks")}, act: "cd ..; git status; " + commit},
		{name: "hooks of the repository around a bind", definition: `bind_paths = [{ host = "$B/k/sub", read_only = false }]`,
			setup:    "mkdir ../k && cd ../k && " + initial + "git config core.hooksPath sub/own",
			commands: []string{"cd ../k/sub; " + hookIn("own")}, act: "cd ../k; " + commit},
		{name: "hooks of the repository around a clone", root: "k/sub", setup: "git init -q . && git commit -q --allow-empty -m one && cd .. && git init -q . && git config core.hooksPath sub/own",
			commands: []string{hookIn("own")}, act: "cd ..; " + commit, allowed: commit},
		{name: "hooks of a superproject", root: "k/lib", setup: "git init -q ../../lib && git -C ../../lib commit -q --allow-empty -m l && cd .. && " + initial + "rmdir lib && git submodule --quiet add ../lib lib && git config core.hooksPath lib/own",
			commands: []string{hookIn("own")}, act: "cd ..; " + commit, allowed: commit},
		{name: "hooks of a submodule of the repository around", root: "k/sub", top: inSub,
			setup:    "git init -q ../../lib && git -C ../../lib commit -q --allow-empty -m l && cd .. && " + initial + "git submodule --quiet add ../lib sub/1/2/3/lib && git -C sub/1/2/3/lib config core.hooksPath own",
			commands: []string{"cd 1/2/3/lib; " + hookIn("own")}, act: "cd 1/2/3/lib; " + commit},
		{name: "a submodule of the repository around that is not checked out", root: "k/sub", top: inSub, told: true, reported: `the next git status in "`,
			setup:    "git init -q ../../lib && git -C ../../lib commit -q --allow-empty -m l && cd .. && " + initial + "git submodule --quiet add ../lib sub/1/2/3/4/un && git submodule --quiet deinit -f sub/1/2/3/4/un",
			commands: []string{"mkdir -p 1/2/3/4/un; cd 1/2/3/4/un; git init -q .; git commit -q --allow-empty -m one; " + fsmon + " >>.git/config"}, act: "cd ..; git status"},
		{name: "hooks that another worktree names", setup: initial + `git config extensions.worktreeConfig true && git worktree add -q ../wt2 && git -C ../wt2 config --worktree core.hooksPath "$W/own"`,
			commands: []string{hookIn("own")}, act: "cd ../wt2; " + commit, allowed: commit},
		{name: "hooks that the main worktree names", root: "wt", setup: "cd .. && rmdir wt && mkdir main && cd main && " + initial +
			`git config extensions.worktreeConfig true && git worktree add -q ../wt && git config --worktree core.hooksPath "$W/own"`,
			commands: []string{hookIn("own")}, act: "cd ../main; " + commit, allowed: commit},
		{name: "hooks that a worktree of the repository around names", root: "k/sub", top: inSub, setup: "cd .. && " + initial +
			`git config extensions.worktreeConfig true && git worktree add -q ../wt2 && git -C ../wt2 config --worktree core.hooksPath "$W/own"`,
			commands: []string{hookIn("own")}, act: "cd ../../wt2; " + commit},
		// What no work tree leads to yet.
		{name: "hooks that a submodule of another branch names", setup: initial + "git branch plain && " + withLib + `git -C lib config core.hooksPath "$W/own" && git switch -q plain; rm -rf lib`,
			commands: []string{hookIn("own")}, act: "git switch -q main; git submodule --quiet update --init; cd lib; " + commit, allowed: commit},
		{name: "a hook that is a symlink in a submodule that is not checked out", setup: initial + withLib + "ln -s ../../../../check .git/modules/lib/hooks/post-checkout && git submodule --quiet deinit -f lib",
			commands: []string{hook + " >check; chmod +x check"}, act: "git submodule --quiet update --init", allowed: commit},
		{name: "hooks of a submodule that is a symlink in modules", setup: initial + withLib + "git submodule --quiet deinit -f lib; mkdir -p a/b/c && mv .git/modules/lib a/b/c/lib && ln -s ../../a/b/c/lib .git/modules/lib",
			commands: []string{hookIn("a/b/c/lib/hooks")}, act: "git submodule --quiet update --init; cd lib; " + commit},
		{name: "hooks that a submodule elsewhere in the repository around names", root: "k/sub", top: inSub,
			setup:    "git init -q ../../lib && git -C ../../lib commit -q --allow-empty -m l && cd .. && " + initial + `git submodule --quiet add ../lib lib && git -C lib config core.hooksPath "$W/own"`,
			commands: []string{hookIn("own")}, act: "cd ../lib; " + commit},
		{name: "hooks that a worktree whose directory is away names", setup: initial + `git config extensions.worktreeConfig true && git worktree add -q ../home/wt2 && git -C ../home/wt2 config --worktree core.hooksPath "$W/own" && mv ../home/wt2 ../home/away`,
			commands: []string{hookIn("own")}, act: "mv ../home/away ../home/wt2; cd ../home/wt2; " + commit, allowed: commit},
		{name: "hooks that a submodule of another worktree names", setup: initial + withLib + `git worktree add -q ../wt2 && git -C ../wt2 submodule --quiet update --init && git -C ../wt2/lib config core.hooksPath "$W/own"`,
			commands: []string{hookIn("own")}, act: "cd ../wt2/lib; " + commit, allowed: commit},
		// Where the repository of another worktree is.
		{name: "a commondir of another worktree by a hard link", setup: initial + "git worktree add -q ../wt2 && ln .git/worktrees/wt2/commondir cd",
			commands: []string{evil + "echo $W/a/b/c/git >cd"}, act: "cd ../wt2; git status", allowed: commit},
		{name: "an index of another worktree that is a symlink", setup: initial + "git worktree add -q ../wt2 && mv .git/worktrees/wt2/index ix && ln -s ../../../ix .git/worktrees/wt2/index",
			commands: []string{"echo the secret >ix"}, act: "cat .git/worktrees/wt2/index", allowed: commit},
		{name: "worktrees that is a symlink", setup: initial + "git worktree add -q ../wt2 && mv .git/worktrees wts && ln -s ../wts .git/worktrees",
			commands: []string{evil + "echo $W/a/b/c/git >wts/wt2/commondir"}, act: "cd ../wt2; git status"},
		{name: "a worktree that is a symlink in worktrees", setup: initial + "git worktree add -q ../wt2 && mv .git/worktrees/wt2 wt && ln -s ../../wt .git/worktrees/wt2",
			commands: []string{evil + "echo $W/a/b/c/git >wt/commondir"}, act: "cd ../wt2; git status"},
		{name: "a commondir of another worktree through a symlink", setup: initial + `git worktree add -q ../wt2 && ln -s . lk && echo "$W/lk/.git" >.git/worktrees/wt2/commondir`,
			commands: []string{"rm lk; mkdir lk; cp -r .git lk/.git; " + fsmon + " >>lk/.git/config"}, act: "cd ../wt2; git status", refused: "could replace \""},
		{name: "a .git of another worktree through a symlink", setup: initial + `git worktree add -q ../wt2 && ln -s .git lk && echo "gitdir: $W/lk/worktrees/wt2" >../wt2/.git`,
			commands: []string{"rm lk; cp -r .git lk; " + fsmon + " >>lk/config"}, act: "cd ../wt2; git status", refused: "could replace \""},
		{name: "a .git through a symlink", setup: initial + "mkdir real && mv .git real/r && ln -s real p && echo gitdir: p/r >.git",
			commands: []string{"rm p; mkdir p; cp -r real/r p/; " + hookIn("p/r/hooks")}, act: commit, refused: "could replace \""},
		{name: "a .git through a directory that .. leaves", setup: initial + "mkdir -p a/b && mv .git r && echo gitdir: a/b/../../r >.git",
			commands: []string{"mkdir -p z/y/w; cp -r r z/r; " + hookIn("z/r/hooks") + "; mv a a2; mkdir a; ln -s ../z/y/w a/b"}, act: commit, refused: "could replace \""},
		{name: "a .git of the repository around through a symlink", root: "k/sub", top: inSub, setup: "cd .. && " + initial + "mkdir sub/real && mv .git sub/real/r && ln -s real sub/p && echo gitdir: sub/p/r >.git",
			commands: []string{"rm p; mkdir p; cp -r real/r p/; " + fsmon + " >>p/r/config"}, act: "cd ..; git status", refused: "could replace \""},
		{name: "hooks of the repository around, without git", root: "k/sub", top: inSub, git: "none", setup: "cd .. && " + initial + "git config core.hooksPath sub/own",
			commands: []string{hookIn("own")}, act: "cd ..; " + commit, refused: "does not list them"},
		// What a git that waits for the command does next.
		{name: "resolved conflicts, from a hook", setup: initial + waitingHook("pre-commit"), waits: commit,
			commands: []string{`cd .git; id=$(printf %040d 1); mkdir -p rr-cache/$id; cp config rr-cache/$id/preimage
				{ cat config; printf "[core]\n\tfsmonitor = \"$B/tools/evil; :\"\n"; } >rr-cache/$id/postimage; printf "$id.-1\t.git/config\000" >MERGE_RR`}, act: "git status"},
		{name: "resolved conflicts, from a hook whose status counts for nothing", setup: initial + waitingHook("post-commit"), waits: commit,
			commands: []string{`cd .git; id=$(printf %040d 1); mkdir -p rr-cache/$id; cp config rr-cache/$id/preimage
				{ cat config; printf "[core]\n\tfsmonitor = \"$B/tools/evil; :\"\n"; } >rr-cache/$id/postimage; printf "$id.-1\t.git/config\000" >MERGE_RR`}, act: commit + "; git status"},
		{name: "a step of the rebase that runs the command", setup: initial + commit, waits: `git rebase -q -x "sh -c \"\$COMMAND\"" HEAD~1`,
			commands: []string{`echo "exec $B/tools/evil" >>.git/rebase-merge/git-rebase-todo; true`}},
		{name: "the message of the commit that waits", setup: initial + "echo : >$B/home/.profile; " + waitingHook("pre-commit"), waits: "GIT_EDITOR=true git commit -q --allow-empty",
			commands: []string{`ln -sf $B/home/.profile .git/COMMIT_EDITMSG; echo "$B/tools/evil" >.git/MERGE_MSG; true`}, act: "sh $B/home/.profile"},
		{name: "a submodule that the commit that waits enters", waits: "GIT_EDITOR=true git commit -q --allow-empty",
			setup:    "git init -q ../lib && git -C ../lib commit -q --allow-empty -m l && " + initial + "git submodule --quiet add ../lib lib && git commit -qm lib && git submodule --quiet deinit -f lib; " + waitingHook("pre-commit"),
			commands: []string{`cd lib; git init -q .; git commit -q --allow-empty -m one; printf "[core]\n\tfsmonitor = \"$B/tools/evil; :\"\n" >>.git/config; true`}},
		{name: "a submodule that a step of the rebase adds", waits: `git rebase -q -f -x "sh -c \"\$COMMAND\"" HEAD~2`, act: "git status",
			setup:    "git init -q ../src && git -C ../src commit -q --allow-empty -m s && " + initial + "echo two >file && git commit -qam two && git -c protocol.file.allow=always submodule --quiet add ../src a/b/c/sm && git commit -qm sm && git submodule --quiet deinit -f a/b/c/sm",
			commands: []string{`mkdir -p a/b/c/sm; cd a/b/c/sm; git init -q .; git commit -q --allow-empty -m one; printf "[core]\n\tfsmonitor = \"$B/tools/evil; :\"\n" >>.git/config; true`}},
		{name: ".git/remotes", setup: initial + "true", commands: []string{`mkdir -p .git/remotes; echo "URL: ext::$B/tools/evil" >.git/remotes/origin`},
			act: "git fetch -q origin"},
		{name: ".git/branches", setup: initial + "true", commands: []string{`mkdir -p .git/branches; echo "ext::$B/tools/evil" >.git/branches/origin`},
			act: "git fetch -q origin"},
		{name: ".git/remotes of a repository in a subdirectory", told: true, reported: `sub/.git/remotes"`, setup: initial + "git init -q sub",
			commands: []string{`mkdir -p sub/.git/remotes; echo "URL: ext::$B/tools/evil" >sub/.git/remotes/origin`}, act: "cd sub; git fetch -q origin"},
		{name: "without git", git: "none", setup: initial + "true", commands: []string{hookIn(".git/hooks"), "mv .git was; cp -r was .git; " + hookIn(".git/hooks")}, act: commit,
			reported: "is read-only inside: no git in PATH is safe to run", allowed: "echo x >file && ! touch .git/x"},
		{name: "with a git that fails", git: "exit 3", setup: initial + "true", commands: []string{hookIn(".git/hooks"), "mv .git was; cp -r was .git; " + hookIn(".git/hooks")}, act: commit,
			reported: "is read-only inside: git: ", allowed: "echo x >file && ! touch .git/x"},
		{name: "with a git that does not answer", git: "exec sleep 1000", setup: initial + "true", commands: []string{hookIn(".git/hooks")}, act: commit, refused: "git: no answer"},
		{name: "hooksPath without git", git: "none", setup: initial + "git config core.hooksPath .husky",
			commands: []string{hookIn(".husky")}, act: commit, refused: "does not list them"},
		{name: "hooksPath with a git that fails", git: "exit 3", setup: initial + "git config core.hooksPath .husky",
			commands: []string{hookIn(".husky")}, act: commit, refused: "does not list them"},
		{name: "hooksPath of a clone, without git", git: "none", setup: "git init -q c && git -C c config core.hooksPath .husky && git init -q d",
			commands: []string{"cd c; " + hookIn(".husky")}, act: "cd c; " + commit, reported: "is read-only inside", allowed: "echo x >d/file && ! touch c/x"},
		{name: "a rebase under way", setup: initial + commit + " && " + commit, told: true, reported: ".git/rebase-merge",
			commands: []string{`GIT_SEQUENCE_EDITOR='sed -i 1s/^pick/edit/' git rebase -q -i HEAD~2`, `echo "exec $B/tools/evil" >>.git/rebase-merge/git-rebase-todo`},
			act:      "GIT_EDITOR=true git rebase --continue"},
		{name: "an am under way", setup: initial + commit + "; echo more >>file; git commit -qam three; git format-patch -q -1 -o $B/home && git reset -q --hard HEAD~1 && cp $B/home/0001* sub/patch", told: true, reported: ".git/rebase-apply",
			commands: []string{`echo changed >file; git commit -qam changed; git am -q sub/patch; echo the secret of an am`},
			act:      "git am --abort"},
		{name: "a cherry-pick under way", setup: initial + "git switch -qc side; for n in 1 2; do echo $n >file; git commit -qam $n; done; git switch -q main; echo other >file; git commit -qam other", told: true, reported: ".git/sequencer",
			commands: []string{`git cherry-pick main..side; echo the secret of a sequencer`}, act: "git cherry-pick --abort"},
		{name: "a message that is a symlink", setup: initial + "echo : >$B/home/.profile", told: true, reported: `.git/COMMIT_EDITMSG" is a symlink`,
			commands: []string{`ln -sf $B/home/.profile .git/COMMIT_EDITMSG; echo "$B/tools/evil" >.git/MERGE_MSG; git rev-parse HEAD >.git/MERGE_HEAD`},
			act:      "GIT_EDITOR=true git commit -q --allow-empty; sh $B/home/.profile"},
		{name: "a log that is a symlink", setup: initial + "echo : >$B/home/.profile", told: true, reported: `.git/logs/HEAD" is a symlink`,
			commands: []string{`git switch -qc "x;echo>$V;y"; ln -sf $B/home/.profile .git/logs/HEAD`},
			act:      "git switch -q main; sh $B/home/.profile"},
		{name: "a link where git puts conflicts", setup: initial + "echo : >$B/home/.profile", told: true, reported: `thisimage" is a symlink`,
			commands: []string{`both() { printf '%s\n\n\n\n\n%s\n' "$B/tools/evil" $1 >file; git commit -qam $1; }
				git switch -qc side; both side; git switch -q main; both main; mkdir .git/rr-cache; git merge -q side
				(cd .git/rr-cache/*; echo >postimage; ln -s "$B/home/.profile" thisimage); git merge --abort`},
			act: "git merge side; sh $B/home/.profile"},
		// Git empties what such a link leads to, and packs the refs of others.
		{name: "a link among the worktrees", setup: initial + "mkdir $B/home/docs; echo >$B/home/docs/x", told: true, reported: `.git/worktrees/x" is a symlink`,
			commands: []string{`mkdir .git/worktrees; ln -s $B/home/docs .git/worktrees/x`}, act: "git gc -q; " + ofLoss("$B/home/docs/x")},
		{name: "a link among the worktrees of a bare repository among clones", setup: "git init -q c; git init -q --bare a.git; mkdir $B/home/docs; echo >$B/home/docs/x", told: true, reported: `a.git/worktrees/x" is a symlink`,
			commands: []string{`mkdir a.git/worktrees; ln -s $B/home/docs a.git/worktrees/x`}, act: "git -C a.git gc -q; " + ofLoss("$B/home/docs/x")},
		{name: "a link among the worktrees that led elsewhere before", setup: initial + "mkdir $B/home/docs .git/worktrees; echo >$B/home/docs/x; ln -s ../../sub .git/worktrees/x", reported: `.git/worktrees/x" is a symlink`,
			commands: []string{`ln -sfn $B/home/docs .git/worktrees/x`}, act: "git gc -q; " + ofLoss("$B/home/docs/x")},
		// Git worktree repair writes a .git where the file gitdir says.
		{name: "a worktree of another repository", setup: initial + another + "; git -C ../lib worktree add -q ../tree", told: true, reported: `lists the worktree "`,
			commands: []string{`mkdir -p .git/worktrees/x; cd .git/worktrees/x; echo $B/tree/.git >gitdir; echo ../.. >commondir; echo ref: refs/heads/main >HEAD`},
			act:      "git worktree repair; grep lib $B/tree/.git || echo the secret is lost"},
		{name: "a worktree in the place of no repository", setup: initial + "mkdir $B/home/docs", told: true, reported: `lists the worktree "`,
			commands: []string{`mkdir -p .git/worktrees/x; cd .git/worktrees/x; echo $B/home/docs/.git >gitdir; echo ../.. >commondir; echo ref: refs/heads/main >HEAD`},
			act:      "git worktree repair; test -e $B/home/docs/.git && echo the secret is lost"},
		{name: "a worktree that only git understands", setup: initial + "mkdir $B/home/docs", told: true, reported: `.git/worktrees/x" lists is not understood`,
			commands: []string{`mkdir -p .git/worktrees/x; cd .git/worktrees/x; echo $B/home/docs >gitdir; echo ../.. >commondir; echo ref: refs/heads/main >HEAD`},
			act:      "git worktree repair; test -e $B/home/docs/.git && echo the secret is lost"},
		// What jj and Sapling run git in: as jj git fetch does.
		{name: "the configuration of jj's repository", setup: storeOf("jj/repo"), allowed: "git --git-dir .jj/repo/store/git update-ref refs/x $(git --git-dir .jj/repo/store/git hash-object -w file)",
			commands: []string{fsmonAs("sshCommand") + " >>.jj/repo/store/git/config"}, act: "git --git-dir .jj/repo/store/git fetch"},
		{name: "the configuration of jj's repository, moved", setup: storeOf("jj/repo"),
			commands: []string{"mv .jj away; cp -r away .jj; " + fsmonAs("sshCommand") + " >>.jj/repo/store/git/config"}, act: "git --git-dir .jj/repo/store/git fetch"},
		{name: "the configuration of jj's repository, which is new", setup: initial + "true", told: true, reported: `.jj/repo/store/git": a git that is run there outside of a sandbox would act on "setting core.sshcommand"`,
			commands: []string{storeOf("jj/repo") + "; " + fsmonAs("sshCommand") + " >>.jj/repo/store/git/config"}, act: "git --git-dir .jj/repo/store/git fetch"},
		{name: "hooks of jj's repository", setup: storeOf("jj/repo") + "; git -C .jj/repo/store/git remote set-url origin $B/lib; " + another,
			commands: []string{hook + " >.jj/repo/store/git/hooks/reference-transaction; chmod +x .jj/repo/store/git/hooks/reference-transaction"}, act: "git --git-dir .jj/repo/store/git fetch"},
		{name: "jj's repository, which is another", setup: initial + "mkdir -p .jj/repo/store; echo ../../../.git >.jj/repo/store/git_target",
			commands: []string{"git init -q --bare a/b/c/d/e; git -C a/b/c/d/e remote add origin ssh://localhost/x; " + fsmonAs("sshCommand") + " >>a/b/c/d/e/config; echo ../../../a/b/c/d/e >.jj/repo/store/git_target"},
			act:      "cd .jj/repo/store; git --git-dir $(cat git_target) fetch"},
		{name: "the configuration of Sapling's repository", setup: storeOf("sl"),
			commands: []string{fsmonAs("sshCommand") + " >>.sl/store/git/config"}, act: "git --git-dir .sl/store/git fetch"},
		{name: "hooks of the repository around, where none are protected", root: "k/sub", top: inSub, definition: `git = "full"`, told: true, reported: `would act on "file `,
			setup: "cd .. && " + initial + "git config core.hooksPath sub/own && mkdir sub/own", commands: []string{hookIn("own")}, act: "cd ..; " + commit},
		{name: "a ref to commondir", setup: initial + "true", told: true, reported: `.git/ORIG_HEAD" is a ref to a non-ref file, and git writes to that file: "ref: commondir\n"`,
			commands: []string{"h=$(git rev-parse HEAD); mkdir -p .git/$h/objects/info; cp -r .git/refs .git/$h/; echo ../../objects >.git/$h/objects/info/alternates; " + fsmon + " >.git/$h/config; echo ref: commondir >.git/ORIG_HEAD"},
			act:      "git reset -q; git status"},
		{name: "a link among the refs", setup: initial + another, told: true, reported: `.git/refs/tags" is a symlink`,
			commands: []string{`echo $B/lib/.git/objects >.git/objects/info/alternates`, `rmdir .git/refs/tags; ln -s $B/lib/.git/refs/heads .git/refs/tags`},
			act:      "git gc -q; " + ofLoss("$B/lib/.git/refs/heads/main")},
		{name: "a link in the place of packs", setup: initial + another + "; git -C ../lib gc -q", told: true, reported: `.git/objects/pack" is a symlink`,
			commands: []string{`rmdir .git/objects/pack; ln -s $B/lib/.git/objects/pack .git/objects/pack`}, act: "git gc -q --prune=now; git -C ../lib log >/dev/null || echo the secret is lost"},
		{name: "objects of another repository", setup: initial + another, told: true, reported: "w/.git/objects/info/alternates",
			commands: []string{`echo $B/lib/.git/objects >.git/objects/info/alternates`}, act: "git show $(git -C ../lib rev-parse HEAD)"},
		{name: "an index with a file of the git directory", setup: initial + "true", told: true, reported: `.git/index" names ".git/hooks/post-checkout"`,
			commands: []string{indexOf(".git/hooks/post-checkout")}, act: "git checkout -q -- ."},
		{name: "an index with a file outside", setup: initial + "echo : >$B/home/.profile", told: true, reported: `.git/index" names "../home/.profile"`,
			commands: []string{indexOf("../home/.profile")}, act: "git restore .; sh $B/home/.profile"},
		{name: "resolved conflicts that git is to write", setup: initial + "true", told: true, reported: ".git/MERGE_RR",
			commands: []string{`cd .git; id=$(printf %040d 1); mkdir -p rr-cache/$id; cp config rr-cache/$id/preimage
				(cat config; ` + fsmon + `) >rr-cache/$id/postimage; printf "$id.-1\t.git/config\000" >MERGE_RR`},
			act: commit + "; git status"},
		{name: "a commit that replaces another", setup: initial + "git branch other && git commit -q --allow-empty -m two", told: true, reported: ".git/refs/replace",
			commands: []string{`b=$(echo the secret | git hash-object -w --stdin); git replace other $(git commit-tree -m x $(printf "100644 blob $b\t.envrc\n" | git mktree))`},
			act:      "git checkout -q other; cat .envrc"},
		{name: "a history that git gc drops", setup: initial + "git commit -q --allow-empty -m two", told: true, reported: ".git/shallow",
			commands: []string{"git rev-parse HEAD >.git/shallow"}, act: "git reflog expire --expire=now --all; git gc -q --prune=now; rm .git/shallow; git log || echo the secret"},
		{name: "resolved conflicts for the main work tree", root: "wt", told: true, reported: "MERGE_RR",
			setup: "cd .. && rmdir wt && mkdir main && cd main && " + initial + "git worktree add -q ../wt",
			commands: []string{`cd $(git rev-parse --git-common-dir); id=$(printf %040d 1); mkdir -p rr-cache/$id; cp config rr-cache/$id/preimage
				(cat config; ` + fsmon + `) >rr-cache/$id/postimage; printf "$id.-1	.git/config\000" >MERGE_RR`},
			act: "cd ../main; " + commit + "; git status"},
		{name: "a rebase in a submodule that is not checked out", told: true, reported: "modules/sm/rebase-merge",
			setup: "git init -q ../src && git -C ../src commit -q --allow-empty -m s && " + initial + "git -c protocol.file.allow=always submodule --quiet add ../src sm && git commit -qm sm && git submodule --quiet deinit -f sm",
			commands: []string{`cd .git/modules/sm; H=$(git --git-dir=. rev-parse HEAD); mkdir rebase-merge; cd rebase-merge; echo "exec $B/tools/evil" >git-rebase-todo
				echo $H >onto; echo $H >orig-head; echo refs/heads/main >head-name; : >interactive`},
			act: "git submodule --quiet update --init; cd sm; git rebase --continue"},
		{name: "a submodule of another branch", told: true, reported: `would act on "setting core.fsmonitor"`,
			setup: "git init -q ../src && git -C ../src commit -q --allow-empty -m s && " + initial + `git switch -qc other && git -c protocol.file.allow=always submodule --quiet add ../src a/b/c/sm && git commit -qm sm &&
				git switch -q main && rm -r a`,
			commands: []string{`mkdir -p a/b/c/sm; cd a/b/c/sm; git init -q .; git commit -q --allow-empty -m one; ` + fsmon + " >>.git/config; true"},
			act:      "git switch -q other; git status"},
		{name: "an index with a tree that has more than its files", told: true, reported: `.git/index" is not understood`,
			setup: initial + "mkdir src && echo good >src/f && git add src && git commit -qm src",
			commands: []string{`good=$(git rev-parse HEAD:src); b=$(echo the secret | git hash-object -w --stdin)
				bad=$({ git ls-tree HEAD:src; printf "100644 blob $b	more
"; } | git mktree)
				perl -MDigest::SHA=sha1 -e 'my ($g, $b) = map { pack "H*", $_ } @ARGV; undef $/; open F, "<.git/index"; my $i = <F>; close F;
					$i = substr $i, 0, -20; $i =~ s/\Q$g\E/$b/ or die; open F, ">.git/index"; print F $i . sha1($i)' $good $bad`},
			act: "echo x >>file; git add file; git commit -qm user; git show HEAD:src/more"},
		{name: "a stash that git commit applies", setup: initial + "true", told: true, reported: ".git/MERGE_AUTOSTASH",
			commands: []string{`export GIT_INDEX_FILE=/tmp/stash.$$; git read-tree HEAD; b=$(echo the secret | git hash-object -w --stdin)
				git update-index --add --cacheinfo 100644,$b,.vscode/tasks.json
				git commit-tree -p HEAD -p $(git commit-tree -p HEAD -m i HEAD^{tree}) -m s $(git write-tree) >.git/MERGE_AUTOSTASH; rm $GIT_INDEX_FILE`},
			act: commit + "; cat .vscode/tasks.json"},
		{name: "a stash that git commit applies, where the index is split", setup: initial + "git update-index --split-index", reported: "an index in it is split", allowed: "git log",
			commands: []string{`export GIT_INDEX_FILE=/tmp/stash.$$; git read-tree HEAD; b=$(echo the secret | git hash-object -w --stdin)
				git update-index --add --cacheinfo 100644,$b,.vscode/tasks.json
				git commit-tree -p HEAD -p $(git commit-tree -p HEAD -m i HEAD^{tree}) -m s $(git write-tree) >.git/MERGE_AUTOSTASH; rm $GIT_INDEX_FILE`},
			act: commit + "; cat .vscode/tasks.json"},
		{name: "a link in the git directory, behind which a directory becomes a link", setup: initial + "mkdir t; ln -sf ../t/m .git/COMMIT_EDITMSG", told: true, reported: `COMMIT_EDITMSG" is a symlink`,
			commands: []string{"rmdir t; ln -s $B/home t"}, act: commit + "; test -e $B/home/m && $B/tools/evil"},
		{name: "a git directory that is none any more", setup: initial + "true", told: true, reported: "is not a git directory",
			commands: []string{`echo none >.git/HEAD; mkdir objects refs; echo ref: refs/heads/main >HEAD; printf '[protocol "ext"]\nallow = always\n[remote "origin"]\nurl = "ext::%s/tools/evil"\n' "$B" >config`},
			act:      "git fetch -q"},
		// Which of two git takes: that of .git, or the directory itself.
		{name: "a git directory whose objects cannot be searched", setup: initial + "true", told: true, reported: "is not a git directory",
			commands: []string{bareParts + orRoot + "; chmod 600 .git/objects"}, act: "git status; chmod 700 .git/objects"},
		{name: "a git directory whose refs cannot be searched", setup: initial + "true", told: true, reported: "is not a git directory",
			commands: []string{bareParts + orRoot + "; chmod 600 .git/refs"}, act: "git status; chmod 700 .git/refs"},
		{name: "a git directory that cannot be searched", setup: initial + "true", told: true, reported: "; a git that is run there may act on more than is known: git: ",
			commands: []string{bareParts + orRoot + "; chmod 0 .git"}, act: "git status; chmod 700 .git; echo ref: refs/heads/main >.git/HEAD", allowed: "true"},
		{name: "a git directory whose HEAD cannot be read", setup: initial + "true", told: true, reported: "is not a git directory",
			commands: []string{bareParts + orRoot + "; chmod 0 .git/HEAD"}, act: "git status"},
		{name: "a git directory of whose HEAD git reads the beginning", setup: initial + "true", told: true, reported: "is not a git directory",
			commands: []string{bareParts + `printf "ref:%300srefs/heads/x" "" >.git/HEAD`}, act: "git status"},
		{name: "a git directory beside another, then none", setup: initial + "true", told: true, reported: "is a bare repository itself",
			commands: []string{bareParts, `printf "ref:%300srefs/heads/x" "" >.git/HEAD`}, act: "git status"},
		{name: "a clone whose git directory is none any more", setup: "git init -q c && git init -q d", told: true, reported: `; a git that is run there may act on more than is known: git: "`,
			commands: []string{"cd c; " + bareParts + orRoot + "; chmod 600 .git/objects"}, act: "cd c; git status; chmod 700 .git/objects"},
		{name: "hooks of a repository whose .git is a symlink", told: true, reported: `w/sub": a git that is run there outside of a sandbox would act on "hook pre-commit"`, setup: initial + apart + "ln -s ../a/b/c/g sub/.git",
			commands: []string{"cd a/b/c/g; " + hookIn("hooks")}, act: "cd sub; " + commit},
		{name: "the program of a setting of a repository whose .git is a symlink", told: true, reported: `scripts/mon"`, setup: initial + apart + "ln -s ../a/b/c/g sub/.git && git -C sub config core.fsmonitor ../scripts/mon",
			commands: []string{hook + " >scripts/mon; chmod +x scripts/mon"}, act: "cd sub; git status"},
		{name: "a rebase in a repository whose .git leads elsewhere", told: true, reported: `a/b/c/g/rebase-merge"`, setup: initial + apart + "echo gitdir: ../a/b/c/g >sub/.git && cd sub && " + commit + " && " + commit,
			commands: []string{`cd sub; GIT_SEQUENCE_EDITOR='sed -i 1s/^pick/edit/' git rebase -q -i HEAD~1; echo "exec $B/tools/evil" >>../a/b/c/g/rebase-merge/git-rebase-todo`},
			act:      "cd sub; GIT_EDITOR=true git rebase --continue"},
		{name: "hooks of a repository whose HEAD is a symlink", told: true, reported: `w/sub": a git that is run there outside of a sandbox would act on "hook pre-commit"`, setup: initial + "git init -q sub; ln -sf refs/heads/main sub/.git/HEAD",
			commands: []string{"cd sub; " + hookIn(".git/hooks")}, act: "cd sub; " + commit},
		{name: "a hooksPath of a workspace whose HEAD is a symlink", told: true, reported: `w/githooks"`, setup: initial + "git config core.hooksPath githooks && ln -sf refs/heads/main .git/HEAD",
			commands: []string{hookIn("githooks")}, act: commit},
		{name: "an empty .git in a bare repository", setup: initial + "true", told: true, reported: `w/n": a git that is run there outside of a sandbox would act on "setting core.fsmonitor"`,
			commands: []string{"mkdir -p n/.git; cd n; " + bareParts}, act: "cd n; git status"},
		{name: "a .git in a bare repository", setup: "git init -q --bare .",
			commands: []string{plantedGit}, act: "git status", allowed: "git symbolic-ref HEAD refs/heads/y && git status 2>&1 | grep 'work tree'"},
		{name: "a .git in a bare repository among clones", setup: "git init -q --bare a.git && git init -q c",
			commands: []string{"cd a.git; " + plantedGit}, act: "cd a.git; git status", allowed: "git -C a.git symbolic-ref HEAD refs/heads/y"},
		{name: "a .git that is a file, in a bare repository", setup: "git init -q --bare a.git && git init -q c",
			commands: []string{"git init -q --bare x; git -C x config core.bare false; git -C x config core.worktree ../a.git; " + fsmon + " >>x/config; echo gitdir: ../x >a.git/.git"}, act: "cd a.git; git status"},
		{name: "a .git in the git directory of a submodule", setup: initial + "git init -q ../lib && git -C ../lib commit -q --allow-empty -m l && git submodule --quiet add ../lib lib",
			commands: []string{"cd .git/modules/lib; " + plantedGit}, act: "cd .git/modules/lib; git status", allowed: "git -C lib commit -q --allow-empty -m inside"},
		{name: "a git directory of which most is elsewhere", setup: initial + "true", told: true, reported: "most of the repository is elsewhere",
			commands: []string{`mkdir -p other/objects other/refs; cd sub; echo ref: refs/heads/main >HEAD; echo ../other >commondir; printf '[core]\nbare = false\nworktree = .\n' >config.worktree; ` +
				fsmon + ` >../other/config; printf '[extensions]\nworktreeConfig = true\n[core]\nrepositoryFormatVersion = 1\n' >>../other/config`},
			act: "cd sub && git status", allowed: "git worktree add -q tools/tree 2>&1 | grep elsewhere && exit 1; git -C tools/tree status"},
	}
	return attacks
}

// A rule that leads through a symlink is about one thing for one command and about
// another for the next, if commands can replace the link: it is refused, with what
// to write instead.
func TestAttacksOnRules(t *testing.T) {
	t.Parallel()
	tryAttacks(t, ruleAttacks())
}

func ruleAttacks() []attack {
	const data = "mkdir -p real/deep keys && echo the secret >real/secret && echo the secret >real/deep/x.pem && ln -s real data && "
	read := func(file string) []string {
		return []string{"rm -rf data; mkdir data; rm -f .env link.pem; mv keys keys2; true", "cat " + file}
	}
	return []attack{
		{name: "deny_paths through a link", setup: data + "true", definition: `deny_paths = ["data/secret"]`, commands: read("real/secret"),
			refused: `write the path that it leads to: "real/secret"`},
		{name: "deny_paths with wildcards through a link", setup: data + "true", definition: `deny_paths = ["data/deep/*.pem"]`, commands: read("real/deep/x.pem"),
			refused: `write the path that it leads to: "real/deep"`},
		{name: "deny_paths from above the workspace through a link", setup: data + "true", definition: `deny_paths = ["$B/w/data/**/*.pem"]`, commands: read("real/deep/x.pem"),
			refused: `write the path that it leads to: "real"`},
		{name: "deny_paths without a link", setup: data + "true", definition: `deny_paths = ["real/secret"]`, commands: read("real/secret"), allowed: "test -d data && ls real"},
		{name: "deny_paths through a link elsewhere", setup: data + "ln -s $B/w/real $B/home/link", definition: `deny_paths = ["$B/home/link/secret"]`, commands: read("real/secret"),
			allowed: "ls real"},
		{name: "a pattern that finds a link", setup: data + "ln -s real/secret link.pem", definition: `deny_paths = ["*.pem"]`, commands: read("real/secret"),
			refused: `add "real/secret" to deny_paths`},
		{name: "a pattern that finds a link and what it leads to", setup: data + "ln -s real/deep/x.pem link.pem", definition: `deny_paths = ["**/*.pem"]`, commands: read("real/deep/x.pem"),
			allowed: "rm -f link.pem"},
		{name: "a pattern that matches only behind a link", setup: data + "true", definition: `deny_paths = ["d*/deep/x.pem"]`, commands: read("real/deep/x.pem"),
			refused: `could match behind the symlink`},
		{name: ".env that is a link", setup: data + "ln -s real/secret .env", commands: read("real/secret"), refused: `add "real/secret" to deny_paths`},
		{name: ".env that is a link to what deny_paths hides", setup: data + "ln -s real/secret .env", definition: `deny_paths = ["real/secret"]`, commands: read("real/secret"), allowed: "rm -f .env"},
		{name: ".env that is a link to another", setup: data + "cp real/secret keys/.env.local && ln -s keys/.env.local .env", commands: read("keys2/.env.local keys/.env.local"),
			allowed: "test ! -e .env"},
		{name: "protect_paths through a link", setup: data + "echo : >real/run", definition: `protect_paths = ["data/run"]`,
			commands: []string{"rm data", hook + " >real/run"}, act: "sh real/run", refused: `write the path that it leads to: "real/run"`},
		{name: "protect_paths without a link", setup: data + "echo : >real/run", definition: `protect_paths = ["real/run"]`,
			commands: []string{"rm data; mv real away; mkdir real", hook + " >real/run"}, act: "sh real/run"},
		{name: "protect_paths of what is missing", setup: data + "true", definition: `protect_paths = ["real/new/run"]`,
			commands: []string{"mv real away; rmdir real/new; true", "mkdir -p real/new; " + hook + " >real/new/run"}, act: "sh real/new/run"},
	}
}

// What tools take for instructions cannot be written where it exists, at any depth.
func TestAttacksOnInstructions(t *testing.T) {
	t.Parallel()
	tryAttacks(t, instructionAttacks(testing.Short()))
}

func instructionAttacks(short bool) []attack {
	var attacks []attack
	for _, name := range []string{".claude/settings.json", ".cursor/rules", ".codex/config", ".zed/tasks.json", ".vscode/tasks.json", ".idea/x.xml", ".gemini/settings.json", ".opencode/plugins", "opencode.json", ".helix/languages.toml", ".devcontainer/devcontainer.json",
		".mcp.json", ".envrc", ".gitmodules", ".devcontainer.json", "x.code-workspace"} {
		if !short || name == ".mcp.json" {
			attacks = append(attacks, attack{
				name: strings.ReplaceAll(name, "/", " "), setup: initial + "mkdir -p $(dirname " + name + "); echo : >" + name,
				commands: []string{hook + " >" + name, "mv $(dirname " + name + ") elsewhere; rm -f " + name + "; true", "mkdir -p $(dirname " + name + "); " + hook + " >" + name},
				act:      "sh " + name, allowed: "git status",
			})
		}
		// Below the top it is told: when it is changed, through another name as well, and when
		// what one command has made where nothing is looked for is moved in by the next.
		top, _, _ := strings.Cut(name, "/")
		at, deep := "a/b/"+name, "a/b/c/d/"+name
		for _, way := range []struct {
			name     string
			commands []string
		}{
			{"changed", []string{hook + " >" + at}},
			{"in place", []string{"ln " + at + " a/b/c/x", hook + " >a/b/c/x; touch -r file a/b/c/x"}},
			{"moved in", []string{"mkdir -p $(dirname " + deep + "); " + hook + " >" + deep, "rm -r a/b/" + top + "; mv a/b/c/d/" + top + " a/b/" + top}},
			{"moved in with the directory around it", []string{"mkdir -p $(dirname " + deep + "); " + hook + " >" + deep, "mv a/b/c/d d; rm -r a; mkdir a; mv d a/b"}},
		} {
			if short && way.name != "changed" && name != ".vscode/tasks.json" && name != ".envrc" {
				continue // no name has a way of its own
			}
			attacks = append(attacks, attack{
				name: top + ", " + way.name, told: true, reported: `w/a/b/` + top + `"`,
				setup:    initial + "mkdir -p a/b/c $(dirname " + at + "); echo : >" + at,
				commands: way.commands, act: "sh " + at, allowed: "rm -r a",
			})
		}
	}
	// What hooks read is told at the top as well.
	for _, name := range []string{".husky/pre-commit", ".pre-commit-config.yaml", ".pre-commit-config.yml", "prek.toml", ".local-overcommit.yml", "mise.toml", ".mise.local.toml"} {
		top, _, _ := strings.Cut(name, "/")
		attacks = append(attacks, attack{name: top + ", changed at the top", told: true, reported: "w/" + top + `"`,
			setup: initial + "mkdir -p $(dirname " + name + "); echo : >" + name, commands: []string{hook + " >" + name}, act: "sh " + name})
	}
	for _, name := range []string{".config/lefthook-local.yml", "lefthook.jsonc"} {
		attacks = append(attacks, attack{name: name + ", which git ignores", told: true, reported: "w/" + name + `"`,
			setup: initial + "mkdir -p .config; echo /" + name + " >.gitignore", commands: []string{"true", hook + " >" + name}, act: "sh " + name})
	}
	// Mercurial's, in the workspace's repository and in a new one.
	attacks = append(attacks,
		attack{name: "hooks of hg that are missing", setup: initial + "mkdir -p .hg/store; echo >.hg/requires", act: "sh .hg/hgrc",
			commands: []string{hook + " >.hg/hgrc", "rm -rf .hg/hgrc; mv .hg elsewhere; true", "mkdir -p .hg; " + hook + " >.hg/hgrc"}, allowed: "echo >.hg/store/x"},
		attack{name: "the configuration of sl that is missing", setup: initial + "mkdir -p .sl/store", act: "sh .sl/config",
			commands: []string{hook + " >.sl/config", "rm -rf .sl/config; mv .sl elsewhere; true", "mkdir -p .sl; " + hook + " >.sl/config"}, allowed: "echo >.sl/store/x"},
		attack{name: "hooks of hg in a new repository", setup: initial + "true", act: "sh a/.hg/hgrc", told: true, reported: `w/a/.hg/hgrc"`,
			commands: []string{"mkdir -p a/.hg; " + hook + " >a/.hg/hgrc"}})
	// Of a clone in a directory of tools, and of the user's own: links in the workspace's worktrees are not followed.
	attacks = append(attacks,
		attack{name: "what a link in a clone in .claude leads to", act: "sh .claude/skills/foo/x/run", allowed: "echo >modules/x",
			setup:    initial + "mkdir lib modules; git init -q .claude/skills/foo; ln -s ../../../lib .claude/skills/foo/x; git worktree add -q .claude/worktrees/t; ln -s $W/modules .claude/worktrees/t/modules; git add .claude/skills 2>/dev/null; true",
			commands: []string{"mkdir -p lib; " + hook + " >lib/run"}},
		attack{name: "what a link in a clone in .claude leads to, whose git directory becomes a worktree's", act: "sh .claude/skills/foo/x/run",
			setup: initial + "mkdir lib g .claude; mkdir .claude/skills; git init -q --separate-git-dir=g/foo .claude/skills/foo; ln -s ../../../lib .claude/skills/foo/x",
			commands: []string{"rm -rf g/foo; mkdir -p .git/worktrees/foo; ln -s ../.git/worktrees/foo g/foo; cd .git/worktrees/foo; echo ../.. >commondir; echo ref: refs/heads/foo >HEAD; echo $W/.claude/skills/foo/.git >gitdir",
				hook + " >$W/lib/run"}},
		attack{name: "what the user's .claude leads to", setup: initial + "mkdir d; ln -s $W/d $B/home/.claude", commands: []string{hook + " >d/x", "mv d e; mkdir d; " + hook + " >d/x"}, act: "sh $B/home/.claude/x"},
		attack{name: "what the user's CLAUDE.md leads to", setup: initial + "mkdir d $B/home/.claude; ln -s $W/d/x $B/home/.claude/CLAUDE.md", commands: []string{hook + " >d/x", "mv d e; mkdir d; " + hook + " >d/x"}, act: "sh $B/home/.claude/CLAUDE.md"},
		attack{name: "the directory of the server's socket", setup: initial + "mkdir -p $B/r/u", env: []string{"XDG_RUNTIME_DIR=$B/r/u"}, definition: `bind_paths = [{ host = "$B/r", read_only = false }]`,
			commands: []string{"mkdir -p $B/r/u/sbxhost; echo >$B/r/u/sbxhost/serve", "mv $B/r/u $B/r/v; mkdir -p $B/r/u/sbxhost; echo >$B/r/u/sbxhost/serve"}, act: "test -e $B/r/u/sbxhost/serve && $B/tools/evil"})
	// Missing, of those that act unasked: at the top.
	for i, name := range []string{".vscode", ".claude", ".cursor", ".codex", ".zed", ".gemini", ".opencode"} {
		attacks = append(attacks, attack{
			name: name + " that is missing", setup: initial + "true",
			commands: []string{"rmdir " + name + "; mkdir -p " + name + "; " + hook + " >" + name + "/x", "rm -rf " + name + "; mv $W/" + name + " away" + strconv.Itoa(i) + "; true", "mkdir -p " + name + "; " + hook + " >" + name + "/x"},
			act:      "sh " + name + "/x",
		})
	}
	return attacks
}

// buildForAll builds sbxhost where every user can run it.
func buildForAll(t *testing.T) string {
	t.Helper()
	need(t, "bwrap", "perl")
	bin := t.TempDir()
	build(t, bin, "cmd/sbxhost")
	if err := os.Chmod(filepath.Dir(bin), 0o755); err != nil {
		t.Fatal(err)
	}
	return bin
}
