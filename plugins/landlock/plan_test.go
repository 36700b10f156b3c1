package landlock

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/sbxhost/sbxhost/internal/engine/holder"
	"github.com/sbxhost/sbxhost/shared"
)

var update = flag.Bool("update", false, "write the golden files")

// tree is a workspace as the host has it, and what lies around it.
var tree = fstest.MapFS{
	"ws/.env": {}, "ws/main.go": {}, "ws/link": {Mode: fs.ModeSymlink}, "ws/src/keys/key": {}, "ws/src/keys/other": {}, "ws/src/a.go": {},
	"ws/dir/secret/deep": {}, "ws/dir/file": {}, "home/u/.ssh/id": {}, "home/other/x": {}, "usr/bin/true": {}, "tmp/x": {}, "etc/hosts": {},
}

func list(dir string) ([]fs.DirEntry, error) {
	return fs.ReadDir(tree, path.Clean(strings.TrimPrefix(dir, "/")))
}

// base is the view that lies beneath each case, as package mountplan gives it.
var base = []holder.Op{
	{Kind: holder.ReadOnlyBind, Source: "/usr", Dest: "/usr", Why: "filesystem"},
	{Kind: holder.Symlink, Source: "usr/bin", Dest: "/bin", Why: "filesystem"},
	{Kind: holder.File, Source: "/etc/hosts", Dest: "/etc/hosts", Why: "filesystem"},
	{Kind: holder.Processes, Dest: "/proc"},
	{Kind: holder.HideFile, Dest: "/proc/kcore", Why: "kernel controls"},
	{Kind: holder.Devices, Dest: "/dev"},
	{Kind: holder.Memory, Dest: "/dev/shm"},
	{Kind: holder.ReadOnly, Dest: "/dev"},
}

func asked(k holder.Kind, p, why string) holder.Op {
	return holder.Op{Kind: k, Source: p, Dest: p, FromSpec: true, Why: why}
}

var hostView = []holder.Op{{Kind: holder.ReadOnlyBind, Source: "/", Dest: "/", Why: "filesystem"}, {Kind: holder.Memory, Dest: "/tmp", Why: "filesystem"},
	{Kind: holder.Memory, Dest: "/home/u", Why: "home"}}

var cases = []struct {
	name string
	base []holder.Op
	ops  []holder.Op
}{
	{"workspace", base, []holder.Op{asked(holder.Bind, "/ws", "workspace")}},
	{"read-only", base, []holder.Op{asked(holder.ReadOnlyBind, "/ws", "workspace"), asked(holder.Bind, "/ws/src", "workspace.writable[0]")}},
	{"protected", base, []holder.Op{asked(holder.Bind, "/ws", "workspace"), asked(holder.ReadOnlyBind, "/ws/src", "protect_paths")}},
	{"hidden file", base, []holder.Op{asked(holder.Bind, "/ws", "workspace"), asked(holder.HideFile, "/ws/src/keys/key", `deny_paths "key"`)}},
	{"hidden directory", base, []holder.Op{asked(holder.ReadOnlyBind, "/ws", "workspace"), asked(holder.HideDirectory, "/ws/dir/secret", `deny_paths "secret"`)}},
	{"shown in hidden", base, []holder.Op{asked(holder.Bind, "/ws", "workspace"), asked(holder.MountPoints, "/ws/dir", `deny_paths "dir"`), asked(holder.ReadOnlyBind, "/ws/dir/file", "bind_paths[0]")}},
	{"hidden socket", base, []holder.Op{asked(holder.Bind, "/ws", "workspace"), asked(holder.HideFile, "/ws/socket", "socket file")}},
	{"hidden of the system", base, []holder.Op{asked(holder.HideFile, "/etc/hosts", `deny_paths "/etc/hosts"`), asked(holder.HideDirectory, "/usr/bin", `deny_paths "/usr/bin"`)}},
	{"the host's view", hostView, []holder.Op{asked(holder.Bind, "/ws", "workspace"), asked(holder.ReadOnlyBind, "/home/u/.ssh/id", "bind_paths[0]")}},
}

