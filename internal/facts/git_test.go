package facts

import (
	"bufio"
	"context"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sbxhost/sbxhost/internal/view"
	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/workspace"
)

// runGit runs the real git, with no configuration but the test's. Where it is
// missing the test is skipped, unless the environment says that it must be there.
func runGit(t testing.TB, dir string, args ...string) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		if slices.Contains(strings.Split(os.Getenv("SBXHOST_REQUIRE"), ","), "git") {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	cmd := exec.Command("git", append([]string{"-c", "protocol.file.allow=always", "-c", "init.defaultBranch=main",
		"-c", "user.name=t", "-c", "user.email=t@example.com"}, args...)...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C"}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %q: %v\n%s", args, err, out)
	}
}

// write makes files below dir.
func write(t testing.TB, dir string, files ...string) {
	t.Helper()
	for _, name := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// newRepositories gives a directory with the repository main, its worktrees wt
// and main/near, and the submodule super/lib.
func newRepositories(t testing.TB) string {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"main", "super"} {
		runGit(t, base, "init", "-q", name)
		write(t, base, name+"/file")
		runGit(t, base+"/"+name, "add", "file")
		runGit(t, base+"/"+name, "commit", "-qm", "one")
	}
	runGit(t, base+"/main", "worktree", "add", "-q", "../wt", "-b", "side")
	runGit(t, base+"/main", "worktree", "add", "-q", "near", "-b", "near")
	runGit(t, base+"/super", "submodule", "--quiet", "add", base+"/main", "lib")
	runGit(t, base+"/super", "commit", "-qm", "two")
	// The templates of git differ between systems.
	for _, dir := range []string{"main/.git", "super/.git", "super/.git/modules/lib"} {
		os.RemoveAll(base + "/" + dir + "/info")
		write(t, base, dir+"/hooks/pre-commit")
	}
	return base
}

// present are the mounts of what exists, without the directory above the workspace;
// protect_linux_test.go has the rest.
func present(spec *shared.Spec) []shared.Entry {
	return slices.DeleteFunc(slices.Clone(spec.Table), func(m shared.Entry) bool {
		_, err := os.Lstat(m.Source)
		return m.Why == view.OriginParent || m.Source != "" && err != nil
	})
}

