package host_test

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/shared"
)

// listed is everything below dir.
func listed(t testing.TB, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(p string, _ os.DirEntry, err error) error {
		if p != dir {
			names = append(names, strings.TrimPrefix(p, dir+"/"))
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return names
}

// newGitRoot makes the least that git takes for a repository, and a file beside it:
// in an empty directory less is held.
func newGitRoot(t testing.TB, root string) {
	t.Helper()
	for _, dir := range []string{"objects", "refs"} {
		if err := os.MkdirAll(root+"/.git/"+dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{".git/HEAD": "ref: refs/heads/main\n", ".git/config": "[core]\n\trepositoryformatversion = 0\n", "file": ""} {
		if err := os.WriteFile(root+"/"+name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// Many commands of several hosts need the same missing paths, some of them
// denied. None can create one, however the others come and go, and nothing is
// left.
func TestManyCommandsShareWhatIsMissing(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	newGitRoot(t, root)
	before := listed(t, root)
	var hosts []*host.Host
	for range 3 {
		hosts = append(hosts, newHost(t, func(o *host.Options) {
			o.Dir, o.Workspace.Root = root, root
			o.Sandboxes["fast"] = host.Definition{Engine: "native", DenyPaths: []string{"secret", "not/yet"}}
		}))
	}
	const attack = `for p in .git/hooks/x .git/commondir .git/config.worktree .git/info/attributes .claude .vscode/x secret not/yet; do
		(echo x >$p) 2>/dev/null && echo created $p; mkdir $p 2>/dev/null && echo made $p; done; true`
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			out, err := hosts[i%len(hosts)].Command(t.Context(), "fast", "sh", "-c", attack).Output()
			if err != nil || len(out) > 0 {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	wg.Wait()
	for _, h := range hosts {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}
	if after := listed(t, root); !slices.Equal(after, before) {
		t.Errorf("there is %q, and was %q", after, before)
	}
	// The control: nothing but the sandbox keeps a command from it.
	out, err := exec.Command("sh", "-c", "cd "+root+" && "+attack).Output()
	if err != nil || !strings.Contains(string(out), "created secret") {
		t.Errorf("control: %v: %s", err, out)
	}
}

// What a killed host has left is gone after the next command in the workspace.
func TestKilledHostLeavesNothingForLong(t *testing.T) {
	t.Parallel()
	requireBwrap(t)
	root := t.TempDir()
	newGitRoot(t, root)
	before := listed(t, root)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	killed := exec.Command(exe)
	killed.Env = append(os.Environ(), hostProcessEnv+"="+root)
	stdout, err := killed.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := killed.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "ready\n" {
		t.Fatalf("%q, %v", line, err)
	}
	if during := listed(t, root); !slices.Contains(during, ".git/commondir") {
		t.Errorf("control: while it runs there is %q", during)
	}
	killed.Process.Kill()
	killed.Wait()

	next := newHost(t, func(o *host.Options) { o.Dir, o.Workspace.Root, o.Linger = root, root, -1 })
	if err := next.Command(t.Context(), "fast", "true").Run(); err != nil {
		t.Fatal(err)
	}
	if after := listed(t, root); !slices.Equal(after, before) {
		t.Errorf("there is %q, and was %q", after, before)
	}
}

// A host that can keep no account of what it makes holds it all the same, and
// takes it away.
func TestWithoutAStateDirectory(t *testing.T) {
	t.Parallel()
	closed := t.TempDir()
	if err := os.Chmod(closed, 0o555); err != nil {
		t.Fatal(err)
	}
	for _, env := range [][]string{nil, {"HOME=" + closed}, {"XDG_STATE_HOME=/proc/self"}} {
		h := newHost(t, func(o *host.Options) {
			o.Environ = append(env, "PATH="+os.Getenv("PATH"))
			newGitRoot(t, o.Dir)
		})
		before := listed(t, h.Root())
		cmd := h.Command(t.Context(), "fast", "sh", "-c", `for p in .git/hooks/x .git/commondir .git/info/attributes .claude .zed/x; do
			(echo x >$p) 2>/dev/null && echo created $p; mkdir $p 2>/dev/null && echo made $p; done; true`)
		if out, err := cmd.Output(); err != nil || len(out) > 0 {
			t.Errorf("%q: %v: %s", env, err, out)
		}
		if got := strings.Join(cmd.Report().Degraded, "\n"); strings.Contains(got, "create") {
			t.Errorf("%q: degraded: %q", env, got)
		}
		if err := h.Close(); err != nil {
			t.Error(err)
		}
		if after := listed(t, h.Root()); !slices.Equal(after, before) {
			t.Errorf("%q: there is %q, and was %q", env, after, before)
		}
	}
}

// Where nothing can hold the place of a path that a command could create all the
// same, nothing runs: the directory is the command's, who can change its mode.
func TestWhatCannotBeHeldIsRefused(t *testing.T) {
	t.Parallel()
	if os.Getuid() == 0 {
		t.Skip("root can create everywhere")
	}
	h := newHost(t, func(o *host.Options) {
		newGitRoot(t, o.Dir)
		if err := os.Chmod(o.Dir+"/.git", 0o555); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.Chmod(o.Dir+"/.git", 0o755) })
	})
	err := h.Command(t.Context(), "fast", "true").Run()
	if err == nil || !errors.Is(err, shared.ErrInvalidSpec) || !strings.Contains(err.Error(), ".git/branches") { // the first of them
		t.Errorf("%v", err)
	}
	if err := os.Chmod(h.Root()+"/.git", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := h.Command(t.Context(), "fast", "true").Run(); err != nil {
		t.Errorf("control: %v", err)
	}
}

// Of another's directory in which the caller cannot create anything, nothing is
// held and nothing refused.
func TestWhatNobodyCanCreateIsNotRefused(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can make another's directory")
	}
	h := newHost(t, func(o *host.Options) { newGitRoot(t, o.Dir) })
	if out, err := exec.Command("chattr", "+i", h.Root()+"/.git").CombinedOutput(); err != nil {
		if slices.Contains(strings.Split(os.Getenv("SBXHOST_REQUIRE"), ","), "bwrap") {
			t.Fatalf("immutable directories are required: %v: %s", err, out)
		}
		t.Skipf("this file system has no immutable directories: %v: %s", err, out)
	}
	defer exec.Command("chattr", "-i", h.Root()+"/.git").Run()
	cmd := h.Command(t.Context(), "fast", "sh", "-c", "! mkdir .git/hooks/x .git/commondir 2>/dev/null")
	if err := cmd.Run(); err != nil {
		t.Error(err)
	}
	if got := strings.Join(cmd.Report().Degraded, "\n"); strings.Contains(got, "create") {
		t.Errorf("degraded: %q", got)
	}
}

// Commands that root runs as the workspace's owner are kept from the same, and
// leave nothing that the owner cannot remove.
func TestMissingPathsOfAnotherUser(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can run commands as another user")
	}
	h := newHost(t, func(o *host.Options) {
		newGitRoot(t, o.Dir)
		if out, err := exec.Command("chown", "-R", "65534:65534", o.Dir).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		for dir := o.Dir; dir != "/"; dir = filepath.Dir(dir) {
			if info, err := os.Stat(dir); err == nil && info.Mode().Perm()&0o001 == 0 {
				if err := os.Chmod(dir, info.Mode().Perm()|0o011); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
	if err := h.Command(t.Context(), "fast", "sh", "-c", "echo x >.git/commondir").Run(); err == nil {
		t.Error("commondir can be created")
	}
	if err := h.Command(t.Context(), "fast", "sh", "-c", "echo x >.git/info/exclude").Run(); err != nil {
		t.Errorf("control: %v", err)
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	if got := listed(t, h.Root()+"/.git/info"); !slices.Equal(got, []string{"exclude"}) {
		t.Errorf("in .git/info there is %q", got)
	}
	info, err := os.Stat(h.Root() + "/.git/info")
	if err != nil || info.Sys().(*syscall.Stat_t).Uid != 65534 {
		t.Errorf("what was a stub is not the owner's: %+v, %v", info, err)
	}
}

// What sbxhost would run, or take for its user's word, cannot be put where binds
// are writable: it is the next run that would act on it.
func TestNothingIsPlantedForTheNextRun(t *testing.T) {
	t.Parallel()
	requireBwrap(t)
	home, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	binds := []string{"bin", "there", "data", "config", "go/bin"}
	for _, dir := range binds {
		if err := os.MkdirAll(filepath.Join(home, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	exe, err := os.Executable() // what this sbxhost is called
	if err != nil {
		t.Fatal(err)
	}
	programs, own := "", []string{"git", "gh", "sbxhost", filepath.Base(exe)}
	for _, name := range own {
		programs += " bin/" + name + " there/" + name
		if err := os.WriteFile(filepath.Join(home, "there", name), []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	before := listed(t, home)
	h := newHost(t, func(o *host.Options) {
		o.Environ = []string{"PATH=" + home + "/bin:" + home + "/there:" + os.Getenv("PATH"), "HOME=" + home, "XDG_CONFIG_HOME=" + home + "/config",
			"SBXHOST_CONFIG=" + home + "/config/mine.hcl", "GH_CONFIG_DIR=" + home + "/data/gh/", "DOCKER_CONFIG=" + home + "/data/docker"}
		o.Engines = map[string]host.EngineSource{"x": {Source: home + "/data/sbxhost-engine-x"}}
		o.EngineDir = home + "/go/bin"
		d := o.Sandboxes["fast"]
		for _, dir := range binds {
			d.BindPaths = append(d.BindPaths, host.Bind{Host: filepath.Join(home, dir), Writable: true})
		}
		o.Sandboxes["fast"] = d
	})
	script := "cd " + home + `; for p in bin/control` + programs + ` data/sbxhost-engine-x go/bin/sbxhost-engine-bwrap \
		go/bin/sbxhost-engine-docker go/bin/sbxhost-init config/sbxhost/config.hcl config/mine.hcl config/gh/hosts.yml data/gh/hosts.yml data/docker/config.json; do
		(mkdir -p $(dirname $p); echo x >$p) 2>/dev/null && echo $p; (rmdir $p || mv $p $p.old) 2>/dev/null && echo removed $p; done; true`
	for range 2 { // what holds a place is no program: the second starts like the first
		out, err := h.Command(t.Context(), "fast", "sh", "-c", script).Output()
		if err != nil || string(out) != "bin/control\nremoved bin/control\n" {
			t.Errorf("%v: %s", err, out)
		}
		if err := os.Remove(home + "/bin/control.old"); err != nil {
			t.Error(err)
		}
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	for _, name := range own {
		if text, err := os.ReadFile(filepath.Join(home, "there", name)); err != nil || string(text) != "#!/bin/sh\n" {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
	// sbxhost's own account and sessions aside.
	after := slices.DeleteFunc(listed(t, home), func(p string) bool { return strings.HasPrefix(p, ".") })
	if !slices.Equal(after, before) {
		t.Errorf("there is %q, and was %q", after, before)
	}
}

// A writable home keeps what programs of the host obey, and a definition can give
// it up.
func TestHomeIsKept(t *testing.T) {
	t.Parallel()
	requireBwrap(t)
	for _, except := range []string{"", ".gitconfig"} {
		home := t.TempDir()
		h := newHost(t, func(o *host.Options) {
			o.Environ = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home}
			d := o.Sandboxes["fast"]
			d.BindPaths = []host.Bind{{Host: home, Writable: true}}
			if except != "" {
				d.ProtectPathsExcept = []string{except}
			}
			o.Sandboxes["fast"] = d
		})
		out, err := h.Command(t.Context(), "fast", "sh", "-c", "cd "+home+`; for p in .gitconfig .ssh/authorized_keys .config/git/config .bashrc free; do
			(mkdir -p $(dirname $p); echo x >$p) 2>/dev/null && echo $p; done; true`).Output()
		want := "free\n"
		if except != "" {
			want = except + "\n" + want
		}
		if err != nil || string(out) != want {
			t.Errorf("without %q: %v: %s", except, err, out)
		}
	}
}

// No part of what sbxhost remembers is given to commands.
func TestStateIsNotBound(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	for _, dir := range []string{state + "/sbxhost", state + "/sbxhost/stubs"} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		h := newHost(t, func(o *host.Options) {
			o.Environ = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "XDG_STATE_HOME=" + state}
			d := o.Sandboxes["fast"]
			d.BindPaths = []host.Bind{{Host: dir, Writable: true}}
			o.Sandboxes["fast"] = d
		})
		err := h.Check(t.Context(), "fast")
		if e, ok := errors.AsType[*shared.Error](err); !ok || e.Attribute != "bind_paths[0]" || !strings.Contains(e.Message, "never writable inside") {
			t.Errorf("%s: %v", dir, err)
		}
	}
}

// Nor does a command see it: it would hold the locks that all others take.
func TestStateIsHidden(t *testing.T) {
	t.Parallel()
	requireBwrap(t)
	const locks = ".local/state/sbxhost/stubs"
	for name, c := range map[string]struct {
		state string // XDG_STATE_HOME, beneath the home directory
		at    string // of the directory of locks, inside
		bind  host.Bind
	}{
		"bound":                  {"", locks, host.Bind{Host: "~"}},
		"bound for writing":      {"", locks, host.Bind{Host: "~", Writable: true}},
		"a part of it":           {"", locks, host.Bind{Host: "~/" + locks}},
		"elsewhere":              {"", "/elsewhere/state/sbxhost/stubs", host.Bind{Host: "~/.local", Container: "/elsewhere"}},
		"not there yet":          {"new", "new/sbxhost/stubs", host.Bind{Host: "~"}},
		"not there yet, written": {"new", "new/sbxhost/stubs", host.Bind{Host: "~", Writable: true}},
	} {
		home := t.TempDir()
		if err := os.MkdirAll(filepath.Join(home, locks), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(home, locks, "lock"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(home, "new"), 0o700); err != nil {
			t.Fatal(err)
		}
		h := newHost(t, func(o *host.Options) {
			o.Environ = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home}
			if c.state != "" {
				o.Environ = append(o.Environ, "XDG_STATE_HOME="+filepath.Join(home, c.state))
			}
			d := o.Sandboxes["fast"]
			d.BindPaths = []host.Bind{c.bind}
			o.Sandboxes["fast"] = d
		})
		at := c.at
		if !filepath.IsAbs(at) {
			at = filepath.Join(home, at)
		}
		out, err := h.Command(t.Context(), "fast", "sh", "-c", `ls "$1" || cat "$1/lock" || echo hidden`, "sh", at).Output()
		if err != nil || string(out) != "hidden\n" {
			t.Errorf("%s: %v: %q", name, err, out)
		}
	}
}

// What somebody replaces outside while a command runs is not held any more, and
// that is said.
func TestReplacedWhileItRuns(t *testing.T) {
	t.Parallel()
	requireBwrap(t)
	h := newHost(t, func(o *host.Options) {
		newGitRoot(t, o.Dir)
		for _, name := range []string{".env", "kept.env"} {
			if err := os.WriteFile(filepath.Join(o.Dir, name), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		d := o.Sandboxes["fast"]
		d.DenyPaths = []string{"**/*.env"}
		o.Sandboxes["fast"] = d
	})
	run := func(meanwhile func()) string {
		t.Helper()
		cmd := h.Command(t.Context(), "fast", "sh", "-c", "echo started; read line")
		stdin, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "started\n" {
			t.Fatalf("%q, %v", line, err)
		}
		meanwhile()
		stdin.Write([]byte("\n"))
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
		return strings.Join(cmd.Report().Degraded, "\n")
	}
	if got := run(func() {}); got != "" {
		t.Errorf("control: %q", got)
	}
	got := run(func() {
		for _, name := range []string{"/.env", "/.git/config"} {
			if err := errors.Join(os.WriteFile(h.Root()+name+".new", []byte("new"), 0o600), os.Rename(h.Root()+name+".new", h.Root()+name)); err != nil {
				t.Error(err)
			}
		}
	})
	if !strings.Contains(got, "/.env was removed or replaced") || !strings.Contains(got, "/.git/config was removed or replaced") || strings.Contains(got, "kept.env") {
		t.Errorf("%q", got)
	}
	// Also if nothing in it was hidden or protected: nobody finds what the command makes there.
	other := filepath.Join(t.TempDir(), "other")
	if err := os.Mkdir(other, 0o700); err != nil {
		t.Fatal(err)
	}
	h = newHost(t, func(o *host.Options) { o.Dir, o.Workspace.Root = other, other })
	got = run(func() {
		if err := os.Rename(other, other+".moved"); err != nil {
			t.Error(err)
		}
	})
	if !strings.Contains(got, "/other was removed or replaced") {
		t.Errorf("%q", got)
	}
}

// What holds places stays for the next command for as long as was asked, and is
// then gone, at the latest with the host.
func TestLinger(t *testing.T) {
	t.Parallel()
	held := func(linger time.Duration) (*host.Host, func() bool) {
		h := newHost(t, func(o *host.Options) {
			o.Linger = linger
			newGitRoot(t, o.Dir)
		})
		return h, func() bool {
			_, err := os.Lstat(h.Root() + "/.vscode")
			return err == nil
		}
	}
	run := func(h *host.Host) {
		t.Helper()
		if err := h.Command(t.Context(), "fast", "sh", "-c", "! mkdir .vscode/x 2>/dev/null").Run(); err != nil {
			t.Error(err)
		}
	}
	h, there := held(-1)
	run(h)
	if there() {
		t.Error("it lingers")
	}
	h, there = held(time.Hour)
	for range 3 {
		run(h)
		if !there() {
			t.Error("it does not linger")
		}
	}
	if err := h.Close(); err != nil || there() {
		t.Errorf("after Close: %v, there %v", err, there())
	}
	h, there = held(time.Millisecond)
	run(h)
	if !eventually(func() bool { return !there() }) {
		t.Fatal("it lingers for ever")
	}
	// What somebody has put there meanwhile stays.
	h, _ = held(time.Hour)
	run(h)
	if err := os.WriteFile(h.Root()+"/.vscode/settings.json", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(h.Root() + "/.vscode/settings.json"); err != nil {
		t.Error(err)
	}
}

// A repository that a command makes moves the root of the commands that start in it,
// and must not make another path of what is hidden relative to the root.
func TestMovedRootHidesTheSame(t *testing.T) {
	t.Parallel()
	requireBwrap(t)
	top := t.TempDir()
	for _, dir := range []string{".git", "sub/secrets", "sub/kept"} {
		if err := os.MkdirAll(filepath.Join(top, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(top, "sub/secrets/x"), []byte("secret\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, said := range []bool{false, true} {
		for range 2 {
			h := newHost(t, func(o *host.Options) {
				o.Dir = filepath.Join(top, "sub")
				o.Workspace.Root = ""
				if said {
					o.Workspace.Root = filepath.Join(top, "sub") // where the pattern names something else
				}
				o.Sandboxes["fast"] = host.Definition{Engine: "native", DenyPaths: []string{"sub/secrets/"}, ProtectPaths: []string{"sub/kept"}}
			})
			got := output(t, h, "fast", "cat secrets/x 2>/dev/null; (echo x >kept/x) 2>/dev/null && echo written; rm -f kept/x; mkdir -p .git; echo ran")
			if want := map[bool]string{false: "ran\n", true: "secret\nwritten\nran\n"}[said]; got != want {
				t.Errorf("root said %v: %q", said, got)
			}
			h.Close()
		}
	}
}
