package host_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/shared"
)

// withTemp gives a Host's options a scratch directory and a place for sessions.
func withTemp(base, name string) func(*host.Options) {
	return func(o *host.Options) {
		o.Workspace.Temp = true
		o.Session = host.SessionOptions{Name: name, Dir: base}
	}
}

func output(t *testing.T, h *host.Host, sandbox, script string) string {
	t.Helper()
	out, err := h.Command(t.Context(), sandbox, "sh", "-c", script).CombinedOutput()
	if err != nil {
		t.Errorf("%s: %v\n%s", script, err, out)
	}
	return string(out)
}

// What a command calls /tmp/x, the Host's caller finds, and the next command of
// whatever definition; after Close it is gone.
func TestTempLastsForTheSession(t *testing.T) {
	t.Parallel()
	base := t.TempDir() + "/sessions"
	h := newHost(t, withTemp(base, ""))
	temp := h.Workspace().TempAlias()
	if err := os.WriteFile(temp+"/given", []byte("from outside"), 0o644); err != nil {
		t.Error(err)
	}
	if got := output(t, h, "fast", "cat /tmp/given; mkdir /tmp/d; echo made >/tmp/d/f"); got != "from outside" {
		t.Errorf("got %q", got)
	}
	made := temp + "/d/f"
	if text, err := os.ReadFile(made); err != nil || string(text) != "made\n" {
		t.Errorf("%s: %q, %v", made, text, err)
	}
	if got := output(t, h, "online", "cat "+made+" /tmp/d/f"); got != "made\nmade\n" {
		t.Errorf("with a network, and at its path on the host: %q", got)
	}
	cmd := h.Command(t.Context(), "fast", "pwd")
	cmd.Dir = "/tmp/d"
	if out, err := cmd.Output(); err != nil || string(out) != "/tmp/d\n" {
		t.Errorf("as working directory: %q, %v", out, err)
	}
	cmd.Wait()
	report := cmd.Report()
	if report.Session.Name != "" || filepath.Dir(report.Session.Dir) != base || len(report.Degraded) != 0 {
		t.Errorf("%+v", report)
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(filepath.Dir(made)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after Close: %v", err)
	}
}

// The workspace of these tests lies below /tmp itself, and so do other binds.
func TestMountPointsInTemp(t *testing.T) {
	t.Parallel()
	bound := t.TempDir() + "/file"
	if err := os.WriteFile(bound, []byte("bound"), 0o644); err != nil {
		t.Fatal(err)
	}
	h := newHost(t, func(o *host.Options) {
		withTemp(t.TempDir()+"/sessions", "")(o)
		o.Sandboxes["fast"] = host.Definition{Engine: "native", BindPaths: []host.Bind{{Host: bound}, {Host: bound, Container: "/tmp/here"}}}
	})
	if got := output(t, h, "fast", "echo x >made; cat "+bound+" /tmp/here"); got != "boundbound" {
		t.Errorf("got %q", got)
	}
	if _, err := os.Stat(h.Root() + "/made"); err != nil {
		t.Error(err)
	}
	// A command cannot move what the next one's mounts go to; nor does one that
	// could - in a sandbox of another definition, say - get anything by it.
	first := strings.Split(strings.TrimPrefix(h.Root(), "/tmp/"), "/")[0]
	if err := h.Command(t.Context(), "fast", "mv", "/tmp/"+first, "/tmp/aside").Run(); err == nil {
		t.Error("what holds mounts was moved")
	}
	temp, secret := h.Workspace().TempAlias(), t.TempDir()
	if err := errors.Join(os.Rename(filepath.Join(temp, first), filepath.Join(temp, "aside")), os.Symlink(secret, filepath.Join(temp, first))); err != nil {
		t.Fatal(err)
	}
	err := h.Command(t.Context(), "fast", "true").Run()
	if e, ok := errors.AsType[*shared.Error](err); !ok || !strings.Contains(e.Message, "has put something else") {
		t.Errorf("got %v", err)
	}
	if left, err := os.ReadDir(secret); err != nil || len(left) != 0 {
		t.Errorf("made where the link leads: %v, %v", left, err)
	}
}

// A named session is what one Host after another has, of one workspace alone.
func TestNamedSession(t *testing.T) {
	t.Parallel()
	base, root := t.TempDir()+"/sessions", t.TempDir()
	same := func(o *host.Options) {
		withTemp(base, "work")(o)
		o.Workspace.Root, o.Dir = root, root
	}
	a := newHost(t, same)
	output(t, a, "fast", "echo one >/tmp/f")
	if got := output(t, a, "online", "cat /tmp/f"); got != "one\n" {
		t.Errorf("got %q", got)
	}
	b := newHost(t, same)
	if err := b.Command(t.Context(), "fast", "true").Run(); !errors.Is(err, host.ErrSessionInUse) || err.Error() != fmt.Sprintf(`session "work" is in use by process %d`, os.Getpid()) {
		t.Errorf("of a second Host: %v", err)
	}
	explanation, err := b.Command(t.Context(), "fast", "true").Explain()
	must(t, err)
	if notes := fmt.Sprint(explanation.Plan.Notes); !strings.Contains(notes, "the plan is for an empty one") {
		t.Errorf("of a plan: %s", notes)
	}
	list, err := host.Sessions(t.Context(), nil, base)
	if err != nil || len(list) != 1 || list[0].Name != "work" || !list[0].InUse || list[0].Workspace != a.Root() || list[0].Size == 0 {
		t.Errorf("%+v, %v", list, err)
	}
	if err := host.RemoveSession(nil, base, "work"); !errors.Is(err, host.ErrSessionInUse) {
		t.Errorf("removing one in use: %v", err)
	}
	must(t, a.Close())
	if got := output(t, b, "fast", "cat /tmp/f"); got != "one\n" {
		t.Errorf("got %q", got)
	}
	must(t, b.Close())
	o := host.Options{Builtins: builtins, Workspace: host.WorkspaceOptions{Root: t.TempDir(), Temp: true}, Session: host.SessionOptions{Name: "work", Dir: base}}
	if _, err := host.New(t.Context(), o); !errors.Is(err, host.ErrSessionWorkspace) {
		t.Errorf("another workspace's: %v", err)
	}
	o.Session.Name = "../work"
	if _, err := host.New(t.Context(), o); !errors.Is(err, host.ErrSessionName) {
		t.Errorf("no name: %v", err)
	}
}

// What a command leaves in a session's home, and in the caches of toolchains, is
// found by those that reach no further than it does: it would be run by the others.
func TestCommandsOfAnotherReachShareNoHome(t *testing.T) {
	t.Parallel()
	const plant = "echo evil >~/.bashrc; echo evil >~/.gitconfig; echo evil >~/.npm/_cacache/tarball; echo evil >~/.npm/_cacache/more; echo work >shared; echo work >/tmp/shared"
	const look = "cat ~/.bashrc ~/.gitconfig ~/.npm/_cacache/*; cat shared /tmp/shared"
	const nothing, planted, work = "good\n", "evil\nevil\nevil\nevil\n", "work\nwork\n"
	for _, name := range []string{"", "work"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			home, base, root := t.TempDir(), t.TempDir()+"/sessions", t.TempDir()
			cache := home + "/.npm/_cacache"
			if err := errors.Join(os.MkdirAll(cache, 0o755), os.WriteFile(cache+"/tarball", []byte("good\n"), 0o644)); err != nil {
				t.Fatal(err)
			}
			options := func(o *host.Options) {
				withTemp(base, name)(o)
				o.Dir, o.Workspace.Root, o.Workspace.Readable = root, root, []string{cache}
				o.Environ = []string{"PATH=/usr/bin:/bin", "HOME=" + home, "GH_TOKEN=secret"}
				o.Credentials = map[string]host.Credential{"github": {Pass: true}}
				o.Sandboxes["alike"] = host.Definition{Engine: "native", ReadOnly: true}
				o.Sandboxes["token"] = host.Definition{Engine: "native", Credentials: []string{"github"}}
				o.Sandboxes["both"] = host.Definition{Engine: "native", Network: host.Network{Host: true}, Credentials: []string{"github"}}
				o.Sandboxes["both again"] = host.Definition{Engine: "native", Network: host.Network{Host: true}, Credentials: []string{"github"}, ReadOnly: true}
			}
			h := newHost(t, options)
			see := func(h *host.Host, sandbox, want string) {
				t.Helper()
				cmd := h.Command(t.Context(), sandbox, "sh", "-c", look)
				out, err := cmd.Output()
				if string(out) != want {
					t.Errorf("%s: %q, want %q (%v, %+v)", sandbox, out, want, err, cmd.Report())
				}
			}
			output(t, h, "fast", plant)
			for sandbox, want := range map[string]string{
				"fast": planted, "alike": planted, "online": planted, "token": nothing, "both": nothing,
			} {
				see(h, sandbox, want+work)
			}
			output(t, h, "both", plant)
			see(h, "both again", planted+work)
			see(h, "token", planted+work)
			if name == "" {
				return
			}
			// Nor later, nor in another process; and all of it goes with the session.
			if err := h.Close(); err != nil {
				t.Error(err)
			}
			again := newHost(t, options)
			see(again, "alike", planted+work)
			see(again, "both again", planted+work)
			see(again, "token", planted+work)
			cmd := again.Command(t.Context(), "both", "true")
			if err := cmd.Run(); err != nil || cmd.Report().Session.Name != name {
				t.Errorf("%v, %+v", err, cmd.Report())
			}
			if list, err := host.Sessions(t.Context(), nil, base); err != nil || len(list) != 1 || !strings.HasPrefix(cmd.Report().Session.Dir, list[0].Dir+"/") {
				t.Errorf("%+v, %v, %+v", list, err, cmd.Report())
			}
			if err := again.Close(); err != nil {
				t.Error(err)
			}
			if err := host.RemoveSession(nil, base, name); err != nil {
				t.Error(err)
			}
			if left, err := os.ReadDir(base); err != nil || len(left) > 1 {
				t.Errorf("left: %v, %v", left, err)
			}
		})
	}
}

