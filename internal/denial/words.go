package denial

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/sbxhost/sbxhost/internal/view"
)

// fromArguments returns a guess from the command's arguments alone: about a path, or about a program
// that may fail silently without a network.
func (f *Failure) fromArguments() Denial {
	for _, l := range f.commands() {
		for _, word := range l.words[1:] { // the program's own name is checked elsewhere
			word = withoutOption(word)
			if word == "" || strings.HasPrefix(word, "-") || len(word) > 4096 || strings.IndexByte(word, 0) >= 0 || path.Base(l.words[0]) == "mount" {
				continue
			}
			if p := f.absolute(l.dir, word); p != "" {
				d := f.unseenPath(p)
				ownFile := d.Path == p && d.Element && view.WritableInside(f.Spec, p) // perhaps the command makes it
				if d.Reason != "" && !ownFile {
					return d
				}
			}
		}
	}
	for _, l := range f.commands() {
		program, text := path.Base(l.words[0]), strings.Join(l.words, " ")
		host := patterns().hostname.FindString(text)
		if m := patterns().sought.FindStringSubmatch(text); m != nil {
			host = m[1]
		}
		// A network would not help to reach the sandbox's own loopback, or a socket.
		inside := mentions(text, "localhost", "127.", "[::1]", "--unix-socket")
		if slices.Contains([]string{"curl", "wget", "getent"}, program) && strings.Contains(host, ".") && !inside {
			return f.noNetwork(host, f.portOf(host, ""))
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
