package denial

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/sbxhost/sbxhost/hostpath"
	"github.com/sbxhost/sbxhost/shared"
)

// ofGit is about commands that change what git obeys, where that is protected, and that add
// what is hidden: git sees a device in its place, and adds nothing at all.
func (f *Failure) ofGit(commands [][]string) (list []Denial) {
	kept := slices.ContainsFunc(f.Spec.Table, func(e shared.Entry) bool { return e.Access == shared.ReadOnly && attributeOf(e.Why) == "git" })
	for _, words := range commands {
		if name := settingCommand(words); name != "" && kept {
			return append(list, Denial{Operation: "write", Attribute: "git", Value: `"full"`,
				Reason: fmt.Sprintf("sandbox %q protects the hooks and the configuration that git obeys, which %s changes", f.Sandbox, name)})
		}
		if program, rest := programOf(words); program == "git" && len(rest) > 0 && rest[0] == "add" {
			if e := f.hiddenFile(); e != nil {
				return append(list, Denial{Path: e.Path, Operation: "read", Attribute: attributeOf(e.Why),
					Reason: fmt.Sprintf("git add refuses %s, which is hidden in sandbox %q (%s)", hostpath.Quote(e.Path), f.Sandbox, e.Why)})
			}
		}
	}
	return list
}

// ofWords are what the command's arguments alone tell: one denial on the network and one
// on a path at most, both guesses.
func (f *Failure) ofWords(commands [][]string) (list []Denial) {
	for _, words := range commands {
		if name := networkCommand(words); name != "" && settingCommand(words) == "" && !slices.ContainsFunc(words, ofLoopback) {
			list = append(list, f.noNetwork("", name))
			break
		}
	}
	for _, words := range commands {
		for i, word := range words {
			if i == 0 {
				continue // that it was not found is told by itself
			}
			if _, value, ok := strings.Cut(word, "="); ok && strings.HasPrefix(word, "-") {
				word = value
			}
			if word == "" || strings.HasPrefix(word, "-") || len(word) > 4096 || strings.IndexByte(word, 0) >= 0 {
				continue
			}
			if d := f.notSeen(f.absolute(word)); d.Reason != "" {
				d.Guess = true
				return append(list, d)
			}
		}
	}
	return list
}

// ofLoopback reports whether a word leads to the sandbox's own loopback, which no network helps.
func ofLoopback(word string) bool {
	if _, after, ok := strings.Cut(word, "://"); ok {
		word = after
	}
	host, _, _ := strings.Cut(word, "/")
	return strings.HasPrefix(host, "[::1]") || strings.HasPrefix(host, "127.") || host == "localhost" || strings.HasPrefix(host, "localhost:")
}

// settingCommand names a command that writes hooks or configuration of git's; ""
// is any other.
func settingCommand(words []string) string {
	for len(words) > 1 && slices.Contains([]string{"npx", "bunx", "pnpm", "yarn", "exec", "dlx"}, words[0]) {
		words = words[1:]
	}
	program, rest := programOf(words)
	verb := ""
	if len(rest) > 0 {
		verb, rest = rest[0], rest[1:]
	}
	name := strings.TrimSpace(program + " " + verb)
	switch name {
	case "git config", "git remote", "git submodule", "git lfs", "git maintenance", "git sparse-checkout", "git flow",
		"pre-commit install", "pre-commit init-templatedir", "lefthook install", "husky install", "husky init", "husky",
		"simple-git-hooks", "overcommit --install":
		return name
	case "git branch":
		for _, word := range rest {
			if slices.Contains([]string{"-m", "-M", "-c", "-C", "-u", "--move", "--copy", "--unset-upstream", "--edit-description"}, word) || strings.HasPrefix(word, "--set-upstream-to") {
				return name + " " + word
			}
		}
	}
	return ""
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

// commands gives the command lines of a command: itself, or those of its shell text.
// Text is taken apart roughly.
func (f *Failure) commands() [][]string {
	c := &f.Command
	if c.Script != "" {
		return commandsOfText(c.Script)
	}
	if len(c.Args) > 2 && slices.Contains([]string{"sh", "bash", "dash", "zsh"}, path.Base(c.Args[0])) {
		if flag := c.Args[1]; strings.HasPrefix(flag, "-") && strings.HasSuffix(flag, "c") {
			return commandsOfText(c.Args[2])
		}
	}
	return [][]string{c.Args}
}

func commandsOfText(text string) [][]string {
	if len(text) > 8<<10 {
		return nil
	}
	var commands [][]string
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, " #")
		for _, part := range strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(";&|(){}`\n", r) }) {
			words := strings.Fields(part)
			for i, w := range words {
				words[i] = strings.Trim(w, `"'`)
			}
			for len(words) > 0 && notTheCommand(words[0]) {
				words = words[1:]
			}
			if len(words) > 0 {
				commands = append(commands, words)
			}
		}
	}
	return commands
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
	i := slices.IndexFunc(rest, func(word string) bool { return !strings.HasPrefix(word, "-") })
	if i >= 0 && slices.Contains(strings.Fields(verbs), rest[i]) {
		return program + " " + rest[i]
	}
	return ""
}