func TestResolveGit(t *testing.T) {
	t.Parallel()
	base := newRepositories(t)
	write(t, base, "super/.git/info", "src/plain/file", "linked/file", "nonsense/file", "cfg/main/x")
	runGit(t, base, "init", "-q", "src/attr")
	write(t, base, "src/attr/.git/info/attributes")
	runGit(t, base, "init", "-q", "linked")
	for _, dir := range []string{"linked/.git/hooks", "src/attr/.git/hooks"} {
		if err := os.RemoveAll(base + "/" + dir); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../githooks", base+"/linked/.git/hooks"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(base+"/nonsense/.git", []byte("gitdir: ../main/.git\n"), 0o644); err != nil {
		t.Fatal(err)
	}

	for _, test := range []struct {
		name, root string
		writable   []string
		def        view.Definition
		want       []string
		note       string
	}{
		{name: "no repository", root: "src/plain", want: []string{
			"read-write src/plain: workspace",
		}},
		{name: "a repository", root: "main", want: []string{
			"read-write main: workspace",
			"read-only main/.git/branches: protected: git branches",
			"read-only main/.git/config: protected: git config",
			"read-only main/.git/hooks: protected: git hooks",
			"read-only main/.git/worktrees/near/commondir: protected: git worktrees/near/commondir",
			"read-only main/.git/worktrees/near/gitdir: protected: git worktrees/near/gitdir",
			"read-only main/.git/worktrees/wt: protected: git worktrees/wt",
			"read-only main/near/.git: protected: git .git",
		}},
		{name: "a repository, read-only", root: "main", def: view.Definition{ReadOnly: true}, want: []string{
			"read-only main: workspace",
		}},
		{name: "a repository, at another place", root: "src/attr", def: view.Definition{Workdir: "/w"}, want: []string{
			"read-write src/attr /w: workspace",
			"read-only src/attr/.git/branches /w/.git/branches: protected: git branches",
			"read-only src/attr/.git/config /w/.git/config: protected: git config",
			"read-only src/attr/.git/info/attributes /w/.git/info/attributes: protected: git info/attributes",
		}},
		{name: "a directory of a repository", root: "main/.git/refs", want: []string{
			"read-write main/.git/refs: workspace",
		}},
		{name: "a worktree", root: "wt", want: []string{
			"read-write wt: workspace",
			"read-write main/.git: git: a directory of the repository",
			"read-only main/.git/HEAD: protected: git HEAD",
			"read-only main/.git/branches: protected: git branches",
			"read-only main/.git/config: protected: git config",
			"read-only main/.git/hooks: protected: git hooks",
			"read-only main/.git/index: protected: git index",
			"read-only main/.git/worktrees/near: protected: git worktrees/near",
			"read-only main/.git/worktrees/wt/commondir: protected: git worktrees/wt/commondir",
			"read-only main/.git/worktrees/wt/gitdir: protected: git worktrees/wt/gitdir",
			"read-only wt/.git: protected: git .git",
		}},
		{name: "a worktree, read-only", root: "wt", def: view.Definition{ReadOnly: true}, want: []string{
			"read-only wt: workspace",
			"read-only main/.git: git: a directory of the repository",
		}},
		{name: "a worktree whose repository is bound", root: "wt",
			def: view.Definition{BindPaths: []view.Bind{{Host: base + "/main/.git", Writable: true}}}, want: []string{
				"read-write wt: workspace",
				"read-write main/.git: bind_paths[0]",
				"read-only main/.git/branches: protected: git branches",
				"read-only main/.git/HEAD: protected: git HEAD",
				"read-only main/.git/config: protected: git config",
				"read-only main/.git/hooks: protected: git hooks",
				"read-only main/.git/index: protected: git index",
				"read-only main/.git/worktrees/near: protected: git worktrees/near",
				"read-only main/.git/worktrees/wt/commondir: protected: git worktrees/wt/commondir",
				"read-only main/.git/worktrees/wt/gitdir: protected: git worktrees/wt/gitdir",
				"read-only wt/.git: protected: git .git",
			}},
		{name: "a submodule", root: "super/lib", want: []string{
			"read-write super/lib: workspace",
			"read-write super/.git/modules/lib: git: a directory of the repository",
			"read-only super/.git/modules/lib/branches: protected: git branches",
			"read-only super/.git/modules/lib/config: protected: git config",
			"read-only super/.git/modules/lib/hooks: protected: git hooks",
			"read-only super/lib/.git: protected: git .git",
		}},
		{name: "a submodule, read-only", root: "super/lib", def: view.Definition{ReadOnly: true}, want: []string{
			"read-only super/lib: workspace",
			"read-only super/.git/modules/lib: git: a directory of the repository",
		}},
		{name: "a repository with a submodule", root: "super", want: []string{
			"read-write super: workspace",
			"read-only super/.git/branches: protected: git branches",
			"read-write super/.git/modules/lib: git: a directory of the repository",
			"read-only super/.git/config: protected: git config",
			"read-only super/.git/hooks: protected: git hooks",
			"read-only super/.git/info: protected: git info/attributes", // a file, beneath which nothing can be held
			"read-only super/.git/modules: protected: git modules",
			"read-only super/.git/modules/lib/branches: protected: git modules/lib/branches",
			"read-only super/.git/modules/lib/config: protected: git modules/lib/config",
			"read-only super/.git/modules/lib/hooks: protected: git modules/lib/hooks",
			"read-only super/.gitmodules: protected: git .gitmodules",
			"read-only super/lib/.git: protected: git .git",
		}},
		{name: "a submodule in a writable repository", root: "super/lib", writable: []string{".."}, want: []string{
			"read-write super/lib: workspace",
			"read-write super: workspace.writable[0]",
			"read-write super/.git/modules/lib: git: a directory of the repository",
			"read-only super/.git/branches: protected: git branches",
			"read-only super/.git/config: protected: git config",
			"read-only super/.git/hooks: protected: git hooks",
			"read-only super/.git/info: protected: git info/attributes", // a file, beneath which nothing can be held
			"read-only super/.git/modules: protected: git modules",
			"read-only super/.git/modules/lib/branches: protected: git branches",
			"read-only super/.git/modules/lib/config: protected: git config",
			"read-only super/.git/modules/lib/hooks: protected: git hooks",
			"read-only super/.gitmodules: protected: git .gitmodules",
			"read-only super/lib/.git: protected: git .git",
		}},
		{name: "a writable bind that is a repository", root: "src/plain",
			def: view.Definition{BindPaths: []view.Bind{{Host: base + "/src/attr", Container: "/attr", Writable: true}}}, want: []string{
				"read-write src/plain: workspace",
				"read-write src/attr /attr: bind_paths[0]",
				"read-only src/attr/.git/branches /attr/.git/branches: protected: git branches",
				"read-only src/attr/.git/config /attr/.git/config: protected: git config",
				"read-only src/attr/.git/info/attributes /attr/.git/info/attributes: protected: git info/attributes",
			}},
		{name: "a writable bind of the directory above", root: "src/attr",
			def: view.Definition{ReadOnly: true, BindPaths: []view.Bind{{Host: base + "/src", Container: "/all", Writable: true}}}, want: []string{
				"read-only src/attr: workspace",
				"read-write src /all: bind_paths[0]",
				"read-only src/attr/.git/branches /all/attr/.git/branches: protected: git branches",
				"read-only src/attr/.git/config /all/attr/.git/config: protected: git config",
				"read-only src/attr/.git/info/attributes /all/attr/.git/info/attributes: protected: git info/attributes",
			}},
		{name: "a .git that does not make sense", root: "nonsense", note: "points to", want: []string{
			"read-write nonsense: workspace",
			"read-only nonsense/.git: protected: git, not understood",
		}},
		{name: "hooks that are a link", root: "linked", note: "is a symlink", want: []string{
			"read-write linked: workspace",
			"read-only linked/.git: protected: git, with a symlink",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			ws, err := workspace.New(workspace.Options{Root: base + "/" + test.root, Writable: test.writable, Home: base + "/home", LookupEnv: os.LookupEnv})
			if err != nil {
				t.Fatal(err)
			}
			out, err := (&Machine{Config: Config{Workspace: ws, Caller: Caller{UID: 1000}}}).resolve(t.Context(), "fast", test.def)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, m := range present(&out.Spec) {
				line := m.Access.String() + " " + m.Source
				if m.Path != m.Source {
					line += " " + m.Path
				}
				got = append(got, strings.ReplaceAll(line+": "+m.Why, base+"/", ""))
			}
			slices.Sort(got)
			slices.Sort(test.want)
			if strings.Join(got, "\n") != strings.Join(test.want, "\n") {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(test.want, "\n"))
			}
			if err := out.Spec.Validate(); err != nil {
				t.Errorf("the Spec is not valid: %v", err)
			}
			if notes := strings.Join(out.Notes, "\n"); (notes == "") != (test.note == "") || !strings.Contains(notes, test.note) {
				t.Errorf("notes %q, want %q", notes, test.note)
			}
		})
	}
}

