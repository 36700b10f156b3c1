package denial

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/internal/view"
)

// fromArguments returns a guess from the command's arguments alone. A finding in the table is more
// likely than others.
func (f *Failure) fromArguments() Denial {
	for _, l := range f.commands() {
		for _, word := range l.words[1:] { // the program's own name is checked elsewhere
			word = withoutOption(word)
			if word == "" || strings.HasPrefix(word, "-") || len(word) > 4096 || strings.IndexByte(word, 0) >= 0 || path.Base(l.words[0]) == "mount" {
				continue
			}
			if p := f.absolute(l.dir, word); p != "" && !(f.makes(p) && view.WritableInside(f.Spec, p)) {
				if d := f.unseenPath(p); d.Reason != "" {
					return d
				}
			}
		}
	}
	for _, l := range f.commands() {
		if name := networkCommand(l.words); name != "" && !slices.ContainsFunc(l.words, notOutside) && !f.saysWhy(l.words) {
			host := ""
			if verb := slices.IndexFunc(l.words[1:], func(word string) bool { return patterns().hostname.FindString(word) == word }); path.Base(l.words[0]) == "getent" && verb >= 0 {
				host = l.words[1+verb]
			}
			if m := patterns().sought.FindStringSubmatch(strings.Join(l.words, " ")); m != nil {
				host = m[1]
			}
			return f.noNetwork(host, f.portOf(host, ""), name)
		}
	}
	return Denial{}
}

// withoutOption returns the value in "--option=value", or else the word.
func withoutOption(word string) string {
	if _, value, ok := strings.Cut(word, "="); ok && strings.HasPrefix(word, "-") {
		return value
	}
	return word
}

// saysWhy reports whether the command's standard error gives another reason than the network for
// the failure of a program that needs one: it has no network error, or the denials already explain
// it.
func (f *Failure) saysWhy(words []string) bool {
	if slices.ContainsFunc(words, func(word string) bool { return word == "--no-index" || word == "--offline" }) {
		return true
	}
	program := path.Base(words[0])
	for line := range strings.Lines(string(f.Stderr[:min(len(f.Stderr), maxLines*80)])) {
		line = strings.ToLower(strings.TrimSpace(line))
		switch {
		case line == "" || strings.HasPrefix(line, "+ ") || strings.Contains(line, "could not find a version that satisfies") || strings.Contains(line, "no matching distribution"):
		case slices.Contains([]string{"curl", "wget", "dig", "nslookup", "host"}, program):
			if strings.HasPrefix(line, program+": ") {
				return true
			}
		default:
			return true
		}
	}
	return false
}

// makes reports whether the command lines make a path, or a directory above it.
func (f *Failure) makes(p string) bool {
	return slices.ContainsFunc(f.commands(), func(l line) bool {
		for i, word := range l.words[1:] {
			if made := f.absolute(l.dir, strings.TrimLeft(withoutOption(word), ">")); made != "" && made != "/" && paths.Inside(made, p) && l.makes(i+1) {
				return true
			}
		}
		return false
	})
}

// makes reports whether the word is a path that the line will make.
func (l line) makes(i int) bool {
	switch path.Base(l.words[0]) {
	case "touch", "mkdir", "tee", "mktemp":
		return true
	case "cp", "mv", "ln", "install", "rsync":
		if i == len(l.words)-1 {
			return true
		}
	}
	if strings.HasPrefix(l.words[i], ">") || strings.HasSuffix(l.words[i-1], ">") {
		return true
	}
	return slices.Contains([]string{"-o", "-d", "--output", "--target"}, l.words[i-1]) || strings.HasPrefix(l.words[i], "--output=")
}

// printed reports whether the command's own text contains the details of a line, besides bare error
// words. The command then printed them itself, and they are no evidence.
func (f *Failure) printed(line string) bool {
	text := f.text()
	text = text[:min(len(text), 64<<10)]
	rest := line
	for range 8 {
		said := rest
		if i := strings.IndexAny(said, "'\"`\\"); i >= 0 {
			said = said[:i]
		}
		lower := strings.ToLower(said)
		for _, c := range causes(said) {
			if !slices.ContainsFunc(phrases[c], func(phrase string) bool { return lower == strings.ToLower(phrase) }) && strings.Contains(text, said) {
				return true
			}
		}
		var more bool
		if _, rest, more = strings.Cut(rest, ": "); !more {
			break
		}
	}
	return false
}

// assigned returns the value that the command's text gives a variable; "" for none.
func (f *Failure) assigned(name string) string {
	for _, word := range strings.FieldsFunc(f.text(), func(r rune) bool { return strings.ContainsRune(" \t\n;&|()", r) }) {
		if value, ok := strings.CutPrefix(word, name+"="); ok && name != "" {
			return strings.Trim(value, `"'`)
		}
	}
	return ""
}

// notOutside reports whether a word leads to the sandbox's own loopback, or to a socket: a network
// would not help.
func notOutside(word string) bool {
	if strings.HasPrefix(word, "--unix-socket") || strings.HasPrefix(word, "unix://") {
		return true
	}
	if _, after, ok := strings.Cut(word, "://"); ok {
		word = after
	}
	host, _, _ := strings.Cut(word, "/")
	return strings.HasPrefix(host, "[::1]") || strings.HasPrefix(host, "127.") || host == "localhost" || strings.HasPrefix(host, "localhost:")
}