// Without a place for sessions, what can do without them does, and says so.
func TestNoPlaceForSessions(t *testing.T) {
	t.Parallel()
	open := t.TempDir()
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	tools := t.TempDir()
	h := newHost(t, func(o *host.Options) {
		o.Session.Dir, o.Workspace.Readable = open, []string{tools}
	})
	cmd := h.Command(t.Context(), "fast", "true")
	if err := cmd.Run(); err != nil {
		t.Error(err)
	}
	if got := strings.Join(cmd.Report().Degraded, "\n"); !strings.Contains(got, "session: commands share nothing") || cmd.Report().Session.Dir != "" || len(cmd.Report().Overlays) != 0 {
		t.Errorf("%+v", cmd.Report())
	}
	for _, o := range []host.Options{
		{Workspace: host.WorkspaceOptions{Root: h.Root(), Temp: true}, Session: host.SessionOptions{Dir: open}},
		{Workspace: host.WorkspaceOptions{Root: h.Root(), Temp: true}, Environ: []string{"PATH=/bin"}},
	} {
		o.Builtins = builtins
		if os.Getuid() == 0 && o.Environ != nil {
			o.Environ = append(o.Environ, "HOME=")
		}
		if h, err := host.New(t.Context(), o); err == nil {
			h.Close()
			t.Errorf("%+v: a scratch directory was promised", o)
		}
	}
}

