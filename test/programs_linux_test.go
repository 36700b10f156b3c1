package test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Users that /etc/passwd does not have are known inside by their names. The machine's real getent is asked,
// which knows them by systemd's module, from a file in /run/userdb: as with sssd, that is not shown.
func TestAccountsElsewhere(t *testing.T) {
	t.Parallel()
	need(t, "bwrap", "getent")
	bin := t.TempDir()
	build(t, bin, append(engineBinaries[:], "cmd/sbxhost")...)
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	uid, gid := os.Getuid(), os.Getgid()
	if uid == 0 {
		uid, gid = ownerUID, ownerUID // for whom root runs commands
	}
	write := func(name, text string) error { return os.WriteFile(filepath.Join(base, name), []byte(text), 0o644) }
	err = errors.Join(os.Chmod(filepath.Dir(bin), 0o755), os.Chmod(bin, 0o755), os.Chmod(filepath.Dir(base), 0o755), os.Chmod(base, 0o755), os.Mkdir(base+"/w", 0o755), os.Chown(base+"/w", uid, gid), os.Mkdir(base+"/userdb", 0o755), os.Mkdir(base+"/home", 0o755),
		write("passwd", "root:x:0:0::/root:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n"), write("group", "root:x:0:\nnogroup:x:65534:\n"), write("nsswitch", "passwd: files systemd\ngroup: files systemd\nhosts: files\n"),
		write("userdb/jo.user", fmt.Sprintf(`{"userName": "jo", "uid": %d, "gid": %d, "realName": "Jo Doe", "homeDirectory": "/home/jo", "shell": "/bin/sh", "disposition": "regular"}`, uid, gid)),
		write("userdb/people.group", fmt.Sprintf(`{"groupName": "people", "gid": %d, "disposition": "regular"}`, gid)),
		os.Symlink("jo.user", fmt.Sprintf("%s/userdb/%d.user", base, uid)), os.Symlink("people.group", fmt.Sprintf("%s/userdb/%d.group", base, gid)),
		write("config.hcl", "default_sandbox = \"native\"\nsandbox \"native\" {\n  engine = \"native\"\n}\nsandbox \"bwrap\" {\n  engine = \"bwrap\"\n}\nsandbox \"host\" {\n  engine     = \"native\"\n  filesystem = \"host\"\n}\n"))
	if err != nil {
		t.Fatal(err)
	}
	run := func(script string) string {
		cmd := exec.Command("bwrap", "--dev-bind", "/", "/", "--tmpfs", "/run", "--tmpfs", "/var/cache", "--ro-bind", base+"/userdb", "/run/userdb", "--ro-bind", base+"/passwd", "/etc/passwd", "--ro-bind", base+"/group", "/etc/group",
			"--ro-bind", base+"/nsswitch", "/etc/nsswitch.conf", "--die-with-parent", "--chdir", base+"/w", "sh", "-c", script)
		cmd.Env = []string{"PATH=" + bin + ":/usr/local/bin:/usr/bin:/bin", "HOME=" + base + "/home", "XDG_STATE_HOME=" + base + "/state", "XDG_CACHE_HOME=" + base + "/cache", "TMPDIR=/tmp", "LC_ALL=C", "B=" + base}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return string(out)
	}
	line := fmt.Sprintf("jo:x:%d:%d:Jo Doe:/home/jo:/bin/sh\n", uid, gid)
	if out, _ := exec.Command("bwrap", "--dev-bind", "/", "/", "--tmpfs", "/run", "--ro-bind", base+"/userdb", "/run/userdb", "--ro-bind", base+"/nsswitch", "/etc/nsswitch.conf", "--ro-bind", base+"/passwd", "/etc/passwd",
		"getent", "passwd", fmt.Sprint(uid)).Output(); string(out) != line {
		t.Skipf("the C library here has no module for systemd's users: %q", out)
	}
	const asks = `-- sh -c 'whoami; id -gn; getent passwd $(id -u); test ! -e /run/userdb'`
	for _, sandbox := range []string{"native", "bwrap", "host"} {
		if got, want := run(`sbxhost exec -quiet -config $B/config.hcl -sandbox `+sandbox+` `+asks), "jo\npeople\n"+line; got != want {
			t.Errorf("%s: %q, want %q", sandbox, got, want)
		}
	}
	if _, err := exec.LookPath("ssh"); err == nil {
		if got := run(`sbxhost exec -quiet -config $B/config.hcl -- ssh -o BatchMode=yes nowhere.invalid 2>&1 || true`); !strings.Contains(got, "resolve") || strings.Contains(got, "No user exists") {
			t.Errorf("ssh: %q", got)
		}
	}
	// What the definition shows there stays.
	if got := run(`echo "me:x:1:1::/:/bin/sh" >$B/own; sed "s,engine = \"bwrap\",engine = \"native\"\nbind_paths = [{ host = \"$B/own\"\, container = \"/etc/passwd\" }]," $B/config.hcl >$B/bound.hcl
		sbxhost exec -quiet -config $B/bound.hcl -sandbox bwrap -- cat /etc/passwd`); got != "me:x:1:1::/:/bin/sh\n" {
		t.Errorf("a bind: %q", got)
	}
}

