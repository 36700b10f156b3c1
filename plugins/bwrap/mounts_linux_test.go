package bwrap

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/sbxhost/sbxhost/plugins/internal/inside"
	"github.com/sbxhost/sbxhost/shared"
)

func TestWorkspace(t *testing.T) {
	t.Parallel()
	e := needBwrap(t)
	dir := inside.Workspace(t)
	rw := shared.Spec{Table: []shared.Entry{inside.BindRW(dir)}}
	inside.Sh(t, e, rw, "echo made > "+dir+"/made && mkdir "+dir+"/sub")
	info, err := os.Stat(filepath.Join(dir, "made"))
	if err != nil {
		t.Fatal(err)
	}
	if uid := info.Sys().(*syscall.Stat_t).Uid; int(uid) != os.Getuid() {
		t.Errorf("the file belongs to %d", uid)
	}
	ro := shared.Spec{Table: []shared.Entry{{Source: dir, Path: dir, Why: "workspace", Access: shared.ReadOnly}}}
	inside.Expect(t, e, ro, "cat "+dir+"/made; touch "+dir+"/x 2>/dev/null || echo refused", "made\nrefused")

	remapped := shared.Spec{Table: []shared.Entry{{Source: dir, Path: "/workspace", Access: shared.ReadWrite, Why: "workspace"}}}
	out := inside.Run(t, e, remapped, shared.Command{Args: []string{"/bin/sh", "-c", "pwd; echo 2 > two"}, Dir: "/workspace"})
	if out.Stdout != "/workspace\n" {
		t.Errorf("%+v", out)
	}
	if b, _ := os.ReadFile(filepath.Join(dir, "two")); string(b) != "2\n" {
		t.Errorf("two holds %q", b)
	}
}

func TestHostView(t *testing.T) {
	t.Parallel()
	e := needBwrap(t)
	dir := inside.Workspace(t) // beneath the host's /tmp, which is hidden
	spec := shared.Spec{Filesystem: shared.FilesystemHost, Table: []shared.Entry{inside.BindRW(dir)}}
	inside.Expect(t, e, spec, "test -e /etc/hostname && echo there", "there")
	inside.Expect(t, e, spec, "echo in > "+dir+"/in; cat "+dir+"/in", "in")
	inside.Expect(t, e, spec, "ls -A /run", "lock\npostgresql\nuser")
	inside.Expect(t, e, spec, "ls -A /tmp | wc -l", "1")
	inside.Expect(t, e, spec, "ls /dev/kmsg /dev/mem 2>/dev/null; true", "")
}

func TestStrangeNames(t *testing.T) {
	t.Parallel()
	e := needBwrap(t)
	dir := inside.Workspace(t)
	for _, name := range []string{"with space", `quo"te'`, "new\nline", "--ro-bind", "-", "\xff\xfe", strings.Repeat("n", 255), "tab\t", `back\slash`, "$(x)"} {
		source := filepath.Join(dir, name)
		inside.Write(t, filepath.Join(source, "file"), name)
		var spec shared.Spec
		args := []string{"/bin/cat"}
		for _, destination := range []string{source, "/" + name, "/tmp/deep/" + name} {
			spec.Table = append(spec.Table, shared.Entry{Source: source, Path: destination, Access: shared.ReadWrite, Why: "bind_paths[0]"})
			args = append(args, destination+"/file")
		}
		out := inside.Run(t, e, spec, shared.Command{Args: args, Dir: "/" + name})
		if out.Stdout != strings.Repeat(name, 3) {
			t.Errorf("%q: %+v", name, out)
		}
	}
}

func TestHidden(t *testing.T) {
	t.Parallel()
	e := needBwrap(t)
	dir := inside.Workspace(t)
	inside.Write(t, dir+"/.env", "secret")
	inside.Write(t, dir+"/secrets/key", "secret")
	inside.Write(t, dir+"/open", "open")
	if err := os.Symlink("secrets/key", dir+"/link"); err != nil {
		t.Fatal(err)
	}
	spec := shared.Spec{Table: []shared.Entry{inside.BindRW(dir)}}
	cmd := shared.Command{
		Args: []string{"/bin/sh", "-c", `
			cat .env secrets/key link 2>/dev/null; ls secrets 2>/dev/null; cat open
			echo x 2>/dev/null > .env || echo refused
			echo x 2>/dev/null > secrets/new || echo refused
			rm -f .env 2>/dev/null || echo refused
			mv secrets away 2>/dev/null || echo refused
			chmod 777 secrets 2>/dev/null || echo refused`},
		Dir: dir,
	}
	open := spec
	spec.Table = append(hide(dir+"/.env", dir+"/secrets", dir+"/secrets/key", dir+"/absent"), open.Table...)
	if got, want := inside.Run(t, e, spec, cmd).Stdout, "openrefused\nrefused\nrefused\nrefused\nrefused\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if b, _ := os.ReadFile(dir + "/.env"); string(b) != "secret" {
		t.Errorf(".env now holds %q", b)
	}
	if _, err := os.Lstat(dir + "/absent"); err == nil {
		t.Error("a stub was left behind")
	}
	// The control: where nothing is hidden all of it is there.
	cmd.Args = []string{"/bin/cat", ".env", "secrets/key"}
	if got := inside.Run(t, e, open, cmd).Stdout; got != "secretsecret" {
		t.Errorf("control: %q", got)
	}
}

