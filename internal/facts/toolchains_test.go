package facts

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/internal/env"
	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/internal/view"
	"github.com/sbxhost/sbxhost/shared"
)

// Every row says why it is narrow and names places that can be compared.
func TestToolchainTable(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("toolchains.go")
	if rows := regexp.MustCompile(`(?m)^\t\{"[^{}]*\}, +// [^:]+: .+$`).FindAll(source, -1); err != nil || len(rows) != len(toolchains) {
		t.Errorf("%d of %d rows have the tool and a reason in a comment: %v", len(rows), len(toolchains), err)
	}
	for i, row := range toolchains {
		if row.base == "" && row.variables == "" {
			t.Errorf("row %d is not complete: %+v", i, row)
		}
		for _, p := range append([]string{strings.TrimPrefix(row.base, "~/")}, strings.Fields(row.within)...) {
			if p != "" && filepath.Clean(p) != p {
				t.Errorf("row %d: %q is not in its shortest form", i, p)
			}
		}
		// A row that shows all of a directory shows what a variable says, too.
		if place, ok := strings.CutPrefix(row.base, "~/"); ok && row.within == "" && slices.Contains(slices.Concat(view.SecretDirs[:], mixedDirs[:]), place) {
			t.Errorf("row %d shows all of %s", i, row.base)
		}
		for _, name := range strings.Fields(row.variables) {
			if env.IsInjector(name) {
				t.Errorf("row %d: %s runs code and would be passed on", i, name)
			}
		}
	}
}

func TestToolPlaces(t *testing.T) {
	t.Parallel()
	list := func(goos string, env map[string]string) ([]string, []string) {
		var environ []string
		for name, value := range env {
			environ = append(environ, name+"="+value)
		}
		dirs, refused := (&Caller{Home: "/home/u", Environ: NewEnvironment(environ)}).toolchains(goos)
		var lines []string
		for _, d := range dirs {
			lines = append(lines, d.Path+" "+d.Variable)
		}
		return lines, refused
	}
	for _, test := range []struct {
		name, goos  string
		env         map[string]string
		has, hasNot []string
		refused     []string
	}{
		{"the usual places", "linux", nil,
			[]string{"/home/u/.cargo/bin ", "/home/u/.cache/go-build ", "/home/u/.local/share/uv/tools ", "/opt ", "/nix/store "},
			[]string{"/home/u/.cargo ", "/home/u/.local/share/uv ", " ", "/home/u/.m2 ", "/home/u/.gradle "}, nil},
		{"macOS", "darwin", nil, []string{"/home/u/Library/Caches/go-build "}, []string{"/home/u/.cache/go-build "}, nil},
		{"moved", "linux", map[string]string{"CARGO_HOME": "/data/cargo", "GOMODCACHE": "/data/mod", "GOPATH": "/data/go:/other", "XDG_CACHE_HOME": "/home/u/c"},
			[]string{"/data/cargo/registry CARGO_HOME", "/data/mod GOMODCACHE", "/data/go/pkg/mod GOPATH", "/home/u/c/go-build XDG_CACHE_HOME"},
			[]string{"/home/u/.cargo/registry ", "/data/cargo CARGO_HOME", "/other/pkg/mod GOPATH"}, nil},
		{"moved by an empty variable", "linux", map[string]string{"CARGO_HOME": ""}, []string{"/home/u/.cargo/bin "}, nil, nil},
		{"not to be believed", "linux", map[string]string{
			"CARGO_HOME": "rel", "GOMODCACHE": "/home/u/.ssh", "RUSTUP_HOME": "/home/u", "PYENV_ROOT": "/home", "NVM_DIR": "/home/u/.config",
			"GRADLE_USER_HOME": "/home/u/.gnupg/x", "UV_CACHE_DIR": "/etc", "GOCACHE": "/home/u/a/../b", "PIP_CACHE_DIR": "/home/u/.local/share", "RBENV_ROOT": "/"},
			nil, []string{"/home/u/.cargo/bin ", "/home/u/.ssh GOMODCACHE"},
			[]string{"CARGO_HOME", "GOMODCACHE", "RUSTUP_HOME", "PYENV_ROOT", "NVM_DIR", "GRADLE_USER_HOME", "UV_CACHE_DIR", "GOCACHE", "PIP_CACHE_DIR", "RBENV_ROOT"}},
		{"nvm where it may be", "linux", map[string]string{"NVM_DIR": "/home/u/.config/nvm"}, []string{"/home/u/.config/nvm NVM_DIR"}, nil, nil},
	} {
		got, refused := list(test.goos, test.env)
		for _, want := range test.has {
			if !slices.Contains(got, want) {
				t.Errorf("%s: no %q in %q", test.name, want, got)
			}
		}
		for _, not := range test.hasNot {
			if slices.Contains(got, not) {
				t.Errorf("%s: %q is in it", test.name, not)
			}
		}
		slices.Sort(refused)
		slices.Sort(test.refused)
		if !slices.Equal(refused, test.refused) {
			t.Errorf("%s: refused %q, want %q", test.name, refused, test.refused)
		}
	}
}