// Of what packages keep in /etc and /var, commands see what programs do not run without, and nothing in
// which an administrator keeps a password: on a machine that has both.
func TestSettingsOfPackages(t *testing.T) {
	t.Parallel()
	need(t, "bwrap")
	bin := t.TempDir()
	build(t, bin, append(engineBinaries[:], "cmd/sbxhost")...)
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Chmod(filepath.Dir(bin), 0o755), os.Chmod(bin, 0o755), os.Mkdir(base+"/w", 0o755)); err != nil {
		t.Fatal(err)
	}
	shown := []string{
		"etc/passwd", "etc/texmf/web2c/texmf.cnf", "etc/xml/catalog", "etc/sgml/catalog", "etc/R/ldpaths", "etc/chromium.d/default-flags", "etc/dpkg/origins/debian", "etc/odbcinst.ini",
		"etc/php/8.2/mods-available/curl.ini", "etc/php/8.2/cli/conf.d/20-xml.ini",
		"var/lib/texmf/ls-R", "var/lib/aspell/en.rws", "var/lib/sgml-base/supercatalog", "var/lib/dpkg/status", "var/lib/gems/3.1.0/specifications/x.gemspec",
	}
	hidden := []string{
		"etc/odbc.ini", "etc/environment", "etc/wgetrc", "etc/R/Renviron.site", "etc/chromium.d/apikeys", "etc/apt/auth.conf", "etc/apt/sources.list",
		"etc/php/8.2/mods-available/newrelic.ini", "etc/php/8.2/cli/conf.d/99-local.ini", "etc/php/8.2/cli/php.ini", "etc/php/8.2/fpm/pool.d/www.conf",
		"var/lib/app/token", "var/lib/apt/lists/private.example.com_Release",
	}
	for _, name := range append(shown, hidden...) {
		file := filepath.Join(base, name)
		text := []byte("content of " + name + "\n")
		if name == "etc/passwd" {
			text = fmt.Appendf(nil, "me:x:%d:%d::%s:/bin/sh\n", os.Getuid(), os.Getgid(), base)
		}
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, text, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	config := "default_sandbox = \"native\"\n"
	for _, engine := range []string{"native", "bwrap", "landlock"} {
		config += fmt.Sprintf("sandbox %q {\n  engine    = %q\n  isolation = \"best_effort\"\n}\n", engine, engine)
	}
	if err := errors.Join(os.WriteFile(base+"/config.hcl", []byte(config), 0o644), os.Symlink("/etc/php/8.2/mods-available/newrelic.ini", base+"/etc/php/8.2/cli/conf.d/20-newrelic.ini")); err != nil {
		t.Fatal(err)
	}
	hidden = append(hidden, "etc/php/8.2/cli/conf.d/20-newrelic.ini")
	for _, engine := range []string{"native", "bwrap", "landlock"} {
		cmd := exec.Command("bwrap", "--dev-bind", "/", "/", "--ro-bind", base+"/etc", "/etc", "--ro-bind", base+"/var/lib", "/var/lib", "--die-with-parent", "--chdir", base+"/w",
			"sbxhost", "exec", "-quiet", "-config", base+"/config.hcl", "-sandbox", engine, "--", "sh", "-c", `for f; do cat "/$f" >/dev/null 2>&1 && echo "$f"; done; true`, "sh")
		cmd.Args = append(append(cmd.Args, shown...), hidden...)
		cmd.Env = []string{"PATH=" + bin + ":/usr/local/bin:/usr/bin:/bin", "HOME=" + base, "XDG_STATE_HOME=" + base + "/state", "XDG_CACHE_HOME=" + base + "/cache", "TMPDIR=/tmp", "LC_ALL=C"}
		cmd.Dir = base
		out, err := cmd.CombinedOutput()
		if got, want := string(out), strings.Join(shown, "\n")+"\n"; err != nil || got != want {
			t.Errorf("%s: %v: %q, want %q", engine, err, got, want)
		}
	}
}