func domainFor(t *testing.T, abi, i int) (*domain, []want) {
	t.Helper()
	w := wants(slices.Concat(cases[i].base, cases[i].ops), func(p string) bool { return path.Base(p) == "socket" })
	d, err := domainOf(w, abi, list)
	if err != nil {
		t.Fatal(err)
	}
	return d, w
}

// Each table as rules, by each version of Landlock.
func TestRules(t *testing.T) {
	t.Parallel()
	for i, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var got strings.Builder
			last := ""
			for abi := 1; abi <= newestABI; abi++ {
				d, _ := domainFor(t, abi, i)
				var text strings.Builder
				for _, r := range d.rules {
					fmt.Fprintf(&text, "%s: %v\n", r.Path, rights(r.Access))
				}
				for _, e := range degradedEvents(&shared.Spec{}, options{}, 7, d)[2:] {
					fmt.Fprintf(&text, "told: %s\n", e.Message)
				}
				fmt.Fprintf(&text, "else refused: %v; scoped %d\n", handled(abi), scoped(abi))
				if text.String() != last {
					last = text.String()
					fmt.Fprintf(&got, "# from version %d on\n%s", abi, last)
				}
			}
			file := "testdata/" + strings.NewReplacer(" ", "-", "'", "").Replace(c.name) + ".golden"
			if *update {
				if err := os.WriteFile(file, []byte(got.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if want, err := os.ReadFile(file); err != nil || string(want) != got.String() {
				t.Errorf("%s differs (%v; go test -update rewrites it):\n%s", file, err, got.String())
			}
		})
	}
}

// What the kernel does with rules: a path has the rights of every rule on it and above.
func (d *domain) allows(p string, r rights) bool {
	var have rights
	for _, rule := range d.rules {
		if p == rule.Path || rule.Path == "/" || strings.HasPrefix(p, rule.Path+"/") {
			have |= rights(rule.Access)
		}
	}
	return have&r == r
}

