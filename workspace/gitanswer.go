//go:build unix

package workspace

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/paths"
)

const (
	gitSettling = 2 * time.Second // the coarsest clock of a file system
	maxIncludes = 64              // included files of a configuration
)

// An answer is all that git says about a repository to one user, with the files that it depends on.
type answer struct {
	settings []setting // under any condition
	controls GitControls
	stamps   map[string]stamp
	latest   int64 // the time of the last change of these files
}

// look returns the state of path, which it records once. It reads the text of configurations only: a
// command makes thousands of links to one large file in no time.
func (a *answer) look(path string, limit int64) stamp {
	s, known := a.stamps[path]
	if !known || limit > 0 && !s.hasText() {
		s = stampWithin(path, limit)
		a.stamps[path] = s
		a.latest = max(a.latest, s.link.Ctim.Nano(), s.end.Ctim.Nano())
	}
	return s
}

// current reports whether all files that the answer depends on are unchanged.
func (a *answer) current() bool {
	for p, s := range a.stamps {
		limit := int64(0)
		if s.hasText() {
			limit = maxGitConfig
		}
		if stampWithin(p, limit) != s {
			return false
		}
	}
	return true
}

// A stamp distinguishes a file from another one, and from itself before a change.
type stamp struct {
	link, end fileState         // end is that of the file to which a symlink leads
	text      [sha256.Size]byte // of a small file
}

// fileState is the result of stat(2), or its error, without what changes by itself or with the next
// mount.
type fileState struct {
	err syscall.Errno
	unix.Stat_t
}

func stateOf(stat func(string, *unix.Stat_t) error, path string) (s fileState) {
	if err := hostpath.Retry(func() error { return stat(path, &s.Stat_t) }); errors.As(err, &s.err) {
		return fileState{err: s.err}
	}
	s.Atim, s.Blocks, s.Dev = unix.Timespec{}, 0, 0
	return s
}

// stampWithin reads files of at most limit bytes: the times do not show a write through a mapping to a
// page that the kernel has not written to the disk yet, or to a tmpfs page that was read before.
func stampWithin(path string, limit int64) (s stamp) {
	s.link = stateOf(unix.Lstat, path)
	if s.end = s.link; s.symlink() {
		s.end = stateOf(unix.Stat, path)
	} else if s.regular() && s.link.Size == 0 && s.link.Nlink == 1 {
		// It has no text, like a missing file, and may hold the path of one while a command runs.
		s.link = fileState{err: syscall.ENOENT}
		s.end = s.link
	}
	if s.regular() && s.end.Size <= limit {
		if text, err := hostpath.ReadFile(path, limit); err == nil {
			s.text = sha256.Sum256(text)
		}
	}
	return s
}

func (s stamp) symlink() bool   { return s.link.Mode&unix.S_IFMT == unix.S_IFLNK }
func (s stamp) hasText() bool   { return s.text != [sha256.Size]byte{} }
func (s stamp) directory() bool { return s.end.Mode&unix.S_IFMT == unix.S_IFDIR }
func (s stamp) regular() bool   { return s.end.Mode&unix.S_IFMT == unix.S_IFREG }

// absent reports whether the path leads to nothing.
func (s stamp) absent() bool {
	return s.end.err == syscall.ENOENT || s.end.err == syscall.ENOTDIR
}

// maxAnswers bounds the answers that a Workspace remembers: beyond it, ask forgets all.
const maxAnswers = 1 << 10