// What lies directly above the workspace can be written nowhere but in the home
// itself and in /tmp, and where a bind shows it.
func TestResolveHidesWhatIsAbove(t *testing.T) {
	t.Parallel()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	write(t, base, "home/src/a/file", "home/b/file", "home/src/c/file", "other/file")
	for _, test := range []struct {
		root     string
		writable []string
		def      view.Definition
		want     []string
	}{
		{root: "home/src/a", want: []string{"home/src"}},
		{root: "home/src/a", writable: []string{base + "/home/src/c", base + "/other"}, want: []string{".", "home/src"}},
		{root: "home/b"},
		{root: "home/src/a", def: view.Definition{BindPaths: []view.Bind{{Host: base + "/home/src"}}}},
		{root: "home/src/a", def: view.Definition{BindPaths: []view.Bind{{Host: base + "/home", Writable: true}}}},
		{root: "home/src/a", def: view.Definition{Workdir: "/tmp/w"}},
		{root: "home/src/a", def: view.Definition{Workdir: "/tmp/v/w"}, want: []string{"/tmp/v"}},
		{root: "home/src/a", def: view.Definition{Workdir: "/work/w"}},
		{root: "home/src/a", def: view.Definition{ReadOnly: true}},
		{root: "home/src/a", def: view.Definition{DenyPaths: []string{base + "/home/src/c"}}, want: []string{"home/src"}},
	} {
		ws, err := workspace.New(workspace.Options{Root: base + "/" + test.root, Writable: test.writable, Home: base + "/home", LookupEnv: os.LookupEnv})
		if err != nil {
			t.Fatal(err)
		}
		out, err := (&Machine{Config: Config{Workspace: ws, Caller: Caller{UID: 1000, Home: base + "/home"}}}).resolve(t.Context(), "fast", test.def)
		if err != nil {
			t.Errorf("%+v: %v", test, err)
			continue
		}
		var got, want []string
		for _, m := range out.Spec.Table {
			if m.Access == shared.Hidden && m.Why == view.OriginParent {
				got = append(got, m.Path)
			}
		}
		for _, p := range test.want {
			if !filepath.IsAbs(p) {
				p = filepath.Join(base, p)
			}
			want = append(want, p)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%+v: got %q, want %q", test, got, want)
		}
		if err := out.Spec.Validate(); err != nil {
			t.Errorf("%+v: %v", test, err)
		}
	}
}

