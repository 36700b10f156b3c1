package facts

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/internal/view"
	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/workspace"
)

// hiddenLines resolves d and gives what it hides, with B for the tree's top.
func (tr tree) hiddenLines(t *testing.T, r *Machine, d view.Definition) []string {
	t.Helper()
	out, err := r.resolve(t.Context(), "fast", d)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, e := range out.Spec.Table {
		if e.Access != shared.Hidden || e.Why == view.OriginParent || strings.HasPrefix(e.Why, "filesystem: ") || strings.HasPrefix(e.Why, "socket file") && !strings.HasPrefix(e.Path, tr.base) {
			continue
		}
		kind := "file "
		if info, err := os.Stat(view.HostPaths(out.Spec.Table)(&e)); err != nil || info.IsDir() {
			kind = "dir "
		}
		lines = append(lines, strings.ReplaceAll(kind+e.Path+": "+e.Why, tr.base, "B"))
	}
	slices.Sort(lines)
	return lines
}

func TestHidden(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	write(t, tr.project, "a/.env", "a/key.pem", "secrets/x", "sub/key.pem")
	write(t, tr.base, "data/cache/.env", "home/private/x")
	for from, to := range map[string]string{tr.project + "/secrets": "/link", "/nowhere": "/dangling", tr.base + "/data": "/home/all", "a/.env": "/home/src/project/sub/.env"} {
		if err := os.Symlink(from, tr.base+to); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(tr.project+"/secrets/x", tr.base+"/data/cache/x"); err != nil {
		t.Fatal(err)
	}
	bind := []view.Bind{{Host: tr.base + "/data/cache", Container: "/c", Writable: true}, {Host: tr.base + "/data/cache"}}
	for _, test := range []struct {
		name string
		def  view.Definition
		want []string
	}{
		{"nothing", view.Definition{}, nil},
		{"a pattern everywhere", view.Definition{DenyPaths: []string{"**/.env"}, BindPaths: bind}, []string{
			`file /c/.env: deny_paths "**/.env"`, `file B/data/cache/.env: deny_paths "**/.env"`, `file B/home/src/project/a/.env: deny_paths "**/.env"`}},
		{"a pattern of the workspace", view.Definition{DenyPaths: []string{"*/key.pem"}, BindPaths: bind}, []string{
			`file B/home/src/project/a/key.pem: deny_paths "*/key.pem"`, `file B/home/src/project/sub/key.pem: deny_paths "*/key.pem"`}},
		{"a path by way of a link", view.Definition{DenyPaths: []string{tr.base + "/link/", "~/all/cache/.env", "~/private"}, BindPaths: bind}, []string{
			`dir B/home/private: deny_paths "~/private"`, `dir B/home/src/project/secrets: deny_paths "B/link/"`,
			`file /c/.env: deny_paths "~/all/cache/.env"`, `file /c/x: deny_paths "B/link/", a hard link of "B/home/src/project/secrets"`,
			`file B/data/cache/.env: deny_paths "~/all/cache/.env"`, `file B/data/cache/x: deny_paths "B/link/", a hard link of "B/home/src/project/secrets"`}},
		{"what is missing", view.Definition{DenyPaths: []string{"not/there", tr.base + "/dangling", "/elsewhere/x"}}, []string{
			`dir B/home/src/project/not/there: deny_paths "not/there"`}},
		{"what is missing, read-only", view.Definition{ReadOnly: true, DenyPaths: []string{"not/there"}}, nil},
		{"at another place", view.Definition{Workdir: "/w", DenyPaths: []string{"secrets"}}, []string{
			`dir /w/secrets: deny_paths "secrets"`}},
		{"of the operating system", view.Definition{DenyPaths: []string{"/etc/passwd"}}, []string{
			`file /etc/passwd: deny_paths "/etc/passwd"`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := tr.hiddenLines(t, tr.machine(t), test.def); !slices.Equal(got, test.want) {
				t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(test.want, "\n  "))
			}
		})
	}
}

