//go:build unix

package workspace

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

const maxIdentity = 1 << 10 // one name or address

// identityVars are the variables that Identity returns, in its order.
var identityVars = [...]string{"GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"}

// Identity returns the git identity at the project root as KEY=value: those of GIT_AUTHOR_NAME,
// GIT_AUTHOR_EMAIL, GIT_COMMITTER_NAME and GIT_COMMITTER_EMAIL that are known. The caller's own
// variables win, then git's configuration with conditional includes. Git's guess from user and host
// name does not count.
//
// Files that a repository includes count only if the user's own configuration includes them too:
// the command gets the identity, and may have written the repository's configuration to include a
// file that only the user can read.
//
// With as, git runs as that user and reads that user's configuration. Without as, a root caller
// would be the author of its work for the user, and git would follow the includes of a user's
// repository with root's rights.
//
// An error means that git could not answer (a config that does not parse, no answer in five
// seconds); the values beside it are still right. A missing git is no error.
func (w *Workspace) Identity(ctx context.Context, as *User) ([]string, error) {
	variables := map[string]string{}
	for _, k := range identityVars {
		if v, ok := w.lookup(k); ok && v != "" && plausible(v) {
			variables[k] = v
		}
	}
	var config map[string]string
	var err error
	if len(variables) < len(identityVars) {
		config, err = w.gitIdentity(ctx, as)
	}
	if _, ok := config["user.email"]; !ok && as == nil && config != nil {
		if v, ok := w.lookup("EMAIL"); ok && v != "" && plausible(v) {
			config["user.email"] = v // as git does
		}
	}
	return identityEnv(variables, config), err
}

// identityEnv applies git's precedence: variable, author.* or committer.*, user.*.
func identityEnv(variables, config map[string]string) []string {
	var env []string
	for _, k := range identityVars {
		who, what, _ := strings.Cut(strings.ToLower(strings.TrimPrefix(k, "GIT_")), "_")
		for _, v := range []string{variables[k], config[who+"."+what], config["user."+what]} {
			if v != "" {
				env = append(env, k+"="+v)
				break
			}
		}
	}
	return env
}

// plausible refuses values that git would refuse as a name, or that cannot be in a variable.
func plausible(v string) bool {
	return len(v) <= maxIdentity && !strings.ContainsAny(v, "\x00\n\r")
}

// gitIdentity returns the settings of an identity, the last of each.
func (w *Workspace) gitIdentity(ctx context.Context, as *User) (map[string]string, error) {
	config := map[string]string{}
	top := w.Repository()
	var l GitLayout
	if top != "" {
		l, _ = GitDirs(top) // without a layout, its settings do not count
	}
	a := w.ask(ctx, top, l, as)
	switch err := cmp.Or(a.controls.Failed, a.unheld); {
	case errors.Is(err, errNoGit):
		return config, nil
	case err != nil:
		return config, fmt.Errorf("git identity: %w", err)
	}
	for _, s := range a.holding {
		switch s.key {
		case "user.name", "user.email", "author.name", "author.email", "committer.name", "committer.email":
			if plausible(s.value) && (s.scope != "local" && s.scope != "worktree" || l.holds(s.file, s.value)) {
				config[s.key] = s.value
			}
		}
	}
	return config, nil
}

// configurations are the files of the repository's own configuration.
func (l *GitLayout) configurations() []string {
	if l.GitDir == "" {
		return nil
	}
	return []string{join(l.CommonDir, "config"), join(l.CommonDir, "config.worktree"), join(l.GitDir, "config.worktree")}
}

// holds reports whether a file of the repository has a value. A path that now leads through a
// symlink has none, whatever git found there.
func (l *GitLayout) holds(file, value string) bool {
	if !slices.Contains(l.configurations(), file) {
		return false
	}
	data, err := ReadNoSymlinks(file, maxGitConfig)
	unquoted := strings.NewReplacer("\\\n", "", "\\", "", `"`, "") // undoes a config's quoting
	return err == nil && bytes.Contains([]byte(unquoted.Replace(string(data))), []byte(unquoted.Replace(value)))
}
