//go:build unix

package workspace

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/gitindex"
	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/paths"
)

// Acts has the state of each thing that git outside of a sandbox acts on in a repository, for a later
// comparison. The key describes the thing, and begins with one of these words.
type Acts map[string]string

const (
	actsOnHook    = "hook "
	actsOnSetting = "setting " // the key; if commands may be unable to read its file, the file
	actsOnFile    = "file "    // a file or directory that a setting names
	actsOnState   = "state "   // a file that git would continue by or use: see AddPending
	actsOnIndex   = "index "   // the state ends with the directory of the configuration by which git reads it
	actsUnclear   = "unclear " // the reason
	actsUses      = "uses "    // the directory; the state is which repository git uses there
)

// GitActions has, for each git directory, what git acts on in that repository. A command can remove the
// work tree of a submodule, and change the git directory that stays.
type GitActions map[string]ActsAt

// ActsAt are the Acts of one repository.
type ActsAt struct {
	Path string // of its work tree, or of the git directory of a submodule without one
	On   Acts
}

// GitActions asks git, as GitControls does, what it acts on in some directories, which a command may have
// made to deceive, and in their cloned submodules. layout is GitDirs, or a cache of it. If GitDirs rejects
// a repository, it names nothing in a git directory that commands cannot read. Elsewhere it names no file
// that they cannot read, except configurations. It takes the bytes that it reads from left.
func (w *Workspace) GitActions(ctx context.Context, layout func(dir string) (GitLayout, error), readable func(path string) bool, dirs []string, as *User, left *Budget) GitActions {
	found := GitActions{}
	add := func(path string, l GitLayout) {
		if found[l.GitDir].On == nil && len(found) < MaxGitActions {
			found[l.GitDir] = ActsAt{path, w.gitActions(ctx, path, l, readable, as, left)}
		}
	}
	var submodules []string
	for _, dir := range dirs {
		switch l, err := layout(dir); {
		case err != nil && isGone(dir): // a command has removed it
		case err != nil && len(found) < MaxGitActions:
			unclear := actsUnclear + err.Error()
			on := Acts{unclear: ""}
			for _, l := range PointedLayouts(dir) {
				acts := w.gitActions(ctx, dir, l, readable, as, left)
				for _, what := range slices.Sorted(maps.Keys(acts)) {
					name := what
					if !readable(l.GitDir) || !readable(l.CommonDir) {
						name = unclear // a command can point to any repository, and keys can have a password
					}
					on[name] = digest(on[name] + what + acts[what])
				}
			}
			found[dir] = ActsAt{dir, on}
		case l.GitDir != "":
			add(dir, l)
			submodules = append(submodules, l.modules()...)
		}
	}
	for _, dir := range submodules {
		add(dir, GitLayout{GitDir: dir, CommonDir: dir})
	}
	return found
}

func isGone(p string) bool {
	_, err := hostpath.Lstat(p)
	return err == unix.ENOENT
}

