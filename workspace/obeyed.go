//go:build unix

package workspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/paths"
)

const (
	maxControls    = 512     // paths in GitControls
	maxHookEntries = 1000    // names in a hooks directory
	maxWords       = 512     // words with a slash in settings with commands
	maxNamed       = 8 << 20 // bytes of all paths that settings can mean: a command multiplies bases and names
)

// GitControls asks git what it obeys in the repository of layout l, with its work tree at top: when
// the caller runs git and, with as, when that user runs it. Each of the two costs one run of git. Included
// files cost one run more, and one for each. If nothing has changed, git does not run.
//
// The settings of all branches count. A relative core.hooksPath counts from both the work tree and
// the git directory, where git runs the hooks of a push.
func (w *Workspace) GitControls(ctx context.Context, top string, l GitLayout, as *User) (o GitControls) {
	for _, user := range slices.Compact([]*User{nil, as}) {
		p := w.ask(ctx, top, l, user, false).controls
		for _, c := range p.Files {
			if !slices.Contains(o.Files, c) {
				o.Files = append(o.Files, c)
			}
		}
		o.Failed, o.Unlisted = cmp.Or(o.Failed, p.Failed), o.Unlisted || p.Unlisted
		o.Shared, o.Settings = o.Shared || p.Shared, p.Settings
	}
	for _, dir := range append(l.modules(), l.away...) {
		if !mayObey(dir) {
			continue
		}
		// No search finds it without a work tree, which git submodule update, or another branch, brings back.
		at, common := l.submodule(top, dir), dir
		if slices.Contains(l.away, dir) {
			at, _ = worktreeTop(dir)
			common = filepath.Dir(filepath.Dir(dir))
		}
		p := w.GitControls(ctx, at, GitLayout{GitDir: dir, CommonDir: common}, as)
		o.Files = append(o.Files, p.Files...)
		o.Failed, o.Unlisted = cmp.Or(o.Failed, p.Failed), o.Unlisted || p.Unlisted
	}
	return o
}

// mayObey reports whether a git directory has a hook with another name, or a configuration that may name files.
func mayObey(gitDir string) bool {
	for _, name := range [...]string{"config", "config.worktree"} {
		text, err := hostpath.ReadNoSymlinks(paths.Join(gitDir, name), maxGitConfig)
		if err != nil && !errors.Is(err, fs.ErrNotExist) || mayFind(string(text)) || mayName(string(text)) {
			return true
		}
	}
	a := answer{stamps: map[string]stamp{}}
	a.hooksIn(paths.Join(gitDir, "hooks"))
	return a.controls.Failed != nil || len(a.controls.Files) > 1
}

// UserControls are what the user's own configuration has git obey in every repository. It asks git only if
// that names hooks or further configuration, because there may be no repository here.
func (w *Workspace) UserControls(ctx context.Context, as *User) (files []GitControl) {
	for _, user := range slices.Compact([]*User{nil, as}) {
		if slices.ContainsFunc(w.gitAs(user).files(GitLayout{}), func(file string) bool {
			text, err := hostpath.ReadFile(file, maxGitConfig)
			return err == nil && mayFind(string(text))
		}) {
			files = append(files, w.ask(ctx, "", GitLayout{}, user, false).controls.Files...)
		}
	}
	return files
}

// repeatable reports whether the same question would get the same answer. After a failure from a lack of
// memory or processes, it would not.
func (o *GitControls) repeatable() bool {
	var exit *exec.ExitError
	return o.Failed == nil || errors.Is(o.Failed, ErrGitLayout) || errors.As(o.Failed, &exit) && exit.Exited()
}

// unlisted decides GitControls.Unlisted without git.
func (q *question) unlisted() bool {
	if err := q.controls.Failed; !q.controls.repeatable() && !errors.Is(err, errNoGit) && !errors.Is(err, fs.ErrPermission) {
		return true // a lack of time or processes
	}
	if q.git.checkVariables() != nil {
		return true
	}
	for _, v := range q.git.env {
		name, key, _ := strings.Cut(v, "=")
		if strings.HasPrefix(name, "GIT_CONFIG_KEY_") && mayFind(key) {
			return true
		}
	}
	own := q.layout.configurations()
	for _, file := range q.git.files(q.layout) {
		data, err := hostpath.ReadFile(file, maxGitConfig)
		if errors.Is(err, fs.ErrNotExist) || sameFile(file, os.DevNull) {
			continue
		}
		if err != nil || mayFind(string(data)) || slices.Contains(own, file) && mayName(string(data)) {
			return true
		}
	}
	return false
}

