package denial

import (
	"bytes"
	"cmp"
	"net/netip"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/sbxhost/sbxhost/egress"
	"github.com/sbxhost/sbxhost/hostpath"
	"github.com/sbxhost/sbxhost/paths"
	"github.com/sbxhost/sbxhost/shared"
)

// A cause is what a line of a command's output tells of a failure.
type cause int

const (
	absent      cause = iota // there is no such file
	unwritable               // it cannot be written, renamed or removed
	refused                  // no permission
	full                     // no space
	unresolved               // a name that has no address
	unreachable              // no connection
	processes                // no further process
	exhausted                // no memory
	descriptors              // no further open file
	noProgram                // a shell found no such command
	unset                    // a variable is missing
)

// phrases are how programs tell of a cause: the C library's words for errors, those of
// shells and well-known tools, in lower case, and the names of error numbers that Node
// prints, in upper case.
var phrases = map[cause][]string{
	absent: {"no such file or directory", "ENOENT", "does not exist", "directory nonexistent", "cannot find",
		"can't open", "could not open", "no rule to make target", "is the docker daemon running", "could not connect", "couldn't connect", "failed to connect"},
	unwritable:  {"read-only file system", "EROFS", "resource busy", "EBUSY", "cross-device link", "EXDEV"},
	refused:     {"permission denied", "EACCES", "operation not permitted", "EPERM", "not permitted", "must be superuser"},
	full:        {"no space left on device", "ENOSPC"},
	unresolved:  {"could not resolve", "couldn't resolve", "name resolution", "name or service not known", "no such host", "ENOTFOUND", "EAI_AGAIN", "unknownhostexception", "nodename nor servname", "getaddrinfo"},
	unreachable: {"network is unreachable", "ENETUNREACH", "connection refused", "ECONNREFUSED", "could not connect", "couldn't connect", "failed to connect", "connectexception"},
	processes:   {"resource temporarily unavailable", "cannot fork", "can't fork", "can't start new thread", "EAGAIN"},
	exhausted:   {"memoryerror", "out of memory", "cannot allocate memory", "bad_alloc", "ENOMEM", "memory exhausted"},
	descriptors: {"too many open files", "EMFILE"},
	noProgram:   {"not found"},
	unset:       {"not set", "unset", "must be set", "unbound variable", "is required", "missing environment", "undefined"},
}

// What is looked at of a command's output is bounded, as the output is its own.
const (
	maxLines  = 2000
	maxLine   = 1 << 10
	maxWords  = 48
	maxLookup = 200 // paths
)

// patterns are what is looked for in a line. They are compiled when a command has failed, and
// not at the start of every program.
var patterns = sync.OnceValue(func() (p struct{ escapes, quoted, variable, endpoint, sought, hostname, left *regexp.Regexp }) {
	p.escapes = regexp.MustCompile("\x1b(\\[[0-9;?]*[ -/]*[@-~]|\\][^\x07\x1b]*(\x07|\x1b\\\\)|[@-_])")
	p.quoted = regexp.MustCompile("'([^']+)'|\"([^\"]+)\"|`([^`']+)[`']|\u2018([^\u2019]+)\u2019|\u201c([^\u201d]+)\u201d")
	p.variable = regexp.MustCompile(`\b[A-Z][A-Z0-9_]*[A-Z0-9]\b`)
	p.endpoint = regexp.MustCompile(`(localhost|[0-9A-Za-z_-]+(?:\.[0-9A-Za-z_-]+)+|\[[0-9a-f:]+\])(?::|[^0-9A-Za-z]+port )([0-9]{1,5})(?:[^0-9.]|$)`)
	p.sought = regexp.MustCompile(`(?:://|\blookup )([0-9A-Za-z_.-]*[A-Za-z])`)
	p.hostname = regexp.MustCompile(`\b(?:[0-9A-Za-z_-]+\.)+[0-9a-z-]*[a-z]\b`)
	p.left = regexp.MustCompile(`(?:error|warning): unable to (?:unlink (?:old )?'(.+)'|create (?:file|symlink) (.+)): `)
	return p
})

