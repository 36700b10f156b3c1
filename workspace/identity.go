package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	identityTimeout = 5 * time.Second
	maxIdentityOut  = 64 << 10 // what git may answer
	maxIdentity     = 1 << 10  // one name or address
	maxConfigVars   = 64       // GIT_CONFIG_COUNT
)

// identityVars are the variables that Identity returns, in its order.
var identityVars = [...]string{"GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"}

// User is somebody else for a caller that is root to run git as.
type User struct {
	UID, GID uint32
	Groups   []uint32 // supplementary
	Home     string   // absolute; "" if unknown
}

// Identity looks up the git identity in force at the project root and returns
// it as KEY=value, of GIT_AUTHOR_NAME, GIT_AUTHOR_EMAIL, GIT_COMMITTER_NAME and
// GIT_COMMITTER_EMAIL those that are known. The caller's own variables of these
// names win, then what git is configured to, conditional includes counted. Git's
// guess from user and host name is not an identity.
//
// With as, git runs as that user and reads that user's configuration. Else root
// would name itself as the author of what it does for the user, and follow the
// includes of a repository that is the user's with the rights of root.
//
// An error means that git could not tell (a config that does not parse, no
// answer in five seconds); what is returned beside it is still right. No git is
// no error.
//
// Only config keys are read, outside the workspace and with the git directory
// given, so that git runs no hook, fsmonitor, pager, alias or credential
// helper, whatever the workspace's config says, and asks nothing about
// ownership.
func (w *Workspace) Identity(ctx context.Context, as *User) ([]string, error) {
	own := map[string]string{}
	for _, k := range identityVars {
		if v, ok := w.lookup(k); ok && v != "" && plausible(v) {
			own[k] = v
		}
	}
	var config map[string]string
	var err error
	if len(own) < len(identityVars) {
		config, err = w.gitConfig(ctx, as)
	}
	if _, ok := config["user.email"]; !ok && as == nil {
		if v, ok := w.lookup("EMAIL"); ok && v != "" && plausible(v) && config != nil {
			config["user.email"] = v // as git does
		}
	}
	return identityEnv(own, config), err
}

func (w *Workspace) lookup(k string) (string, bool) {
	if w.lookupEnv == nil {
		return "", false
	}
	return w.lookupEnv(k)
}

// identityEnv applies git's precedence: variable, author.* or committer.*,
// user.*.
func identityEnv(own, config map[string]string) []string {
	var env []string
	for _, k := range identityVars {
		who, what, _ := strings.Cut(strings.ToLower(strings.TrimPrefix(k, "GIT_")), "_")
		for _, v := range []string{own[k], config[who+"."+what], config["user."+what]} {
			if v != "" {
				env = append(env, k+"="+v)
				break
			}
		}
	}
	return env
}

// plausible refuses what git would not take for a name either, and what is no
// value of a variable.
func plausible(v string) bool {
	return len(v) <= maxIdentity && !strings.ContainsAny(v, "\x00\n\r")
}

// gitConfig asks git for the keys that make an identity. No git: an empty map.
func (w *Workspace) gitConfig(ctx context.Context, as *User) (map[string]string, error) {
	git, err := w.findGit()
	if git == "" || err != nil {
		return map[string]string{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, identityTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, git,
		"--no-pager", "--no-optional-locks",
		"-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "core.pager=cat",
		"config", "--includes", "-z", "--get-regexp", `^(user|author|committer)\.(name|email)$`)
	cmd.Dir = "/" // never in the workspace
	cmd.Env = w.gitEnv(as)
	if as != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: as.UID, Gid: as.GID, Groups: as.Groups}}
	}
	cmd.WaitDelay = time.Second
	var out, diag capped
	out.limit, diag.limit = maxIdentityOut, 4<<10
	cmd.Stdout, cmd.Stderr = &out, &diag
	err = cmd.Run()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return map[string]string{}, fmt.Errorf("git identity: %w", context.Cause(ctx))
	case errors.As(err, &exit) && exit.ExitCode() == 1 && out.buf.Len() == 0:
		return map[string]string{}, nil // no such key
	case err != nil:
		return map[string]string{}, fmt.Errorf("git identity: %s: %w: %.200q", git, err, diag.buf.String())
	case out.over:
		return map[string]string{}, fmt.Errorf("git identity: more than %d bytes of config: %w", maxIdentityOut, ErrGitLayout)
	}
	return parseConfigZ(out.buf.Bytes()), nil
}