// mayFind reports whether a configuration may name hooks or further configuration.
func mayFind(text string) bool {
	text = strings.ToLower(text)
	return strings.Contains(text, "hookspath") || strings.Contains(text, "include")
}

// mayName reports whether a configuration may name a file that git runs or reads. It looks for keys
// at the beginning of a line or after a section, with a slash in that line or in one that continues it,
// and for any slash after sections in which each key is a command.
func mayName(text string) bool {
	return fileNames().MatchString(text)
}

var fileNames = sync.OnceValue(func() *regexp.Regexp {
	var files, commands []string
	for _, key := range keyUses[isFile] {
		files = append(files, key[strings.IndexByte(key, '.')+1:])
	}
	for _, key := range keyUses[isCommand] {
		if _, name, _ := strings.Cut(key, "."); name != "*" {
			commands = append(commands, name)
		}
	}
	return regexp.MustCompile(`(?im)\[(pager|alias|lfs)\b(?s:.*)(/|\\\r?$)|^(.*\])?\s*((` + strings.Join(files, "|") + `)\b|(` + strings.Join(commands, "|") + `)\b.*(/|\\\r?$))`)
})

// obey finds the hooks and other files that the settings name.
func (q *question) obey() {
	q.bases = []string{q.top} // and the work trees that settings name instead
	for _, s := range q.settings {
		if s.key == "core.worktree" && s.value != "" {
			q.bases = append(q.bases, tidy(absoluteIn(q.layout.GitDir, s.value), q.fixed...))
		}
	}
	if q.layout.GitDir != "" {
		q.hooksIn(paths.Join(q.layout.CommonDir, "hooks"))
	}
	for _, s := range q.settings {
		if q.controls.Failed != nil {
			return // there may be very many
		}
		if s.value == "" {
			continue
		}
		if s.key == "core.sharedrepository" {
			q.controls.Shared = strings.ToLower(s.value) != "umask" && !isFalse(s.value)
		}
		switch use := useOf(s.key, s.value); {
		case s.key == "core.hookspath":
			for _, p := range q.pathsFrom(s.value, append(slices.Clone(q.bases), q.layout.GitDir, q.layout.CommonDir)...) {
				q.hooksIn(p)
			}
		case use == isFile:
			for _, p := range q.pathsFrom(s.value, q.bases[0]) {
				q.add(p, controlProgram, true)
				if s.key == "init.templatedir" { // git copies the links in it
					q.hooksIn(paths.Join(p, "hooks"))
				}
			}
		case use == isCommand:
			q.command(s)
		}
	}
	if p := q.git.xdg("attributes"); filepath.IsAbs(p) {
		q.add(p, controlProgram, true)
	}
}

// pathsFrom returns the paths that the value of a setting names: one for each base, if it is relative.
func (q *question) pathsFrom(value string, bases ...string) (list []string) {
	p, err := q.git.path(value)
	switch q.fail(err); {
	case p == "":
		return nil
	case filepath.IsAbs(p):
		bases = []string{""}
	}
	for _, base := range bases {
		at := absoluteIn(base, p)
		if q.named += len(at); q.named > maxNamed {
			q.fail(fmt.Errorf("git: settings name files by more than %d bytes: %w", maxNamed, ErrGitLayout))
			return nil
		}
		list = append(list, tidy(at, q.fixed...))
	}
	return list
}

// command adds the files among the words of a command.
func (q *question) command(s setting) {
	for i, word := range commandWords(s.key, s.value) {
		if q.words++; q.words > maxWords {
			q.fail(fmt.Errorf("git: more than %d paths are in settings with commands: %w", maxWords, ErrGitLayout))
			return
		}
		if word == "" || len(word) >= unix.PathMax || strings.Contains(word, "://") {
			continue
		}
		if _, err := q.git.path(word); err != nil && word[0] == '~' {
			continue // a shell leaves it as it is
		}
		// A command could still create a missing program; of the other words only some are files.
		for _, p := range q.pathsFrom(word, q.bases...) {
			q.addProgram(p, i == 0)
		}
		if strings.ContainsAny(s.value, "$`") { // it may be the end of a path, as of $(git rev-parse --show-toplevel)/tool
			for _, p := range q.pathsFrom("./"+word, q.bases...) {
				q.addProgram(p, false)
			}
		}
	}
}