// A Host for one command makes a session only for what is written there.
func TestOnce(t *testing.T) {
	t.Parallel()
	base := t.TempDir() + "/sessions"
	tools := t.TempDir()
	h := newHost(t, func(o *host.Options) { o.Session = host.SessionOptions{OneShot: true, Dir: base} })
	cmd := h.Command(t.Context(), "fast", "true")
	if err := cmd.Run(); err != nil || cmd.Report().Session.Dir != "" {
		t.Errorf("%v, %+v", err, cmd.Report())
	}
	if _, err := os.Lstat(base); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("something was made: %v", err)
	}
	h = newHost(t, func(o *host.Options) {
		o.Session, o.Workspace.Readable = host.SessionOptions{OneShot: true, Dir: base}, []string{tools}
	})
	e, err := h.Command(t.Context(), "fast", "true").Explain()
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, m := range e.Spec.Table {
		found = found || m.Source == tools && m.Access == shared.Overlay && m.Degradable
	}
	if !found || e.Session.Dir == "" || e.Spec.Session.Dir != e.Session.Dir {
		t.Errorf("%+v", e.Spec)
	}
}

// No mount shows the directories of sessions: neither this one's nor another's.
func TestSessionsAreHidden(t *testing.T) {
	t.Parallel()
	outer := t.TempDir()
	base := outer + "/sessions"
	other := newHost(t, withTemp(base, "other"))
	output(t, other, "fast", "echo secret >/tmp/f")
	for name, d := range map[string]host.Definition{
		"bound":    {Engine: "native", BindPaths: []host.Bind{{Host: outer}}},
		"writable": {Engine: "native", BindPaths: []host.Bind{{Host: outer, Writable: true}}},
		"moved":    {Engine: "native", BindPaths: []host.Bind{{Host: outer, Container: "/outer"}}},
	} {
		h := newHost(t, func(o *host.Options) {
			withTemp(base, "")(o)
			o.Sandboxes["fast"] = d
		})
		got := output(t, h, "fast", "find "+outer+" /outer -name 'n-*' -o -name lock 2>/dev/null; echo end; echo mine >/tmp/f")
		if got != "end\n" {
			t.Errorf("%s: %q", name, got)
		}
		if d.BindPaths[0].Writable {
			out, err := h.Command(t.Context(), "fast", "sh", "-c", "touch "+outer+"/made").CombinedOutput()
			if err != nil {
				t.Errorf("the control: %v %s", err, out)
			}
		}
	}
	h := newHost(t, func(o *host.Options) {
		withTemp(base, "")(o)
		o.Sandboxes["fast"] = host.Definition{Engine: "native", BindPaths: []host.Bind{{Host: base + "/n-other/tmp"}}}
	})
	if err := h.Command(t.Context(), "fast", "true").Run(); err == nil || !strings.Contains(err.Error(), "holds the sessions of sandboxes") {
		t.Errorf("a bind of one: %v", err)
	}
}

