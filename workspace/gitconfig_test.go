package workspace

import (
	"slices"
	"strings"
	"testing"
)

const hostileConfig = `[core]
	repositoryformatversion = 0
	hooksPath = "tools/hooks" ; here
	FSMONITOR = ./evil
[core] pager = less
[alias]
	st = status
[filter "x]y"]
	clean = ./evil
[remote "origin"]
	url = https://example.com/
	uploadpack = evil
[include]
	path = ../inc
[includeIf "gitdir:~/"]
	path = ~/inc2
[diff.old]
	textconv = \
evil
[user]
	name = x
`

func TestCommandKeys(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	tree(t, dir, map[string]string{"config": hostileConfig, "config.worktree": "[core]\nsshCommand=x\n"})
	want := []string{"core.hookspath", "core.fsmonitor", "core.pager", "alias.st", "filter.x]y.clean", "remote.origin.uploadpack",
		"include.path", "includeif.gitdir:~/.path", "diff.old.textconv", "core.sshcommand"}
	if got := CommandKeys(dir); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := CommandKeys(dir + "/none"); got != nil {
		t.Errorf("of nothing: %q", got)
	}
}

func TestConfiguredPaths(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	tree(t, dir, map[string]string{"config": hostileConfig, "global": "[core]\nhooksPath = ~/hooks\n"})
	hooks, includes := ConfiguredPaths(dir, dir+"/global", dir+"/none")
	if !slices.Equal(hooks, []string{"tools/hooks", "~/hooks"}) ||
		!slices.Equal(includes, []ConfiguredPath{{"../inc", dir + "/config"}, {"~/inc2", dir + "/config"}}) {
		t.Errorf("%q, %v", hooks, includes)
	}
}

func FuzzParseGitConfig(f *testing.F) {
	f.Add([]byte(hostileConfig))
	f.Add([]byte("[a \"b\\\"]\"] c = d\n[\n[]\n=\n[x] [y] z"))
	f.Add([]byte("\xef\xbb\xbf[core]\r\n\tpager=\\\r\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, e := range parseGitConfig(data) {
			if e.section == "" || e.section != strings.ToLower(e.section) || e.key != strings.ToLower(e.key) {
				t.Fatalf("%+v", e)
			}
			commandBearing(&e)
		}
	})
}