// addProgram adds a file if it exists, or if a missing one counts too.
func (q *question) addProgram(p string, orMissing bool) {
	if s := q.look(p, 0); s.regular() || s.symlink() || orMissing && s.absent() {
		q.add(p, controlProgram, true)
	}
}

// add adds a path to the answer, and reports whether it is new.
func (a *answer) add(p, what string, file bool) bool {
	switch c := (GitControl{p, what, file}); {
	case slices.Contains(a.controls.Files, c):
		return false
	case len(a.controls.Files) >= maxControls:
		a.fail(fmt.Errorf("git: it obeys more than %d files: %w", maxControls, ErrGitLayout))
		return false
	default:
		a.controls.Files = append(a.controls.Files, c)
	}
	a.look(p, 0)
	return true
}

// hooksIn adds a hooks directory, and its files that a command could write by another path: symlinks and
// hard links.
func (a *answer) hooksIn(dir string) {
	if around, ok := strings.CutSuffix(dir, "husky/_"); ok { // each hook in it runs the file of its name beside it
		a.hooksIn(around + "husky")
	}
	if !a.add(dir, controlHooks, false) || !a.look(dir, 0).directory() {
		return
	}
	names, err := hookNames(dir)
	a.fail(err)
	for _, name := range names {
		p := paths.Join(dir, name)
		if s := a.look(p, 0); s.symlink() || s.regular() && s.link.Nlink > 1 {
			a.add(p, controlHooks, true)
		}
	}
}

// hookNames lists a directory of hooks, without git's samples, which git never executes.
func hookNames(dir string) (names []string, err error) {
	entries, err := readDir(dir, 0, maxHookEntries)
	if err != nil {
		return nil, fmt.Errorf("git: the hooks cannot be listed: %w", err)
	}
	for _, e := range entries {
		if filepath.Ext(e.Name) != ".sample" {
			names = append(names, e.Name)
		}
	}
	return names, nil
}

// use is what git does with the value of a setting.
type use uint8

const (
	isCommand use = 1 + iota // git executes it, mostly in a shell
	isFile                   // git reads the file, or copies from the directory, that it names
	leads                    // it leads git elsewhere: to another directory, server or helper
	mayLead                  // it mostly is a name, or a URL of another machine; a path leads git elsewhere
)

// useOf returns the use of a setting that a hostile configuration would have; 0 for others.
func useOf(key, value string) use {
	section, rest, _ := strings.Cut(key, ".")
	name := section + "." + rest[strings.LastIndexByte(rest, '.')+1:]
	for _, key := range []string{name, section + ".*"} {
		for use, keys := range keyUses {
			if slices.Contains(keys, key) && (use != mayLead || pathOrHelper().MatchString(key+"="+value)) {
				return use
			}
		}
	}
	return 0
}