// ask returns git's answer about a repository to a user. The caller must not change it. Of an exposed
// repository, commands can write the configuration.
func (w *Workspace) ask(ctx context.Context, top string, l GitLayout, as *User, exposed bool) *answer {
	g := w.gitAs(as)
	// It has neither PATH nor the contents of files: an answer has stamps of both.
	key := fmt.Sprintf("%q %v %q %q %q %v", g.env, as, top, l.GitDir, l.CommonDir, exposed)
	w.asking.Lock()
	defer w.asking.Unlock()
	if known := w.answers[key]; known != nil && known.current() {
		return known
	}
	caller := ctx
	ctx, cancel := context.WithTimeout(ctx, gitTimeout)
	defer cancel()
	var a *answer
	for range 3 {
		asked := w.now()
		a, g.left = &answer{stamps: map[string]stamp{}}, maxGitOut
		q := question{answer: a, ctx: ctx, git: g, top: top, layout: l, exposed: exposed, fixed: []string{top, l.GitDir, l.CommonDir}}
		q.gather()
		a.controls.Unlisted = a.controls.Failed != nil && q.unlisted()
		switch {
		case caller.Err() != nil || errors.Is(a.controls.Failed, context.DeadlineExceeded):
			return a
		case a.current():
			// The next change of these files will be visible: the clock of their file system has ticked since the last one.
			if asked.UnixNano()-a.latest > int64(gitSettling) && a.controls.repeatable() {
				if w.answers == nil || len(w.answers) > maxAnswers {
					w.answers = map[string]*answer{}
				}
				w.answers[key] = a
			}
			return a
		}
	}
	a.controls.Failed = fmt.Errorf("git: the configuration of %.300q changed again and again while it was read", l.GitDir)
	a.controls.Unlisted = true
	return a
}

// fail records the first reason why the answer is not complete.
func (a *answer) fail(err error) {
	if a.controls.Failed == nil {
		a.controls.Failed = err
	}
}

// A question has the parameters and the state of a search for an answer.
type question struct {
	*answer
	ctx    context.Context
	git    *gitRunner
	top    string
	layout GitLayout
	// exposed says that a command can exchange a file before git opens it, for a symlink to a hidden file or
	// to a device. So git reads a text, and opens only what belongs to the system and to the user.
	exposed bool

	followed []string // included files
	fixed    []string // directories that no command can replace, for tidy
	bases    []string // possible bases of relative paths; the top is the first
	named    int      // bytes of the paths that settings can mean
	words    int      // words with a slash in commands
}

// gather asks git. It follows includes itself, also those whose condition is not true now, because
// a command can switch to another branch. So git opens no file that was not checked, and no fifo
// blocks it.
func (q *question) gather() {
	_, tried := q.git.find()
	for _, p := range tried {
		q.look(p, 0) // another git may use another system configuration
	}
	q.fail(q.git.checkVariables())
	for _, p := range q.git.files(q.layout) {
		q.configFile(p)
	}
	// Git reads it before it judges the directory; a symlink it only resolves.
	if head := stampWithin(paths.Join(q.layout.GitDir, "HEAD"), 0); q.layout.GitDir != "" && !head.absent() && !head.symlink() && !head.regular() {
		q.fail(fmt.Errorf("git: the HEAD of %.300q is not a file: %w", q.layout.GitDir, ErrGitLayout))
	}
	if q.controls.Failed != nil {
		return
	}
	asked, texts := q.layout, []string(nil)
	if q.exposed {
		asked, texts = GitLayout{}, q.layout.configurations()
	}
	var err error
	q.settings, err = q.git.list(q.ctx, asked, nil, "--no-includes")
	q.fail(err)
	for _, file := range texts {
		q.addFile(file, "local")
	}
	for _, s := range q.settings {
		if s.file != "" {
			q.configFile(s.file)
		}
	}
	inForce := q.settings
	q.followIncludes()
	if q.controls.Failed != nil {
		return
	}
	if len(q.followed) > 0 && !q.exposed && !q.asksForBranch() {
		inForce, _ = q.git.list(q.ctx, q.layout, nil, "--includes") // git fails at an unreadable file
	}
	q.controls.Settings = settingsOf(q.git, inForce)
	q.obey()
}

// followIncludes adds the settings of included files, and of those that they include.
func (q *question) followIncludes() {
	for i := 0; i < len(q.settings) && q.controls.Failed == nil; i++ { // it grows
		s := q.settings[i]
		if !s.includes() || s.value == "" {
			continue
		}
		var dir []string // without a file, git refuses a relative path
		if end := strings.LastIndexByte(s.file, '/'); end >= 0 {
			dir = []string{s.file[:end]}
		}
		for _, p := range q.pathsFrom(s.value, dir...) {
			if !q.configFile(p) || q.controls.Failed != nil || slices.Contains(q.followed, p) {
				continue
			}
			if q.followed = append(q.followed, p); len(q.followed) > maxIncludes {
				q.fail(fmt.Errorf("git: more than %d files are included: %w", maxIncludes, ErrGitLayout))
			}
			q.addFile(p, "")
		}
	}
}