// programOf returns the name of a command line's program, and its words without git's options that
// take a value.
func programOf(words []string) (program string, rest []string) {
	if len(words) == 0 {
		return "", nil
	}
	program, rest = path.Base(words[0]), words[1:]
	if strings.HasPrefix(program, "python") && len(rest) > 1 && rest[0] == "-m" && rest[1] == "pip" {
		program, rest = "pip", rest[2:]
	}
	for len(rest) > 1 && (rest[0] == "-C" || rest[0] == "-c") {
		rest = rest[2:]
	}
	return program, rest
}

// A line is a command line, and its working directory; "" if that is unknown.
type line struct {
	words []string
	dir   string
}

// text returns the command's arguments, or its shell's text.
func (f *Failure) text() string {
	return cmp.Or(f.Command.Script, strings.Join(f.Command.Args, " "))
}

// dir returns the directory of the last command line: its errors are probably the last ones.
func (f *Failure) dir() string {
	if lines := f.commands(); len(lines) > 0 {
		return lines[len(lines)-1].dir
	}
	return f.Command.Dir
}

// isProgram reports whether a word is the program of one of the command lines.
func (f *Failure) isProgram(word string) bool {
	return slices.ContainsFunc(f.commands(), func(l line) bool { return l.words[0] == word })
}

// commands returns the command lines of a command: itself, or those of its shell text. It parses
// the text roughly, and only once.
func (f *Failure) commands() []line {
	if f.lines != nil {
		return f.lines
	}
	c := &f.Command
	text := c.Script
	if len(c.Args) > 2 && text == "" && slices.Contains([]string{"sh", "bash", "dash", "zsh"}, path.Base(c.Args[0])) {
		if flag := c.Args[1]; strings.HasPrefix(flag, "-") && strings.HasSuffix(flag, "c") {
			text = c.Args[2]
		}
	}
	switch {
	case text != "":
		f.lines = linesOfText(text, c.Dir)
	case len(c.Args) > 0:
		f.lines = []line{{c.Args, c.Dir}}
	}
	return f.lines
}

func linesOfText(text, dir string) (lines []line) {
	if len(text) > 8<<10 {
		return nil
	}
	for row := range strings.Lines(text) {
		row, _, _ = strings.Cut(row, " #")
		for _, part := range strings.FieldsFunc(row, func(r rune) bool { return strings.ContainsRune(";&|(){}`\n", r) }) {
			words := strings.Fields(part)
			for i, w := range words {
				words[i] = strings.Trim(w, `"'`)
			}
			for len(words) > 0 && notTheCommand(words[0]) {
				words = words[1:]
			}
			switch {
			case len(words) == 0:
			case words[0] == "cd" || words[0] == "pushd" || words[0] == "popd":
				if len(words) != 2 || strings.ContainsAny(text, "(`") || strings.ContainsAny(words[1], "$*?~-") || dir == "" {
					dir = "" // unknown
				} else if path.IsAbs(words[1]) {
					dir = path.Clean(words[1])
				} else {
					dir = path.Join(dir, words[1])
				}
			default:
				lines = append(lines, line{words, dir})
			}
		}
	}
	return lines
}

// notTheCommand reports whether a word can stand before a command's name.
func notTheCommand(word string) bool {
	if name, _, ok := strings.Cut(word, "="); ok && name != "" && !strings.ContainsAny(name, "/-") {
		return true // a variable for this command
	}
	switch word {
	case "", "!", "$", "if", "then", "else", "elif", "while", "until", "do", "time", "exec", "command", "env", "nice", "nohup":
		return true
	}
	return false
}

// networked are programs that are useless without a network, or those of their verbs that are.
var networked = []struct{ programs, verbs string }{
	{"curl wget ssh scp sftp ping dig nslookup host telnet ftp npx gh", ""},
	{"getent", "hosts ahosts ahostsv4 ahostsv6"},
	{"git", "clone fetch pull push ls-remote"},
	{"npm pnpm yarn bun", "install i ci add update upgrade publish audit outdated view"},
	{"pip pip3 pipx uv poetry", "install download add sync update"},
	{"go", "get install mod"},
	{"cargo", "fetch install add update search publish"},
	{"gem bundle composer", "install update require"},
	{"apt apt-get dnf yum apk", "update install upgrade add"},
}

// networkCommand returns the name of a command that is useless without a network, as its user
// writes it: "curl", "npm ci". It returns "" for all others, also for a command that needs a
// network only sometimes, such as a build: a hint at each failed build would be noise. So is one
// about a package or a repository of this machine.
func networkCommand(words []string) string {
	program, rest := programOf(words)
	for _, n := range networked {
		if !slices.Contains(strings.Fields(n.programs), program) {
			continue
		} else if n.verbs == "" {
			return program
		}
		verb := slices.IndexFunc(rest, func(word string) bool { return !strings.HasPrefix(word, "-") })
		local := slices.ContainsFunc(rest, func(word string) bool {
			return strings.HasPrefix(word, "./") || strings.HasPrefix(word, "../") || program == "git" && strings.IndexAny(word, "/.") == 0
		})
		if verb >= 0 && !local && slices.Contains(strings.Fields(n.verbs), rest[verb]) {
			return program + " " + rest[verb]
		}
	}
	return ""
}
