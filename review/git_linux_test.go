package review

import (
	"context"
	"strings"
	"testing"
)

// What a review changes in a git directory is told or refused, whatever that is called and however it came to be one.
func TestGitDirs(t *testing.T) {
	t.Parallel()
	repository := []string{"HEAD x", "objects/", "refs/", "config x"}
	in := func(dir string, lines ...string) (list []string) {
		for _, line := range append(lines, repository...) {
			list = append(list, dir+"/"+line)
		}
		return list
	}
	for _, tt := range []struct {
		name         string
		lower, upper []string
		want         string // of each path, the beginning of what is said
	}{
		{"new", nil, in("r", "l -> config"), "r/HEAD: a repository|r/l: a symlink in"},
		{"in part", []string{"r/HEAD x", "r/refs/"}, []string{"r/objects/", "r/config y"}, "r/config: a repository"},
		{"its configuration", in("r"), []string{"r/config y", "r/description y", "r/hooks/x y", "r/commondir y", "r/config.worktree y"},
			"r/commondir: git outside|r/config: git outside|r/config.worktree: git outside|r/hooks: git outside|r/hooks/x: git outside"},
		{"its hooks", nil, in("r", "hooks/a.sample x", "hooks/b x"), "r/HEAD: a repository|r/hooks/b: git outside"},
		{"in an empty .git", []string{"r/.git/"}, in("r/.git"), "r/.git/HEAD: a repository"},
		{"a .git that was a file", []string{"r/.git x"}, []string{"r/.git gitdir: ../r"}, "r/.git: a repository"},
		{"a .git that leads on", nil, []string{"f/x y", "r/.git -> ../f"}, "r/.git: a repository"},
		{"a link", in("r", "logs/HEAD x"), []string{"r/logs/HEAD -> ../config", "r/refs/heads/a -> b"}, "r/logs/HEAD: a symlink|r/refs/heads/a: a symlink"},
		{"a link by which another is hidden", in(".git"), []string{".git/logs/.git y", ".git/logs/HEAD -> ../config"}, ".git/logs/.git: a repository|.git/logs/HEAD: a symlink"},
		{"a link that stays, or goes", in("r", "l -> config", "m -> config"), []string{"r/l -> config", "r/m -"}, ""},
		{"a link elsewhere", in("r", "in/.git gitdir: x"), []string{"l -> r", "r/in/l -> x", "r/in/.gitx -> x", "d/HEAD x", "d/refs/l -> x"}, ""},
		{"under way", in(".git", "rebase-apply/next 1"), []string{".git/rebase-merge/git-rebase-todo x", ".git/rebase-apply/next 2", ".git/sequencer y", ".git/refs/heads/sequencer y", "sequencer/x y"},
			".git/rebase-apply/next: git outside|.git/rebase-merge: git outside|.git/sequencer: git outside"},
		{"under way, in what looks like another", in(".git"), []string{".git/rebase-merge/HEAD x", ".git/rebase-merge/commondir x"}, ".git/rebase-merge: git outside"},
		{"objects from elsewhere", in(".git"), []string{".git/objects/info/alternates x", ".git/objects/info/commondir x", ".git/objects/info/HEAD x"},
			".git/objects/info/HEAD: a repository|.git/objects/info/alternates: git would take"},
	} {
		w := newRoot(t, tt.lower...)
		w.begin()
		for _, line := range tt.upper {
			w.write(w.upper, line)
		}
		r := w.open()
		set, err := r.Changes(context.Background(), Rules{})
		r.Close()
		w.check(err)
		wants := strings.Split(tt.want, "|")
		for _, c := range set.Changes {
			got := c.Path + ": " + c.Refused + c.Note
			switch {
			case c.Refused+c.Note == "":
			case len(wants) > 0 && wants[0] != "" && strings.HasPrefix(got, wants[0]):
				wants = wants[1:]
			default:
				t.Errorf("%s: %s, where %q are left", tt.name, got, wants)
			}
		}
		if len(wants) > 0 && wants[0] != "" {
			t.Errorf("%s: without %q", tt.name, wants)
		}
	}
}
