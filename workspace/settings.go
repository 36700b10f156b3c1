//go:build unix

package workspace

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// passedSettings decide how git works and what it prints. Other settings choose programs
// (core.pager, filter.*, credential.*) or servers (url.*, http.*, remote.*), or are about one
// repository.
var passedSettings = []string{
	"branch.autosetupmerge", "branch.autosetuprebase", "branch.sort", "tag.sort",
	"checkout.defaultremote", "checkout.guess",
	"commit.cleanup", "commit.status", "commit.verbose",
	"core.abbrev", "core.autocrlf", "core.eol", "core.precomposeunicode", "core.quotepath", "core.safecrlf", "core.whitespace",
	"diff.algorithm", "diff.colormoved", "diff.colormovedws", "diff.context", "diff.interhunkcontext", "diff.mnemonicprefix",
	"diff.noprefix", "diff.relative", "diff.renamelimit", "diff.renames", "diff.statgraphwidth", "diff.submodule", "diff.wserrorhighlight",
	"fetch.prune", "fetch.prunetags", "format.pretty", "grep.linenumber", "grep.patterntype",
	"i18n.commitencoding", "i18n.logoutputencoding", "init.defaultbranch",
	"log.abbrevcommit", "log.date", "log.decorate", "log.follow",
	"merge.autostash", "merge.conflictstyle", "merge.ff", "merge.renamelimit", "merge.renames", "merge.stat",
	"pull.ff", "pull.rebase", "push.autosetupremote", "push.default", "push.followtags",
	"rebase.abbreviatecommands", "rebase.autosquash", "rebase.autostash", "rebase.missingcommitscheck", "rebase.stat", "rebase.updaterefs",
	"rerere.autoupdate", "rerere.enabled", "stash.showpatch", "stash.showstat",
	"status.aheadbehind", "status.branch", "status.renames", "status.short", "status.showstash", "status.showuntrackedfiles",
	"user.name", "user.email", "author.name", "author.email", "committer.name", "committer.email",
	"versionsort.suffix",
}

// maxValue bounds one value.
const maxValue = 1 << 10

// passes reports whether commands get a setting. An alias that begins with "!" is a command.
func (s *setting) passes() bool {
	section, name, _ := strings.Cut(s.key, ".")
	switch {
	case s.scope == "local" || s.scope == "worktree", s.value == "", len(s.value) > maxValue, strings.ContainsAny(s.key, "\n\"\\"):
		return false
	case section == "alias":
		return !strings.Contains(name, ".") && !strings.HasPrefix(strings.TrimSpace(s.value), "!")
	}
	return section == "color" || section == "column" || section == "advice" || slices.Contains(passedSettings, s.key)
}

// maxSettings bounds what commands get, in bytes.
const maxSettings = 64 << 10

// settingsOf returns one user's settings, of those that are in force for a repository.
func settingsOf(g *gitRunner, holding []setting) (out Settings) {
	var config strings.Builder
	excludes := g.xdg("ignore")
	for _, s := range holding {
		users := s.scope == "system" || s.scope == "global"
		switch {
		case s.key == "commit.gpgsign": // with the repository's own setting, git fails inside
			out.Signs = users && !isFalse(s.value)
		case users && s.key == "core.excludesfile":
			if p, err := g.path(s.value); err == nil {
				excludes = p
			}
		}
		if s.passes() && config.Len() < maxSettings {
			at, name := s.key[:strings.LastIndexByte(s.key, '.')], s.key[strings.LastIndexByte(s.key, '.')+1:]
			section, of, sub := strings.Cut(at, ".")
			if sub {
				section = fmt.Sprintf("%s %q", section, of)
			}
			fmt.Fprintf(&config, "[%s]\n\t%s = \"%s\"\n", section, name, settingEscapes.Replace(s.value))
		}
	}
	if out.Config = config.String(); filepath.IsAbs(excludes) { // a relative one is another file in each directory
		out.Excludes = excludes
	}
	return out
}

func isFalse(value string) bool {
	return slices.Contains([]string{"false", "0", "no", "off"}, strings.ToLower(value))
}

var settingEscapes = strings.NewReplacer("\\", "\\\\", "\"", "\\\"", "\n", "\\n", "\t", "\\t", "\b", "\\b")
