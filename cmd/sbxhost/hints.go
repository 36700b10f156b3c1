package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/sbxhost/sbxhost/audit"
	"github.com/sbxhost/sbxhost/egress"
	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/host/view"
	"github.com/sbxhost/sbxhost/hostpath"
	"github.com/sbxhost/sbxhost/paths"
	"github.com/sbxhost/sbxhost/shared"
)

// A hint is a line on what to try after a failure. It states what sbxhost knows
// - what the sandbox holds and what it was asked to run - and leaves the guess
// at the cause, which only the command's output tells, to its reader.

// failure is a command that ended with a status other than 0, or that was not
// found.
type failure struct {
	sandbox   string
	networkAt string // where the configuration could say network = true; empty: nowhere
	bindAt    string // likewise for bind_paths
	gitAt     string // likewise for git
	gitKept   bool   // what git obeys is protected
	network   bool   // the command had one, or was denied one for this once by a flag
	command   shared.Command
	spec      *shared.Spec
	exists    func(path string) bool // on the host
	isFile    func(path string) bool // likewise, a regular one
}

// hints gives at most one line on the network and one on a path.
func (f *failure) hints() []string {
	var lines []string
	commands := simpleCommands(f.command)
	if !f.network {
		for _, words := range commands {
			if name := networkCommand(words); name != "" {
				line := fmt.Sprintf("sandbox %q has no network; if %s needs one: -network=true", f.sandbox, name)
				if f.networkAt != "" {
					line += fmt.Sprintf(", or network = true at %s", f.networkAt)
				}
				lines = append(lines, line)
				break
			}
		}
	}
	for _, words := range commands {
		if line := f.unseenPath(words); line != "" {
			return append(lines, line)
		}
	}
	return lines
}

// maxRefused bounds the hints about names: a package manager tries many.
const maxRefused = 3

// refusedNames are about what a list of names has refused. They are no guesses.
func refusedNames(uses []audit.NetworkUse, at string) (lines []string) {
	seen := map[string]bool{}
	for _, u := range uses {
		d := egress.Decision{Name: u.Name, Port: u.Port}
		target := d.Target()
		if u.Allowed || u.Name == "" || seen[target] {
			continue
		}
		seen[target] = true
		lines = append(lines, fmt.Sprintf("refused %s: %s; allow it in network, at %s", target, u.Reason, at))
	}
	if more := len(lines) - maxRefused; more > 0 {
		lines = append(lines[:maxRefused], fmt.Sprintf("and %d more, which -result lists", more))
	}
	return lines
}

// maxSummary bounds a summary's lines.
const maxSummary = 20

// networkSummary has a line for each name with each outcome.
func networkSummary(uses []audit.NetworkUse) (lines []string) {
	for _, u := range uses {
		d := egress.Decision{Name: u.Name, Port: u.Port}
		target := cmp.Or(d.Target(), "others")
		switch {
		case !u.Allowed:
			lines = append(lines, fmt.Sprintf("network: refused %s: %s", target, cmp.Or(u.Reason, "for various reasons")))
		case u.Reason != "":
			lines = append(lines, fmt.Sprintf("network: could not reach %s: %s", target, u.Reason))
		default:
			lines = append(lines, fmt.Sprintf("network: %s: %d connections, %d bytes sent, %d received", target, u.Connections, u.Sent, u.Received))
		}
	}
	if more := len(lines) - maxSummary; more > 0 {
		lines = append(lines[:maxSummary], fmt.Sprintf("network: and %d more", more))
	}
	return lines
}

// protectedGit is about the first command that changes what git obeys, where that
// is protected. It is no guess: the sandbox refuses that always.
func (f *failure) protectedGit() string {
	if !f.gitKept {
		return ""
	}
	for _, words := range simpleCommands(f.command) {
		if name := settingCommand(words); name != "" {
			line := fmt.Sprintf(`sandbox %q protects the hooks and the configuration that git obeys; if %s has to change them: git = "full"`, f.sandbox, name)
			if f.gitAt != "" {
				line += " at " + f.gitAt
			}
			return line
		}
	}
	return ""
}

// refusedAdd is about the first git add where a file of the workspace is hidden: git
// sees a device in its place, and adds nothing at all.
func (f *failure) refusedAdd() string {
	root := slices.IndexFunc(f.spec.Table, func(e shared.Entry) bool { return e.Why == "workspace" })
	for _, words := range simpleCommands(f.command) {
		if root < 0 || !addsFiles(words) {
			continue
		}
		for _, e := range f.spec.Table {
			if e.Access == shared.Hidden && paths.Inside(f.spec.Table[root].Path, e.Path) && f.isFile(e.Path) {
				return fmt.Sprintf("git add refuses %s, which is hidden in sandbox %q (%s); outside of the sandbox, add it to .gitignore or to .git/info/exclude", quote(e.Path), f.sandbox, printable(e.Why))
			}
		}
	}
	return ""
}