// Four hundred hidden files, each in a directory of its own, take eight hundred mounts.
// A thousand would take bubblewrap seconds, and are refused.
func TestManyHidden(t *testing.T) {
	e := needBwrap(t)
	dir := inside.Workspace(t)
	spec := shared.Spec{Table: []shared.Entry{inside.BindRW(dir)}, Home: "/home/u"}
	cmd := shared.Command{Dir: dir, Args: []string{"/bin/sh", "-c", "cat */.env 2>/dev/null; cat */open | wc -c; mv 7 away 2>/dev/null || echo refused; touch 7/new && echo made"}}
	add := func(from, to int) {
		for i := from; i < to; i++ {
			p := fmt.Sprintf("%s/%d", dir, i)
			inside.Write(t, p+"/.env", "secret")
			inside.Write(t, p+"/open", "o")
			spec.Table = append(spec.Table, hide(p+"/.env")...)
		}
	}
	add(0, 400)
	if out := inside.Run(t, e, spec, cmd); out.Stdout != "400\nrefused\nmade\n" {
		t.Errorf("%s\n%s", out.Stdout, out.Stderr)
	}
	// The control.
	open := spec
	open.Table = slices.Delete(slices.Clone(spec.Table), 1, 2)
	if out := inside.Run(t, e, open, cmd); !strings.HasPrefix(out.Stdout, "secret400\n") {
		t.Errorf("control: %q", out.Stdout)
	}
	add(400, 1000)
	_, err := e.Open(t.Context(), spec)
	if e, ok := errors.AsType[*shared.Error](err); !ok || e.Kind != shared.ErrInvalidSpec || !strings.Contains(e.Message, "mounts lie in \""+dir) || !strings.Contains(e.Hint, `engine = "native"`) {
		t.Errorf("a thousand: %v", err)
	}
}

// bubblewrap agrees with the planner about where destinations lead.
func TestDestinations(t *testing.T) {
	t.Parallel()
	e := needBwrap(t)
	dir := inside.Workspace(t)
	inside.Write(t, dir+"/d/f", "mine")
	inside.Write(t, dir+"/f", "mine")
	// A program of /usr/bin, to be covered under its other name.
	if target, err := os.Readlink("/bin"); err != nil || !strings.HasSuffix(target, "usr/bin") {
		t.Logf("/bin is no link to usr/bin here: %q, %v", target, err)
	} else {
		spec := shared.Spec{Table: []shared.Entry{{Source: dir + "/f", Path: "/bin/true", Why: "bind_paths[0]", Access: shared.ReadOnly}}}
		inside.Expect(t, e, spec, "cat /usr/bin/true", "mine")
	}
	for _, view := range []shared.Filesystem{shared.FilesystemMinimal, shared.FilesystemHost} {
		var mounts []shared.Entry
		var cat []string
		for _, destination := range []string{"/tmp/deep/proj", "/var/tmp/proj", "/run/deep/proj", dir} {
			mounts = append(mounts, shared.Entry{Source: dir, Path: destination, Why: "bind_paths[0]", Access: shared.ReadOnly})
			cat = append(cat, destination+"/d/f")
		}
		mounts = append(mounts, shared.Entry{Source: dir + "/f", Path: "/etc/hosts", Why: "bind_paths[1]", Access: shared.ReadOnly})
		cat = append(cat, "/etc/hosts")
		if view == shared.FilesystemMinimal {
			for _, destination := range []string{"/etc/localtime", "/etc/new", "/home/x/.gitconfig"} {
				mounts = append(mounts, shared.Entry{Source: dir + "/f", Path: destination, Why: "bind_paths[1]", Access: shared.ReadOnly})
				cat = append(cat, destination)
			}
			mounts = append(mounts, shared.Entry{Source: dir + "/d", Path: "/var/lib/x", Why: "bind_paths[1]", Access: shared.ReadOnly})
			cat = append(cat, "/var/lib/x/f")
		}
		spec := shared.Spec{Filesystem: view, Table: mounts}
		inside.Expect(t, e, spec, "cat "+strings.Join(cat, " "), strings.Repeat("mine", len(cat)))
		inside.Expect(t, e, spec, "cd /var/tmp/proj && pwd -P", "/var/tmp/proj")
		// In the command's own memory, directories made on the way are its own.
		inside.Expect(t, e, spec, "touch /run/deep/x && ! touch /run/deep/proj/x 2>/dev/null && echo wrote", "wrote")
	}
	// The session's scratch in the place of the private /tmp.
	spec := shared.Spec{Table: []shared.Entry{{Source: dir + "/d", Path: "/tmp", Access: shared.ReadWrite, Why: "workspace.temp"}}}
	inside.Expect(t, e, spec, "ls /tmp /var/tmp; echo kept > /tmp/kept", "/tmp:\nf\n\n/var/tmp:\nf")
	inside.Expect(t, e, spec, "cat /tmp/kept", "kept")
}
