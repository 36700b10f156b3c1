//go:build unix

package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/gitindex"
)

const (
	maxNamed = 20  // names in each list of an Inspection
	maxKey   = 200 // bytes of one configuration key
)

// An Inspection is what a git that is run in a repository, outside of a sandbox,
// would act on. Names are as they are in the repository: quote them.
type Inspection struct {
	Hooks      []string // executable files in its hooks directory, the first 20
	Keys       []string // of its configuration, that name commands or lead elsewhere, the first 20
	More       int      // hooks and keys beyond those
	Alternates bool     // it takes objects from elsewhere
	Unclear    string   // why it is not known what else there is; "" if it is
}

// Inspect looks at the repository in dir, which a command may have made to
// deceive: what cannot be understood is unclear, and no clear case is made of it.
// Git is asked what the configuration says, as the caller or as that user; the
// configuration is read for it, so that it opens nothing.
func (w *Workspace) Inspect(ctx context.Context, dir string, as *User) (i Inspection) {
	l, err := GitDirs(dir)
	switch {
	case err != nil:
		i.unclear(err)
		l.CommonDir = join(dir, ".git")
		if fi, err := os.Lstat(l.CommonDir); err != nil || !fi.IsDir() {
			return i
		}
	case l.Kind == "":
		i.unclear(errors.New("git: most of the repository is elsewhere, or gone"))
		return i
	}
	i.Hooks, err = executable(join(l.CommonDir, "hooks"))
	i.unclear(err)
	g := w.gitAs(as)
	files := []string{join(l.CommonDir, "config"), join(l.CommonDir, "config.worktree")}
	if l.GitDir != "" && l.GitDir != l.CommonDir {
		files = append(files, join(l.GitDir, "config.worktree"))
	}
	for _, file := range files {
		data, err := readNoSymlinks(file, maxGitConfig)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var keys []string
		if err == nil {
			keys, err = g.keys(ctx, data)
		}
		if err != nil {
			i.unclear(fmt.Errorf("git: %q: %w", file, err))
		}
		for _, key := range keys {
			if short := clip(key, maxKey); useOf(key) != 0 && !slices.Contains(i.Keys, short) {
				i.Keys = append(i.Keys, short)
			}
		}
	}
	_, err = os.Lstat(join(l.CommonDir, "objects/info/alternates"))
	i.Alternates = err == nil
	i.cap()
	return i
}

// cap leaves the first of each list.
func (i *Inspection) cap() {
	for _, list := range []*[]string{&i.Hooks, &i.Keys} {
		if n := len(*list); n > maxNamed {
			i.More += n - maxNamed
			*list = slices.Clone((*list)[:maxNamed])
		}
	}
}

func (i *Inspection) unclear(err error) {
	if err != nil && i.Unclear == "" {
		i.Unclear = clip(strings.Map(func(r rune) rune {
			if !unicode.IsPrint(r) {
				return '?'
			}
			return r
		}, err.Error()), 1000)
	}
}

// clip is the beginning of s.
func clip(s string, limit int) string {
	if len(s) > limit {
		return s[:limit] + "..."
	}
	return s
}

// executable lists the hooks that git would run. A directory that is a link
// would list the names of another one.
func executable(dir string) (hooks []string, err error) {
	switch fi, err := os.Lstat(dir); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("git: %w", err)
	case !fi.IsDir():
		return nil, fmt.Errorf("git: %q is no directory: %w", dir, ErrGitLayout)
	}
	names, err := hookNames(dir)
	for _, name := range names {
		if fi, err := os.Stat(join(dir, name)); err == nil && fi.Mode().IsRegular() && fi.Mode().Perm()&0o111 != 0 {
			hooks = append(hooks, name)
		}
	}
	return hooks, err
}

// keys asks for the keys of a configuration.
func (g *gitRunner) keys(ctx context.Context, data []byte) ([]string, error) {
	out, err := g.config(ctx, GitLayout{}, bytes.NewReader(data), "--no-includes", "-z", "--name-only", "--list", "--file", "-")
	if err != nil || len(out) == 0 {
		return nil, err
	}
	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"), nil
}

// Acting is what a git acts on, outside of a sandbox, in repositories, and how each
// looks, by their git directories: to be compared with what it is later.
type Acting map[string]acting

type acting struct {
	path       string            // of its work tree; for a submodule that has none the git directory
	hooks      map[string]stamp  // and other files that settings name
	keys       map[string]string // settings, and their values
	alternates stamp
	unclear    error
}

// MaxActing is how many repositories an Acting has: each costs some milliseconds.
const MaxActing = 256