// addFile adds the settings of a file that a command may have made. Git gets the text, unless it runs as
// another user, who may be unable to read it: git would open whatever takes the file's place. A file
// without a scope, which commands may be unable to read, can be behind a symlink.
func (q *question) addFile(p, scope string) {
	from, text, err := "-", []byte(nil), error(nil)
	switch {
	case scope != "":
		if text, err = hostpath.ReadNoSymlinks(p, maxGitConfig); errors.Is(err, unix.ELOOP) {
			q.addFile(p, "")
			return
		}
	case q.git.as == nil:
		text, err = hostpath.ReadFile(p, maxGitConfig)
	default:
		from = p
	}
	var list []setting
	if err == nil {
		list, err = q.git.list(q.ctx, GitLayout{}, bytes.NewReader(text), "--no-includes", "--file", from)
	}
	// An included file that the user may not read has no effect, and git fails at such a configuration.
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !(errors.Is(err, fs.ErrPermission) && slices.Contains(q.followed, p)) {
		q.fail(fmt.Errorf("%.300q: %w", p, err))
	}
	for _, s := range list {
		s.scope, s.file = scope, p // git says that it is the command's
		q.settings = append(q.settings, s)
	}
}

// asksForBranch reports whether git finds out the branch, for includeIf.onbranch: it opens whatever a symlink
// leads to there, such as a device, or a fifo with messages for others.
func (a *answer) asksForBranch() bool {
	return slices.ContainsFunc(a.settings, func(s setting) bool { return strings.HasPrefix(s.key, "includeif.onbranch:") })
}

// configFile records a configuration file, and reports whether it exists. It refuses a file that would
// block git, or take long to read.
func (a *answer) configFile(p string) (exists bool) {
	a.add(p, controlConfig, true)
	switch s := a.look(p, maxGitConfig); {
	case s.unread(p):
		return false
	case s.end.err != 0:
		a.fail(fmt.Errorf("git: %.300q: %w", p, s.end.err))
	case irregular(p):
		a.fail(fmt.Errorf("git: %.300q is read as configuration and is not a regular file: %w", p, ErrGitLayout))
	case s.end.Size > maxGitConfig:
		a.fail(fmt.Errorf("git: %.300q has more than %d bytes of configuration: %w", p, maxGitConfig, ErrGitLayout))
	}
	return true
}

// unread reports whether git reads nothing at the path of the stamp.
func (s stamp) unread(p string) bool {
	return s.absent() || s.end.err == syscall.EACCES || sameFile(p, os.DevNull)
}

// irregular reports whether git would open something else than a file with a text, such as a fifo, or a
// device to which a command has led a symlink. Root's git would wait for /proc/kmsg, whose text the kernel makes
// up, and take messages from the programs that read it.
func irregular(p string) bool {
	s := stampWithin(p, 0)
	return !s.unread(p) && (!s.regular() || s.symlink() && s.end.Size == 0 && paths.InsideAny([]string{"/proc", "/sys"}, resolved(p)))
}

// tidy cleans an absolute path if the result leads to the same file, now and later: ".." after a symlink
// is not lexical, and a command can replace any directory by a symlink, except those above fixed. It leaves a
// path that is longer than the kernel takes: to look at each of its ".." would take minutes.
func tidy(p string, fixed ...string) string {
	for i, name := 0, ""; i < len(p); i += len(name) + 1 {
		name, _, _ = strings.Cut(p[i:], "/")
		if name == ".." {
			dir := filepath.Clean("/" + p[:i])
			fi, err := os.Lstat(dir)
			if err != nil || i > unix.PathMax || !fi.IsDir() || !slices.ContainsFunc(fixed, func(f string) bool { return paths.Inside(dir, f) }) {
				return p
			}
		}
	}
	return filepath.Clean(p)
}
