//go:build unix

package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/paths"
)

const (
	gitTimeout    = 5 * time.Second // for one git, and for all that answer one question
	maxGitOut     = 8 << 20         // bytes of all answers to one question
	maxConfigVars = 64              // GIT_CONFIG_COUNT
)

// User is the user to run git as, for a caller that is root.
type User struct {
	UID, GID uint32
	Groups   []uint32 // supplementary
	Home     string   // absolute; "" if unknown
}

// A setting is one value of git's configuration, in git's format.
type setting struct {
	scope string // system, global, local, worktree, command; "" if commands may be unable to read the file
	file  string // absolute; "" if it comes from no file
	key   string // section and name in lower case
	value string
}

// includes reports whether the setting names a file with further configuration.
func (s *setting) includes() bool {
	return s.key == "include.path" || strings.HasPrefix(s.key, "includeif.") && strings.HasSuffix(s.key, ".path")
}

// A gitRunner runs git for one user of the host.
//
// Git runs outside of the workspace, with the git directory as an argument: so it searches for
// none, and does not check its owner. It only reads its configuration, so it runs no hook,
// fsmonitor, pager, alias or credential helper.
type gitRunner struct {
	find   func() (git *hostpath.Program, tried []string) // searches once; cached answers need no git
	home   string
	as     *User
	env    []string // without the git directory
	left   int      // bytes that git may still answer
	lookup func(string) (string, bool)
}

func (w *Workspace) gitAs(as *User) *gitRunner {
	g := &gitRunner{find: sync.OnceValues(w.findGit), as: as, home: w.home, lookup: w.lookup, left: maxGitOut}
	passed := []string{"GIT_CONFIG_NOSYSTEM", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"}
	if as != nil {
		// The other variables name files of the caller.
		g.home, passed = as.Home, passed[:1]
		g.lookup = func(k string) (string, bool) {
			if slices.Contains(passed, k) {
				return w.lookup(k)
			}
			return "", false
		}
	}
	g.env = []string{
		"LC_ALL=C",
		"GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0",
		"GIT_CEILING_DIRECTORIES=/",
		"GIT_TRACE2=0", "GIT_TRACE2_EVENT=0", "GIT_TRACE2_PERF=0", // else it writes to a file that the configuration names
		"GIT_ALLOC_LIMIT=4m", // it fails at a larger .gitignore, which a command can make in no time
	}
	if g.home != "" {
		g.env = append(g.env, "HOME="+g.home)
	}
	count, _ := w.lookup("GIT_CONFIG_COUNT")
	if n, err := strconv.Atoi(count); err == nil && n >= 0 && n <= maxConfigVars {
		passed = append(passed, "GIT_CONFIG_COUNT")
		for i := range n {
			passed = append(passed, fmt.Sprintf("GIT_CONFIG_KEY_%d", i), fmt.Sprintf("GIT_CONFIG_VALUE_%d", i))
		}
	}
	for _, k := range passed {
		if v, ok := w.lookup(k); ok {
			g.env = append(g.env, k+"="+v)
		}
	}
	return g
}

// errNoGit is the error if there is no git to ask.
var errNoGit = errors.New("no git in PATH is safe to run: there is none, or other users could replace it; install git")

// run runs git for a repository, or none, and returns its output. A nil stdin is empty.
func (g *gitRunner) run(ctx context.Context, l GitLayout, stdin io.Reader, args ...string) ([]byte, error) {
	git, _ := g.find()
	if git == nil {
		return nil, errNoGit
	}
	ctx, cancel := context.WithTimeout(ctx, gitTimeout)
	defer cancel()
	cmd := git.Command(ctx, append([]string{"--no-pager"}, args...)...) // else it looks for pager.config, also in included files
	if cmd.Env = append(cmd.Env, g.env...); l.GitDir == "" {
		cmd.Env = append(cmd.Env, "GIT_DIR=/dev/null")
	} else {
		cmd.Env = append(cmd.Env, "GIT_DIR="+l.GitDir, "GIT_COMMON_DIR="+l.CommonDir)
	}
	if g.as != nil {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: g.as.UID, Gid: g.as.GID, Groups: g.as.Groups}
	}
	cmd.WaitDelay = time.Second
	out, diag := cappedBuffer{left: g.left}, cappedBuffer{left: maxGitOut}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &out, &diag
	err := cmd.Run()
	switch g.left = out.left; {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("git: no answer: %w", context.Cause(ctx))
	case g.left < 0: // the buffer refused output, so git failed
		return nil, fmt.Errorf("git: more than %d bytes of configuration: %w", maxGitOut, ErrGitLayout)
	case err != nil && bytes.Contains(diag.buf.Bytes(), []byte("Permission denied")):
		return nil, fmt.Errorf("git: %w", fs.ErrPermission)
	case err != nil:
		// Git's own message may have a value from a file that commands may not read.
		return nil, fmt.Errorf("git: %s %s: %w", git.Path(), args[0], err)
	}
	return out.buf.Bytes(), nil
}

