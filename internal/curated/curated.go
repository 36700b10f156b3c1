// Package curated lists what the minimal view of the operating system shows of /etc and /var. It looks
// at nothing.
//
// A name is on the list if programs do not run, or do not run well, without it, and if the packages
// that use it document no place in it for a password, a token or a key. Everybody on the machine
// can read most of what the list leaves out. But an administrator who lets the machine's users read
// a file does not mean it for programs from the network, which could send it there. So no rule
// shows a file that nobody has looked at.
package curated

import (
	"path"
	"slices"
	"strings"

	"github.com/sbxhost/sbxhost/internal/paths"
)

// Roots are the directories of programs and libraries. The stores are those of Nix and Guix, whose
// files everybody can read.
var Roots = [...]string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store", "/gnu/store"}

// etc are names in /etc.
//
// Deliberately missing: shadow and gshadow, sudoers, ssh, private keys (ssl/private,
// pki/tls/private: a caller who is root could read them), machine-id, and the system-wide
// configuration in which tools keep credentials (npmrc, pip.conf, maven/settings.xml, gemrc,
// krb5.keytab, wgetrc, odbc.ini, my.cnf, postgresql-common/pg_service.conf, R/Renviron.site,
// R/Rprofile.site, chromium.d/apikeys, libreoffice/registry/oo-ldap.xcd, screenrc, apt with its
// sources and proxies, environment, default). A definition can bind any of them.
var etc = [...]string{
	// users and names
	"passwd", "group", "nsswitch.conf", "hosts", "host.conf", "resolv.conf", "gai.conf",
	"services", "protocols", "networks", "rpc",
	// the dynamic loader and the indirections of packages
	"ld.so.cache", "ld.so.conf", "ld.so.conf.d", "ld-musl-x86_64.path", "ld-musl-aarch64.path", "alternatives", "static",
	// time, language and terminals
	"localtime", "timezone", "locale.conf", "locale.alias", "terminfo", "inputrc",
	// which system this is
	"os-release", "lsb-release", "debian_version", "fedora-release", "redhat-release", "system-release",
	"centos-release", "arch-release", "alpine-release", "mtab",
	// trust
	"ssl/certs", "ssl/cert.pem", "ssl/openssl.cnf", "ca-certificates", "ca-certificates.conf", "crypto-policies",
	"pki/ca-trust", "pki/java", "pki/tls/certs", "pki/tls/cert.pem", "pki/tls/openssl.cnf",
	// shells read these on login
	"profile", "profile.d", "bash.bashrc", "bashrc", "shells",
	// tools that need these to work, or to work well
	"gitconfig", "manpath.config", "man_db.conf", "mime.types", "magic", "fonts", "perl", "java", "maven/m2.conf", "maven/logging",
	"java-*-openjdk", "python3*",
	// documents: TeX's formats, catalogs of XML and SGML, dictionaries, paper, PostScript
	"texmf", "xml", "sgml", "dictionaries-common", "papersize", "libpaper.d", "ghostscript",
	"ImageMagick-*", "groff",
	// LibreOffice does not start without these. Of its registry, only the files of its packages:
	// oo-ldap.xcd next to them contains a directory's password.
	"libreoffice/sofficerc", "libreoffice/registry/res", "libreoffice/registry/Langpack-*.xcd", "libreoffice/registry/cjk_*.xcd", "libreoffice/registry/ctl_*.xcd",
	"libreoffice/registry/main.xcd", "libreoffice/registry/base.xcd", "libreoffice/registry/calc.xcd", "libreoffice/registry/draw.xcd", "libreoffice/registry/impress.xcd",
	"libreoffice/registry/math.xcd", "libreoffice/registry/writer.xcd", "libreoffice/registry/graphicfilter.xcd", "libreoffice/registry/lingucomponent.xcd",
	"libreoffice/registry/librelogo.xcd", "libreoffice/registry/ogltrans.xcd", "libreoffice/registry/pdfimport.xcd", "libreoffice/registry/postgresql.xcd",
	"libreoffice/registry/reportbuilder.xcd", "libreoffice/registry/xsltfilter.xcd",
	// interpreters and drivers: only the settings that load an extension
	"php/*/cli/conf.d", "php/*/mods-available",
	"R/Renviron", "R/Makeconf", "R/ldpaths", "R/javaconf", "R/repositories",
	"ant", "odbcinst.ini", "OpenCL/vendors", "chromium.d/default-flags", "chromium.d/extensions", "vim/vimrc", "emacs/site-start.d",
	// packages and their build tools
	"dpkg", "apk/arch", "apk/world",
}

