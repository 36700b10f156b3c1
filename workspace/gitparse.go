package workspace

import (
	"slices"
	"strings"
)

// A configEntry is one variable of a git config, its section and key in lower
// case.
type configEntry struct {
	section, sub, key, value string
}

// name is the entry as git writes it on one line.
func (e *configEntry) name() string {
	if e.sub != "" {
		return e.section + "." + e.sub + "." + e.key
	}
	return e.section + "." + e.key
}

// parseGitConfig reads a git config. What it cannot read it passes over:
// it is for finding what may be dangerous, and reads more leniently than git.
func parseGitConfig(data []byte) (entries []configEntry) {
	var section, sub string
	text := strings.ReplaceAll(strings.ReplaceAll(string(data), "\r\n", "\n"), "\\\n", "")
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		for strings.HasPrefix(line, "[") {
			head, rest, ok := cutHeader(line[1:])
			if !ok {
				line = ""
				break
			}
			line = strings.TrimSpace(rest)
			name, quoted, has := strings.Cut(head, " ")
			if has {
				sub, _ = unquoteConfig(strings.TrimSpace(quoted))
			} else {
				// The old form, [section.subsection].
				name, sub, _ = strings.Cut(head, ".")
			}
			section = strings.ToLower(strings.TrimSpace(name))
		}
		if line == "" || line[0] == '#' || line[0] == ';' || section == "" {
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if v, good := unquoteConfig(strings.TrimSpace(value)); good {
			value = v
		}
		if !ok {
			value = "true"
		}
		entries = append(entries, configEntry{section, sub, strings.ToLower(strings.TrimSpace(key)), value})
	}
	return entries
}

// cutHeader cuts a section's header off, whose "]" may stand in quotes.
func cutHeader(s string) (head, rest string, ok bool) {
	quoted := false
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '"':
			quoted = !quoted
		case '\\':
			i++
		case ']':
			if !quoted {
				return s[:i], s[i+1:], true
			}
		}
	}
	return "", "", false
}

// commandBearing reports whether git executes the value of a key, or is led
// elsewhere by it: to further configuration, another directory, another server.
func commandBearing(e *configEntry) bool {
	keys := map[string][]string{
		"core":        {"fsmonitor", "hookspath", "sshcommand", "editor", "pager", "gitproxy", "askpass", "alternaterefscommand", "attributesfile", "worktree"},
		"sequence":    {"editor"},
		"include":     {"path"},
		"includeif":   {"path"},
		"filter":      {"clean", "smudge", "process"},
		"diff":        {"external", "command", "textconv"},
		"merge":       {"driver"},
		"credential":  {"helper"},
		"gpg":         {"program", "defaultkeycommand"},
		"init":        {"templatedir"},
		"interactive": {"difffilter"},
		"uploadpack":  {"packobjectshook"},
		"remote":      {"uploadpack", "receivepack", "vcs", "proxy"},
		"submodule":   {"update"},
		"difftool":    {"cmd", "path"},
		"mergetool":   {"cmd", "path"},
		"man":         {"cmd", "path"},
		"browser":     {"cmd", "path"},
		"guitool":     {"cmd"},
		"tar":         {"command"},
		"trailer":     {"command", "cmd"},
		"sendemail":   {"smtpserver", "tocmd", "cccmd", "headercmd", "sendmailcmd"},
		"imap":        {"tunnel"},
		"instaweb":    {"httpd", "browser"},
		"web":         {"browser"},
		"help":        {"browser"},
		"pager":       {"*"},
		"extensions":  {"worktreeconfig"},
		"url":         {"insteadof", "pushinsteadof"},
		"protocol":    {"allow"},
		"http":        {"proxy", "cookiefile"},
		"alias":       {"*"},
		"lfs":         {"standalonetransferagent"},
	}[e.section]
	return slices.Contains(keys, "*") || slices.Contains(keys, e.key) || e.section == "lfs" && strings.HasPrefix(e.key, "customtransfer")
}

// CommandKeys lists the keys of a git directory's configuration that make git
// execute something, or read more configuration. It runs no git.
func CommandKeys(gitDir string) (keys []string) {
	for _, name := range []string{"config", "config.worktree"} {
		data, err := readSmall(join(gitDir, name), maxGitConfig)
		if err != nil {
			continue
		}
		for _, e := range parseGitConfig(data) {
			if commandBearing(&e) && !slices.Contains(keys, e.name()) {
				keys = append(keys, e.name())
			}
		}
	}
	return keys
}

// ConfiguredPaths lists what a git directory's configuration, and the files in
// global, name as hooks and as further configuration: paths as they are written,
// which may begin with "~/" or be relative - hooks to the work tree, included
// files to the file that names them.
func ConfiguredPaths(gitDir string, global ...string) (hooks []string, includes []ConfiguredPath) {
	files := append([]string{join(gitDir, "config"), join(gitDir, "config.worktree")}, global...)
	for _, file := range files {
		data, err := readSmall(file, maxGitConfig)
		if err != nil {
			continue
		}
		for _, e := range parseGitConfig(data) {
			switch {
			case e.value == "":
			case e.section == "core" && e.key == "hookspath":
				hooks = append(hooks, e.value)
			case (e.section == "include" || e.section == "includeif") && e.key == "path":
				includes = append(includes, ConfiguredPath{Path: e.value, File: file})
			}
		}
	}
	return hooks, includes
}

// A ConfiguredPath is a path and the file that names it.
type ConfiguredPath struct{ Path, File string }