// Ignored returns those of some paths that git ignores in a work tree. It believes only rules that are
// older than since, and only if the configuration, which can name files of rules, is older too. It
// returns nothing if git cannot run.
func (w *Workspace) Ignored(ctx context.Context, top string, l GitLayout, as *User, list []string, since time.Time) (ignored []string) {
	g, a := w.gitAs(as), w.ask(ctx, top, l, as, false)
	rules := []string{paths.Join(l.CommonDir, "info/exclude"), g.xdg("ignore")}
	for _, s := range a.settings {
		if s.key == "core.excludesfile" && s.value != "" {
			p, _ := g.path(s.value)
			rules = append(rules, absoluteIn(top, p))
		}
	}
	if a.controls.Failed != nil || slices.ContainsFunc(rules, irregular) || a.asksForBranch() || !w.older(top, l.CommonDir, paths.Join(l.CommonDir, "config"), since) {
		return nil // the configuration's core.excludesFile can be any file of the user
	}
	// Without the index, which may be large, a tracked path that a rule matches counts as ignored; git
	// status shows changes of it.
	out, _ := g.run(ctx, l, strings.NewReader(strings.Join(list, "\x00")), "--work-tree="+top, "check-ignore", "-v", "-z", "--no-index", "--stdin")
	fields := strings.Split(string(out), "\x00") // fields: a file of rules, the line, the rule, the path
	for ; len(fields) > 4; fields = fields[4:] {
		if !strings.HasPrefix(fields[2], "!") && w.older(top, l.CommonDir, fields[0], since) {
			ignored = append(ignored, fields[3])
		}
	}
	return ignored
}

// older reports whether a file of rules is unchanged since a time, with the directories above it in the
// work tree: a command can move a directory with the rules in it. A file elsewhere counts as unchanged if
// no command can write it.
func (w *Workspace) older(top, common, file string, since time.Time) bool {
	is := func(p string) bool {
		s := stateOf(unix.Lstat, p)
		return s.err == 0 && s.Ctim.Nano() < since.UnixNano()
	}
	if paths.Inside(common, file) {
		return is(file) // no command can move info, and stubs change the times of the directories above
	}
	if filepath.IsAbs(file) {
		where := ""
		end, _, err := hostpath.Follow("/", file, func(link string) { where += w.writtenIn(link) }, nil)
		return err == nil && where+w.writtenIn(end) == ""
	}
	for ; file != "."; file = filepath.Dir(file) {
		if !is(paths.Join(top, file)) {
			return false
		}
	}
	return true
}

// list returns the settings of the system, the user and a repository or, with more arguments, of a file.
func (g *gitRunner) list(ctx context.Context, l GitLayout, stdin io.Reader, args ...string) ([]setting, error) {
	out, err := g.run(ctx, l, stdin, append([]string{"config", "--show-scope", "--show-origin", "-z", "--list"}, args...)...)
	if err != nil {
		return nil, err
	}
	return parseSettings(out)
}

// parseSettings reads the output of git config -z --list: each setting has the scope, the origin,
// and the key with its value after a line end.
func parseSettings(data []byte) (list []setting, err error) {
	parts := strings.Split(string(data), "\x00")
	if len(parts)%3 != 1 || parts[len(parts)-1] != "" {
		return nil, fmt.Errorf("git: a list of settings that is cut off: %w", ErrGitLayout)
	}
	for ; len(parts) > 3; parts = parts[3:] {
		s := setting{scope: parts[0]}
		if file, ok := strings.CutPrefix(parts[1], "file:"); ok {
			if !filepath.IsAbs(file) {
				return nil, fmt.Errorf("git: a setting comes from %.300q, which is not absolute: %w", file, ErrGitLayout)
			}
			s.file = file
		}
		s.key, s.value, _ = strings.Cut(parts[2], "\n")
		list = append(list, s)
	}
	return list, nil
}