func FuzzToolPlaces(f *testing.F) {
	f.Add("/home/u", "/home/u/.cargo")
	f.Add("/home/u", "/home/u/.ssh/x")
	f.Add("/", "/x")
	f.Add("", "//")
	f.Fuzz(func(t *testing.T, home, value string) {
		if home != "" && (!filepath.IsAbs(home) || filepath.Clean(home) != home) {
			return
		}
		environ := []string{"XDG_CACHE_HOME=" + value, "XDG_DATA_HOME=" + value}
		for _, row := range toolchains {
			for _, name := range strings.Fields(row.variables) {
				environ = append(environ, name+"="+value)
			}
		}
		dirs, _ := (&Caller{Home: home, Environ: NewEnvironment(environ)}).toolchains("linux")
		for _, d := range dirs {
			if !filepath.IsAbs(d.Path) || filepath.Clean(d.Path) != d.Path || home != "" && paths.Inside(d.Path, home) && home != "/" {
				t.Errorf("%+v", d)
			}
			for _, secret := range []string{".ssh", ".gnupg", ".aws"} {
				if home != "" && home != "/" && d.Variable != "" && paths.Inside(d.Path, filepath.Join(home, secret)) {
					t.Errorf("%+v shows %s", d, secret)
				}
			}
		}
	})
}

// Whatever lies beside what the table names - the known files of credentials,
// and any other - is not shown.
func TestToolchainsShowNoCredentials(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	dirs, _ := (&Caller{Home: tr.home}).toolchains("linux")
	var planted []string
	plant := func(p string) {
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte("secret"), 0o600); err != nil {
			t.Fatal(err)
		}
		planted = append(planted, p)
	}
	want := 0
	for _, d := range dirs {
		if !paths.Inside(tr.home, d.Path) {
			continue
		}
		want++
		if err := os.MkdirAll(d.Path, 0o755); err != nil {
			t.Fatal(err)
		}
		for dir := filepath.Dir(d.Path); paths.Inside(tr.home, dir); dir = filepath.Dir(dir) {
			if !slices.ContainsFunc(dirs, func(d view.ToolDir) bool { return paths.Inside(d.Path, dir) }) {
				plant(dir + "/auth.json")
			}
		}
	}
	for _, name := range []string{
		".npmrc", ".yarnrc.yml", ".netrc", ".pypirc", ".git-credentials", ".cargo/credentials.toml", ".cargo/config.toml",
		".gradle/gradle.properties", ".gradle/init.d/x.gradle", ".m2/settings.xml", ".m2/settings-security.xml", ".gem/credentials",
		".bundle/config", ".ivy2/.credentials", ".sbt/1.0/credentials.sbt", ".sbt/.credentials", ".local/share/uv/credentials/store.toml",
		".local/share/gem/credentials", ".config/pnpm/auth.ini", ".config/pip/pip.conf", ".config/mise/config.toml", ".config/coursier/credentials.properties",
		".config/go/env", ".config/gh/hosts.yml", ".ssh/id_ed25519", ".aws/credentials", ".docker/config.json", ".npm/_logs/x.log", ".npm-global/etc/npmrc",
		".volta/hooks.json", ".sdkman/etc/config", "go/src/private/main.go", ".local/share/keyrings/login.keyring", ".bash_history",
	} {
		plant(filepath.Join(tr.home, name))
	}
	if want < 40 || len(planted) < 80 {
		t.Fatalf("%d directories, %d files planted: is the table empty?", want, len(planted))
	}
	for _, filesystem := range []view.Filesystem{view.FilesystemMinimal, view.FilesystemHost} {
		r := tr.machine(t)
		r.findToolchains()
		r.Caller.UID = os.Getuid()
		out, err := r.Resolve(t.Context(), Request{Name: "fast", Definition: view.Definition{Filesystem: filesystem}, Session: shared.Session{ID: "x", Dir: tr.base + "/session"}})
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range dirs {
			if at, ok := view.InsidePath(&out.Spec, d.Path); paths.Inside(tr.home, d.Path) && (!ok || at != d.Path) {
				t.Errorf("%s: %s is not shown", filesystem, d.Path)
			}
		}
		for _, p := range planted {
			if at, ok := view.InsidePath(&out.Spec, p); ok {
				t.Errorf("%s: %s is at %s inside", filesystem, p, at)
			}
		}
		for _, m := range out.Spec.Table {
			if m.Why == view.OriginToolchains && paths.Inside(tr.home, m.Source) && (m.Access != shared.Overlay || !m.Degradable) {
				t.Errorf("%s: %+v is no overlay that may degrade", filesystem, m)
			}
			if m.Access == shared.ReadWrite && m.Why == view.OriginToolchains {
				t.Errorf("%s: %+v lets commands write the host's files", filesystem, m)
			}
		}
	}
}