func (w *Workspace) gitActions(ctx context.Context, path string, l GitLayout, readable func(path string) bool, as *User, left *Budget) Acts {
	found := Acts{}
	for _, name := range [...]string{"info/attributes", "remotes", "branches"} { // they choose among settings, or are some
		found.add(actsOnFile, paths.Join(l.CommonDir, name), left)
	}
	hooks := paths.Join(l.CommonDir, "hooks")
	if s := stampWithin(hooks, 0); s.directory() && !s.symlink() {
		names, _ := hookNames(hooks) // Failed says why not
		for _, name := range names {
			if s := stampWithin(paths.Join(hooks, name), 0); s.regular() && s.end.Mode&0o111 != 0 {
				found[actsOnHook+name] = Fingerprint(paths.Join(hooks, name), left)
			} else { // what a hook may read or run
				found.add(actsOnFile, paths.Join(hooks, name), left)
			}
		}
	} else { // not the names in it: a symlink can lead to a directory that commands cannot read
		found.add(actsOnHook, hooks, left)
	}
	for _, user := range slices.Compact([]*User{nil, as}) {
		a := w.ask(ctx, path, l, user, true)
		if a.controls.Failed != nil { // a command may have caused it before it changes something else
			unclear := actsUnclear + a.controls.Failed.Error()
			found[unclear] = Fingerprint(hooks, left)
			for _, file := range l.configurations() {
				found[unclear] += Fingerprint(file, left)
			}
		}
		ownHooks := false
		for _, s := range a.settings {
			// Commands can write the repository's settings and included files.
			if useOf(s.key, s.value) == 0 || s.scope != "" && s.scope != "local" {
				continue
			}
			name := s.key
			if s.scope == "" {
				name = s.file // commands may be unable to read it
			}
			what := actsOnSetting + name
			found[what] = digest(found[what] + s.key + "\x00" + s.value)
			ownHooks = ownHooks || s.key == "core.hookspath"
		}
		for _, c := range a.controls.Files {
			// The state of a directory of hooks has its hooks; commands may be unable to list it.
			hook := c.Description == controlHooks && c.File
			what := actsOnFile
			if c.Description == controlHooks && !ownHooks && paths.Inside(path, c.Path) { // no setting tells of them in a new repository
				what = actsOnHook
			}
			if c.Path != hooks && c.Description != controlConfig && !hook && readable(c.Path) { // a hidden configuration can name others
				found.add(what, c.Path, left)
			}
		}
	}
	return found
}

// A Change has the things on which git acts in a repository, and did not before, or in another state.
type Change struct {
	ActsOn  []string // descriptions
	Unclear []string // why git may act on more
	Other   string   // the repository that git uses there now, if it used another one before
}

// Since returns the changes, by repository; with unclear, also reasons that were known before.
func (a GitActions) Since(before GitActions, unclear bool) map[string]Change {
	since := map[string]Change{}
	for dir, now := range a {
		if change := now.On.Since(before[dir].On, unclear, nil); len(change.ActsOn)+len(change.Unclear) > 0 {
			since[now.Path] = change
		}
	}
	return since
}

// Since returns the changes. before is nil for a repository that did not exist. For a changed index, it
// returns why the index is dangerous, if it is, and takes the bytes that it reads from left. Reasons that
// begin with a path, as those of an invalid .git do, come first.
func (a Acts) Since(before Acts, unclear bool, left *Budget) (change Change) {
	for _, what := range slices.Sorted(maps.Keys(a)) {
		reason, isReason := strings.CutPrefix(what, actsUnclear)
		path, isIndex := strings.CutPrefix(what, actsOnIndex)
		uses, now := strings.HasPrefix(what, actsUses), a[what]
		switch was, known := before[what]; {
		case known && was == now && !(unclear && isReason), uses && !known:
		case uses:
			change.Other = now
			change.Unclear = append(change.Unclear, fmt.Sprintf("git: git now uses another repository there: %s, and before %s", now, was))
		case isReason:
			change.Unclear = append(change.Unclear, reason)
		case isIndex:
			_, common, _ := strings.Cut(now, "\x00")
			i, err := readIndex(path, common, &left.indexes)
			if err != nil {
				change.Unclear = append(change.Unclear, fmt.Sprintf("git: %v", err))
			} else if i.Misplaced != "" {
				change.Unclear = append(change.Unclear, fmt.Sprintf("git: %.300q names %.300q, and git would write that file outside of the work tree or into a git directory", path, i.Misplaced))
			}
		// In a new repository, other settings name the files, which need no report of their own, and git clone
		// sets the URL.
		case before != nil || !strings.HasPrefix(what, actsOnFile) && !(strings.HasPrefix(what, actsOnSetting+"remote.") && strings.HasSuffix(what, ".url")):
			change.ActsOn = append(change.ActsOn, what)
		}
	}
	return change
}