// Acting asks git what it acts on in those directories, and in the repositories
// of submodules that are cloned there, as Obeyed asks it. layout is GitDirs, or
// remembers what it said.
func (w *Workspace) Acting(ctx context.Context, layout func(dir string) (GitLayout, error), dirs []string, as *User) Acting {
	found := Acting{}
	add := func(path string, l GitLayout) {
		if _, ok := found[l.GitDir]; !ok && len(found) < MaxActing {
			found[l.GitDir] = w.acting(ctx, path, l, as)
		}
	}
	var submodules []string
	for _, dir := range dirs {
		switch l, err := layout(dir); {
		case err != nil && isGone(dir): // a command has removed it
		case err != nil:
			found[dir] = acting{path: dir, unclear: err}
		case l.GitDir != "":
			add(dir, l)
			submodules = append(submodules, l.Writable...)
		}
	}
	for _, dir := range submodules {
		if isGitDir(dir, dir) == nil {
			add(dir, GitLayout{Kind: gitBare, GitDir: dir, CommonDir: dir})
		}
	}
	return found
}

func isGone(p string) bool {
	_, err := os.Lstat(p)
	return errors.Is(err, fs.ErrNotExist)
}

func (w *Workspace) acting(ctx context.Context, path string, l GitLayout, as *User) acting {
	found := acting{path: path, hooks: map[string]stamp{}, keys: map[string]string{}, alternates: stampOf(join(l.CommonDir, "objects/info/alternates"))}
	for _, user := range slices.Compact([]*User{nil, as}) {
		a := w.ask(ctx, path, l, user)
		if a.obeyed.Failed != nil {
			found.unclear = a.obeyed.Failed
		}
		for _, s := range a.settings {
			// What a command can write is of the repository, or included.
			if useOf(s.key) != 0 && !slices.Contains([]string{"system", "global", "command"}, s.scope) {
				found.keys[s.key] += s.value + "\x00"
			}
		}
		for _, dir := range a.obeyed.Hooks {
			names, _ := hookNames(dir) // why not is in Failed
			for _, name := range names {
				p := join(dir, name)
				if dir != join(l.CommonDir, "hooks") {
					name = p // in the repository's own they go by their names
				}
				if s := stampOf(p); s.regular() && s.target().Mode&0o111 != 0 {
					found.hooks[name] = s
				}
			}
		}
		for _, p := range a.obeyed.Other {
			if s := stampOf(p); s.regular() {
				found.hooks[p] = s
			}
		}
	}
	return found
}

