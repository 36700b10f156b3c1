package mountplan

import (
	"errors"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/internal/engine/holder"
)

// fakeTree is a fabricated host: paths to what is there. "" is a readable file, "/"
// a directory, "!" a file that only root may read, "->x" a symlink to x, and
// "NNNk" a file of that size. Parents are directories.
type fakeTree map[string]string

func (t fakeTree) lstat(p string) (entry, error) {
	what, ok := t[p]
	if !ok {
		if p == "/" {
			return entry{kind: directory, perm: 0o755}, nil
		}
		for have := range t {
			if strings.HasPrefix(have, p+"/") {
				return entry{kind: directory, perm: 0o755}, nil
			}
		}
		return entry{}, nil
	}
	switch {
	case what == "/":
		return entry{kind: directory, perm: 0o755}, nil
	case what == "!":
		return entry{kind: file, perm: 0o600}, nil
	case what == "!/":
		return entry{kind: directory, perm: 0o700}, nil
	case what == "error":
		return entry{}, errors.New("permission denied")
	case strings.HasPrefix(what, "->"):
		return entry{kind: symlink, target: what[2:], perm: 0o777}, nil
	case strings.HasSuffix(what, "k"):
		return entry{kind: file, perm: 0o644, size: 1 << 20}, nil
	}
	return entry{kind: file, perm: 0o644, size: 100}, nil
}

