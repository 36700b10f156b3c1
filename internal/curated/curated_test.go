package curated

import (
	"flag"
	"os"
	"path"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the marks in testdata")

// The files in /etc and /var of a hundred packages of Debian, each marked by whether the minimal view
// shows it. Who adds a name to the lists looks here at what else comes with it.
func TestPackagesOfDebian(t *testing.T) {
	t.Parallel()
	const file = "testdata/debian.txt"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var now strings.Builder
	packages := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) != 3 || path.Clean(f[2]) != f[2] {
			t.Fatalf("%q is not a mark, a package and a path", line)
		}
		packages[f[1]] = true
		mark := "-"
		if Shows(f[2]) {
			mark = "+"
		}
		if mark != f[0] && !*update {
			t.Errorf("%s, of %s: %s", f[2], f[1], mark)
		}
		now.WriteString(mark + " " + f[1] + " " + f[2] + "\n")
	}
	if len(packages) < 95 {
		t.Errorf("%d packages", len(packages))
	}
	if *update {
		if err := os.WriteFile(file, []byte(now.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// Where tools keep credentials for a whole machine, and where an administrator may.
func TestSecretsStayOut(t *testing.T) {
	t.Parallel()
	for _, p := range []string{
		"/etc", "/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/etc/sudoers.d/x", "/etc/ssh/ssh_host_rsa_key", "/etc/ssl/private/key.pem", "/etc/machine-id", "/etc/krb5.keytab",
		"/etc/npmrc", "/etc/pip.conf", "/etc/gemrc", "/etc/maven/settings.xml", "/etc/wgetrc", "/etc/odbc.ini", "/etc/mysql/my.cnf", "/etc/mysql/debian.cnf", "/etc/my.cnf",
		"/etc/environment", "/etc/default/grub", "/etc/apt", "/etc/apt/sources.list", "/etc/apt/sources.list.d/x.list", "/etc/apt/auth.conf", "/etc/apt/auth.conf.d/x", "/etc/apt/apt.conf.d/proxy", "/etc/apk/repositories",
		"/etc/R", "/etc/R/Renviron.site", "/etc/R/Rprofile.site", "/etc/chromium.d", "/etc/chromium.d/apikeys", "/etc/chromium/policies/managed/x.json",
		"/etc/php", "/etc/php/8.2/fpm/pool.d/www.conf", "/etc/php/8.2/cli/php.ini", "/etc/php/8.2/mods-available/newrelic.ini", "/etc/php/8.2/cli/conf.d/20-blackfire.ini", "/etc/php/8.2/cli/conf.d/99-local.ini",
		"/etc/php/8.2/mods-available/dir/curl.ini", "/etc/postgresql/15/main/pg_hba.conf", "/etc/postgresql-common/pg_service.conf", "/etc/subversion/servers", "/etc/libreoffice", "/etc/libreoffice/registry", "/etc/libreoffice/registry/oo-ldap.xcd", "/etc/libreoffice/registry/oo-ad-ldap.xcd", "/etc/screenrc", "/etc/emacs/site-start.el", "/etc/mercurial/hgrc", "/etc/debconf.conf",
		"/var", "/var/lib", "/var/log/syslog", "/var/cache/debconf/passwords.dat", "/var/lib/apt/lists/private.example.com_dists_x_Release", "/var/lib/postgresql/15/main", "/var/lib/docker", "/var/lib/sss/pipes/nss",
		"/var/lib/dbus/machine-id", "/var/lib/systemd/random-seed", "/var/backups/dpkg.status.0", "/var/mail/root", "/var/spool/cron/crontabs/root",
	} {
		if Shows(p) {
			t.Errorf("%s is shown", p)
		}
	}
	for _, p := range []string{
		"/etc/passwd", "/etc/ssl/certs/ca.pem", "/etc/java-17-openjdk/security/java.policy", "/etc/python3.11/sitecustomize.py", "/etc/texmf/web2c/mktex.cnf", "/var/lib/texmf/web2c/pdftex/pdflatex.fmt",
		"/etc/xml/catalog", "/var/lib/aspell/en_US.rws", "/etc/php/8.2/mods-available", "/etc/php/8.2/mods-available/curl.ini", "/etc/php/8.2/cli/conf.d/20-curl.ini", "/etc/php/8.2/cli/conf.d/10-pdo.ini",
		"/etc/R/ldpaths", "/etc/libreoffice/registry/main.xcd", "/etc/libreoffice/registry/res/x.xcd", "/etc/groff/man.local", "/etc/emacs/site-start.d/50x.el", "/etc/chromium.d/default-flags", "/var/lib/dpkg/status", "/etc/ImageMagick-6/policy.xml",
	} {
		if !Shows(p) {
			t.Errorf("%s is not shown", p)
		}
	}
}