// changed lists what is new, or looks otherwise than before.
func changed[Look comparable](now, before map[string]Look) (names []string) {
	for name, look := range now {
		if was, ok := before[name]; !ok || was != look {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Since gives what is new, or looks otherwise than before, by the directories of
// the repositories; with unclear also what is as little understood as it was before.
func (a Acting) Since(before Acting, unclear bool) map[string]Inspection {
	since := map[string]Inspection{}
	for dir, now := range a {
		was := before[dir]
		i := Inspection{Hooks: changed(now.hooks, was.hooks), Keys: changed(now.keys, was.keys), Alternates: !now.alternates.absent() && now.alternates != was.alternates}
		if now.unclear != nil && (unclear || was.unclear == nil || now.unclear.Error() != was.unclear.Error()) {
			i.unclear(now.unclear)
		}
		i.cap()
		for _, list := range [...][]string{i.Hooks, i.Keys} {
			for n, name := range list {
				list[n] = clip(name, maxKey)
			}
		}
		if len(i.Hooks)+len(i.Keys) > 0 || i.Alternates || i.Unclear != "" {
			since[now.path] = i
		}
	}
	return since
}

// Pending tells what git would go on with in repositories, by its paths: what they are in the middle
// of, whose lists of what to do next can name commands, and indexes, which name files.
type Pending map[string]pending

type pending struct {
	look   string // of an index with the configuration by which git reads it
	common string // of an index: the directory of that configuration
	many   bool   // others share it, of which not all are known
}

// Add looks for what is under way in a repository, and in those of its worktrees
// that can be written with it, and adds it to p.
func (p Pending) Add(l GitLayout) {
	if l.GitDir == "" {
		return
	}
	dirs, err := l.writableGitDirs()
	if err != nil {
		p[join(l.CommonDir, "worktrees")] = pending{look: "too many"} // and what is in there is not known
	}
	config := stampOf(join(l.CommonDir, "config"))
	for _, dir := range dirs {
		// By the last one git writes resolved conflicts to the files that it names; it stays, without any.
		for _, name := range [...]string{"rebase-merge", "rebase-apply", "sequencer", "MERGE_RR"} {
			state := join(dir, name)
			if p[state].look == "" {
				if look := Looks(state); look != "" {
					p[state] = pending{look: look}
				}
			}
		}
		shared := sharedIndexes(dir)
		for _, path := range append(shared, join(dir, "index")) {
			file, many := stampOf(path), len(shared) == maxShared
			if many || !file.absent() {
				p[path] = pending{fmt.Sprint(file, config), l.CommonDir, many}
			}
		}
	}
}

// Since lists what is under way now and was not, or was at another point, before.
func (p Pending) Since(before Pending) []string {
	return slices.DeleteFunc(changed(p, before), func(path string) bool { return p[path].common != "" })
}

const maxIndex = 64 << 20 // of some 600,000 files

// Misplaced says which indexes of git's are others than before and name files that git, on the
// host, would write outside of the work tree or into a git directory, or may.
func (p Pending) Misplaced(before Pending) (said []string) {
	for path, now := range p {
		if now.common != "" && (now.many || now != before[path]) {
			said = append(said, misplaced(path, hashSize(now.common), true)...)
		}
	}
	slices.Sort(said)
	return said
}

// hashSize is that of a repository's hashes, 0 where it is not known.
func hashSize(commonDir string) int {
	config, err := readSmall(join(commonDir, "config"), maxGitConfig)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0
	}
	return gitindex.HashSize(string(config))
}

func misplaced(path string, hash int, split bool) []string {
	data, err := readSmall(path, maxIndex)
	i, ok := gitindex.Read(data, hash)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return []string{fmt.Sprintf("git: %v", err)}
	case !ok:
		return []string{fmt.Sprintf("git: %.300q is not understood", path)}
	case i.Misplaced != "":
		return []string{fmt.Sprintf("git: %.300q names %.300q, and git writes that file where this leads to", path, i.Misplaced)}
	case i.Base != nil && split:
		return misplaced(join(filepath.Dir(path), fmt.Sprintf("sharedindex.%x", i.Base)), hash, false)
	}
	return nil
}

// writableGitDirs are a repository's git directory and those of its worktrees that can be
// written with it.
func (l GitLayout) writableGitDirs() ([]string, error) {
	dirs := []string{l.GitDir}
	if l.Kind == gitWorktree {
		return dirs, nil // the others are read-only
	}
	worktrees, err := readSomeDir(join(l.CommonDir, "worktrees"), maxGitEntries)
	for _, name := range worktrees {
		if dir := join(l.CommonDir, "worktrees/"+name); !slices.Contains(l.Protected, dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs, err
}

// maxLinked is how many entries of git directories Links looks at.
const maxLinked = 10_000

// Links says which symlinks are in the place of what git writes: its messages, heads that
// it has fetched, logs, the index. Git follows each, and a command can put into some of
// them what is then written wherever the link leads to. Refs it writes by renaming, with
// nothing but a hash in them.
func (l GitLayout) Links() (said []string) {
	if l.GitDir == "" {
		return nil
	}
	dirs, err := l.writableGitDirs()
	if err != nil {
		said = append(said, err.Error())
	}
	if !slices.Contains(dirs, l.CommonDir) {
		dirs = append(dirs, l.CommonDir)
	}
	var look func(dir string, deep bool)
	left := maxLinked
	look = func(dir string, deep bool) {
		f, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
		if err != nil {
			return // there is none, or it is a link and said to be
		}
		entries, _ := f.ReadDir(left + 1)
		f.Close()
		if left -= len(entries); left < 0 {
			said = append(said, fmt.Sprintf("git: there are more than %d entries in %.300q", maxLinked, dir))
			return
		}
		slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
		for _, e := range entries {
			switch p := join(dir, e.Name()); {
			case e.Type() == fs.ModeSymlink:
				said = append(said, fmt.Sprintf("git: %.300q is a symlink, and git writes to what it leads to", p))
			case e.IsDir() && left > 0 && (deep || slices.Contains([]string{"logs", "info", "rr-cache"}, e.Name())):
				look(p, true)
			}
		}
	}
	for _, dir := range dirs {
		look(dir, false)
	}
	return said
}

// Looks tells a file, or a directory with all that is in it, from itself before a change; it is
// "" for what is not there, or empty. The path itself can be a symlink. Of a directory the first 1,000 files count, those that are
// nearest to it first, and of their texts 16 MiB.
func Looks(path string) string {
	if s := stampWithin(path, 0); !s.symlink() && s.absent() {
		return ""
	}
	var b strings.Builder
	var text int64 = maxLooks << 14
	for list, n := []string{path}, 0; len(list) > 0 && n < maxLooks; n++ {
		at := list[0]
		list = list[1:]
		s := stampWithin(at, min(text, maxGitConfig))
		if s.text != 0 {
			text -= s.target().Size
		}
		fmt.Fprintf(&b, "%q%v", at, s)
		flags := os.O_RDONLY | unix.O_DIRECTORY | unix.O_NONBLOCK
		if n > 0 {
			flags |= unix.O_NOFOLLOW // what links in there lead to has no bounds
		}
		f, err := os.OpenFile(at, flags, 0)
		if err != nil {
			continue // it is no directory
		}
		names, _ := f.Readdirnames(maxLooks)
		f.Close()
		slices.Sort(names)
		for _, name := range names {
			list = append(list, join(at, name))
		}
	}
	return b.String()
}

const maxLooks = 1000