// By that model, whatever is hidden has no right, and whatever is shown has those of its access.
func TestRulesOnAModel(t *testing.T) {
	t.Parallel()
	for i, c := range cases {
		for abi := 1; abi <= newestABI; abi++ {
			d, all := domainFor(t, abi, i)
			err := fs.WalkDir(tree, ".", func(p string, e fs.DirEntry, err error) error {
				p = path.Join("/", p)
				var over want
				for _, w := range all {
					if p == w.path || w.path == "/" || strings.HasPrefix(p, w.path+"/") {
						if len(w.path) >= len(over.path) {
							over = w
						}
					}
				}
				if over.access == hidden {
					for _, r := range []rights{readFile, execute, writeFile, makeReg, removeFile} {
						if d.allows(p, r) || over.dir && d.allows(p, readDir) {
							t.Errorf("%s, version %d: %s, which is hidden, has %v", c.name, abi, p, r)
						}
					}
				}
				if e.IsDir() || e.Type()&fs.ModeSymlink != 0 {
					return err
				}
				if over.access >= read && !d.allows(p, readFile|execute) {
					t.Errorf("%s, version %d: %s is not shown", c.name, abi, p)
				}
				if writable := d.allows(p, writeFile); writable != (over.access == write) && c.name != "protected" {
					t.Errorf("%s, version %d: %s: writable is %v", c.name, abi, p, writable)
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A tree with more names than the kernel is given is refused, and names what asked for it.
func TestTooManyRules(t *testing.T) {
	t.Parallel()
	crowd := fstest.MapFS{}
	for i := range maxRules + 1 {
		crowd[fmt.Sprintf("ws/%d", i)] = &fstest.MapFile{}
	}
	ops := []holder.Op{asked(holder.Bind, "/ws", "workspace"), asked(holder.HideFile, "/ws/7", `deny_paths "7"`)}
	_, err := domainOf(wants(ops, func(string) bool { return false }), 7, func(dir string) ([]fs.DirEntry, error) { return fs.ReadDir(crowd, dir[1:]) })
	refused, ok := errors.AsType[*shared.Error](err)
	if !ok || refused.Kind != shared.ErrUnsupported || refused.Attribute != `deny_paths "7"` || !strings.Contains(refused.Message, `hiding "/ws/7" needs more than`) {
		t.Errorf("%v", err)
	}
}

func TestEnviron(t *testing.T) {
	t.Parallel()
	shown := []want{{path: "/usr", access: read}, {path: "/ws", access: write}, {path: "/home/u/sdk", access: read}}
	follow := func(p string) (string, error) {
		switch p {
		case "/bin":
			return "/usr/bin", nil
		case "/gone":
			return "", fs.ErrNotExist
		}
		return p, nil
	}
	for _, tt := range []struct{ env, home, want string }{
		{"PATH=/usr/bin:/bin:/home/u/bin:/gone:/home/u/sdk/bin", "/p/home", "PATH=/usr/bin:/bin:/gone:/home/u/sdk/bin TMPDIR=/p/temp"},
		{"HOME=/home/u A=/home/u TMPDIR=/tmp", "/p/home", "HOME=/p/home A=/home/u TMPDIR=/p/temp"},
		{"HOME=/home/u TMPDIR=/ws/t", "", "HOME=/home/u TMPDIR=/ws/t"},
		{"HOME=/ws/home TMPDIR=/usr", "/p/home", "HOME=/ws/home TMPDIR=/p/temp"},
		{"HOME=/gone TMPDIR=/gone", "/p/home", "HOME=/p/home TMPDIR=/p/temp"},
	} {
		if got := strings.Join(environ(strings.Fields(tt.env), shown, tt.home, "/p/temp", follow), " "); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.env, got, tt.want)
		}
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	for raw, attribute := range map[string]string{`{"abi": 8}`: "config.abi", `{"abi": -1}`: "config.abi", `{"abi": 1.5}`: "config.abi", `{"unix_sockets": 1}`: "config.unix_sockets"} {
		_, err := parseOptions([]byte(raw))
		if refused, ok := errors.AsType[*shared.Error](err); !ok || refused.Attribute != attribute {
			t.Errorf("%s: %v", raw, err)
		}
	}
	o, err := parseOptions([]byte(`{"abi": 2, "unix_sockets": true}`))
	if err != nil {
		t.Fatal(err)
	}
	if f := o.filterOptions(&shared.Spec{}, o.abi); !f.UnixSockets || !f.NoNetwork || !f.NoTruncation || !f.Unhidden || f.Ptrace {
		t.Errorf("%+v", f)
	}
	if f := o.filterOptions(&shared.Spec{Network: shared.Network{Mode: shared.NetworkHost}}, 3); f.NoNetwork || f.NoTruncation {
		t.Errorf("%+v", f)
	}
}

func TestWithoutNested(t *testing.T) {
	t.Parallel()
	entry := func(p string, a shared.Access, missing shared.Missing) shared.Entry {
		return shared.Entry{Path: p, Source: p, Access: a, Missing: missing}
	}
	kept := []shared.Entry{
		entry("/w", shared.ReadWrite, shared.MissingRefuse), entry("/w/asked", shared.ReadOnly, shared.MissingRefuse),
		entry("/w/hidden", shared.Hidden, shared.MissingIgnore), entry("/w/hidden/shown", shared.ReadOnly, shared.MissingIgnore),
		entry("/r", shared.ReadOnly, shared.MissingRefuse), entry("/r/beneath", shared.ReadOnly, shared.MissingIgnore), entry("/alone", shared.ReadOnly, shared.MissingIgnore),
	}
	if got := withoutNested(append(slices.Clone(kept), entry("/w/.git/hooks", shared.ReadOnly, shared.MissingIgnore))); !slices.Equal(got, kept) {
		t.Errorf("%v", got)
	}
}