// Root's session for a user's commands is theirs to use, not to tamper with.
func TestSessionOfTheOwner(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root has somebody else to run commands as")
	}
	const uid = 54321
	outer := t.TempDir()
	if err := os.Chmod(filepath.Dir(outer), 0o755); err != nil {
		t.Fatal(err)
	}
	h := newHost(t, func(o *host.Options) {
		if err := errors.Join(os.Chown(o.Dir, uid, uid), os.Chmod(filepath.Dir(o.Dir), 0o755)); err != nil {
			t.Fatal(err)
		}
		withTemp(outer+"/sessions", "theirs")(o)
		if err := errors.Join(os.Mkdir(outer+"/tools", 0o755), os.WriteFile(outer+"/tools/f", []byte("original\n"), 0o644),
			os.Chown(outer+"/tools", uid, uid), os.Chown(outer+"/tools/f", uid, uid)); err != nil {
			t.Fatal(err)
		}
		o.Workspace.Readable = []string{outer + "/tools"}
		o.Sandboxes["fast"] = host.Definition{Engine: "native", BindPaths: []host.Bind{{Host: "/usr/share", Container: "/tmp/a/b"}}}
	})
	output(t, h, "fast", "touch /tmp/a/beside")
	tools := "cd " + outer + "/tools; cat f; stat -c %u f; "
	if got := output(t, h, "fast", tools+"echo changed >f; mkdir d; chmod 0 d"); got != "original\n54321\n" {
		t.Errorf("got %q", got)
	}
	if got := output(t, h, "fast", tools); got != "changed\n54321\n" {
		t.Errorf("got %q", got)
	}
	if text, err := os.ReadFile(outer + "/tools/f"); err != nil || string(text) != "original\n" {
		t.Errorf("the host's file: %q, %v", text, err)
	}
	if got := output(t, h, "fast", "echo x >/tmp/f; id -u; stat -c %u /tmp /tmp/f"); got != strings.Repeat(fmt.Sprintln(uid), 3) {
		t.Errorf("got %q", got)
	}
	dir := h.Workspace().TempAlias()
	for path, want := range map[string]uint32{dir: uid, filepath.Dir(dir): 0, filepath.Dir(dir) + "/lock": 0} {
		if info, err := os.Lstat(path); err != nil || info.Sys().(*syscall.Stat_t).Uid != want {
			t.Errorf("%s: %v, %v, want owner %d", path, info, err, want)
		}
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	if err := host.RemoveSession(nil, outer+"/sessions", "theirs"); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(outer + "/sessions"); err != nil || len(left) > 1 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// An extra readable root of the command's user is asked to be an overlay; one of
// another's, a file, and one that commands could write anyway are not.
func TestReadableRootsAreOverlays(t *testing.T) {
	t.Parallel()
	tools, file := t.TempDir(), t.TempDir()+"/file"
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	h := newHost(t, func(o *host.Options) {
		if err := os.MkdirAll(o.Dir+"/vendor", 0o755); err != nil {
			t.Fatal(err)
		}
		o.Session.Dir = t.TempDir() + "/sessions"
		o.Workspace.Readable = []string{tools, file, o.Dir + "/vendor", "/usr/lib"}
		o.Environ = append(os.Environ(), "PATH="+tools+":/usr/bin:/bin")
	})
	cmd := h.Command(t.Context(), "fast", "sh", "-c", "echo $PATH")
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := cmd.Run(); err != nil || !strings.HasPrefix(out.String(), tools+":") {
		t.Errorf("%q, %v", out.String(), err)
	}
	want := []string{tools}
	if os.Getuid() == 0 {
		want = append(want, "/usr/lib")
	}
	if got := cmd.Report().Overlays; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("overlays %q, want %q", got, want)
	}
}

