package denial

import (
	"cmp"
	"path"
	"slices"
	"strings"
)

// ofWords is what the command's arguments alone tell: a guess. What is found in the table is the
// likelier one.
func (f *Failure) ofWords() Denial {
	for _, l := range f.commands() {
		for _, word := range l.words[1:] { // that a program was not found is told by itself
			if _, value, ok := strings.Cut(word, "="); ok && strings.HasPrefix(word, "-") {
				word = value
			}
			if word == "" || strings.HasPrefix(word, "-") || len(word) > 4096 || strings.IndexByte(word, 0) >= 0 || path.Base(l.words[0]) == "mount" {
				continue
			}
			if p := f.absolute(l.dir, word); p != "" {
				if d := f.notSeen(p); d.Reason != "" {
					d.Guess = true
					return d
				}
			}
		}
	}
	for _, l := range f.commands() {
		if name := networkCommand(l.words); name != "" && !slices.ContainsFunc(l.words, notOutside) {
			host := ""
			if m := patterns().sought.FindStringSubmatch(strings.Join(l.words, " ")); m != nil {
				host = m[1]
			}
			return f.noNetwork(host, f.portOf(host, ""), name)
		}
	}
	return Denial{}
}

// notOutside reports whether a word leads to the sandbox's own loopback, or to a socket, which no network helps.
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

// programOf gives the program of a command line by its name, and its words without
// options of git's that take a value.
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

// A line is a command line, and the directory it is run in; "" where that is not known.
type line struct {
	words []string
	dir   string
}

// text is what the command was given: its arguments, or its shell's.
func (f *Failure) text() string {
	return cmp.Or(f.Command.Script, strings.Join(f.Command.Args, " "))
}

// dir is where the last of the command lines ran, whose errors are likely the last.
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

// commands gives the command lines of a command: itself, or those of its shell text.
// Text is taken apart roughly, and once.
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
					dir = "" // nobody knows
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

// notTheCommand reports whether a word stands before a command's name.
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

// networkCommand names a command that is of no use without a network, as its
// user calls it: "curl", "npm ci". It is "" for all others, and for those that
// need one only at times, such as a build: a hint at each failing build would
// be noise.
func networkCommand(words []string) string {
	program, rest := programOf(words)
	verbs := ""
	switch program {
	case "curl", "wget", "ssh", "scp", "sftp", "ping", "dig", "nslookup", "host", "telnet", "ftp", "npx", "gh":
		return program
	case "git":
		if slices.ContainsFunc(rest, func(word string) bool { return strings.HasPrefix(word, "/") || strings.HasPrefix(word, ".") }) {
			return "" // another directory of this machine
		}
		verbs = "clone fetch pull push ls-remote"
	case "npm", "pnpm", "yarn", "bun":
		verbs = "install i ci add update upgrade publish audit outdated view"
	case "pip", "pip3", "pipx", "uv", "poetry":
		verbs = "install download add sync update"
	case "go":
		verbs = "get install mod"
	case "cargo":
		verbs = "fetch install add update search publish"
	case "gem", "bundle", "composer":
		verbs = "install update require"
	case "apt", "apt-get", "dnf", "yum", "apk":
		verbs = "update install upgrade add"
	}
	if slices.ContainsFunc(rest, func(word string) bool { return strings.HasPrefix(word, "./") || strings.HasPrefix(word, "../") }) && verbs != "" {
		return "" // a package of this machine
	}
	i := slices.IndexFunc(rest, func(word string) bool { return !strings.HasPrefix(word, "-") })
	if i >= 0 && slices.Contains(strings.Fields(verbs), rest[i]) {
		return program + " " + rest[i]
	}
	return ""
}