// What is never writable is not made so by binding it by its own name.
func TestResolveRefusesToBindWhatIsProtected(t *testing.T) {
	t.Parallel()
	base := newRepositories(t)
	write(t, base, "main/config.hcl")
	ws, err := workspace.New(workspace.Options{Root: base + "/main", Home: base + "/home", LookupEnv: os.LookupEnv})
	if err != nil {
		t.Fatal(err)
	}
	r := &Machine{Config: Config{Workspace: ws, Caller: Caller{UID: 1000}, HostPaths: configs(base + "/main/config.hcl")}}
	for _, p := range []string{".git/hooks", ".git/hooks/pre-commit", ".git/config", "config.hcl", ".git/worktrees/wt"} {
		_, err := r.resolve(t.Context(), "fast", view.Definition{BindPaths: []view.Bind{{Host: p, Container: "/here", Writable: true}}})
		var e *shared.Error
		if !errors.As(err, &e) || e.Attribute != "bind_paths[0]" || !strings.Contains(err.Error(), "never writable") {
			t.Errorf("%s: %v", p, err)
		}
		if _, err := r.resolve(t.Context(), "fast", view.Definition{BindPaths: []view.Bind{{Host: p, Container: "/here"}}}); err != nil {
			t.Errorf("%s, read-only: %v", p, err)
		}
	}
}

// fakeGit is a program that counts how often it was run, and then does as body
// says.
func fakeGit(t *testing.T, dir, body string) (runs func() int) {
	t.Helper()
	text := "#!/bin/sh\necho run >>" + dir + "/runs\n" + body + "\n"
	// Not written by this process: a child that another test forks meanwhile
	// would hold the file open, and it could not be executed.
	cmd := exec.Command("sh", "-c", `mkdir -p "$1" && cat >"$1/git" && chmod 755 "$1/git"`, "sh", dir+"/bin")
	cmd.Stdin = strings.NewReader(text)
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	return func() int {
		data, _ := os.ReadFile(dir + "/runs")
		return strings.Count(string(data), "\n")
	}
}