// parseConfigZ reads the output of git config -z: key, newline, value, NUL. The
// last of several values is in force.
func parseConfigZ(data []byte) map[string]string {
	config := map[string]string{}
	for entry := range bytes.SplitSeq(data, []byte{0}) {
		key, value, ok := strings.Cut(string(entry), "\n")
		if ok && plausible(value) {
			config[strings.ToLower(key)] = value
		}
	}
	return config
}

// gitEnv is what git sees. The caller's choice of config files counts; what
// makes git trace, prompt, or look at another repository does not.
func (w *Workspace) gitEnv(as *User) []string {
	env := []string{
		"PATH=/usr/bin:/bin", "LC_ALL=C",
		"GIT_TERMINAL_PROMPT=0", "GIT_PAGER=cat", "GIT_OPTIONAL_LOCKS=0",
		"GIT_CEILING_DIRECTORIES=/",
	}
	home, passed := w.home, []string{"GIT_CONFIG_NOSYSTEM", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"}
	if as != nil {
		home, passed = as.Home, passed[:1] // the others name files of the caller's
	}
	if home != "" {
		env = append(env, "HOME="+home)
	}
	for _, k := range passed {
		if v, ok := w.lookup(k); ok {
			env = append(env, k+"="+v)
		}
	}
	if v, ok := w.lookup("GIT_CONFIG_COUNT"); ok {
		n, err := strconv.Atoi(v)
		for i := 0; err == nil && i < min(n, maxConfigVars); i++ {
			for _, k := range []string{"GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_"} {
				if v, ok := w.lookup(k + strconv.Itoa(i)); ok {
					env = append(env, k+strconv.Itoa(i)+"="+v)
				}
			}
		}
		if err == nil && n >= 0 && n <= maxConfigVars {
			env = append(env, "GIT_CONFIG_COUNT="+v)
		}
	}
	// With GIT_DIR given there is no discovery and no question about who owns
	// the directory, and includeIf "gitdir:" sees the right one.
	gitDir := "/dev/null"
	if top := w.Repository(); top != "" {
		if l, err := GitDirs(top); err == nil && l.Kind != GitNone {
			gitDir = l.GitDir
		}
	}
	return append(env, "GIT_DIR="+gitDir)
}

// findGit returns the absolute path of a git that is not the workspace's, or
// "". Never simply from PATH: the workspace could supply its own.
func (w *Workspace) findGit() (string, error) {
	if w.git != "" {
		if !filepath.IsAbs(w.git) {
			return "", fmt.Errorf("git: %q is not absolute: %w", w.git, ErrInvalidPath)
		}
		return w.git, nil
	}
	path, _ := w.lookup("PATH")
	for dir := range strings.SplitSeq(path, ":") {
		if !filepath.IsAbs(dir) {
			continue
		}
		resolved, err := filepath.EvalSymlinks(filepath.Join(dir, "git"))
		if err != nil || w.writable(resolved) || w.writable(filepath.Clean(dir)) {
			continue
		}
		if fi, err := os.Stat(resolved); err == nil && fi.Mode().IsRegular() && fi.Mode()&0o111 != 0 {
			return resolved, nil
		}
	}
	return "", nil
}

// writable reports whether commands in the workspace may have written p.
func (w *Workspace) writable(p string) bool {
	if inside(w.project.path, p) {
		return true
	}
	r, ok := innermost(w.roots, p)
	return ok && r.writable
}

// capped keeps the first limit bytes and says whether there were more.
type capped struct {
	buf   bytes.Buffer
	limit int
	over  bool
}

func (c *capped) Write(p []byte) (int, error) {
	room := c.limit - c.buf.Len()
	if len(p) > room {
		c.over = true
		c.buf.Write(p[:room])
		return len(p), nil
	}
	return c.buf.Write(p)
}
