package bwrap

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/sbxhost/sbxhost/plugins/internal/inside"
	"github.com/sbxhost/sbxhost/plugins/native"
	"github.com/sbxhost/sbxhost/shared"
)

func sessionSpec(t *testing.T) shared.Spec {
	t.Helper()
	dir := inside.Workspace(t)
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return shared.Spec{Home: "/home/u", Session: shared.Session{ID: t.Name(), Dir: dir}}
}

// homeOf is where the home of a session lies.
func homeOf(spec shared.Spec) string { return spec.Session.Dir + "/home-" + strconv.Itoa(os.Geteuid()) }

// told gives the messages of the events of one kind.
func told(out inside.Outcome, kind shared.EventKind) string {
	var list []string
	for _, e := range out.Events {
		if e.Kind == kind {
			list = append(list, e.Message)
		}
	}
	return strings.Join(list, "\n")
}

func TestSessionHome(t *testing.T) {
	e := needBwrap(t)
	spec := sessionSpec(t)
	old := syscall.Umask(0o277) // no test runs beside this one
	first := inside.Run(t, e, spec, shared.Command{Args: []string{"/bin/sh", "-c", "cd; stat -c %a /home/u; echo kept >/home/u/f; echo gone >/tmp/f"}, Env: append(slices.Clone(inside.Env), "HOME=/home/u")})
	syscall.Umask(old)
	if first.Stdout != "700\n" || len(first.Events) > 0 {
		t.Errorf("%+v", first)
	}
	if info, err := os.Stat(homeOf(spec)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
	other := spec
	other.Network.Mode = shared.NetworkHost
	inside.Expect(t, e, other, "cat /home/u/f; ls /tmp", "kept")
	inside.Expect(t, e, shared.Spec{Home: "/home/u"}, "ls -A /home/u", "")

	// A size that is required is held, and the home is then the command's own.
	const tooMuch = "cat /home/u/f 2>/dev/null; head -c 3000000 /dev/zero 2>/dev/null >/home/u/big && echo fits || echo full; rm /home/u/big"
	spec.Limits.TempSize = 1 << 20
	out := inside.Run(t, e, spec, shared.Command{Args: []string{"/bin/sh", "-c", tooMuch}})
	if out.Stdout != "full\n" || !strings.Contains(told(out, shared.EventDegraded), "lasts for one command") {
		t.Errorf("required: %q, %+v", out.Stdout, out.Events)
	}
	spec.Limits.BestEffort = true
	out = inside.Run(t, e, spec, shared.Command{Args: []string{"/bin/sh", "-c", tooMuch}})
	if out.Stdout != "kept\nfits\n" || !strings.Contains(told(out, shared.EventLimit), "temp_size is not held for the session's home") {
		t.Errorf("best effort: %q, %+v", out.Stdout, out.Events)
	}
	// What the definition puts there is neither.
	spec.Table = []shared.Entry{{Path: "/home/u", Access: shared.Private, Why: "tmpfs[0]"}}
	if out := inside.Run(t, e, spec, shared.Command{Args: []string{"/bin/sh", "-c", tooMuch}}); out.Stdout != "full\n" || told(out, shared.EventDegraded) != "" {
		t.Errorf("of its own: %q, %+v", out.Stdout, out.Events)
	}
}

// What somebody else could have put in the place of a session's home is not shown.
func TestSessionHomeOfSomebodyElse(t *testing.T) {
	t.Parallel()
	e := needBwrap(t)
	outside := inside.Workspace(t)
	inside.Write(t, outside+"/f", "outside")
	for name, prepare := range map[string]func(shared.Spec) error{
		"a link":          func(s shared.Spec) error { return os.Symlink(outside, homeOf(s)) },
		"a file":          func(s shared.Spec) error { return os.WriteFile(homeOf(s), nil, 0o600) },
		"an open session": func(s shared.Spec) error { return os.Chmod(s.Session.Dir, 0o777) },
		"a link on its way": func(s shared.Spec) error {
			return errors.Join(os.Rename(s.Session.Dir, s.Session.Dir+".real"), os.Symlink(s.Session.Dir+".real", s.Session.Dir))
		},
		"another user's": func(s shared.Spec) error {
			if os.Geteuid() != 0 {
				return os.Symlink(outside, homeOf(s)) // nobody else's can be made
			}
			return errors.Join(os.Mkdir(homeOf(s), 0o777), os.Chown(homeOf(s), 23456, 23456))
		},
	} {
		spec := sessionSpec(t)
		if err := prepare(spec); err != nil {
			t.Fatal(err)
		}
		out := inside.Run(t, e, spec, shared.Command{Args: []string{"/bin/sh", "-c", "ls -A /home/u; echo x >/home/u/x && echo own"}})
		if out.Stdout != "own\n" || !strings.Contains(told(out, shared.EventDegraded), "the home directory lasts for one command") {
			t.Errorf("%s: %q, %+v", name, out.Stdout, out.Events)
		}
	}
	if left, err := os.ReadDir(outside); err != nil || len(left) != 1 {
		t.Errorf("made where a link leads: %v, %v", left, err)
	}
}

// What lies in a session's home is mounted there for every command, whatever others
// have done to the places.
func TestEntriesInSessionHome(t *testing.T) {
	t.Parallel()
	e := needBwrap(t)
	dir, outside := inside.Workspace(t), inside.Workspace(t)
	inside.Write(t, dir+"/f", "f")
	inside.Write(t, dir+"/d/x", "x")
	bare := sessionSpec(t)
	spec := bare
	spec.Table = []shared.Entry{
		{Source: dir + "/f", Path: "/home/u/.gitconfig", Access: shared.ReadOnly, Why: "bind_paths[0]"},
		{Source: dir + "/d", Path: "/home/u/.cache/deep/d", Access: shared.ReadOnly, Why: "bind_paths[1]"},
		{Path: "/home/u/shut", Access: shared.Hidden, Missing: shared.MissingIgnore, Why: "deny_paths[0]"},
		{Source: dir + "/d", Path: "/home/u/shut/in/d", Access: shared.ReadOnly, Why: "bind_paths[2]"},
	}
	const look = "cd /home/u; cat .gitconfig .cache/deep/d/x shut/in/d/x; ls shut; mv .cache away 2>/dev/null && echo moved; rm .gitconfig 2>/dev/null && echo removed; touch .cache/new || echo refused"
	const want = "fxxin"
	inside.Expect(t, e, spec, look, want)
	inside.Expect(t, e, bare, "cd /home/u; rm -r .cache .gitconfig shut; mkdir shut; echo secret >shut/key", "")
	inside.Expect(t, e, spec, look+"; cat shut/key 2>/dev/null; true", want)
	var all sync.WaitGroup
	inside.Expect(t, e, bare, "cd /home/u; rm -r .cache .gitconfig shut", "")
	for range 12 {
		all.Go(func() { inside.Expect(t, e, spec, look, want) })
	}
	all.Wait()
	// The link of a command that has no such entry.
	inside.Expect(t, e, bare, "cd /home/u; rm -r .cache; ln -s "+outside+" .cache", "")
	_, err := inside.TryRun(t, e, spec, shared.Command{Args: []string{"/bin/true"}})
	if !errors.Is(err, shared.ErrInvalidSpec) || !strings.HasPrefix(err.Error(), "bind_paths[1]: ") {
		t.Errorf("through a link: %v", err)
	}
	if left, err := os.ReadDir(outside); err != nil || len(left) > 0 {
		t.Errorf("made where a link leads: %v, %v", left, err)
	}
}

// A home that is swapped before a launcher mounts it is the one that was opened.
func TestSessionHomeIsSwapped(t *testing.T) {
	t.Parallel()
	needBwrap(t)
	for name, swap := range map[string]string{"": "", "a link": "ln -s /usr $0", "a directory": "mkdir $0"} {
		spec := sessionSpec(t)
		if swap != "" {
			swap = "mv " + homeOf(spec) + " " + homeOf(spec) + ".real && " + strings.ReplaceAll(swap, "$0", homeOf(spec))
		}
		spec.Options = json.RawMessage(fmt.Sprintf(`{"path": %q}`, swapsFirst(t, false, swap)))
		out, err := inside.TryRun(t, New(), spec, shared.Command{Args: []string{"/bin/sh", "-c", "echo x >/home/u/f; ls /home/u"}})
		if err != nil || out.Stdout != "f\n" {
			t.Errorf("%q: %q, %v", name, out.Stdout, err)
		}
	}
}

// Root's session in which commands run as somebody else.
func TestSessionHomeOfAnotherUser(t *testing.T) {
	t.Parallel()
	e := needBwrap(t)
	if os.Geteuid() != 0 {
		t.Skip("only root has somebody else to run commands as")
	}
	spec := sessionSpec(t)
	spec.User = &shared.User{UID: 23456, GID: 34567}
	for d := spec.Session.Dir; d != "/" && d != os.TempDir(); d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o711); err != nil { // as the host's are
			t.Fatal(err)
		}
	}
	dir := inside.Workspace(t)
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	inside.Write(t, dir+"/f", "f")
	spec.Table = []shared.Entry{{Source: dir + "/f", Path: "/home/u/deep/f", Access: shared.ReadOnly, Why: "bind_paths[0]"}}
	for _, want := range []string{"1", "2"} {
		inside.Expect(t, e, spec, "cd /home/u; stat -c %a:%u:%g . deep; echo x >>f; wc -l <f", "700:23456:34567\n755:23456:34567\n"+want)
	}
	var st syscall.Stat_t
	if err := syscall.Stat(spec.Session.Dir+"/home-23456", &st); err != nil || st.Uid != 23456 || st.Gid != 34567 || st.Mode&0o777 != 0o700 {
		t.Errorf("%+v, %v", st, err)
	}
	spec.User = nil
	inside.Expect(t, e, spec, "cat /home/u/f 2>/dev/null || echo mine", "mine")
}