// LeavesFiles reports whether git says in a command's standard error that it has left files of a
// work tree as they were. It goes on after that, and `git checkout` ends with status 0.
func LeavesFiles(said []byte) bool {
	return bytes.Contains(said, []byte(": unable to unlink ")) || bytes.Contains(said, []byte(": unable to create "))
}

// leftByGit is the file that a line of git's says it has left as it was, since nobody can write it.
func leftByGit(line string) string {
	m := patterns().left.FindStringSubmatch(line)
	if m == nil || !slices.Contains(causes(line), unwritable) {
		return ""
	}
	return m[1] + m[2]
}

// inWorkTree is a path that git names from the top of a work tree, wherever in that it was run.
func (f *Failure) inWorkTree(name string) string {
	for dir := range paths.Up(f.Command.Dir) {
		p := path.Join(dir, name)
		if e, _ := shared.Cover(f.Spec.Table, p); e != nil && e.Access != shared.ReadWrite && e.Path != dir && paths.Inside(dir, e.Path) {
			return p
		}
	}
	return f.absolute(name)
}

// complaints are what the command's standard error tells of that its sandbox explains: of one that
// succeeded, the files that git has left.
func (f *Failure) complaints() (list []Denial) {
	lookups := 0
	lines := strings.FieldsFunc(string(f.Said), func(r rune) bool { return r == '\n' || r == '\r' })
	for _, line := range lines[max(0, len(lines)-maxLines):] {
		line = patterns().escapes.ReplaceAllString(line[:min(len(line), maxLine)], "")
		if name := leftByGit(line); name != "" {
			if lookups++; lookups <= maxLookup {
				list = append(list, f.notWritten(f.inWorkTree(name)))
			}
			continue
		}
		if f.Succeeded {
			continue
		}
		for _, c := range causes(line) {
			switch c {
			case absent, unwritable, refused:
				for _, p := range f.subjects(line) {
					if lookups++; lookups > maxLookup {
						break
					}
					list = append(list, f.ofPath(c, p))
				}
				if c == refused {
					list = append(list, f.ofCall(line))
				}
			case full:
				list = append(list, f.limit("temp_size", f.Spec.Limits.TempSize, size(2*f.Spec.Limits.TempSize)))
			case unresolved:
				list = append(list, f.noNetwork(hostIn(line), ""))
			case unreachable:
				list = append(list, f.unreachable(line))
			case processes:
				list = append(list, f.limit("pids", f.Spec.Limits.PIDs, strconv.FormatUint(2*f.Spec.Limits.PIDs, 10)))
			case exhausted:
				list = append(list, f.memory())
			case descriptors:
				list = append(list, f.limit("open_files", f.Spec.Limits.OpenFiles, strconv.FormatUint(2*f.Spec.Limits.OpenFiles, 10)))
			case noProgram:
				list = append(list, f.program(missingProgram(line)))
			case unset:
				list = append(list, f.missingVariable(line))
			}
		}
	}
	for i := range list {
		list[i].Guess = true // a line can say anything
	}
	return slices.DeleteFunc(list, func(d Denial) bool { return d.Reason == "" })
}

// causes are those that a line tells of.
func causes(line string) (found []cause) {
	lower := strings.ToLower(line)
	for c := absent; c <= unset; c++ {
		if slices.ContainsFunc(phrases[c], func(phrase string) bool { return strings.Contains(lower, phrase) || strings.Contains(line, phrase) }) {
			found = append(found, c)
		}
	}
	return found
}

// ofPath is about a path that a line names besides a cause.
func (f *Failure) ofPath(c cause, p string) Denial {
	switch c {
	case unwritable:
		return f.notWritten(p)
	case refused:
		if entry, _ := shared.Cover(f.Spec.Table, p); entry == nil || entry.Access != shared.Hidden && entry.Access != shared.ReadOnly {
			return Denial{} // the file's own mode, more likely
		}
		return f.notWritten(p)
	}
	return f.notSeen(p)
}

