//go:build unix

package workspace

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/gitindex"
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

// Inspect looks at a repository that a command has made, perhaps to deceive: what cannot be
// understood is unclear, and no clear case is made of it.
func (w *Workspace) Inspect(ctx context.Context, dir string, as *User) (i Inspection) {
	l, err := GitDirs(dir)
	switch {
	case err != nil:
		i.unclear(err)
		return i
	case l.Kind == "":
		i.unclear(errors.New("git: most of the repository is elsewhere, or gone"))
		return i
	}
	now := w.gitActions(ctx, dir, l, as)
	maps.DeleteFunc(now.Hooks, func(name, _ string) bool { return filepath.IsAbs(name) }) // the user's settings name them, or keys
	i = now.since(&Acts{}, false)
	for _, file := range l.configurations() {
		if _, err := ReadNoSymlinks(file, maxGitConfig); !errors.Is(err, fs.ErrNotExist) {
			i.unclear(err)
		}
	}
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

// GitActions is what a git acts on, outside of a sandbox, in repositories, and how each
// looks, by their git directories: to be compared with what it is later.
type GitActions map[string]Acts

// Acts are those of one repository.
type Acts struct {
	Path                string            // of its work tree; for a submodule that has none the git directory
	Hooks               map[string]string // and other files and directories that settings name
	Keys                map[string]string // settings, and what is included, by the values
	Alternates, Unclear string
}

// MaxGitActions is how many repositories an Acting has: each costs some milliseconds.
const MaxGitActions = 256

// GitActions asks git what it acts on in those directories, and in the repositories
// of submodules that are cloned there, as Obeyed asks it. layout is GitDirs, or
// remembers what it said.
func (w *Workspace) GitActions(ctx context.Context, layout func(dir string) (GitLayout, error), dirs []string, as *User) GitActions {
	found := GitActions{}
	add := func(path string, l GitLayout) {
		if _, ok := found[l.GitDir]; !ok && len(found) < MaxGitActions {
			found[l.GitDir] = w.gitActions(ctx, path, l, as)
		}
	}
	var submodules []string
	for _, dir := range dirs {
		switch l, err := layout(dir); {
		case err != nil && isGone(dir): // a command has removed it
		case err != nil:
			found[dir] = Acts{Path: dir, Unclear: err.Error()}
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

func (w *Workspace) gitActions(ctx context.Context, path string, l GitLayout, as *User) Acts {
	found := Acts{Path: path, Hooks: map[string]string{}, Keys: map[string]string{}, Alternates: Looks(join(l.CommonDir, "objects/info/alternates"))}
	look := func(name, p string) {
		if s := stampOf(p); s.regular() || s.directory() {
			found.Hooks[name] = Looks(p)
		}
	}
	own := slices.DeleteFunc(l.configurations(), func(file string) bool {
		_, err := ReadNoSymlinks(file, maxGitConfig)
		return err != nil
	})
	for _, user := range slices.Compact([]*User{nil, as}) {
		a := w.ask(ctx, path, l, user)
		if a.controls.Failed != nil {
			found.Unclear = a.controls.Failed.Error()
		}
		for _, s := range a.settings {
			// What a command can write is of the repository, or included.
			if useOf(s.key) == 0 || slices.Contains([]string{"system", "global", "command"}, s.scope) {
				continue
			}
			name := s.key
			if !slices.Contains(own, s.file) {
				name = s.file // it can be one that commands cannot read
			}
			found.Keys[name] = digest(found.Keys[name] + s.key + "\x00" + s.value)
		}
		for _, dir := range a.controls.Hooks {
			s, own := stampOf(dir), dir == join(l.CommonDir, "hooks")
			switch {
			case own && s.directory() && !s.symlink():
				names, _ := hookNames(dir) // why not is in Failed
				for _, name := range names {
					if s := stampOf(join(dir, name)); s.regular() && s.target().Mode&0o111 != 0 {
						found.Hooks[name] = Looks(join(dir, name))
					}
				}
			case own: // the names in it can be of what commands cannot read
				look("hooks", dir)
			default:
				look(dir, dir)
			}
		}
		for _, p := range a.controls.NamedFiles {
			look(p, p)
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

// Both gives what looked so another time, too.
func (a Acts) Both(other Acts) Acts {
	same := func(mine, others map[string]string) map[string]string {
		mine = maps.Clone(mine)
		maps.DeleteFunc(mine, func(name, look string) bool { was, ok := others[name]; return !ok || was != look })
		return mine
	}
	a.Hooks, a.Keys = same(a.Hooks, other.Hooks), same(a.Keys, other.Keys)
	if a.Alternates != other.Alternates {
		a.Alternates = ""
	}
	if a.Unclear != other.Unclear {
		a.Unclear = ""
	}
	return a
}

// Since gives what is new, or looks otherwise than before, by the directories of
// the repositories; with unclear also what is as little understood as it was before.
func (a GitActions) Since(before GitActions, unclear bool) map[string]Inspection {
	since := map[string]Inspection{}
	for dir, now := range a {
		was := before[dir]
		if i := now.since(&was, unclear); len(i.Hooks)+len(i.Keys) > 0 || i.Alternates || i.Unclear != "" {
			since[now.Path] = i
		}
	}
	return since
}

func (now *Acts) since(was *Acts, unclear bool) Inspection {
	i := Inspection{Hooks: changed(now.Hooks, was.Hooks), Keys: changed(now.Keys, was.Keys), Alternates: now.Alternates != "" && now.Alternates != was.Alternates}
	if now.Unclear != "" && (unclear || now.Unclear != was.Unclear) {
		i.unclear(errors.New(now.Unclear))
	}
	i.cap()
	for _, list := range [...][]string{i.Hooks, i.Keys} {
		for n, name := range list {
			list[n] = clip(name, maxKey)
		}
	}
	return i
}

// Pending tells what git would go on with in repositories, by its paths: what they are in the middle
// of, whose lists of what to do next can name commands, and indexes, which name files.
type Pending map[string]Operation

// Operation is how one of them looks.
type Operation struct {
	Look   string // of an index with the configuration by which git reads it
	Common string // of an index: the directory of that configuration
	Many   bool   // others share it, of which not all are known
}

// Add looks for what is under way in a repository, and in those of its worktrees
// that can be written with it, and adds it to p.
func (p Pending) Add(l GitLayout) {
	if l.GitDir == "" {
		return
	}
	dirs, err := l.writableGitDirs()
	if err != nil {
		p[join(l.CommonDir, "worktrees")] = Operation{Look: "too many"} // and what is in there is not known
	}
	config := Looks(join(l.CommonDir, "config"))
	for _, dir := range dirs {
		// By the last one git writes resolved conflicts to the files that it names; it stays, without any.
		for _, name := range [...]string{"rebase-merge", "rebase-apply", "sequencer", "MERGE_RR"} {
			state := join(dir, name)
			if p[state].Look == "" {
				if look := Looks(state); look != "" {
					p[state] = Operation{Look: look}
				}
			}
		}
		shared := sharedIndexes(dir)
		for _, path := range append(shared, join(dir, "index")) {
			look, many := Looks(path), len(shared) == maxShared
			if many || look != "" {
				p[path] = Operation{look + config, l.CommonDir, many}
			}
		}
	}
}

// Since lists what is under way now and was not, or was at another point, before.
func (p Pending) Since(before Pending) []string {
	return slices.DeleteFunc(changed(p, before), func(path string) bool { return p[path].Common != "" })
}

const maxIndex = 64 << 20 // of some 600,000 files

// Misplaced says which indexes of git's are others than before and name files that git, on the
// host, would write outside of the work tree or into a git directory, or may.
func (p Pending) Misplaced(before Pending) (said []string) {
	for path, now := range p {
		if now.Common != "" && (now.Many || now != before[path]) {
			said = append(said, misplaced(path, hashSize(now.Common), true)...)
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
	left := maxLinked
	for _, dir := range dirs {
		links, all := LinksIn(dir, &left, func(p string) bool {
			name, _, _ := strings.Cut(strings.TrimPrefix(p, dir+"/"), "/")
			return name == "logs" || name == "info" || name == "rr-cache"
		}, nil)
		slices.Sort(links)
		for _, p := range links {
			said = append(said, fmt.Sprintf("git: %.300q is a symlink, and git writes to what it leads to", p))
		}
		if !all {
			return append(said, fmt.Sprintf("git: there are more than %d entries in %.300q", maxLinked, dir))
		}
	}
	return said
}

// LinksIn gives the symlinks in a directory, and in those in it that enter has looked at, what is
// nearest first; all says that there are no others. It looks at no more entries than are left, and
// gives each regular file to file, if that is not nil.
func LinksIn(dir string, left *int, enter func(p string) bool, file func(e fs.DirEntry)) (links []string, all bool) {
	for dirs := []string{dir}; len(dirs) > 0; dirs = dirs[1:] {
		f, err := os.OpenFile(dirs[0], os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
		if err != nil {
			continue // there is none, or it is hidden, or a link and said to be
		}
		entries, err := f.ReadDir(*left + 1)
		f.Close()
		if *left -= len(entries); *left < 0 || err != nil && err != io.EOF {
			return links, false
		}
		slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
		for _, e := range entries {
			switch p := join(dirs[0], e.Name()); {
			case e.Type() == fs.ModeSymlink:
				links = append(links, p)
			case e.IsDir() && enter(p):
				dirs = append(dirs, p)
			case e.Type().IsRegular() && file != nil:
				file(e)
			}
		}
	}
	return links, true
}

// Looks tells a file, or a directory with all that is in it, from itself before a change; it is
// "" for what is not there, or empty. The path itself can be a symlink. Of a directory the first 1,000 files count, those that are
// nearest to it first, and of their texts 16 MiB.
func Looks(path string) string {
	if s := stampWithin(path, 0); !s.symlink() && s.absent() {
		return ""
	}
	b := sha256.New()
	var text int64 = maxLooks << 14
	for list, n := []string{path}, 0; len(list) > 0 && n < maxLooks; n++ {
		at := list[0]
		list = list[1:]
		s := stampWithin(at, min(text, maxGitConfig))
		if s.text != [sha256.Size]byte{} {
			text -= s.target().Size
		}
		fmt.Fprintf(b, "%q%v", at, s)
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
	return hex.EncodeToString(b.Sum(nil))
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

const maxLooks = 1000