// There are no overlays: what must be one is refused, what need not is read-only.
func TestOverlays(t *testing.T) {
	t.Parallel()
	e := needBwrap(t)
	lower := inside.Workspace(t)
	inside.Write(t, lower+"/f", "lower")
	spec := sessionSpec(t)
	spec.Table = []shared.Entry{{Source: lower, Path: "/cache", Access: shared.Overlay, Why: "workspace.caches", Degradable: true}}
	out := inside.Run(t, e, spec, shared.Command{Args: []string{"/bin/sh", "-c", "cat /cache/f; touch /cache/x 2>/dev/null || echo refused"}})
	if out.Stdout != "lowerrefused\n" {
		t.Errorf("%q", out.Stdout)
	}
	spec.Table[0].Degradable = false
	if _, err := e.Open(t.Context(), spec); !errors.Is(err, shared.ErrUnsupported) || !strings.Contains(err.Error(), "workspace.caches") {
		t.Errorf("one that must be: %v", err)
	}
}

// TestPins: renaming a parent of what is hidden fails.
func TestPins(t *testing.T) {
	t.Parallel()
	e := needBwrap(t)
	dir := inside.Workspace(t)
	inside.Write(t, dir+"/a/b/.env", "secret")
	inside.Write(t, dir+"/a/b/keys/k", "secret")
	inside.Write(t, dir+"/a/free/x", "x")
	inside.Write(t, dir+"/ro/f", "f")
	spec := shared.Spec{Table: []shared.Entry{inside.BindRW(dir), {Source: dir + "/ro", Path: dir + "/a/free", Why: "bind_paths[0]", Access: shared.ReadOnly}}}
	cmd := shared.Command{Dir: dir, Args: []string{"/bin/sh", "-c", `
		for d in a a/b a/b/keys a/b/.env; do mv $d moved 2>/dev/null && echo moved $d; rmdir $d 2>/dev/null && echo removed $d; done
		mv a/b a/c 2>/dev/null && echo moved; rm -rf a 2>/dev/null
		cat a/b/.env a/b/keys/k moved/b/.env 2>/dev/null; cat a/free/f; echo; touch a/new a/b/new && ls a a/b`}}
	open := spec
	spec.Table = append(hide(dir+"/a/b/.env", dir+"/a/b/keys"), open.Table...)
	want := "f\na:\nb\nfree\nnew\n\na/b:\nkeys\nnew\n"
	if got := inside.Run(t, e, spec, cmd).Stdout; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for path, text := range map[string]string{"/a/b/.env": "secret", "/a/b/keys/k": "secret"} {
		if b, _ := os.ReadFile(dir + path); string(b) != text {
			t.Errorf("%s is %q", path, b)
		}
	}
	// The control: where nothing is hidden they move.
	cmd.Args[2] = "mv a/b other && cat other/.env"
	if out := inside.Run(t, e, open, cmd); out.Stdout != "secret" {
		t.Errorf("control: %q, %q", out.Stdout, out.Stderr)
	}
}