func (t fakeTree) names(dir string) []string {
	var names []string
	for p := range t {
		if rest, ok := strings.CutPrefix(p, dir+"/"); ok {
			names = append(names, strings.Split(strings.Trim(rest, "/"), "/")[0])
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// with is a copy of t with more in it.
func (t fakeTree) with(more fakeTree) fakeTree {
	all := fakeTree{}
	for p, what := range t {
		all[p] = what
	}
	for p, what := range more {
		all[p] = what
	}
	return all
}

// base is what every host has.
var base = fakeTree{
	"/etc/passwd": "", "/etc/group": "", "/etc/hosts": "", "/etc/nsswitch.conf": "", "/etc/shadow": "!", "/etc/ssh": "/",
	"/etc/machine-id": "", "/home/u/proj/.git/config": "", "/home/u/proj/src/a": "", "/home/u/proj/src/b": "", "/home/u/.gitconfig": "", "/tmp": "/",
	"/run/docker.sock": "", "/var/tmp": "/", "/proc/sys": "/", "/proc/sysrq-trigger": "!", "/dev/null": "", "/cache/dir": "/", "/cache/file": "",
}

// distributions are hosts as they are laid out.
var distributions = map[string]fakeTree{
	"debian": base.with(fakeTree{
		"/usr/bin/sh": "", "/usr/lib": "/", "/usr/lib64": "/", "/usr/sbin": "/", "/opt": "/",
		"/bin": "->usr/bin", "/sbin": "->usr/sbin", "/lib": "->usr/lib", "/lib64": "->usr/lib64",
		"/etc/alternatives/awk": "->/usr/bin/gawk", "/etc/localtime": "->/usr/share/zoneinfo/Etc/UTC", "/usr/share/zoneinfo/Etc/UTC": "",
		"/etc/os-release": "->../usr/lib/os-release", "/usr/lib/os-release": "", "/etc/mtab": "->../proc/self/mounts",
		"/etc/ssl/certs/ca.pem": "", "/etc/ssl/private/key.pem": "!", "/etc/ld.so.cache": "80k",
		"/etc/resolv.conf": "->../run/systemd/resolve/stub-resolv.conf", "/run/systemd/resolve/stub-resolv.conf": "",
		"/etc/java-17-openjdk/security/java.policy": "", "/etc/maven/settings.xml": "", "/etc/maven/m2.conf": "", "/etc/npmrc": "", "/etc/profile": "!",
		"/etc/php/8.2/mods-available/curl.ini": "", "/etc/php/8.2/mods-available/newrelic.ini": "", "/etc/php/8.2/mods-available/old/x.ini": "", "/etc/php/8.2/cli/php.ini": "", "/etc/php/8.2/fpm/pool.d/www.conf": "",
		"/etc/php/8.2/cli/conf.d/20-curl.ini": "->/etc/php/8.2/mods-available/curl.ini", "/etc/php/8.2/cli/conf.d/20-newrelic.ini": "->/etc/php/8.2/mods-available/newrelic.ini", "/etc/php/8.2/cli/conf.d/99-local.ini": "",
		"/etc/R/Renviron": "", "/etc/R/Renviron.site": "", "/etc/texmf/web2c/texmf.cnf": "", "/etc/apt/sources.list": "", "/etc/chromium.d/apikeys": "", "/etc/chromium.d/default-flags": "",
		"/var/lib/texmf/ls-R": "", "/var/lib/dpkg/status": "", "/var/lib/postgresql/15": "!/", "/var/lib/apt/lists/private.example.com_Release": "",
	}),
	"debian-split": base.with(fakeTree{
		"/usr/bin/awk": "", "/bin/sh": "", "/sbin": "/", "/lib/libc.so": "", "/lib64": "/", "/lib32": "->/usr/lib32", "/usr/lib32": "/", "/opt": "/",
		"/etc/resolv.conf": "",
	}),
	"fedora": base.with(fakeTree{
		"/usr/bin/sh": "", "/usr/lib": "/", "/usr/lib64": "/", "/usr/sbin": "->bin",
		"/bin": "->usr/bin", "/sbin": "->usr/sbin", "/lib": "->usr/lib", "/lib64": "->usr/lib64",
		"/etc/nsswitch.conf": "->/etc/authselect/nsswitch.conf", "/etc/authselect/nsswitch.conf": "",
		"/etc/pki/ca-trust/extracted/ca.pem": "", "/etc/pki/tls/certs/ca.crt": "", "/etc/pki/tls/private": "!/", "/etc/pki/entitlement/key.pem": "!",
		"/etc/ssl/certs": "->../pki/tls/certs", "/etc/crypto-policies/config": "",
	}),
	"arch": base.with(fakeTree{
		"/usr/bin/sh": "", "/usr/lib": "/", "/usr/lib32": "/",
		"/bin": "->usr/bin", "/sbin": "->usr/bin", "/lib": "->usr/lib", "/lib64": "->usr/lib", "/usr/lib64": "->lib", "/usr/sbin": "->bin",
		"/etc/ssl/cert.pem": "->../ca-certificates/extracted/tls-ca-bundle.pem", "/etc/ca-certificates/extracted/tls-ca-bundle.pem": "",
	}),
	"nixos": base.with(fakeTree{
		"/usr/bin/env": "->/nix/store/1-coreutils/bin/env", "/bin/sh": "->/nix/store/2-bash/bin/sh",
		"/nix/store/1-coreutils/bin/env": "", "/nix/store/2-bash/bin/sh": "", "/nix/store/3-etc/etc/hosts": "", "/nix/store/4-system/sw/bin": "/",
		"/etc/static": "->/nix/store/3-etc/etc", "/etc/hosts": "->/etc/static/hosts", "/etc/passwd": "",
		"/run/current-system": "->/nix/store/4-system", "/lib64": "/",
	}),
}

func TestResolve(t *testing.T) {
	t.Parallel()
	tree := fakeTree{"/a/f": "", "/l": "->a", "/a/up": "->../l/f", "/abs": "->/l/./f", "/loop": "->loop", "/dead": "->/nowhere/x", "/root": "->/.."}
	for _, tt := range []struct {
		path, want string
		kind       kind
	}{
		{"/a/f", "/a/f", file},
		{"/l/f", "/a/f", file},
		{"/l", "/a", directory},
		{"/a/up", "/a/f", file},
		{"/abs", "/a/f", file},
		{"/loop", "/loop", absent},
		{"/dead", "/nowhere/x", absent},
		{"/root", "/", directory},
		{"/", "/", directory},
		{"/l/../l/up", "/a/f", file},
	} {
		got, e := resolve(tree, tt.path)
		if got != tt.want || e.kind != tt.kind {
			t.Errorf("resolve(%q) = %q, %d, want %q, %d", tt.path, got, e.kind, tt.want, tt.kind)
		}
	}
}

// The real tree answers like the fabricated one.
func TestHostTree(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for p, want := range map[string]kind{dir: directory, path.Join(dir, "no"): absent, "/etc/passwd/no": absent, "/etc/passwd": file} {
		if e, err := (hostTree{}).lstat(p); err != nil || e.kind != want {
			t.Errorf("lstat(%q) = %+v, %v", p, e, err)
		}
	}
	if !slices.Contains(hostTree{}.names("/etc"), "passwd") || (hostTree{}).names(path.Join(dir, "no")) != nil {
		t.Error("names")
	}
}

// unlisted is a tree with a directory that nobody can list.
type unlisted struct {
	fakeTree
	dir string
}

func (t unlisted) names(dir string) []string {
	if dir == t.dir {
		return nil
	}
	return t.fakeTree.names(dir)
}

// A directory of which only a part may show does not show if that part is unknown.
func TestUnlistedSettings(t *testing.T) {
	t.Parallel()
	const dir = "/etc/php/8.2/mods-available"
	for hidden, want := range map[string]bool{"": true, dir: false} {
		ops := settings(unlisted{distributions["debian"], hidden})
		if shown := slices.ContainsFunc(ops, func(o holder.Op) bool { return o.Dest == dir }); shown != want {
			t.Errorf("unlisted %q: shown %v", hidden, shown)
		}
	}
}
