package denial

import (
	"bytes"
	"cmp"
	"fmt"
	"net/netip"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/sbxhost/sbxhost/internal/egress"
	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/internal/view"
	"github.com/sbxhost/sbxhost/shared"
)

// A cause is the cause of failure in a line of a command's output.
type cause int

const (
	absent      cause = iota // there is no such file
	unwritable               // it cannot be written, renamed or removed
	refused                  // no permission
	privileged               // no privilege
	taken                    // something is there already
	full                     // no space
	unresolved               // a name without an address
	unreachable              // no connection
	processes                // no further process
	exhausted                // no memory
	descriptors              // no further open file
	noProgram                // a shell found no such command
	unset                    // a variable is missing
)

// phrases are the words of programs for each cause: the C library's error texts, and those of
// shells and well-known tools, in lower case; and the names of error numbers that Node prints, in
// upper case.
var phrases = map[cause][]string{
	absent: {"no such file or directory", "ENOENT", "does not exist", "directory nonexistent", "cannot find",
		"can't open", "could not open", "no rule to make target", "is the docker daemon running", "could not connect", "couldn't connect", "failed to connect",
		"can only add regular files", "does not appear to be a git repository"},
	unwritable:  {"read-only file system", "EROFS", "resource busy", "EBUSY", "cross-device link", "EXDEV"},
	refused:     {"permission denied", "EACCES", "operation not permitted", "EPERM", "not permitted"},
	privileged:  {"not permitted", "EPERM", "superuser", "are you root", "be root", "only root", "mount: ", "set cap_", "sock_raw"},
	taken:       {"file exists", "EEXIST"},
	full:        {"no space left on device", "ENOSPC"},
	unresolved:  {"could not resolve", "couldn't resolve", "name resolution", "failure resolving", "name or service not known", "no such host", "ENOTFOUND", "EAI_AGAIN", "unknownhostexception", "nodename nor servname", "getaddrinfo", "bad address", "nxdomain", "could not reach host", ":53: ", "can't resolve", "no such name", "unable to download data", "temporary error (try again later)", "spurious network error"},
	unreachable: {"network is unreachable", "network unreachable", "ENETUNREACH", "connection refused", "ECONNREFUSED", "could not connect", "couldn't connect", "failed to connect", "connectexception", "error connecting to", "connection failed for url"},
	processes:   {"resource temporarily unavailable", "cannot fork", "can't fork", "can't start new thread", "EAGAIN"},
	exhausted:   {"memoryerror", "out of memory", "cannot allocate memory", "bad_alloc", "ENOMEM", "memory exhausted"},
	descriptors: {"too many open files", "EMFILE"},
	noProgram:   {"not found"},
	unset:       {"not set", "unset", "must be set", "unbound variable", "is required", "missing environment", "undefined"},
}

// A command controls its output, so the package looks at a bounded part of it.
const (
	maxLines  = 2000
	maxLine   = 1 << 10
	maxWords  = 48
	maxLookup = 200 // paths
)

// patterns match parts of a line. They are compiled after a command has failed, not at each
// program's start.
var patterns = sync.OnceValue(func() (p struct{ escapes, quoted, variable, endpoint, sought, hostname, lowPort, left, loopback *regexp.Regexp }) {
	p.escapes = regexp.MustCompile("\x1b(\\[[0-9;?]*[ -/]*[@-~]|\\][^\x07\x1b]*(\x07|\x1b\\\\)|[@-_])")
	p.quoted = regexp.MustCompile("'([^']+)'|\"([^\"]+)\"|`([^`']+)[`']|\u2018([^\u2019]+)\u2019|\u201c([^\u201d]+)\u201d")
	p.variable = regexp.MustCompile(`\b[A-Z][A-Z0-9_]*[A-Z0-9]\b`)
	p.endpoint = regexp.MustCompile(`(localhost|[0-9A-Za-z_-]+(?:\.[0-9A-Za-z_-]+)+|\[[0-9a-f:]+\])(?::|[^0-9A-Za-z]+port )([0-9]{1,5})(?:[^0-9.]|$)`)
	p.sought = regexp.MustCompile(`(?:://(?:[^/@\s'"]*@)?|\blookup |\b[Rr]esolv(?:e|ing)(?: host(?:name)?| proxy)?(?: address)?:? ['"\x60\x{2018}]?|getaddrinfo [A-Z_]+ |\bhost=['"]|UnknownHostException: |[Cc]onnect(?:ing)? to (?:host )?|\b[Rr]each host |bad address ['"]|name [Tt]o address ['"]?)([0-9A-Za-z_.-]*[A-Za-z])`)
	p.hostname = regexp.MustCompile(`\b(?:[0-9A-Za-z_-]+\.)+[0-9a-z-]*[a-z]\b`)
	p.lowPort = regexp.MustCompile(`(?:^|[\s:=])(\d{1,3}|10[01]\d|102[0-3])(?:[\s/,:]|$)`)
	p.loopback = regexp.MustCompile(`(?:localhost|127\.0\.0\.1|\[::1\])["']?(?:[:/]|,? +(?:-[pP] *)?)([0-9]{1,5})(?:[^0-9.]|$)`)
	p.left = regexp.MustCompile(`(?:error|warning): unable to (?:unlink (?:old )?'(.+)'|create (?:file|symlink) (.+)): `)
	return p
})