// The engine native shows the same, and so does a session: every file with its mode and
// owner, every mount.
func TestEnginesAgree(t *testing.T) {
	t.Parallel()
	e := needBwrap(t)
	dir := inside.Workspace(t)
	inside.Write(t, dir+"/.env", "secret")
	inside.Write(t, dir+"/src/deep/secret", "secret")
	inside.Write(t, dir+"/src/f", "f")
	inside.Write(t, dir+"/config", "c")
	inside.Write(t, dir+"/shell/key", "secret")
	inside.Write(t, dir+"/other/f", "f")
	var many []shared.Entry
	for i := range 40 {
		path := dir + "/src/many/" + strconv.Itoa(i)
		many = append(many, hide(path)...)
		inside.Write(t, path, "secret")
	}
	for i, kind := range []shared.Filesystem{shared.FilesystemMinimal, shared.FilesystemHost, shared.FilesystemMinimal, shared.FilesystemHost} {
		direct := shared.Spec{Filesystem: kind, Home: "/tmp/home", Table: []shared.Entry{
			inside.BindRW(dir),
			{Source: dir + "/config", Path: "/tmp/home/.gitconfig", Why: "bind_paths[0]", Access: shared.ReadOnly},
			{Source: dir + "/src", Path: "/tmp/deep/src", Why: "bind_paths[1]", Access: shared.ReadOnly},
			{Path: "/tmp/scratch", Access: shared.Private, Why: "tmpfs[0]"},
		}}
		if kind == shared.FilesystemMinimal {
			direct.Table = append(direct.Table, shared.Entry{Source: dir + "/src", Path: "/srv/src", Access: shared.ReadWrite, Why: "bind_paths[1]"},
				shared.Entry{Path: "/scratch", Access: shared.Private, Why: "tmpfs[0]"})
		}
		direct.Table = append(direct.Table, hide(dir+"/.env", dir+"/src/deep", dir+"/shell", dir+"/shell/key")...)
		direct.Table = append(direct.Table, shared.Entry{Source: dir + "/other", Path: dir + "/shell/new/in", Access: shared.ReadWrite, Why: "bind_paths[2]"},
			shared.Entry{Source: dir + "/config", Path: dir + "/shell/config", Access: shared.ReadOnly, Why: "bind_paths[3]"})
		if i >= 2 {
			direct.Table = append(direct.Table, many...)
		}
		held := direct
		held.Session = sessionSpec(t).Session
		cmd := shared.Command{Dir: dir,
			Args: []string{"/bin/sh", "-c", `find / /etc /etc/ssl /srv /proc/sys -maxdepth 1 -printf '%M %U:%G %p %l\n' 2>/dev/null | sort
				find /tmp /dev /run -mindepth 1 -printf '%M %U:%G %p %l\n' 2>/dev/null | grep -v ' /dev/pts/' | sort
				awk '{split($6,o,","); print $5, o[1], index($6,"nosuid")>0, index($6,"nodev")>0}' /proc/self/mountinfo | sort -u
				find ./shell
				for p in / /tmp /run /usr /etc /var /dev . src src/deep src/many/7 shell shell/new shell/new/in /tmp/deep /tmp/scratch /tmp/home /srv/src; do (: > $p/.w) 2>/dev/null && echo $p writable && rm $p/.w; done`}}
		// The mode of a directory that is made for a bind in it is each engine's business, and
		// the top of a devpts is the kernel's: it belongs to whoever is 0 where it was
		// mounted. bubblewrap maps one user and one group, and so knows no others.
		plain := regexp.MustCompile(`(?m)^d[rwxst-]{9} \S+ (/etc\S*|/srv|/var|/dev/pts|/tmp/deep|/tmp/TestEnginesAgree\d+|\S+/shell/new )`)
		owner, own := regexp.MustCompile(` \d+:\d+ `), fmt.Sprintf(" %d:%d ", os.Geteuid(), os.Getegid())
		view := func(e shared.Engine, spec shared.Spec) string {
			out := plain.ReplaceAllString(inside.Run(t, e, spec, cmd).Stdout, "$1")
			return owner.ReplaceAllStringFunc(out, func(ids string) string {
				if ids == own {
					return " mine "
				}
				return " another's "
			})
		}
		a := sorted(view(e, direct))
		if b := sorted(view(native.New(), direct)); a != b {
			t.Errorf("%v: the engine native shows something else:\n%s", kind, difference(t, a, b))
		}
		if b := sorted(view(e, held)); a != b {
			t.Errorf("%v: in a session there is something else:\n%s", kind, difference(t, a, b))
		}
		if want := "\n./shell\n./shell/config\n./shell/new\n./shell/new/in\n./shell/new/in/f"; !strings.Contains(a, want) || strings.Contains(a, "/shell/key") || !strings.Contains(a, "\nshell/new/in writable") || strings.Contains(a, "\nshell writable") {
			t.Errorf("%v: a hidden directory with more in it:\n%s", kind, a)
		}
		if !strings.Contains(a, "/tmp/deep/src") || !strings.Contains(a, "/tmp/home writable") {
			t.Errorf("%v: there is too little to compare:\n%s", kind, a)
		}
	}
}

func sorted(lines string) string {
	l := strings.Split(lines, "\n")
	slices.Sort(l)
	return strings.Join(l, "\n")
}

func difference(t *testing.T, a, b string) string {
	dir := inside.Workspace(t)
	inside.Write(t, dir+"/one", a)
	inside.Write(t, dir+"/other", b)
	out, err := exec.Command("diff", "-u", dir+"/one", dir+"/other").CombinedOutput()
	if len(out) == 0 {
		return fmt.Sprintf("%v\n%s\n%s", err, strconv.Quote(a), strconv.Quote(b))
	}
	return string(out)
}