func TestHiddenRefuses(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	for link, to := range map[string]string{"up": "..", "link": "sub", ".env": "sub"} {
		if err := os.Symlink(to, tr.project+"/"+link); err != nil {
			t.Fatal(err)
		}
	}
	for i := range view.MaxPaths + 1 {
		if err := os.WriteFile(tr.project+"/sub/"+strings.Repeat("x", i%200)+string(rune('a'+i/200)), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		def       view.Definition
		attribute string
	}{
		{view.Definition{DenyPaths: []string{"ok", "a/../b"}}, "deny_paths[1]"},
		{view.Definition{DenyPaths: []string{"."}}, "deny_paths[0]"},
		{view.Definition{DenyPaths: []string{"/"}}, "deny_paths[0]"},
		{view.Definition{DenyPaths: []string{"~"}}, "deny_paths[0]"},
		{view.Definition{DenyPaths: []string{"up"}}, "deny_paths[0]"},
		// A command replaces the link, and the next one reads what it led to.
		{view.Definition{DenyPaths: []string{"link"}}, "deny_paths[0]"},
		{view.Definition{DenyPaths: []string{"link/x*"}}, "deny_paths[0]"},
		{view.Definition{ProtectPaths: []string{"ok", "link/x"}}, "protect_paths[1]"},
		{view.Definition{DenyPaths: []string{".en?"}}, "deny_paths"},
		{view.Definition{DenyPaths: []string{"u?"}}, "deny_paths"},
		{view.Definition{DenyPaths: []string{"sub/*"}}, "deny_paths"},
		{view.Definition{DenyPaths: []string{"l*/x"}}, "deny_paths"},
		{view.Definition{ProtectPaths: []string{"l*/x"}}, "protect_paths"},
		{view.Definition{ProtectPaths: []string{"["}}, "protect_paths[0]"},
		{view.Definition{ProtectPathsExcept: []string{".git/hooks"}}, "protect_paths_except[0]"},
		{view.Definition{UnixSockets: []string{"../x"}}, "unix_sockets[0]"},
		{view.Definition{UnixSockets: []string{"sub"}}, "unix_sockets[0]"},
	} {
		_, err := tr.machine(t).resolve(t.Context(), "fast", test.def)
		if e, ok := errors.AsType[*shared.Error](err); !ok || e.Attribute != test.attribute || !errors.Is(err, shared.ErrInvalidSpec) {
			t.Errorf("%+v: %v, want it about %s", test.def, err, test.attribute)
		}
	}
}

// A review hides also what did not exist when the sandbox was made.
func TestHiddenFromReviews(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	if err := os.Symlink(tr.project+"/sub", tr.home+"/link"); err != nil {
		t.Fatal(err)
	}
	r := tr.machine(t)
	r.HideSensitive = true
	r.HostPaths = configs(tr.project + "/config.hcl") // a second reason for the same path
	r.HostPaths = append(r.HostPaths, view.HostPath{Path: tr.home + "/.local/state/sbxhost", Kind: view.HostState})
	out, err := r.resolve(t.Context(), "fast", view.Definition{DenyPaths: []string{"**/*.pem", "~/link/*", "/etc/[x]"}, ProtectPaths: []string{"Makefile", "config.hcl"}})
	if err != nil {
		t.Fatal(err)
	}
	hidden, _, _ := out.ReviewRules(out.Spec.Table)
	for p, want := range map[string]bool{
		tr.project + "/new.pem": true, tr.project + "/sub/new": true, tr.project + "/sub/new/x": true, tr.home + "/.local/state/sbxhost/x": true,
		tr.project + "/.env": true, tr.project + "/.env/x": true, tr.project + "/a/.env.new": true, tr.home + "/x": true,
		tr.project + "/.envrc": false, tr.project + "/x.env": false, tr.project + "/new": false, tr.project + "/sub": false,
	} {
		if hidden(p) != want {
			t.Errorf("%q is hidden: %v", p, !want)
		}
	}
}

func TestSensitiveElsewhere(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	write(t, tr.base, "opt/app/.env", "opt/app/.envrc", "opt/app/config")
	write(t, tr.project, ".env", "sub/.env.local", ".envrc")
	if err := os.Symlink(tr.base+"/opt", tr.base+"/add-ons"); err != nil {
		t.Fatal(err)
	}
	r := tr.machine(t)
	r.HideSensitive, r.addOns = true, []string{tr.base + "/add-ons"}
	want := []string{"file B/home/src/project/.env: sensitive file", "file B/home/src/project/sub/.env.local: sensitive file", "file B/opt/app/.env: sensitive file"}
	for _, filesystem := range []view.Filesystem{view.FilesystemMinimal, view.FilesystemHost} {
		d := view.Definition{Filesystem: filesystem}
		if got := tr.hiddenLines(t, r, d); !slices.Equal(got, want) {
			t.Errorf("%s: got\n  %s", filesystem, strings.Join(got, "\n  "))
		}
		out, err := r.resolve(t.Context(), "fast", d)
		if err != nil {
			t.Fatal(err)
		}
		told := slices.ContainsFunc(out.Notes, func(n string) bool { return strings.Contains(n, ".env.*") })
		if told != (filesystem == "host") {
			t.Errorf("%s: notes %q", filesystem, out.Notes)
		}
	}
	r.HideSensitive = false
	if got := tr.hiddenLines(t, r, view.Definition{}); got != nil {
		t.Errorf("in another mode: %q", got)
	}
	r.HideSensitive = true
	if err := os.Symlink("..", tr.project+"/sub/.env"); err != nil {
		t.Fatal(err)
	}
	_, err := r.resolve(t.Context(), "fast", view.Definition{})
	if e, ok := errors.AsType[*shared.Error](err); !ok || e.Attribute != "approvals.mode" || !strings.Contains(e.Message, `sub/.env" is a symlink`) {
		t.Errorf("a link that would hide the workspace: %v", err)
	}
}

func TestControlSockets(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	ws, err := workspace.New(workspace.Options{Root: tr.project, Home: tr.home, LookupEnv: os.LookupEnv})
	if err != nil {
		t.Fatal(err)
	}
	r := &Machine{Config: Config{Workspace: ws, Caller: Caller{UID: 1000, Home: tr.home, Environ: NewEnvironment([]string{"XDG_RUNTIME_DIR=" + tr.base + "/run"})}}}
	for _, dir := range []string{"/run", "/var", "/var/run", "/var/lib"} {
		if _, err := os.Stat(dir); err != nil {
			continue
		}
		for _, writable := range []bool{false, true} {
			_, err := r.resolve(t.Context(), "fast", view.Definition{BindPaths: []view.Bind{{Host: dir, Writable: writable}}})
			if e, ok := errors.AsType[*shared.Error](err); !ok || e.Attribute != "bind_paths[0]" || !strings.Contains(err.Error(), "control socket") {
				t.Errorf("%s: %v", dir, err)
			}
		}
	}
	r.Caller.Environ = NewEnvironment([]string{"XDG_RUNTIME_DIR=" + tr.base, "WAYLAND_DISPLAY=~/w"}) // no home is meant
	if !slices.ContainsFunc(r.controlSockets(), func(s view.ControlSocket) bool { return s.Path == tr.base+"/~/w" }) {
		t.Error("the socket of Wayland is not known")
	}
	for value, want := range map[string]string{
		"unix:///run/x.sock": "/run/x.sock", "/run/y.sock": "/run/y.sock", "tcp://1.2.3.4:5": "", "": "",
		"unix:path=/run/user/1/bus,guid=0": "/run/user/1/bus", "unix:abstract=/x": "", "unix:guid=1,path=/a;tcp:host=x": "/a", "unix:///a\nb": "/a\nb",
	} {
		if got := socketIn(value); got != want {
			t.Errorf("%q holds %q, want %q", value, got, want)
		}
	}
}

// A command that puts a link on the way to a record, after the host has looked there, makes it create none elsewhere.
func TestLinkToRecord(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	write(t, tr.base, "outside/mine", "home/src/project/logs/mine")
	m := tr.machine(t)
	m.SessionBases = []string{tr.project + "/logs/sessions"} // which the commands of such a link's maker would see
	logs := tr.project + "/logs"
	for _, name := range []string{"/audit.jsonl", "/new/audit.jsonl"} {
		m.HostPaths = append(m.HostPaths, view.HostPath{Path: logs + name, File: true, Kind: view.HostState})
	}
	in, look := m.input(&Request{}), newLookup(t.Context(), m, []string{tr.project})
	v, err := view.Show(in, look)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range m.HostPaths {
		look.Follow(o.Path)
	}
	if err := errors.Join(os.Rename(logs, logs+"-away"), os.Symlink(tr.base+"/outside", logs)); err != nil {
		t.Fatal(err)
	}
	m.prepare(v, in, look)
	if list, err := os.ReadDir(tr.base + "/outside"); err != nil || len(list) != 1 {
		t.Errorf("it made %v, %v", list, err)
	}
	if err := errors.Join(os.Remove(logs), os.Rename(logs+"-away", logs)); err != nil {
		t.Fatal(err)
	}
	m.prepare(v, in, look)
	for _, o := range m.HostPaths {
		if info, err := os.Lstat(o.Path); err != nil || info.Mode() != 0o600 {
			t.Errorf("without a link: %v, %v", info, err)
		}
	}
}

// The configuration of docker is a name: a definition may bind it.
func TestDockerConfiguration(t *testing.T) {
	t.Parallel()
	for variable, want := range map[string][2]string{"": {"/h", ".docker"}, "/d/x/": {"/d", "x"}, "d": {}} {
		list, err := (&HostPaths{}).All(&Caller{Home: "/h", Environ: NewEnvironment([]string{"DOCKER_CONFIG=" + variable})}, nil, "/")
		got := [2]string{}
		for _, p := range list {
			if len(p.Names) == 1 && (p.Names[0] == ".docker" || p.Names[0] == "x") {
				got = [2]string{p.Path, p.Names[0]}
			}
		}
		if err != nil || got != want {
			t.Errorf("%q: %q, %v", variable, got, err)
		}
	}
}

// The directory of the server is known as the server itself finds it, also without XDG_RUNTIME_DIR.
func TestServerDirectory(t *testing.T) {
	t.Parallel()
	for variable, want := range map[string]string{"": "/run/user/7/sbxhost", "/r/u": "/r/u/sbxhost", "r": ""} {
		list, err := (&HostPaths{}).All(&Caller{UID: 7, Environ: NewEnvironment([]string{"XDG_RUNTIME_DIR=" + variable})}, nil, "/")
		got := ""
		for _, p := range list {
			if p.Attribute == "XDG_RUNTIME_DIR" {
				got = p.Path
			}
		}
		if err != nil || got != want {
			t.Errorf("%q: %q, %v", variable, got, err)
		}
	}
}