// other are names elsewhere: files that packages generate when they are installed, and the data
// that /usr links to. From dpkg it is the list of packages, as /usr shows it; neither their answers
// (debconf) nor their sources.
var other = [...]string{
	"/var/lib/texmf", "/var/lib/aspell", "/var/lib/dictionaries-common", "/var/lib/sgml-base",
	"/var/lib/ghostscript", "/var/lib/ghc/package.conf.d", "/var/lib/gems", "/var/lib/mecab/dic",
	"/var/lib/dpkg", "/var/lib/rpm", "/var/lib/pacman/local",
}

// extensions are PHP's own and those that distributions package, whose settings have no key.
// Settings of other services are in the same directories, and have keys: newrelic.license,
// blackfire.server_token.
var extensions = [...]string{
	"amqp", "apcu", "apcu_bc", "ast", "bcmath", "bz2", "calendar", "ctype", "curl", "dba", "decimal", "dom", "ds", "enchant", "exif", "ffi",
	"fileinfo", "ftp", "gd", "gearman", "geoip", "gettext", "gmagick", "gmp", "gnupg", "http", "iconv", "igbinary", "imagick", "imap", "inotify", "interbase",
	"intl", "json", "ldap", "libvirt-php", "lua", "mailparse", "maxminddb", "mbstring", "mcrypt", "memcache", "memcached", "mongodb", "msgpack", "mysqli",
	"mysqlnd", "oauth", "odbc", "opcache", "pcov", "pdo", "pdo_dblib", "pdo_firebird", "pdo_mysql", "pdo_odbc", "pdo_pgsql",
	"pdo_sqlite", "pgsql", "phar", "posix", "propro", "ps", "pspell", "psr", "raphf", "readline", "redis", "rrd", "shmop", "simplexml", "smbclient",
	"snmp", "soap", "sockets", "sodium", "solr", "sqlite3", "ssh2", "stomp", "sysvmsg", "sysvsem", "sysvshm", "tidy", "tideways_xhprof",
	"tokenizer", "uploadprogress", "uuid", "vips", "xdebug", "xml", "xmlreader", "xmlrpc", "xmlwriter", "xsl", "yac", "yaml", "zip",
	"zmq",
}

// Patterns returns absolute paths, which may have wildcards within a name.
func Patterns() []string {
	list := make([]string, 0, len(etc)+len(other))
	for _, name := range etc {
		list = append(list, "/etc/"+name)
	}
	return append(list, other[:]...)
}

// Selective reports whether the view shows only some names of a directory of [Patterns]; see
// [Selected].
func Selective(dir string) bool {
	return match("/etc/php/*/mods-available", dir) || match("/etc/php/*/cli/conf.d", dir)
}

// Selected reports whether the view shows a name of a [Selective] directory.
func Selected(name string) bool {
	name, ini := strings.CutSuffix(name, ".ini")
	if priority, of, ok := strings.Cut(name, "-"); ok && len(priority) == 2 && strings.Trim(priority, "0123456789") == "" {
		name = of
	}
	return ini && slices.Contains(extensions[:], name)
}

// Shows reports whether the minimal view shows a path of /etc and /var, if the path exists.
func Shows(p string) bool {
	for dir := range paths.Up(p) {
		if Selective(dir) && dir != p && (path.Dir(p) != dir || !Selected(path.Base(p))) {
			return false
		}
	}
	return slices.ContainsFunc(Patterns(), func(pattern string) bool {
		for dir := range paths.Up(p) {
			if match(pattern, dir) {
				return true
			}
		}
		return false
	})
}

func match(pattern, p string) bool {
	ok, _ := path.Match(pattern, p)
	return ok
}