// pathOrHelper matches a setting of mayLead whose value is a path, where git runs programs or hooks, or
// has git run a helper, as ext:: does.
var pathOrHelper = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[^=]+=([\w+.-]*::|file:|[^:]*/)|^[^=]+url=[^:]+$`) })

// keyUses are the keys by their use, with "*" for all of a section.
var keyUses = map[use][]string{
	isCommand: {
		"core.fsmonitor", "core.sshcommand", "core.editor", "core.pager", "core.gitproxy", "core.askpass",
		"core.alternaterefscommand", "sequence.editor", "hook.command", "gc.recentobjectshook", "filter.clean",
		"filter.smudge", "filter.process", "diff.external", "diff.command", "diff.textconv", "merge.driver",
		"credential.helper", "gpg.program", "gpg.defaultkeycommand", "interactive.difffilter",
		"uploadpack.packobjectshook", "remote.uploadpack", "remote.receivepack", "submodule.update", "difftool.cmd",
		"difftool.path", "mergetool.cmd", "mergetool.path", "man.cmd", "man.path", "browser.cmd", "browser.path",
		"guitool.cmd", "tar.command", "trailer.command", "trailer.cmd", "svn.authorsprog", "sendemail.smtpserver",
		"sendemail.tocmd", "sendemail.cccmd", "sendemail.headercmd", "sendemail.sendmailcmd", "imap.tunnel",
		"instaweb.httpd", "lfs.path", "lfs.args", "lfs.clean", "lfs.smudge", "pager.*", "alias.*",
	},
	isFile: {"core.attributesfile", "gpg.allowedsignersfile", "init.templatedir", "http.sslcainfo", "http.sslcapath"},
	// rebase.instructionformat can add a step such as exec; with vimdiff, a shell expands mergetool.layout.
	leads: {
		"core.hookspath", "core.worktree", "rebase.instructionformat", "include.path", "includeif.path", "remote.vcs",
		"remote.proxy", "mergetool.layout", "instaweb.browser", "web.browser", "help.browser", "extensions.worktreeconfig",
		"url.insteadof", "url.pushinsteadof", "protocol.allow", "http.proxy", "http.curloptresolve", "http.cookiefile",
		"instaweb.modulepath", "instaweb.gitwebdir", "lfs.standalonetransferagent",
	},
	// A tool's name is a path in git's directory of tools, and git executes the file there.
	mayLead: {
		"diff.tool", "diff.guitool", "merge.tool", "merge.guitool", "remote.pushdefault", "remote.url", "remote.pushurl", "branch.remote", "branch.pushremote",
	},
}

// expansions spell paths of the home directory, and of the one in which git runs a command, as git does.
var expansions = strings.NewReplacer("$HOME/", "~/", "${HOME}/", "~/", `"$HOME"/`, "~/", `"${HOME}"/`, "~/", `$HOME"/`, `"~/`, `${HOME}"/`, `"~/`,
	"$PWD/", "./", "${PWD}/", "./", `"$PWD"/`, "./", `"${PWD}"/`, "./")

const (
	shellSeparators = " \t\r\n\x00`;|&<>()"
	allSeparators   = shellSeparators + "{}=,$" // words also end here in lists, assignments and expansions
)

// commandWords returns the words of a command that can contain a path. The program is first, or "" if
// its name has no slash. A command is split as a shell does; further, as a shell may do with parts of it,
// also at quotes; and not at all, because git executes some without a shell. A wrong word names no file.
// Without a slash, a word counts only if it has a dot, as the script of an interpreter may; in an alias,
// which people type, it does not.
func commandWords(key, value string) (words []string) {
	command, shell := strings.CutPrefix(strings.TrimSpace(value), "!")
	alias := strings.HasPrefix(key, "alias.")
	if alias && !shell {
		return nil // a subcommand of git
	}
	command = expansions.Replace(command)
	beforeHost, _, _ := strings.Cut(command, " for ") // of core.gitProxy
	pieces := strings.FieldsFunc(command, func(r rune) bool { return strings.ContainsRune(allSeparators+`"'`, r) })
	for i, word := range slices.Concat(split(command, shellSeparators), split(command, allSeparators), pieces, []string{command, beforeHost}) {
		slash := strings.ContainsRune(word, '/')
		if i == 0 && !slash {
			words = append(words, "") // a shell finds it in PATH
		} else if (slash || !alias && strings.ContainsRune(word, '.')) && !slices.Contains(words, word) {
			words = append(words, word)
		}
		if len(words) > maxWords { // the caller refuses them
			break
		}
	}
	return words
}

// split splits a command as a shell might. Quoted text is one word, and is split once more, because it
// may be a script.
func split(command, separators string) (words []string) {
	var word []byte
	var quote byte
	end := func() {
		if len(word) > 0 {
			words = append(words, string(word))
		}
		word = word[:0]
	}
	for i := 0; i < len(command); i++ {
		c := command[i]
		switch {
		case c == '\\' && quote != '\'' && i+1 < len(command):
			if i++; command[i] != '\n' { // else the line goes on
				word = append(word, command[i])
			}
		case c == quote:
			quote = 0
		case quote == 0 && (c == '\'' || c == '"'):
			quote = c
		case quote == 0 && strings.IndexByte(separators, c) >= 0:
			end()
		default:
			word = append(word, c)
		}
	}
	end()
	inner := func(r rune) bool { return r == '\'' || r == '"' || strings.ContainsRune(separators, r) }
	return append(words, strings.FieldsFunc(strings.Join(words, " "), inner)...)
}