// Unclear adds reasons why git may act on more.
func (a Acts) Unclear(reasons ...string) {
	for _, reason := range reasons {
		a[actsUnclear+reason] = ""
	}
}

// Uses sets which repository git uses in a directory.
func (a Acts) Uses(dir, repository string) { a[actsUses+dir] = repository }

// Alternates is the file of a git directory that names directories with further objects.
const Alternates = "objects/info/alternates"

// AddPending adds what git would continue or use in a repository, and in its worktrees and submodules if
// commands can write their git directories: operations in progress, whose lists of next steps can name
// commands; Alternates; replaced objects; files of lazygit, git instaweb and Sapling, which run what these name;
// and indexes, which name files. It takes the bytes that it reads from left.
func (a Acts) AddPending(l GitLayout, left *Budget) {
	if l.GitDir == "" {
		return
	}
	for _, dir := range l.modules() {
		a.AddPending(GitLayout{GitDir: dir, CommonDir: dir}, left)
	}
	dirs, err := l.writableGitDirs()
	if err != nil {
		a[actsOnState+paths.Join(l.CommonDir, "worktrees")] = unknown()
	}
	config := Fingerprint(paths.Join(l.CommonDir, "config"), left)
	for _, name := range [...]string{Alternates, "refs/replace", "shallow", "info/grafts", "lazygit.yml", "gitweb", "pid", "sl/config", "sl/config-git-repo", "sl/config-git-user"} {
		a.add(actsOnState, paths.Join(l.CommonDir, name), left)
	}
	if p := paths.Join(l.CommonDir, "rr-cache"); !isGone(p) {
		a[actsOnState+p] = "exists" // its existence alone makes git use it; its content is the user's at each conflict
	}
	packed := paths.Join(l.CommonDir, "packed-refs")
	f, err := openLarge(packed, &left.indexes)
	if err != nil || gitindex.MayReplace(f) {
		a.add(actsOnState, packed, left) // git may read another object in the place of one
	}
	if err == nil {
		f.File.Close()
	}
	for _, dir := range dirs {
		for _, name := range gitindex.Unfinished {
			a.add(actsOnState, paths.Join(dir, name), left)
		}
		for _, path := range sharedIndexes(dir) {
			a.add(actsOnState, path, left)
		}
		if look := Fingerprint(paths.Join(dir, "index"), left); look != "" {
			a[actsOnIndex+paths.Join(dir, "index")] = look + config + "\x00" + l.CommonDir
		}
	}
}

// add adds an existing path, unless it is an empty directory: git init makes some, and git replace -d leaves
// refs/replace.
func (a Acts) add(what, path string, left *Budget) {
	if HasOnly(path, "") {
		return
	}
	if look := Fingerprint(path, left); look != "" && a[what+path] == "" {
		a[what+path] = look
	}
}

// A Budget is the number of bytes that one look at the machine may still read: a command makes large
// sparse files, and many links to one, in no time.
type Budget struct {
	fingerprints int64 // for Fingerprint
	indexes      int64 // for indexes, also for changed ones once more, and for packed refs
}

const (
	maxIndex              = 64 << 20 // bytes, some 600,000 files
	maxIndexes      int64 = 512 << 20
	maxFingerprints int64 = 16 << 20
)

// NewBudget returns a whole budget.
func NewBudget() *Budget { return &Budget{maxFingerprints, maxIndexes} }

// readIndex reads an index, and takes its size from left. A missing one has no entries. An error says that
// git may read the index in another way.
func readIndex(path, commonDir string, left *int64) (i gitindex.Index, err error) {
	config, err := hostpath.ReadNoSymlinks(paths.Join(commonDir, "config"), maxGitConfig)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return i, err
	}
	f, err := openLarge(path, left)
	if errors.Is(err, fs.ErrNotExist) {
		return i, nil
	} else if err != nil {
		return i, err
	}
	defer f.File.Close()
	i, ok := gitindex.ReadAgain(path, f, f.Size(), gitindex.HashSize(string(config)))
	if !ok {
		return i, fmt.Errorf("%.300q is not understood", path)
	}
	return i, nil
}

