package bwrap

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
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

// The engine keeps no home for a session, and says so, unless the definition has one.
func TestSessionHome(t *testing.T) {
	t.Parallel()
	e := needBwrap(t)
	spec := sessionSpec(t)
	const lasts = "the home directory lasts for one command"
	for _, script := range []string{"stat -c %a /home/u; echo gone >/home/u/f", "stat -c %a /home/u; cat /home/u/f 2>/dev/null; true"} {
		out := inside.Run(t, e, spec, shared.Command{Args: []string{"/bin/sh", "-c", script}})
		if out.Stdout != "700\n" || !strings.Contains(told(out, shared.EventDegraded), lasts) {
			t.Errorf("%q: %q, %+v", script, out.Stdout, out.Events)
		}
	}
	if left, err := os.ReadDir(spec.Session.Dir); err != nil || len(left) > 0 {
		t.Errorf("left in the session's directory: %v, %v", left, err)
	}
	kept := inside.Workspace(t)
	for _, own := range []shared.Entry{{Path: "/home/u", Access: shared.Private, Why: "tmpfs[0]"}, {Path: "/home/u", Source: kept, Access: shared.ReadWrite, Why: "home"}} {
		spec.Table = []shared.Entry{own}
		if out := inside.Run(t, e, spec, shared.Command{Args: []string{"/bin/sh", "-c", "echo x >/home/u/f"}}); told(out, shared.EventDegraded) != "" {
			t.Errorf("%s: %+v", own.Why, out.Events)
		}
	}
	spec.Session.ID, spec.Table = "", nil
	if out := inside.Run(t, e, spec, shared.Command{Args: []string{"/bin/true"}}); told(out, shared.EventDegraded) != "" {
		t.Errorf("of one command alone: %+v", out.Events)
	}
	if b, err := os.ReadFile(kept + "/f"); err != nil || string(b) != "x\n" {
		t.Errorf("the definition's own home: %q, %v", b, err)
	}
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
		support := direct
		support.Session = sessionSpec(t).Session
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
		if b := sorted(view(e, support)); a != b {
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