func addsFiles(words []string) bool {
	program, rest := programOf(words)
	return program == "git" && len(rest) > 0 && rest[0] == "add"
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
	program, rest = filepath.Base(words[0]), words[1:]
	if strings.HasPrefix(program, "python") && len(rest) > 1 && rest[0] == "-m" && rest[1] == "pip" {
		program, rest = "pip", rest[2:]
	}
	for len(rest) > 1 && (rest[0] == "-C" || rest[0] == "-c") {
		rest = rest[2:]
	}
	return program, rest
}

// unseenPath is about the first path among the arguments that is hidden, or that
// exists on the host and not inside. What a command is called by is not one: that
// it was not found is told by itself.
func (f *failure) unseenPath(words []string) string {
	for i, word := range words {
		if i == 0 {
			continue
		}
		if _, value, ok := strings.Cut(word, "="); ok && strings.HasPrefix(word, "-") {
			word = value
		}
		if word == "" || strings.HasPrefix(word, "-") || len(word) > 4096 || strings.IndexByte(word, 0) >= 0 {
			continue
		}
		path := filepath.Clean(word)
		if !filepath.IsAbs(word) {
			path = filepath.Join(f.command.Dir, word)
		}
		if entry, _ := shared.Cover(f.spec.Table, path); entry != nil && entry.Access == shared.Hidden && entry.Why != view.OriginAbove {
			return fmt.Sprintf("%s is hidden in sandbox %q (%s)", quote(path), f.sandbox, printable(entry.Why))
		}
		inside := view.Shows(f.spec, path)
		if inside == path || !f.exists(path) {
			continue
		}
		if inside != "" {
			return fmt.Sprintf("%s of this machine is %s in sandbox %q", quote(path), quote(inside), f.sandbox)
		}
		at := "in a configuration, which sbxhost init writes"
		if f.bindAt != "" {
			at = "at " + f.bindAt
		}
		return fmt.Sprintf("%s exists on this machine, and sandbox %q does not show it; if the command may see it, add it to bind_paths %s", quote(path), f.sandbox, at)
	}
	return ""
}

