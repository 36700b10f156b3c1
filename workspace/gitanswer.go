//go:build unix

package workspace

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/paths"
)

const (
	gitSettling     = 2 * time.Second // the coarsest clock of a file system
	maxIncludes     = 64              // included files of a configuration
	maxIncludeDepth = 10              // as in git
	maxExpanded     = 8               // paths that need git to expand them
)

// An answer is all that git says about a repository to one user, with the files that it depends on.
type answer struct {
	settings    []setting // under any condition
	holding     []setting // in force now
	unheld      error     // why they are unknown
	hasIncludes bool      // some settings come from included files
	controls    GitControls
	stamps      map[string]stamp
	latest      int64 // the time of the last change of these files
	askedAt     time.Time
}

// look records the current state of path.
func (a *answer) look(path string) stamp {
	s := stampOf(path)
	if _, ok := a.stamps[path]; !ok {
		a.stamps[path] = s
		a.latest = max(a.latest, s.link.Ctim.Nano(), s.end.Ctim.Nano())
	}
	return s
}

// current reports whether all files that the answer depends on are unchanged.
func (a *answer) current() bool {
	for p, s := range a.stamps {
		if stampOf(p) != s {
			return false
		}
	}
	return true
}

// timesReliable reports whether the next change of these files will be visible: the clock of their
// file system has ticked since the last one.
func (a *answer) timesReliable() bool { return a.askedAt.UnixNano()-a.latest > int64(gitSettling) }

// A stamp distinguishes a file from another one, and from itself before a change.
type stamp struct {
	link, end fileState
	text      [sha256.Size]byte // of a small file
}

// fileState is the result of stat(2), or its error, without what changes by itself or with the next
// mount.
type fileState struct {
	err syscall.Errno
	unix.Stat_t
}

func stateOf(stat func(string, *unix.Stat_t) error, path string) (s fileState) {
	err := stat(path, &s.Stat_t)
	for err == syscall.EINTR {
		err = stat(path, &s.Stat_t)
	}
	if errors.As(err, &s.err) {
		return fileState{err: s.err}
	}
	s.Atim, s.Blocks, s.Dev = unix.Timespec{}, 0, 0
	return s
}

// stampOf reads small files: the times do not show a write through a mapping to a page that the
// kernel has not written to the disk yet, or to a tmpfs page that was read before.
func stampOf(path string) stamp { return stampWithin(path, maxGitConfig) }

// stampWithin reads no file of more than limit bytes.
func stampWithin(path string, limit int64) (s stamp) {
	s.link = stateOf(unix.Lstat, path)
	if s.symlink() {
		s.end = stateOf(unix.Stat, path)
	} else if s.regular() && s.link.Size == 0 && s.link.Nlink == 1 {
		// It has no text, like a missing file, and may hold the path of one while a command runs.
		s.link = fileState{err: syscall.ENOENT}
	}
	if s.regular() && s.target().Size <= limit {
		fd, err := hostpath.Openat(unix.AT_FDCWD, path, reading, 0)
		if text, err := readRegular(fd, err, path, limit); err == nil {
			s.text = sha256.Sum256(text)
		}
	}
	return s
}

// target is the state of what the path leads to.
func (s stamp) target() fileState {
	if s.symlink() {
		return s.end
	}
	return s.link
}

func (s stamp) symlink() bool   { return s.link.Mode&unix.S_IFMT == unix.S_IFLNK }
func (s stamp) directory() bool { return s.target().Mode&unix.S_IFMT == unix.S_IFDIR }
func (s stamp) regular() bool   { return s.target().Mode&unix.S_IFMT == unix.S_IFREG }

// absent reports whether the path leads to nothing.
func (s stamp) absent() bool {
	return s.target().err == syscall.ENOENT || s.target().err == syscall.ENOTDIR
}

// gitAnswers caches answers by question.
type gitAnswers struct {
	clock func() time.Time // nil means time.Now
	mu    sync.Mutex       // one git answers all simultaneous questions
	known map[string]*answer
}

// maxAnswers bounds gitAnswers, which is then emptied.
const maxAnswers = 1 << 10

func (c *gitAnswers) now() time.Time {
	if c.clock != nil {
		return c.clock()
	}
	return time.Now()
}

// ask returns git's answer about a repository to a user. The caller must not change it.
func (w *Workspace) ask(ctx context.Context, top string, l GitLayout, as *User) *answer {
	g, c := w.gitAs(as), &w.answers
	key := g.key() + "\x00\x00" + top + "\x00" + l.GitDir + "\x00" + l.CommonDir
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.known[key]; known != nil && known.current() {
		return known
	}
	var a *answer
	for range 3 {
		a = &answer{stamps: map[string]stamp{}, askedAt: c.now()}
		a.controls.Failed = a.gather(ctx, g, top, l)
		switch {
		case ctx.Err() != nil || errors.Is(a.controls.Failed, context.DeadlineExceeded):
			return a
		case a.current():
			if a.timesReliable() && a.controls.repeatable() {
				if c.known == nil || len(c.known) > maxAnswers {
					c.known = map[string]*answer{}
				}
				c.known[key] = a
			}
			return a
		}
	}
	a.controls.Failed = fmt.Errorf("git: the configuration of %.300q changed while it was read: %w", l.GitDir, ErrChanged)
	return a
}

