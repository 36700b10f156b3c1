package mountplan

import (
	"path"
	"slices"
	"strings"

	"github.com/sbxhost/sbxhost/internal/paths"
)

// facts is what the planner must know of this machine.
type Facts struct {
	uid    uint32
	memory uint64 // bytes of RAM; 0 where unknown
	tree   tree

	roots  []Op // system directories of the minimal view
	etc    []Op // the entries of /etc of the minimal view
	links  []Op // symlinks in /run that programs are found through
	resolv []Op // what a private /run must hold for name resolution, in the host view
	covers []Op // what keeps a root caller from the kernel's controls in /proc

	run, varTmp bool // whether the host has these directories
}

// systemRoots are the directories that hold programs and libraries. The stores
// are those of Nix and Guix, whose files are readable by everybody.
var systemRoots = [...]string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store", "/gnu/store"}

// copyMax is the size up to which a file of /etc is copied in, not bound: a
// mount costs more than that much memory to copy.
const copyMax = 64 << 10

// gather looks at the host's tree.
func gather(t tree, uid uint32, memory uint64) *Facts {
	f := &Facts{uid: uid, memory: memory, tree: t}
	t = remember(t)
	for _, p := range systemRoots {
		e, err := t.lstat(p)
		if err != nil {
			continue
		}
		switch e.kind {
		case directory:
			f.roots = append(f.roots, Op{Kind: ROBind, Source: p, Dest: p, Why: "filesystem"})
		case symlink:
			real, target := resolve(t, p)
			if target.kind != directory {
				continue
			}
			if systemPath(real) {
				// Relative, because bubblewrap makes mount points before
				// the new root is the root.
				f.roots = append(f.roots, Op{Kind: Symlink, Source: relative(p, real), Dest: p, Why: "filesystem"})
			} else {
				f.roots = append(f.roots, Op{Kind: ROBind, Source: real, Dest: p, Why: "filesystem"})
			}
		}
	}
	// What is bound precedes the links to it.
	slices.SortStableFunc(f.roots, func(a, b Op) int { return int(a.Kind) - int(b.Kind) })

	for _, name := range etcNames(t) {
		p := "/etc/" + name
		if o, ok := etcEntry(t, p); ok {
			f.etc = append(f.etc, o)
		}
	}
	for _, c := range kernelControls {
		e, err := t.lstat(c.path)
		switch {
		case err != nil || e.kind != c.kind:
		case c.kind == directory:
			f.covers = append(f.covers, Op{Kind: ROBind, Source: c.path, Dest: c.path, Why: "kernel controls"})
		default:
			f.covers = append(f.covers, Op{Kind: MaskFile, Dest: c.path, Why: "kernel controls"})
		}
	}
	isDir := func(p string) bool { e, err := t.lstat(p); return err == nil && e.kind == directory }
	f.run, f.varTmp = isDir("/run"), isDir("/var/tmp")
	if real, e := resolve(t, "/run/current-system"); e.kind == directory && systemPath(real) {
		f.links = append(f.links, Op{Kind: Symlink, Source: real, Dest: "/run/current-system", Why: "filesystem"})
	}
	if real, e := resolve(t, "/etc/resolv.conf"); e.kind == file && paths.Inside("/run", real) {
		f.resolv = append(f.resolv, Op{Kind: File, Source: real, Dest: real, Perms: 0o444, Why: "filesystem"})
	}
	return f
}

// kernelControls are what in /proc a root caller could write to, or read what
// is no command's business, though it has no capabilities: it owns them.
var kernelControls = [...]struct {
	path string
	kind kind
}{
	{"/proc/sys", directory},
	{"/proc/fs", directory},
	{"/proc/irq", directory},
	{"/proc/bus", directory},
	{"/proc/acpi", directory},
	{"/proc/scsi", directory},
	{"/proc/sysrq-trigger", file},
	{"/proc/kcore", file},
	{"/proc/kmsg", file},
	{"/proc/keys", file},
	{"/proc/timer_list", file},
	{"/proc/mtrr", file},
}

// etcEntry says how one entry of /etc gets into the minimal view. What is not
// readable by everybody stays out: a caller who is root could read it.
func etcEntry(t tree, p string) (Op, bool) {
	first, err := t.lstat(p)
	if err != nil || first.kind == absent {
		return Op{}, false
	}
	o := Op{Dest: p, Why: "filesystem"}
	if first.kind == symlink {
		text := first.target
		if !strings.HasPrefix(text, "/") {
			text = path.Join(path.Dir(p), text)
		}
		if paths.Inside("/proc", path.Clean(text)) {
			// Not resolved: it would name this very process.
			o.Kind, o.Source = Symlink, path.Clean(text)
			return o, true
		}
	}
	real, e := resolve(t, p)
	if e.kind != absent && first.kind == symlink && systemPath(real) {
		o.Kind, o.Source = Symlink, real
		return o, true
	}
	switch {
	case e.kind == directory && e.perm&0o005 == 0o005:
		o.Kind, o.Source = ROBind, real
	case e.kind == file && e.perm&0o004 != 0 && e.size <= copyMax:
		o.Kind, o.Source, o.Perms = File, real, 0o444
	case e.kind == file && e.perm&0o004 != 0:
		o.Kind, o.Source = ROBind, real
	default:
		return Op{}, false
	}
	return o, true
}

// systemPath reports whether p lies in a directory that the minimal view binds.
func systemPath(p string) bool {
	return slices.ContainsFunc(systemRoots[:], func(root string) bool { return paths.Inside(root, p) })
}

// relative spells the absolute path target as seen from the symlink at link.
func relative(link, target string) string {
	up := strings.Repeat("../", strings.Count(strings.TrimSuffix(path.Dir(link), "/"), "/"))
	return up + strings.TrimPrefix(target, "/")
}

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