// LeavesFiles reports whether git says in a command's standard error that it left files of a work
// tree unchanged. Git continues after that, and `git checkout` ends with status 0.
func LeavesFiles(said []byte) bool {
	return bytes.Contains(said, []byte(": unable to unlink ")) || bytes.Contains(said, []byte(": unable to create "))
}

// skippedByGit returns the file that git says it left unchanged because nobody can write it.
func skippedByGit(line string) string {
	m := patterns().left.FindStringSubmatch(line)
	if m == nil || !slices.Contains(causes(line), unwritable) {
		return ""
	}
	return m[1] + m[2]
}

// inWorkTree returns the path for a name that git gives from the top of a work tree, in whichever
// directory git ran.
func (f *Failure) inWorkTree(name string) string {
	for dir := range paths.Up(f.Command.Dir) {
		p := path.Join(dir, name)
		if e, _ := shared.Cover(f.Spec.Table, p); e != nil && e.Access != shared.ReadWrite && e.Path != dir && paths.Inside(dir, e.Path) {
			return p
		}
	}
	return f.absolute(f.dir(), name)
}

// complaints returns the denials that explain the command's standard error. For a command that
// succeeded, these are the files that git left unchanged.
func (f *Failure) complaints() (list []Denial) {
	add := func(more ...Denial) { list = append(list, more...) }
	lookups := 0
	lines := strings.FieldsFunc(string(f.Stderr), func(r rune) bool { return r == '\n' || r == '\r' })
	for _, line := range lines[max(0, len(lines)-maxLines):] {
		line = patterns().escapes.ReplaceAllString(line[:min(len(line), maxLine)], "")
		if name := skippedByGit(line); name != "" {
			if lookups++; lookups <= maxLookup {
				add(f.notWritten(f.inWorkTree(name)))
			}
			continue
		}
		if f.Succeeded {
			continue
		}
		if d := f.ofApt(line); d.Reason != "" {
			add(d)
			continue
		}
		before := len(list)
		for _, c := range causes(line) {
			switch c {
			case absent, unwritable, refused, taken:
				subjects := f.subjects(line)
				for _, p := range subjects {
					if lookups++; lookups > maxLookup {
						break
					}
					if c == unwritable && strings.Contains(line, "failed to remove ") && f.placeholder(p) {
						continue // git clean goes on
					}
					d := f.ofPath(c, p)
					if d.Reason == "" && c == absent && makes(line) {
						d = f.uncreatable(p)
					}
					add(d)
				}
				if c == refused {
					add(f.copyOfHidden(line, subjects), f.lowPort(line))
				}
			case privileged:
				if !slices.ContainsFunc(list[before:], func(d Denial) bool { return d.Reason != "" }) {
					add(f.privileged(line))
				}
			case full:
				add(f.full(line))
			case unresolved:
				name := f.hostIn(line)
				add(f.noNetwork(name, f.portOf(name, line)))
			case unreachable:
				add(f.unreachable(line))
			case processes:
				if mentions(line, "fork", "thread", "spawn") || bytes.Contains(f.Stderr, []byte("fork")) {
					add(f.limit("pids", f.Spec.Limits.PIDs, count))
				}
			case exhausted:
				add(f.limit("memory", f.Spec.Limits.Memory, size))
			case descriptors:
				add(f.limit("open_files", f.Spec.Limits.OpenFiles, count))
			case noProgram:
				add(f.program(missingProgram(line)))
			case unset:
				add(f.missingVariable(line))
			}
		}
	}
	return list
}

// mentions reports whether a text has one of some parts.
func mentions(text string, parts ...string) bool {
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(text, part) })
}

// causes returns the causes in a line.
func causes(line string) (found []cause) {
	lower := strings.ToLower(line)
	for c := absent; c <= unset; c++ {
		if mentions(lower, phrases[c]...) || mentions(line, phrases[c]...) {
			found = append(found, c)
		}
	}
	return found
}

// ofPath is about a path and a cause in one line.
func (f *Failure) ofPath(c cause, p string) Denial {
	switch c {
	case unwritable:
		return f.notWritten(p)
	case refused:
		if entry, _ := shared.Cover(f.Spec.Table, p); entry == nil || entry.Access != shared.Hidden && (entry.Access != shared.ReadOnly || !f.ByPermission) {
			return Denial{} // the file's own mode
		}
		return f.notWritten(p)
	case taken:
		return f.heldPath(p)
	}
	return f.unseenPath(p)
}

