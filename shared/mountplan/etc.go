package mountplan

import (
	"path"
	"slices"
	"strings"
)

// etcAllowed is what of /etc the minimal view shows where it exists: what
// name resolution, the loader, time, TLS and shells need, and what packages link
// to from /usr.
//
// Left out on purpose: shadow and gshadow, sudoers, ssh, private keys (ssl/private,
// pki/tls/private: a caller who is root could read them), machine-id, and
// the system-wide configuration in which tools keep credentials (npmrc, pip.conf,
// maven/settings.xml, gemrc, krb5.keytab). A definition can bind any of them.
var etcAllowed = [...]string{
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
	// tools that do not run, or not well, without
	"gitconfig", "manpath.config", "man_db.conf", "mime.types", "magic", "fonts", "perl", "java", "maven/m2.conf", "maven/logging",
}

// etcFamilies are further names, of which there is one for each version.
var etcFamilies = [...]string{"java-*-openjdk", "python3*"}

// etcNames gives the entries of /etc to look at, sorted, without saying that they exist.
func etcNames(t tree) []string {
	names := slices.Clone(etcAllowed[:])
	for _, name := range t.names("/etc") {
		for _, pattern := range etcFamilies {
			if ok, _ := path.Match(pattern, name); ok {
				names = append(names, name)
			}
		}
	}
	slices.SortFunc(names, strings.Compare)
	return names
}