// simpleCommands gives the command lines of a command: itself, or those of its
// shell text. Text is taken apart roughly; what comes of it decides nothing but
// whether a hint is worth its line.
func simpleCommands(c shared.Command) [][]string {
	if c.Script != "" {
		return commandsOfText(c.Script)
	}
	if len(c.Args) > 2 && slices.Contains([]string{"sh", "bash", "dash", "zsh"}, filepath.Base(c.Args[0])) {
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
	i := slices.IndexFunc(rest, func(word string) bool { return !isFlag(word) })
	if i >= 0 && slices.Contains(strings.Fields(verbs), rest[i]) {
		return program + " " + rest[i]
	}
	return ""
}

// notFoundHint is about a command that the sandbox does not have.
func notFoundHint(sandbox string, c shared.Command, onHost func(name string) string) string {
	if c.Script != "" || len(c.Args) == 0 {
		return ""
	}
	name := c.Args[0]
	if len(c.Args) == 1 && strings.ContainsAny(name, " \t\n;|&<>$") {
		return "if that is shell text, write -c before it: sbxhost exec -c " + shellQuote(name)
	}
	if path := onHost(name); path != "" {
		return fmt.Sprintf("it is %s on this machine, where sandbox %q shows nothing: add the directory it is installed in to bind_paths", quote(path), sandbox)
	}
	return ""
}

// hint tells what may help after a command has failed, and gives err with what
// helps when it was not found. After an exit it speaks to people alone, but for
// what is certain: hints in a log would be guesses.
func (e *execution) hint(cmd *host.Cmd, err error) error {
	exit, exited := errors.AsType[*host.ExitError](err)
	missing := errors.Is(err, shared.ErrNotFound)
	if errors.Is(err, host.ErrTimedOut) && e.setup != nil && !e.quiet {
		e.say(e.timedOut())
	}
	switch {
	case cmd == nil, !exited && !missing:
		return err
	case exited && e.quiet:
		return err
	case exited && exit.TimedOut:
		e.say(e.timedOut())
		return err
	case exited && exit.Signal != 0:
		return err
	}
	if exited && !e.summary {
		for _, line := range refusedNames(cmd.Report().Network, cmp.Or(e.place("network"), "the sandbox's definition")) {
			e.say("hint: " + line)
		}
	}
	switch {
	case exited && exit.Code != notFound && !isTerminal(e.stderr) && !slices.ContainsFunc(simpleCommands(shared.Command{Args: e.args, Script: e.flags.script}), func(words []string) bool {
		return settingCommand(words) != "" || addsFiles(words)
	}):
		return err
	}
	x, explainErr := cmd.Explain()
	if explainErr != nil || x.Spec.Unconfined {
		return err
	}
	f := &failure{
		sandbox: x.Sandbox, command: x.Command, spec: &x.Spec,
		network:   x.Spec.Network.Mode != shared.NetworkNone || e.flags.network != nil,
		networkAt: e.place("network"), bindAt: e.place("bind_paths"), gitAt: e.place("git"),
		gitKept: slices.ContainsFunc(x.Spec.Table, func(e shared.Entry) bool { return e.Why == "protected: git config" }),
		exists:  func(path string) bool { _, err := os.Lstat(path); return err == nil },
		isFile:  func(path string) bool { info, err := os.Lstat(path); return err == nil && info.Mode().IsRegular() },
	}
	if exited && exit.Code == notFound || missing {
		if line := e.droppedFromPath(x); line != "" && missing {
			return &hinted{err, line}
		} else if line != "" {
			e.say("hint: " + line)
		}
	}
	if missing {
		hint := notFoundHint(x.Sandbox, x.Command, func(name string) string {
			path := lookOnHost(name, e.getenv("PATH"))
			if path == "" || view.Shows(&x.Spec, path) != "" {
				return ""
			}
			return path
		})
		if hint != "" {
			return &hinted{err, hint}
		}
		return err
	}
	for _, line := range [...]string{f.protectedGit(), f.refusedAdd()} {
		if line != "" {
			e.say("hint: " + line)
		}
	}
	if !isTerminal(e.stderr) {
		return err
	}
	for _, line := range f.hints() {
		e.say("hint: " + line)
	}
	return err
}

// notFound is the status of a shell for a command that it does not find.
const notFound = 127

// droppedFromPath is about a command that lies in a directory of the caller's PATH which
// the command's does not have, since it is inside the workspace.
func (e *execution) droppedFromPath(x *host.Explanation) string {
	for _, words := range simpleCommands(x.Command) {
		if len(words) == 0 || strings.Contains(words[0], "/") {
			continue
		}
		if path := lookOnHost(words[0], e.getenv("PATH")); path != "" {
			begin := "PATH entry " + hostpath.Quote(filepath.Dir(path)) + " is "
			if i := slices.IndexFunc(x.Plan.Notes, func(note string) bool { return strings.HasPrefix(note, begin) }); i >= 0 {
				return x.Plan.Notes[i]
			}
		}
	}
	return ""
}

// timedOut says which limit ended a command, which nothing else would say.
func (e *execution) timedOut() string {
	limit := e.setup.options.Sandboxes[e.setup.sandbox].Limits.Timeout
	from := "limits.timeout of sandbox " + strconv.Quote(e.setup.sandbox)
	if at := e.place("limits.timeout"); at != "" {
		from += ", " + at
	}
	if e.flags.timeout != nil {
		from = "-timeout"
	}
	return fmt.Sprintf("the command was ended after %v, its time limit (%s)", limit, from)
}

// lookOnHost finds a program as a shell of the host would; "" where there is none.
func lookOnHost(name, searchPath string) string {
	if name == "" {
		return ""
	}
	dirs := filepath.SplitList(searchPath)
	if strings.Contains(name, "/") {
		if !filepath.IsAbs(name) {
			return ""
		}
		dirs = []string{"/"}
	}
	for _, dir := range dirs {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && filepath.IsAbs(path) && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0 {
			return path
		}
	}
	return ""
}

// place says where in the configuration an attribute of the sandbox stands, or
// would have to; "" for the built-in one.
func (e *execution) place(attribute string) string {
	if e.setup == nil || e.setup.file.Path() == "" {
		return ""
	}
	at, ok := e.setup.file.Locate(e.setup.sandbox, attribute)
	if !ok {
		return ""
	}
	name := at.Filename
	if rel, err := filepath.Rel(e.dir, name); err == nil && filepath.IsLocal(rel) {
		name = rel
	}
	return fmt.Sprintf("%s:%d", quote(name), at.Start.Line)
}