// makes reports whether a line is about making a file.
func makes(line string) bool {
	line = strings.ToLower(line)
	return strings.HasPrefix(line, "tee: ") || mentions(line, "creat", "touch", "writ")
}

// full is about a place without space: limits apply to /tmp and the private home, not to a disk.
func (f *Failure) full(line string) Denial {
	subjects := f.subjects(line)
	for _, p := range subjects {
		if entry, _ := shared.Cover(f.Spec.Table, p); entry != nil && entry.Source != "" {
			return Denial{}
		}
	}
	d := f.limit("temp_size", f.Spec.Limits.TempSize, size)
	if len(subjects) == 0 {
		d.Value = "" // it may be a disk
	}
	return d
}

// privileged is about a call that takes a privilege, and that no path explains.
func (f *Failure) privileged(line string) Denial {
	lower := strings.ToLower(line)
	switch {
	case strings.Contains(lower, "ptrace"):
		return f.option("ptrace", "ptrace(2), by which debuggers and tracers work")
	case mentions(lower, "unshare", "namespace", "clone("):
		return f.option("nested_userns", "namespaces of the command's own, the first of which must be one of users")
	}
	reason := "no command in a sandbox has root's privileges: it cannot mount, change a file's owner or this machine's settings, make devices or set-id files, or open raw sockets"
	if mentions(lower, "permissions", "chmod", "change mode") {
		reason = "no sandbox lets a command make set-id files, or change the mode of another user's file"
	}
	return Denial{Operation: "call", Reason: reason}
}

// lowPort is about a port that takes a privilege to listen on.
func (f *Failure) lowPort(line string) Denial {
	lower := strings.ToLower(line)
	listens := mentions(lower, "listen", "bind") || bytes.Contains(f.Stderr, []byte("bind("))
	if !listens || !patterns().lowPort.MatchString(line+" "+f.text()) {
		return Denial{}
	}
	return Denial{Operation: "call", Reason: "no command in a sandbox listens on a port below 1024: use another, and publish leads there from a port of this machine"}
}

// ofApt is about packages of the system: no path that apt names is a remedy.
func (f *Failure) ofApt(said string) Denial {
	isApt := func(l line) bool { return strings.HasPrefix(path.Base(l.words[0]), "apt") }
	if !strings.HasPrefix(said, "E: ") && !strings.HasPrefix(said, "W: ") || !slices.ContainsFunc(f.commands(), isApt) || view.WritableInside(f.Spec, "/usr/bin") {
		return Denial{}
	}
	return Denial{Operation: "write", Reason: fmt.Sprintf("packages of the system cannot be installed in sandbox %q: install them outside, or use an image that has them", f.Sandbox)}
}

// unreachable is about a failed connection.
func (f *Failure) unreachable(line string) Denial {
	address := ""
	var unnamed Denial // an address without a name
	endpoints := patterns().endpoint.FindAllStringSubmatch(line, 8)
	if len(endpoints) == 0 && strings.Contains(strings.ToLower(line), "connection refused") {
		// The command's own text may have the port.
		if m := patterns().loopback.FindAllStringSubmatch(f.text(), 2); len(m) == 1 {
			return f.hostPort(number(m[0][1]))
		}
	}
	for _, m := range endpoints {
		ip, err := netip.ParseAddr(strings.Trim(m[1], "[]"))
		if m[1] == "localhost" || ip.IsLoopback() {
			return f.hostPort(number(m[2]))
		} else if err == nil {
			address = m[1] + ":" + m[2]
			if unnamed.Reason == "" && f.Spec.Network.Mode == shared.NetworkNames && !egress.Fake(ip) {
				unnamed = f.unlisted(ip.String(), number(m[2]))
			}
		} else if other := f.otherPort(m[1], number(m[2])); other.Reason != "" {
			return other
		}
	}
	name := f.hostIn(line)
	switch {
	case !strings.Contains(name, "."): // rather the name of a socket
		name = ""
		if unnamed.Reason != "" {
			return unnamed
		}
		if lower := strings.ToLower(line); address == "" && !strings.Contains(lower, "unreachable") {
			return Denial{}
		}
	}
	return f.noNetwork(cmp.Or(name, address), f.portOf(name, line))
}

// hostIn returns the name of the host that a line says the program looked for: from a URL, from a
// lookup, or from the command's own arguments. Many words look like a name: java.net.
func (f *Failure) hostIn(said string) string {
	for _, m := range patterns().sought.FindAllStringSubmatch(said, 8) {
		if name := strings.Trim(m[1], "."); strings.Contains(name, ".") {
			return name
		}
	}
	asked := f.text()
	for _, at := range patterns().hostname.FindAllStringIndex(said, 8) {
		ofPath := at[0] > 0 && said[at[0]-1] == '/' && !strings.HasSuffix(said[:at[0]], "//")
		if name := said[at[0]:at[1]]; !ofPath && strings.Contains(asked, name) {
			return name
		}
	}
	if m := patterns().sought.FindAllStringSubmatch(asked, 2); len(m) == 1 && m[0][1] != "localhost" {
		return m[0][1]
	}
	return ""
}