func TestResolveToolchains(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	if err := os.MkdirAll(tr.base+"/data/cargo/bin", 0o755); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{tr.home + "/.cargo/bin", tr.home + "/.rustup/toolchains", tr.home + "/.ssh", tr.home + "/.m2/repository", tr.project + "/mod"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{"/.bun": tr.home + "/.ssh", "/.nvm": tr.home, "/.deno": tr.home + "/src"} {
		if err := os.Symlink(target, tr.home+link); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(tr.home+"/.ssh", tr.home+"/.pyenv"); err != nil {
		t.Fatal(err)
	}
	r := tr.machine(t)
	r.Caller.UID = os.Getuid()
	session := shared.Session{ID: "x", Dir: tr.base + "/session"}
	r.Caller.Environ = NewEnvironment([]string{"CARGO_HOME=" + tr.base + "/data/cargo", "GOMODCACHE=" + tr.project + "/mod", "UV_CACHE_DIR=/etc", "GOCACHE=" + tr.base + "/nothing",
		"XDG_DATA_HOME=" + tr.base + "/data"})
	r.findToolchains()
	out, err := r.Resolve(t.Context(), Request{Name: "fast", Definition: view.Definition{BindPaths: []view.Bind{{Host: "~/.m2/repository", Writable: true}}}, Session: session})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range out.Spec.Table {
		if strings.HasPrefix(m.Path, tr.base) && !strings.HasPrefix(m.Why, "protected: ") {
			got = append(got, strings.ReplaceAll(m.Access.String()+" "+m.Path+" "+m.Why, tr.base, "B"))
		}
	}
	want := []string{
		"read-write B/home/src/project workspace",
		"read-write B/home/.m2/repository bind_paths[0]",
		"overlay B/home/.rustup workspace.toolchains",
		"overlay B/data/cargo/bin workspace.toolchains",
		"hidden B/home/src workspace, the directory above",
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if !slices.Equal(out.Variables, []string{"CARGO_HOME", "GOMODCACHE"}) && !slices.Equal(out.Variables, []string{"GOMODCACHE", "CARGO_HOME"}) {
		t.Errorf("variables %q", out.Variables)
	}
	if len(out.Notes) != 3 || !strings.Contains(out.Notes[0], "/.nvm") || !strings.Contains(out.Notes[1], "/.pyenv") || !strings.Contains(out.Notes[2], "UV_CACHE_DIR") {
		t.Errorf("notes %q", out.Notes)
	}
	for dir, want := range map[string]bool{"/data/cargo/bin": false, "/home/.rustup/bin": false, "/home/.m2/repository": true, "/home/.cargo/bin": true} {
		if got := view.WritableInside(&out.Spec, tr.base+dir); got != want {
			t.Errorf("%s counts as writable for PATH: %v, want %v", dir, got, want)
		}
	}

	if _, err = r.Resolve(t.Context(), Request{Name: "fast", OnDemand: true}); !errors.Is(err, ErrWantsSession) {
		t.Errorf("a session that can have a directory: %v", err)
	}
	// Without a directory for the session nothing of it can be written.
	out, err = r.resolve(t.Context(), "fast", view.Definition{})
	if err != nil || !out.WantsSession {
		t.Errorf("it does not ask for a session: %+v, %v", out, err)
	}
	for _, m := range out.Spec.Table {
		if m.Why == view.OriginToolchains && m.Access != shared.ReadOnly {
			t.Errorf("%+v", m)
		}
	}
	// Of another user's it makes nothing writable, nor believes variables.
	r.Owner = &Owner{User: shared.User{UID: 987654}, Home: tr.home}
	r.findToolchains()
	out, err = r.Resolve(t.Context(), Request{Name: "fast", Session: session})
	if err != nil || len(out.Variables) != 0 {
		t.Errorf("%+v, %v", out, err)
	}
	if at, ok := view.InsidePath(&out.Spec, tr.base+"/data/cargo/bin"); ok {
		t.Errorf("a variable of root's shows %s", at)
	}
	for _, m := range out.Spec.Table {
		if m.Access == shared.Overlay {
			t.Errorf("%+v", m)
		}
	}
}