// openLarge opens an index, or packed refs. It takes their size from left.
func openLarge(path string, left *int64) (*hostpath.RegularFile, error) {
	if *left < maxIndex && !isGone(path) {
		return nil, fmt.Errorf("%.300q: all indexes together have more than %d bytes: %w", path, maxIndexes-maxIndex, ErrGitLayout)
	}
	fd, err := hostpath.OpenNoSymlinks(path, hostpath.Reading, 0)
	f, err := hostpath.Regular(fd, err, path, maxIndex)
	if err == nil {
		*left -= f.Size()
	}
	return f, err
}

// modules returns the git directories of submodules that commands can write. The submodules need not be
// checked out.
func (l GitLayout) modules() []string {
	return slices.DeleteFunc(slices.Clone(l.Writable), func(dir string) bool { return !paths.Inside(paths.Join(l.GitDir, "modules"), dir) })
}

// writableGitDirs returns a repository's git directory, the common one, in which commands can begin
// operations, and those of its worktrees that commands can write too.
func (l GitLayout) writableGitDirs() ([]string, error) {
	dirs := slices.Compact([]string{l.GitDir, l.CommonDir})
	worktrees, err := subdirectories(paths.Join(l.CommonDir, "worktrees"))
	return append(dirs, slices.DeleteFunc(worktrees, func(dir string) bool { return dir == l.GitDir || slices.Contains(l.Protected, dir) })...), err
}

// maxLinked bounds the entries of a git directory that AddLinks looks at: of its refs, of its logs, and
// of the rest.
const maxLinked = 10_000

// AddLinks adds, as reasons, links in the repository's git directories and those of its submodules,
// refs that lead to what is no ref, and listed worktrees that are something else. Git writes its messages,
// logs and index through a link to a file. Through a link to a directory it writes and deletes files: git
// gc empties the target of a link in worktrees, and packs the refs in the target of a link in refs. known
// has the reasons by directory: worktrees share the common one, but have other submodules.
func (a Acts) AddLinks(l GitLayout, known map[string]Acts) {
	a.Unclear(l.strayWorktrees...)
	for _, dir := range append([]string{l.CommonDir}, l.modules()...) {
		if known[dir] == nil && dir != "" {
			known[dir] = linksOf(dir)
		}
		maps.Copy(a, known[dir])
	}
}

// linksOf returns the reasons of AddLinks for one git directory.
func linksOf(dir string) Acts {
	found := Acts{}
	for _, part := range [...]string{"", "refs", "logs"} { // many refs use up no other part's entries
		left, top := maxLinked, filepath.Join(dir, part)
		links, all := LinksIn(top, &left, func(p string) bool { return part != "" || entersGit(dir, p) }, func(p string) {
			if (part == "refs" || gitindex.MayBeRef(strings.TrimPrefix(p, dir+"/"))) && gitindex.LeadsToNoRef(hostpath.Beginning(p, gitindex.MaxHead)) { // read again each time: no time shows a write through a mapping (see stampWithin)
				found.Unclear(fmt.Sprintf("git: %.300q is a ref to a non-ref file, and git writes to that file: %q", p, hostpath.Beginning(p, gitindex.MaxHead)))
			}
			// These git does not write in place, and objects of a clone have several names.
			own, _, _ := strings.Cut(strings.TrimPrefix(p, dir+"/"), "/")
			if !slices.Contains([]string{"objects", "refs", "lfs", "annex"}, own) && stateOf(unix.Lstat, p).Nlink > 1 {
				found.Unclear(fmt.Sprintf("git: %.300q is a hard link, and git writes to the file, which has other names", p))
			}
		})
		for _, p := range links { // one that led elsewhere before is told again, also if what it leads to is a symlink now
			found[actsUnclear+fmt.Sprintf("git: %.300q is a symlink, and git writes to what it leads to", p)], _, _ = hostpath.Follow("/", p, func(string) {}, nil)
		}
		if !all {
			found[actsUnclear+fmt.Sprintf("git: there are more than %d entries in %.300q", maxLinked, top)] = unknown()
		}
	}
	return found
}