// machineAt is what a Host makes for a workspace, for a caller with that environment.
func machineAt(t *testing.T, root string, env map[string]string, environ ...string) *Machine {
	t.Helper()
	caller := Caller{UID: os.Getuid(), Environ: NewEnvironment(environ)}
	caller.Home, _ = caller.LookupEnv("HOME")
	ws, err := workspace.New(workspace.Options{Root: root, Home: caller.Home, LookupEnv: caller.LookupEnv})
	if err != nil {
		t.Fatal(err)
	}
	return New(Config{Caller: caller, Workspace: ws, Owner: LookupOwner(ws, &caller), Env: env, Written: func(string) string { return "" }})
}

// settingsAt is the text of the settings for commands at a workspace.
func (m *Machine) settingsAt(ctx context.Context) string {
	look := newLookup(ctx, m, nil)
	return look.Repository(m.Workspace.Root()).Settings.Config
}

const fakeUser = "[user]\n\tname = \"Fake\"\n"

// A git that others can replace is not run with the caller's rights.
func TestGitOfOthersIsNotRun(t *testing.T) {
	t.Parallel()
	base := newRepositories(t)
	runs := fakeGit(t, base, `printf 'global\0file:/x\0user.name\nFake\0'`)
	for _, mode := range []os.FileMode{0o777, 0o755} {
		if err := os.Chmod(base+"/bin", mode); err != nil {
			t.Fatal(err)
		}
		h := machineAt(t, base+"/main", nil, "PATH="+base+"/bin", "HOME="+base)
		got := h.settingsAt(t.Context())
		if ran := runs() > 0; ran != (mode == 0o755) || ran != (got == fakeUser) {
			t.Errorf("in a directory of mode %o: ran %v, %q", mode, ran, got)
		}
	}
}