// Nothing holds a size for the home and /tmp that a session keeps on a disk.
func TestSizeOnADisk(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "work"} {
		h := newHost(t, func(o *host.Options) {
			withTemp(t.TempDir()+"/sessions", name)(o)
			for sandbox, limits := range map[string]host.Limits{
				"fast": {TempSize: 1 << 20, Enforce: "best_effort"}, "required": {TempSize: 1 << 20}, "unset": {},
			} {
				o.Sandboxes[sandbox] = host.Definition{Engine: "native", Limits: limits}
			}
		})
		if err := h.Command(t.Context(), "required", "true").Run(); !errors.Is(err, shared.ErrUnsupported) || !strings.Contains(err.Error(), `limits.temp_size: nothing can enforce it`) {
			t.Errorf("%q: required: %v", name, err)
		}
		for sandbox, told := range map[string]bool{"fast": true, "unset": false} {
			for range 2 {
				cmd := h.Command(t.Context(), sandbox, "sh", "-c", "head -c 1100k /dev/zero >>/tmp/a")
				if err := cmd.Run(); err != nil {
					t.Fatal(err)
				}
				found := slices.ContainsFunc(cmd.Report().Limits, func(l host.LimitReport) bool { return l.Limit == "temp_size" && l.Hold == "not enforced" })
				if found != told {
					t.Errorf("%q, %s: %+v", name, sandbox, cmd.Report().Limits)
				}
			}
		}
		if e, err := h.Command(t.Context(), "unset", "true").Explain(); err != nil ||
			!slices.ContainsFunc(e.Plan.Notes, func(note string) bool {
				return strings.HasPrefix(note, "session: nothing bounds what commands write to ")
			}) {
			t.Errorf("%q: %v, %v", name, e, err)
		}
	}
}

// The engine bwrap keeps no home for a session without a name, which each command's report says.
func TestHomeOfEachCommand(t *testing.T) {
	t.Parallel()
	requireBwrap(t)
	h := newHost(t, func(o *host.Options) {
		o.Session.Dir = t.TempDir() + "/sessions"
		o.Sandboxes["fast"] = host.Definition{Engine: "bwrap"}
	})
	for range 2 {
		cmd := h.Command(t.Context(), "fast", "sh", "-c", "ls -A ~ | grep -x f; echo x >~/f")
		if out, err := cmd.Output(); err != nil || len(out) > 0 || !strings.Contains(strings.Join(cmd.Report().Degraded, "\n"), "lasts for one command") {
			t.Errorf("%q, %v, %+v", out, err, cmd.Report())
		}
	}
}