// gather asks git. It follows includes itself, also those whose condition is not true now, because
// a command can switch to another branch. So git opens no file that was not checked, and no fifo
// blocks it.
func (a *answer) gather(ctx context.Context, g *gitRunner, top string, l GitLayout) error {
	git, tried := g.find()
	if git == nil {
		return errNoGit
	}
	for _, p := range tried {
		a.look(p) // another git may use another system configuration
	}
	if err := a.configFiles(g.files(l)); err != nil {
		return err
	}
	settings, err := g.list(ctx, l, "--no-includes")
	if err != nil {
		return err
	}
	for _, s := range settings {
		if s.file != "" {
			if _, err := a.configFile(s.file); err != nil {
				return err
			}
		}
	}
	a.settings = settings
	expanded := 0
	expand := func(v string) (string, error) {
		if v != "" && (v[0] == '%' || v[0] == '~' && len(v) > 1 && v[1] != '/') {
			if expanded++; expanded > maxExpanded {
				return "", fmt.Errorf("git: more than %d paths begin with ~user or %%(prefix): %w", maxExpanded, ErrGitLayout)
			}
		}
		return g.path(ctx, v)
	}
	if err := a.followIncludes(ctx, g, expand, l); err != nil {
		return err
	}
	if a.holding = settings; a.hasIncludes {
		a.holding, a.unheld = g.list(ctx, l, "--includes") // git fails at an unreadable file
	}
	a.controls.Settings = settingsOf(g, expand, a.holding)
	return a.obey(g, expand, top, l)
}

// followIncludes adds the settings of included files, level by level.
func (a *answer) followIncludes(ctx context.Context, g *gitRunner, expand func(string) (string, error), l GitLayout) error {
	level, followed := a.settings, 0
	for depth := 0; ; depth++ {
		next, err := a.included(level, expand, l)
		if err != nil || len(next) == 0 {
			return err
		}
		if followed += len(next); followed > maxIncludes || depth >= maxIncludeDepth {
			return fmt.Errorf("git: more than %d files are included, or more than %d deep: %w", maxIncludes, maxIncludeDepth, ErrGitLayout)
		}
		if level, err = g.fileSettings(ctx, next); err != nil {
			return err
		}
		a.settings = append(a.settings, level...)
		a.hasIncludes = true
	}
}

// included returns the files that settings include, if they exist and are new.
func (a *answer) included(settings []setting, expand func(string) (string, error), l GitLayout) (files []string, err error) {
	for _, s := range settings {
		if !s.includes() || s.value == "" {
			continue
		}
		p, err := expand(s.value)
		if err != nil {
			return nil, err
		}
		if !filepath.IsAbs(p) {
			if s.file == "" {
				continue // git refuses it
			}
			p = s.file[:strings.LastIndexByte(s.file, '/')+1] + p
		}
		there, err := a.configFile(tidy(p, l.GitDir, l.CommonDir))
		if err != nil {
			return nil, err
		}
		if there {
			files = append(files, tidy(p, l.GitDir, l.CommonDir))
		}
	}
	return files, nil
}

// configFiles records all files, and returns the first refusal.
func (a *answer) configFiles(files []string) (refused error) {
	for _, p := range files {
		if _, err := a.configFile(p); err != nil && refused == nil {
			refused = err
		}
	}
	return refused
}

// configFile records a configuration file, and reports whether it exists. It refuses one that would
// block git, or take long to read.
func (a *answer) configFile(p string) (there bool, err error) {
	if slices.Contains(a.controls.Config, p) {
		return false, nil
	}
	if err := a.add(&a.controls.Config, p); err != nil {
		return false, err
	}
	switch s := a.look(p); {
	case s.absent() || s.target().err == syscall.EACCES || isDevNull(p):
		return false, nil
	case s.target().err != 0:
		return false, fmt.Errorf("git: %.300q: %w", p, s.target().err)
	case !s.regular():
		return false, fmt.Errorf("git: %.300q is read as configuration and is not a regular file: %w", p, ErrGitLayout)
	case s.target().Size > maxGitConfig:
		return false, fmt.Errorf("git: %.300q has more than %d bytes of configuration: %w", p, maxGitConfig, ErrGitLayout)
	}
	return true, nil
}

func isDevNull(p string) bool {
	fi, err := os.Stat(p)
	null, nullErr := os.Stat(os.DevNull)
	return err == nil && nullErr == nil && os.SameFile(fi, null)
}

// tidy cleans an absolute path if that changes nothing, now and later: ".." after a symlink is not
// lexical, and a command can replace any directory by one, except those above fixed.
func tidy(p string, fixed ...string) string {
	for i, name := 0, ""; i < len(p); i += len(name) + 1 {
		name, _, _ = strings.Cut(p[i:], "/")
		if name == ".." {
			dir := filepath.Clean("/" + p[:i])
			fi, err := os.Lstat(dir)
			if err != nil || !fi.IsDir() || !slices.ContainsFunc(fixed, func(f string) bool { return paths.Inside(dir, f) }) {
				return p
			}
		}
	}
	return filepath.Clean(p)
}
