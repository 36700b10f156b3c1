package host_test

import (
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/host"
)

// What a repository holds may change while a Host lives: what is guarded
// follows it, and commands that run already go on.
func TestRepositoryChangesBetweenCommands(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil {
		if slices.Contains(strings.Split(os.Getenv("SBXHOST_REQUIRE"), ","), "git") {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	h := newHost(t, nil)
	git := h.Root() + "/.git"
	run := func(script string) error { return h.Command(t.Context(), "fast", "sh", "-c", script).Run() }

	read, write := io.Pipe()
	early := h.Command(t.Context(), "fast", "cat")
	early.Stdin = read
	if err := early.Start(); err != nil {
		t.Fatal(err)
	}
	if err := run("git init -q && echo : >.git/hooks/made"); err != nil {
		t.Fatal(err)
	}
	if err := run("echo : >.git/hooks/late"); err == nil {
		t.Error("the hooks of a repository that was made by a command are writable by the next one")
	}
	if err := run("echo : >.git/config.worktree"); err == nil {
		t.Error("config.worktree can be created")
	}
	if err := run("echo : >.git/description"); err != nil {
		t.Errorf("control: %v", err)
	}
	for _, name := range []string{"/config.worktree", "/hooks", ""} {
		if err := os.RemoveAll(git + name); err != nil {
			t.Fatal(err)
		}
		if err := run("true"); err != nil {
			t.Errorf("without .git%s: %v", name, err)
		}
	}
	write.Close()
	if err := early.Wait(); err != nil {
		t.Errorf("the command that ran all the time: %v", err)
	}
}

// Explain gives the workspace's variables their origin, and says where a caller
// from elsewhere would be.
func TestExplainSaysWhereAndWho(t *testing.T) {
	t.Parallel()
	h := newHost(t, func(o *host.Options) {
		o.Dir = t.TempDir()
		o.Workspace.Env = map[string]string{"GIT_AUTHOR_NAME": "Given"}
	})
	e, err := h.Command(t.Context(), "fast", "true").Explain()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(e.Env, host.EnvVar{Name: "GIT_AUTHOR_NAME", Origin: "workspace.env"}) {
		t.Errorf("variables %v", e.Env)
	}
	open, err := h.Command(t.Context(), "open", "true").Explain()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []*host.Explanation{e, open} {
		if e.Command.Dir != h.Root() {
			t.Errorf("%s runs in %s", e.Sandbox, e.Command.Dir)
		}
	}
}

// What a hook that is a symlink leads to is executed by git as the hook is.
func TestLinkedHooksAreProtected(t *testing.T) {
	t.Parallel()
	h := newHost(t, func(o *host.Options) {
		newGitRoot(t, o.Dir)
		for _, err := range []error{
			os.MkdirAll(o.Dir+"/.git/hooks", 0o755), os.Mkdir(o.Dir+"/scripts", 0o755),
			os.WriteFile(o.Dir+"/scripts/check", []byte("#!/bin/sh\n"), 0o755), os.WriteFile(o.Dir+"/scripts/free", nil, 0o755),
			os.Symlink("../../scripts/check", o.Dir+"/.git/hooks/pre-commit"), os.Symlink("../../scripts/missing", o.Dir+"/.git/hooks/pre-push"),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
	})
	out, err := h.Command(t.Context(), "fast", "sh", "-c", `for p in check missing free; do (echo x >scripts/$p) 2>/dev/null && echo $p; done
		mv scripts was 2>/dev/null && echo moved; rm -f scripts/check 2>/dev/null && echo removed; true`).Output()
	if err != nil || string(out) != "free\n" {
		t.Errorf("%v: %s", err, out)
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	if got := listed(t, h.Root()+"/scripts"); len(got) != 2 {
		t.Errorf("there is %q", got)
	}
}

// What a command leaves for a git outside to act on is reported, and what is not
// understood with it. No name forges a line.
func TestRepositoriesAreReported(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil {
		if slices.Contains(strings.Split(os.Getenv("SBXHOST_REQUIRE"), ","), "git") {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	h := newHost(t, func(o *host.Options) { newGitRoot(t, o.Dir) })
	const base = "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b; "
	for _, tt := range []struct {
		name, script string
		acts         bool
		want         string
	}{
		{"a plain repository", "git init -q plain", false, "plain"},
		{"a hook", "git init -q hook && printf x >hook/.git/hooks/pre-commit && chmod +x hook/.git/hooks/pre-commit", true, "pre-commit"},
		{"a key", "git init -q key && git -C key config core.fsmonitor ./evil", true, "core.fsmonitor"},
		{"a commondir elsewhere", "git init -q common && cp -a common/.git there && echo ../../there >common/.git/commondir", true, "commondir"},
		{"a long configuration", "git init -q long && head -c 1100000 /dev/zero | tr '\\0' '\\n' >>long/.git/config && printf '[core]\nfsmonitor=x\n' >>long/.git/config", true, "more than 1048576 bytes"},
		{"a name of two lines", "mkdir 'a\nsbxhost: all is well' && cd a* && git init -q && git config alias.x '!y'", true, `a\nsbxhost`},
		{"many hooks", "git init -q many && cd many/.git/hooks && for i in $(seq 900); do echo x >$i; done && chmod +x [0-9]*", true, "and 890 more"},
		{"a rebase in a repository that was there", "for i in 1 2 3; do git commit -q --allow-empty -m $i; done; GIT_SEQUENCE_EDITOR='sed -i s/^pick/edit/' git rebase -q -i HEAD~2", true, ".git/rebase-merge"},
		{"nothing", "git status", false, ""},
		{"many repositories", "mkdir lots; for i in $(seq 100); do git init -q --template= lots/$i; done", false, "lots/1"},
		{"its list, changed", "echo exec evil >.git/rebase-merge/git-rebase-todo", true, ".git/rebase-merge"},
	} {
		cmd := h.Command(t.Context(), "fast", "sh", "-c", base+tt.script)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", tt.name, err, out)
		}
		reports := cmd.Report().Repositories
		if tt.want == "" {
			if len(reports) != 0 {
				t.Errorf("%s: %v", tt.name, reports)
			}
			continue
		}
		if len(reports) == 0 {
			t.Errorf("%s: no report", tt.name)
			continue
		}
		if n := len(reports); n > 10 && (n > 40 || !strings.Contains(reports[n-1].String(), "68 more repositories")) {
			t.Errorf("%s: %d reports, the last %v", tt.name, n, reports[n-1])
		}
		r := reports[0]
		if r.Executes() != tt.acts || !strings.Contains(r.String(), tt.want) || strings.ContainsAny(r.String(), "\n") || len(r.String()) > 4000 {
			t.Errorf("%s: acts: %v, %s", tt.name, r.Executes(), r.String())
		}
	}
}