// Each command of a Host for several callers begins with what the machine has, whatever another one has
// written or looked for.
func TestSessionOfEachCommand(t *testing.T) {
	t.Parallel()
	base, tools := t.TempDir()+"/sessions", t.TempDir()
	if err := os.WriteFile(tools+"/f", []byte("host\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // after the Host's Close
		if left, err := os.ReadDir(base); err != nil || len(left) > 0 {
			t.Errorf("after Close: %v, %v", left, err)
		}
	})
	h := newHost(t, func(o *host.Options) {
		o.Session, o.Linger = host.SessionOptions{Each: true, Dir: base}, -1
		newGitRoot(t, o.Dir) // with missing paths, whose places are held for each command
		o.Workspace.Readable = []string{tools}
	})
	var dirs []string
	run := func(script string) string {
		t.Helper()
		cmd := h.Command(t.Context(), "fast", "sh", "-c", script)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", script, err, out)
		}
		dirs = append(dirs, cmd.Report().Session.Dir)
		if _, err := os.Lstat(h.Root() + "/.vscode"); err == nil {
			t.Errorf("%s: a place is still held", script)
		}
		return string(out)
	}
	if report := run("true"); report != "" || dirs[0] == "" {
		t.Fatalf("%q, %q", report, dirs)
	}
	run("echo x >~/left; echo x >/tmp/left; cat " + tools + "/later || true")
	if err := os.WriteFile(tools+"/later", []byte("later\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := run("cat " + tools + "/later; ls " + tools); got != "later\nf\nlater\n" {
		t.Errorf("what has come beneath an overlay since it was looked for: %q", got)
	}
	writes := []string{"echo x >>$T/f", "chmod 0700 $T", "mkdir $T/d && rmdir $T/d", "mv $T/f $T/g", "rm $T/f", "ln $T/f $T/g; rm $T/g", "touch -d @1 $T"}
	for _, script := range writes {
		run(strings.ReplaceAll(script, "$T", tools))
		if got := run("ls -a ~ /tmp " + tools + " | grep -x 'left\\|g\\|d'; stat -c %a%Y " + tools + "; cat " + tools + "/f"); !strings.HasSuffix(got, "\nhost\n") || strings.Contains(got, "left") || len(strings.Split(got, "\n")) != 3 {
			t.Errorf("after %s: %q", script, got)
		}
	}
	// All have used one directory, in which nothing stays but what was made for the next one.
	if slices.ContainsFunc(dirs, func(dir string) bool { return dir != dirs[0] }) {
		t.Errorf("directories of sessions: %q", dirs)
	}
	for began := time.Now(); ; {
		layers, err := filepath.Glob(dirs[0] + "/holder/*/own/*")
		if err == nil && len(layers) <= 1 {
			break
		}
		if time.Since(began) > 10*time.Second {
			t.Fatal(layers, err)
		}
	}
	// Two at once share nothing.
	var together [2]*host.Cmd
	for i := range together {
		together[i] = h.Command(t.Context(), "fast", "sh", "-c", "echo "+fmt.Sprint(i)+" >"+tools+"/mine; sleep 0.3; cat "+tools+"/mine")
		var out bytes.Buffer
		together[i].Stdout = &out
		if err := together[i].Start(); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := together[i].Wait(); err != nil || out.String() != fmt.Sprintln(i) {
				t.Errorf("%d: %q, %v", i, out.String(), err)
			}
		}()
	}
	if text, err := os.ReadFile(tools + "/f"); err != nil || string(text) != "host\n" {
		t.Errorf("the host's: %q, %v", text, err)
	}
}

// A Host without a name for its session goes on after somebody has removed the session's files, as by rm -r ~/.cache.
func TestRemovedSession(t *testing.T) {
	t.Parallel()
	for _, each := range []bool{false, true} {
		base, tools := t.TempDir()+"/sessions", t.TempDir()
		h := newHost(t, func(o *host.Options) {
			o.Session, o.Workspace.Readable = host.SessionOptions{Each: each, Dir: base}, []string{tools}
		})
		for range 2 {
			if out, err := h.Command(t.Context(), "fast", "sh", "-c", "echo x >~/f && mkdir "+tools+"/d$(date +%N)").CombinedOutput(); err != nil {
				t.Errorf("each %v: %v\n%s", each, err, out)
			}
			// Again if the holder removes something meanwhile.
			must(t, exec.Command("sh", "-c", "until chmod -R u+rwx "+base+"; rm -r "+base+" || ! test -e "+base+"; do :; done").Run())
		}
	}
}