// unknown returns a state that equals no other, for a file that nobody looked at: a command may have
// changed it.
func unknown() string { return fmt.Sprint(time.Now().UnixNano()) }

// entersGit reports whether linksOf enters a subdirectory of a git directory. It enters neither hooks,
// which are protected, nor the directories of single objects, where git only makes and removes files.
func entersGit(gitDir, p string) bool {
	in := strings.TrimPrefix(p, gitDir+"/")
	if objects, _ := filepath.Match("objects/??", strings.TrimPrefix(in, "lfs/")); objects {
		return false
	}
	switch first, _, below := strings.Cut(in, "/"); first {
	case "hooks", "refs", "logs":
		return false
	case "modules":
		return !below || isGitDir(p, p) != nil // AddLinks looks at each submodule by itself
	}
	return true
}

// LinksIn returns the symlinks in a directory, and in subdirectories that enter accepts, the
// nearest first; all says that there are no others. It looks at *left entries at most, and calls
// file for each regular file.
func LinksIn(dir string, left *int, enter func(p string) bool, file func(p string)) (links []string, all bool) {
	for dirs := []string{dir}; len(dirs) > 0; dirs = dirs[1:] {
		entries, err := readDir(dirs[0], unix.O_NOFOLLOW, *left)
		if err != nil && !errors.Is(err, fs.ErrPermission) { // commands can make none in a hidden directory
			return links, false
		}
		*left -= len(entries)
		for _, e := range entries {
			switch p := paths.Join(dirs[0], e.Name); {
			case e.Kind == unix.DT_LNK:
				links = append(links, p)
			case e.Kind == unix.DT_DIR && enter(p):
				dirs = append(dirs, p)
			case e.Kind == unix.DT_REG:
				file(p)
			}
		}
	}
	return links, true
}

// Fingerprint returns a text that differs after a change of a file, or of anything in a directory; "" if the
// path is missing. The path itself may be a symlink. It takes the bytes that it reads from left, and 512
// for each file. When nothing is left, only size, inode and times of a file count, and a directory counts
// as changed. So does a directory with more than 1,000 files.
func Fingerprint(path string, left *Budget) string {
	if s := stampWithin(path, 0); !s.symlink() && s.absent() {
		return ""
	}
	b := sha256.New()
	for queue, n := []string{path}, 0; len(queue) > 0 && (n == 0 || left.fingerprints > 0); n++ {
		at := queue[0]
		queue = queue[1:]
		s := stampWithin(at, min(max(left.fingerprints, 0), maxGitConfig))
		if left.fingerprints -= 512; s.hasText() {
			left.fingerprints -= s.end.Size
		}
		fmt.Fprintf(b, "%q%v", at, s)
		flag := 0
		if n > 0 {
			flag = unix.O_NOFOLLOW // the target of a link there has no bounds
		}
		entries, _ := readDir(at, flag, maxFiles)
		spaceLeft := maxFiles - 1 - n - len(queue)
		for _, e := range entries[:min(len(entries), spaceLeft)] { // the queue holds no more: a path can be long
			queue = append(queue, paths.Join(at, e.Name))
		}
		if len(queue) > 0 && left.fingerprints <= 0 || len(entries) > spaceLeft {
			fmt.Fprint(b, unknown())
		}
	}
	return fmt.Sprintf("%x", b.Sum(nil))
}

func digest(text string) string {
	return fmt.Sprintf("%x", sha256.Sum256([]byte(text)))
}

// maxFiles is how many files of a directory Fingerprint looks at.
const maxFiles = 1000