// A git that does not answer holds up nothing for longer than it is asked to.
func TestGitEndsWithItsContext(t *testing.T) {
	t.Parallel()
	base := newRepositories(t)
	if err := exec.Command("mkfifo", base+"/pid").Run(); err != nil {
		t.Fatal(err)
	}
	fakeGit(t, base, "echo $$ >"+base+"/pid; exec sleep 1000")
	h := machineAt(t, base+"/main", nil, "PATH="+base+"/bin:/usr/bin:/bin", "HOME="+base)
	// Opened for both, it opens at once, and can be given up on.
	fifo, err := os.OpenFile(base+"/pid", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer fifo.Close()
	if err := fifo.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	pids := make(chan string, 1)
	go func() {
		pid, _ := bufio.NewReader(fifo).ReadString('\n')
		pids <- pid
		cancel()
	}()
	if got := h.settingsAt(ctx); got != "" {
		t.Errorf("got %q", got)
	}
	pid := <-pids
	if out, err := exec.Command("kill", "-0", strings.TrimSpace(pid)).CombinedOutput(); err == nil {
		t.Errorf("git, process %s, still runs: %s", pid, out)
	}
}

// The lookup reads what belongs to the caller, not to this process, with conditional includes.
func TestIdentityOfTheCaller(t *testing.T) {
	t.Parallel()
	base := newRepositories(t)
	write(t, base, "home/x")
	config := "[user]\n\temail = play@example.com\n[includeIf \"gitdir:" + base + "/main/\"]\n\tpath = work\n"
	for name, text := range map[string]string{".gitconfig": config, "work": "[user]\n\temail = work@example.com\n"} {
		if err := os.WriteFile(base+"/home/"+name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for root, want := range map[string]string{"main": "work", "wt": "work", "super": "play"} {
		h := machineAt(t, base+"/"+root, nil, "PATH="+os.Getenv("PATH"), "HOME="+base+"/home", "GIT_CONFIG_NOSYSTEM=1")
		got := h.settingsAt(t.Context()) // git takes the last one
		if !strings.HasSuffix(got, "email = \""+want+"@example.com\"\n") {
			t.Errorf("%s: %q", root, got)
		}
	}
}

// By the records of a repository what belongs to it is found, guarded and told of where nothing else is looked for.
func TestSubmodulesAtAnyDepth(t *testing.T) {
	t.Parallel()
	base := newRepositories(t)
	top, deep := base+"/super", base+"/super/a/b/c/d/lib"
	runGit(t, top, "submodule", "--quiet", "add", base+"/main", "a/b/c/d/lib")
	tr := tree{base: base, project: top}
	m := tr.machine(t)
	out, err := m.resolve(t.Context(), "fast", view.Definition{})
	if err != nil {
		t.Fatal(err)
	}
	found, err := out.searchAgain()
	if err != nil {
		t.Fatal(err)
	}
	told, _, _ := out.reportable(found)
	if told = addRepositories(told, slices.Sorted(maps.Keys(out.baseline.Submodules))); !slices.Contains(out.GuardedRepositories, deep) || !slices.Contains(told, deep) || out.baseline.Repositories[deep] == nil {
		t.Errorf("guarded are %q, told of %q, before %v", out.GuardedRepositories, told, out.baseline.Repositories)
	}
}

// Git goes by itself into what an index has as a submodule, and acts there. It is told of first, wherever that lies,
// and also if what it acts on was there before.
func TestNewSubmodules(t *testing.T) {
	t.Parallel()
	base := newRepositories(t)
	top := base + "/super"
	tr := tree{base: base, project: top}
	m := tr.machine(t)
	evil := func(dir string) {
		runGit(t, top, "init", "-q", dir)
		runGit(t, top+"/"+dir, "commit", "-q", "--allow-empty", "-m", "one")
		runGit(t, top+"/"+dir, "config", "core.fsmonitor", "touch "+base+"/ran; false")
	}
	if err := os.WriteFile(top+"/.gitignore", []byte("ignored/\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	evil("there")
	evil("a/b/c/d/deep")
	evil("lib/inner")
	runGit(t, top, "update-index", "--add", "--cacheinfo", "160000,1234567890123456789012345678901234567890,empty")
	for _, tt := range []struct {
		name, path string
		command    func()
		from       string
	}{
		{"a repository that is none", "aside", func() { evil("aside") }, ""},
		{"one that was there", "there", func() { evil("about"); runGit(t, top, "add", "there") }, top},
		{"a deep one", "a/b/c/d/deep", func() { runGit(t, top, "add", "a/b/c/d/deep") }, top},
		{"one that git ignores", "ignored/new", func() { evil("ignored/new"); runGit(t, top, "add", "-f", "ignored/new") }, top},
		{"in a submodule", "lib/inner", func() { runGit(t, top+"/lib", "add", "inner") }, top},
		{"a .git for a gitlink", "empty", func() { evil("empty") }, top},
		{"one that looks like the git directory of a worktree, too", "worktrees/x", func() {
			for name, text := range map[string]string{"objects/x": "", "refs/x": "", "HEAD": "ref: refs/heads/main\n", "worktrees/x/HEAD": "ref: refs/heads/main\n", "worktrees/x/commondir": "../..\n"} {
				writeFile(t, top+"/"+name, text)
			}
			evil("worktrees/x")
			runGit(t, top, "add", "worktrees/x")
		}, top},
		{"another .git file", "lib", func() {
			if err := os.WriteFile(top+"/lib/.git", []byte("gitdir: "+top+"/aside/.git\n"), 0o644); err != nil {
				t.Error(err)
			}
		}, top},
	} {
		os.Remove(base + "/ran")
		out, err := m.resolve(t.Context(), "fast", view.Definition{})
		if err != nil {
			t.Fatal(err)
		}
		tt.command()
		made := m.Changes(out).Repositories
		if len(made) == 0 || made[0].Path != top+"/"+tt.path || made[0].Superproject != tt.from || !made[0].Executes() {
			t.Errorf("%s: %+v", tt.name, made)
		}
		runGit(t, top, "status")
		if _, err := os.Lstat(base + "/ran"); (err == nil) != (tt.from != "") {
			t.Errorf("%s: git status: %v", tt.name, err)
		}
		if tt.from != "" { // git acts no more on it
			if err := os.RemoveAll(top + "/" + tt.path + "/.git"); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// With workdir or container, hidden files have another path inside than on the host; git inside must ignore them
// all the same: else git status lists them, and git add -A fails.
func TestGitIgnoresWhatIsHidden(t *testing.T) {
	t.Parallel()
	base := newRepositories(t)
	write(t, base, "main/secrets/x", "main/deep/.sec", "super/key", "super/.git/x")
	m := tree{base: base, home: base + "/none", project: base + "/main"}.machine(t)
	for _, workdir := range []string{"", "/workspace"} {
		out, err := m.resolve(t.Context(), "s", view.Definition{Workdir: workdir, DenyPaths: []string{"secrets/", "deep/.sec", "**/key", base + "/super/.git/x"},
			BindPaths: []view.Bind{{Host: base + "/super", Container: "/super", Writable: true}}})
		if err != nil {
			t.Fatal(err)
		}
		got := slices.Sorted(strings.Lines(out.hiddenFromGit()))
		if want := []string{"/deep/.sec\n", "/key\n", "/secrets\n"}; !slices.Equal(got, want) {
			t.Errorf("workdir %q: %q, want %q", workdir, got, want)
		}
	}
}

// Worktrees share a common directory, but each has submodules of its own, whose refs are looked at
// wherever the look begins.
func TestLinksOfAllSubmodules(t *testing.T) {
	t.Parallel()
	base := newRepositories(t)
	top, near := base+"/super", base+"/super/a"
	runGit(t, top, "worktree", "add", "-q", near, "-b", "a")
	runGit(t, near, "submodule", "--quiet", "update", "--init")
	m := tree{base: base, project: top}.machine(t)
	out, err := m.resolve(t.Context(), "fast", view.Definition{})
	if err != nil {
		t.Fatal(err)
	}
	// Links among thousands of objects of a worktree's submodule lead git nowhere, those beside them do.
	worktree := top + "/.git/worktrees/a/"
	for _, name := range []string{"objects", "hooks"} {
		if err := os.Symlink("x", worktree+"modules/lib/"+name+"/x"); err != nil {
			t.Fatal(err)
		}
	}
	found := newLookup(t.Context(), m, out.WritableSources()).LinksIn(worktree[:len(worktree)-1])
	if want := []string{worktree + "modules/lib/hooks/x"}; !slices.Equal(found.Symlinks, want) {
		t.Errorf("%q", found.Symlinks)
	}
	for _, dir := range []string{"modules/lib", "worktrees/a/modules/lib"} {
		p := top + "/.git/" + dir + "/refs/heads/x"
		if err := os.WriteFile(p, []byte("ref: commondir\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		l := newLookup(t.Context(), m, out.WritableSources())
		for _, order := range [][]string{{top, near}, {near, top}} {
			reasons := workspace.Acts{}
			for _, repository := range order {
				maps.Copy(reasons, l.stateOf(out, repository))
			}
			if !slices.ContainsFunc(slices.Collect(maps.Keys(reasons)), func(why string) bool { return strings.Contains(why, p) }) {
				t.Errorf("%s, from %s: %q", dir, order[0], slices.Collect(maps.Keys(reasons)))
			}
			l = newLookup(t.Context(), m, out.WritableSources())
		}
	}
}