// portOf returns the port that a line or the command has with a name, or ssh's; 0 for none. The gate
// names another port when it refuses that.
func (f *Failure) portOf(name, said string) uint16 {
	asked := f.text()
	for _, text := range [...]string{said, asked} {
		for _, m := range patterns().endpoint.FindAllStringSubmatch(text, 8) {
			if m[1] == name {
				return number(m[2])
			}
		}
	}
	for _, l := range f.commands() {
		option := slices.IndexFunc(l.words, func(word string) bool { return word == "-p" || word == "-P" })
		if option > 0 && option+1 < len(l.words) && slices.ContainsFunc(l.words, func(word string) bool { return word == name || strings.HasSuffix(word, "@"+name) }) {
			return number(l.words[option+1])
		}
	}
	if name != "" && (strings.Contains(said, "ssh: ") || mentions(asked, "ssh://", "@"+name+":")) {
		return 22
	}
	return 0
}

func number(text string) uint16 {
	n, _ := strconv.ParseUint(text, 10, 16)
	return uint16(n)
}

// subjects returns the paths that a line may be about: quoted text, words with a slash, and text
// between two colons.
func (f *Failure) subjects(line string) (list []string) {
	add := func(word string) {
		word = strings.TrimPrefix(strings.TrimPrefix(word, "unix://"), "file://")
		if word == "" || strings.HasPrefix(word, "-") || strings.Contains(word, "://") || strings.IndexByte(word, 0) >= 0 || len(list) == maxWords {
			return
		}
		dir := f.dir()
		if strings.Contains(line, "cd: ") { // the cd failed
			dir = f.Command.Dir
		}
		if p := f.absolute(dir, word); p != "/" && p != "" && !slices.Contains(list, p) {
			list = append(list, p)
		}
	}
	for _, m := range patterns().quoted.FindAllStringSubmatch(line, maxWords) {
		add(strings.Join(m[1:], ""))
	}
	line = patterns().quoted.ReplaceAllString(line, " ")
	parts := strings.Split(line, ": ")
	if len(parts) > 3 && number(parts[1]) != 0 { // dash: "sh: 1: cannot create NAME: Read-only file system"
		parts = parts[1:]
		parts[1] = strings.TrimPrefix(strings.TrimPrefix(parts[1], "cannot create "), "cannot open ")
	}
	for _, part := range parts[min(1, len(parts)-1):] { // the first is the program's own name
		if part = strings.TrimLeft(strings.TrimRight(part, " .,"), " "); !strings.ContainsAny(part, " \t") {
			add(strings.TrimSuffix(part, ":"))
		}
	}
	for _, word := range strings.Fields(line) {
		if f.isProgram(strings.TrimSuffix(word, ":")) {
			continue
		}
		if word = strings.TrimRight(strings.Trim(word, ",;:()[]<>"), "."); strings.Contains(word, "/") {
			if _, value, ok := strings.Cut(word, "="); ok {
				word = value
			}
			add(word)
		}
	}
	return list
}

// missingProgram returns the name in a shell's "sh: 1: NAME: not found", "bash: line 1: NAME:
// command not found", "zsh: command not found: NAME", or in Go's `exec: "NAME": executable file not
// found in $PATH`.
func missingProgram(line string) string {
	if m := patterns().quoted.FindStringSubmatch(line); m != nil && strings.Contains(line, "executable file not found") {
		return strings.Join(m[1:], "")
	}
	if _, name, ok := strings.Cut(line, "command not found: "); ok {
		return strings.TrimSpace(name)
	}
	before, ok := strings.CutSuffix(strings.TrimSpace(line), "not found")
	if !ok {
		return ""
	}
	before = strings.TrimSuffix(strings.TrimSuffix(before, "command "), ": ")
	name := before[strings.LastIndex(before, ": ")+1:]
	if name = strings.TrimSpace(name); strings.ContainsAny(name, " \t") {
		return ""
	}
	return name
}

// missingVariable is about a variable that the caller has and the command does not.
func (f *Failure) missingVariable(line string) Denial {
	for _, name := range patterns().variable.FindAllString(line, 8) {
		if !f.Machine.Variable(name) {
			continue
		}
		return Denial{Operation: "read", Attribute: "env_passthrough", Value: text(name), Element: true,
			Reason: "variable " + hostpath.Line(name) + " is set and not passed on"}
	}
	return Denial{}
}