// calls are system calls that a filter refuses, by words in the line that tells of them.
var calls = []struct{ word, option, what string }{
	{"ptrace", "ptrace", "ptrace(2), by which debuggers and tracers work"},
	{"unshare", "nested_userns", "namespaces of the command's own"},
	{"namespace", "nested_userns", "namespaces of the command's own"},
	{"clone", "nested_userns", "namespaces of the command's own"},
	{"mount", "nested_userns", "mounts"},
	{"socket", "unix_sockets", "unix sockets"},
}

// ofCall is about a system call that was refused.
func (f *Failure) ofCall(line string) Denial {
	lower := strings.ToLower(line)
	for _, call := range calls {
		if strings.Contains(lower, call.word) {
			return f.option(call.option, call.what)
		}
	}
	if strings.HasPrefix(lower, "chmod: ") && slices.ContainsFunc(f.commands(), setsID) {
		return Denial{Operation: "call", Reason: "no sandbox lets a command make set-id files"}
	}
	return Denial{}
}

// setsID reports whether words are a chmod that makes a set-id file.
func setsID(words []string) bool {
	if len(words) < 2 || path.Base(words[0]) != "chmod" {
		return false
	}
	return slices.ContainsFunc(words[1:], func(mode string) bool {
		n, err := strconv.ParseUint(mode, 8, 16)
		return err == nil && n&0o6000 != 0 || err != nil && strings.ContainsAny(mode, "+=") && strings.Contains(mode, "s")
	})
}

// unreachable is about a connection that was not made.
func (f *Failure) unreachable(line string) Denial {
	address := ""
	var unnamed Denial // an address that no name led to
	for _, m := range patterns().endpoint.FindAllStringSubmatch(line, 8) {
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
	name := hostIn(line)
	if name == "" && unnamed.Reason != "" {
		return unnamed
	}
	if name == "" && address == "" && strings.Contains(line, "/") {
		return Denial{} // a socket's path
	}
	return f.noNetwork(cmp.Or(name, address), "")
}

// hostIn is the name of a host: that of a URL, one that was looked up, or else the first
// word that can be one. The names of errors look alike.
func hostIn(line string) string {
	if m := patterns().sought.FindStringSubmatch(line); m != nil {
		return m[1]
	}
	for _, name := range patterns().hostname.FindAllString(line, 8) {
		if lower := strings.ToLower(name); !strings.HasSuffix(lower, "error") && !strings.HasSuffix(lower, "exception") {
			return name
		}
	}
	return ""
}

func number(text string) uint16 {
	n, _ := strconv.ParseUint(text, 10, 16)
	return uint16(n)
}

// subjects are the paths that a line may be about: what is quoted, and words with a slash,
// and what lies between two colons.
func (f *Failure) subjects(line string) (list []string) {
	add := func(word string) {
		word = strings.TrimPrefix(strings.TrimPrefix(word, "unix://"), "file://")
		if word == "" || strings.HasPrefix(word, "-") || strings.Contains(word, "://") || strings.IndexByte(word, 0) >= 0 || len(list) == maxWords {
			return
		}
		if p := f.absolute(word); p != "/" && !slices.Contains(list, p) {
			list = append(list, p)
		}
	}
	for _, m := range patterns().quoted.FindAllStringSubmatch(line, maxWords) {
		add(strings.Join(m[1:], ""))
	}
	line = patterns().quoted.ReplaceAllString(line, " ")
	for part := range strings.SplitSeq(line, ": ") {
		if part = strings.Trim(part, " .,"); !strings.ContainsAny(part, " \t") {
			add(strings.TrimSuffix(part, ":"))
		}
	}
	for _, word := range strings.Fields(line) {
		if word = strings.TrimRight(strings.Trim(word, ",;:()[]<>"), "."); strings.Contains(word, "/") {
			if _, value, ok := strings.Cut(word, "="); ok {
				word = value
			}
			add(word)
		}
	}
	return list
}

// missingProgram is the name in a shell's "sh: 1: NAME: not found", "bash: line 1: NAME:
// command not found", "zsh: command not found: NAME", or in Go's `exec: "NAME": executable
// file not found in $PATH`.
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

// missingVariable is about a variable of the caller's that the command does not have.
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