// path expands a path as git does. It refuses a path in git's own directory.
func (g *gitRunner) path(v string) (string, error) {
	v = strings.TrimPrefix(v, ":(optional)")
	switch {
	case (v == "~" || strings.HasPrefix(v, "~/")) && g.home != "":
		return g.home + v[1:], nil
	case strings.HasPrefix(v, "~"):
		name, rest, _ := strings.Cut(v[1:], "/")
		if account, err := user.Lookup(name); err == nil {
			return account.HomeDir + "/" + rest, nil
		}
		fallthrough
	case strings.HasPrefix(v, "%(prefix)/"):
		start, _, _ := strings.Cut(v, "/") // commands may not read the rest
		return "", fmt.Errorf("git: a path that begins with %.300q leads to a home, or to git's own directory, that is not known; write it as an absolute path: %w", start, ErrGitLayout)
	}
	return v, nil
}

// files returns the configuration files that git may read for a repository. They may not exist.
func (g *gitRunner) files(l GitLayout) (list []string) {
	get := func(k string) string { v, _ := g.lookup(k); return v }
	if no := get("GIT_CONFIG_NOSYSTEM"); no == "" || isFalse(no) {
		if p := get("GIT_CONFIG_SYSTEM"); p != "" {
			list = append(list, p)
		} else {
			list = append(list, "/etc/gitconfig")
			if git, _ := g.find(); git != nil {
				list = append(list, filepath.Join(filepath.Dir(filepath.Dir(git.Path())), "etc/gitconfig"))
			}
		}
	}
	if p, ok := g.lookup("GIT_CONFIG_GLOBAL"); ok {
		list = append(list, p)
	} else {
		list = append(list, g.xdg("config"))
		if g.home != "" {
			list = append(list, g.home+"/.gitconfig")
		}
	}
	list = append(list, l.configurations()...)
	return slices.DeleteFunc(list, func(p string) bool { return !filepath.IsAbs(p) })
}

// checkVariables refuses variables with which git reads another configuration in each directory, perhaps
// one of a command.
func (g *gitRunner) checkVariables() error {
	for _, name := range [...]string{"GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "XDG_CONFIG_HOME"} {
		if v, _ := g.lookup(name); v != "" && !filepath.IsAbs(v) {
			return fmt.Errorf("git: %s is %.300q: write an absolute path: %w", name, v, ErrGitLayout)
		}
	}
	return nil
}

// xdg returns the path of a file of git's in the user's directory for configuration, or "".
func (g *gitRunner) xdg(name string) string {
	if dir, _ := g.lookup("XDG_CONFIG_HOME"); dir != "" {
		return dir + "/git/" + name
	}
	if g.home == "" {
		return ""
	}
	return g.home + "/.config/git/" + name
}

// findGit finds a git that no command could have written; nil if there is none.
func (w *Workspace) findGit() (git *hostpath.Program, tried []string) {
	path, _ := w.lookup("PATH")
	git, tried, _ = (&hostpath.Programs{Path: path, Written: w.writtenIn}).Find("git")
	return git, tried
}

// writtenIn describes the directory in which commands can have written p, or returns "".
func (w *Workspace) writtenIn(p string) (where string) {
	if slices.ContainsFunc(w.roots, func(r RootDir) bool { return r.Writable && paths.Inside(r.Path, p) }) {
		return "the workspace"
	} else if w.written == nil {
		return ""
	}
	return w.written(p)
}

// cappedBuffer keeps at most left bytes, and refuses more.
type cappedBuffer struct {
	buf  bytes.Buffer // not embedded: its ReadFrom has no limit
	left int
}

func (c *cappedBuffer) Write(p []byte) (int, error) {
	if c.left -= len(p); c.left < 0 {
		return 0, io.ErrShortWrite
	}
	return c.buf.Write(p)
}
