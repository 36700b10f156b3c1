//go:build unix

package workspace

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/gitindex"
	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/paths"
)

// GitDirs finds the git directories of the project root, an absolute path. It reads .git and what
// that points to, and runs no git.
//
// It does not trust the workspace's own files: a .git file can point anywhere, and commands will
// see the result. So the target must be a git directory, and a target outside of the root must
// point back at this root. A worktree's does so through its gitdir file, and must lie in its common
// directory. A submodule's does so through core.worktree, from inside a repository's modules
// directory. Everything else is an error that wraps ErrGitLayout; then show nothing. Without .git
// the layout is the zero value; with an error it has Pointers alone.
//
// A command may write what belongs to worktrees in the root, or in the directories of writable,
// because they are its own. Of other worktrees it may read all and write nothing.
func GitDirs(projectRoot string, writable ...string) (GitLayout, error) {
	var l GitLayout
	top, err := filepath.EvalSymlinks(projectRoot)
	if err == nil {
		l.addPointer(paths.Join(top, ".git"), dotGitPrefix, top)
		l.GitDir, l.CommonDir, err = gitDirs(top)
	}
	if err == nil && l.GitDir != "" {
		err = l.fill(top, append([]string{top}, writable...))
	}
	if err != nil {
		return GitLayout{Pointers: l.Pointers}, fmt.Errorf("git: %w", quotedPath(err))
	}
	return l, nil
}

// addPointer adds the path in a file of git to Pointers.
func (l *GitLayout) addPointer(file, prefix, from string) {
	if p, err := pathIn(file, prefix, from); err == nil {
		l.Pointers = append(l.Pointers, tidy(p, from))
	}
}

// gitDirs returns the directories of the repository with its work tree at top.
func gitDirs(top string) (gitDir, common string, err error) {
	dotGit := paths.Join(top, ".git")
	fi, err := os.Lstat(dotGit)
	switch gitDir = dotGit; {
	case err == nil && fi.Mode().IsRegular():
		if gitDir, err = targetIn(dotGit, dotGitPrefix, top); err != nil {
			return "", "", err
		}
		if common, err = pointedTo(top, gitDir); err != nil {
			err = fmt.Errorf("%q points to %q: %w", dotGit, gitDir, err)
		}
		return gitDir, common, err
	case HasOnly(dotGit, ""):
		if gitDir = top; !MayBeBare(top) {
			return "", "", nil
		}
	case err != nil:
		return "", "", err
	case !fi.IsDir():
		return "", "", fmt.Errorf("%q is neither a directory nor a file; replace it by one: %w", dotGit, ErrGitLayout)
	}
	return gitDir, gitDir, isGitDir(gitDir, gitDir)
}

// PointedLayouts returns the repositories that git on the host may use in a work tree if GitDirs rejects
// it: .git, or the directory to which it leads as a symlink or file, and top itself. A command may have
// written all files that name them.
func PointedLayouts(top string) (list []GitLayout) {
	add := func(dir string) {
		common, err := targetIn(paths.Join(dir, "commondir"), "", dir)
		if err != nil {
			common = dir
		}
		list = append(list, GitLayout{GitDir: dir, CommonDir: common})
	}
	if MayBeBare(top) {
		add(top)
	}
	at, err := filepath.EvalSymlinks(paths.Join(top, ".git"))
	if fi, statErr := os.Lstat(at); err == nil && statErr == nil && !fi.IsDir() {
		at, err = targetIn(at, dotGitPrefix, top) // git resolves a relative path from there, whatever link leads to the file
	}
	if err == nil {
		add(at)
	}
	return list
}

// pointedTo checks that gitDir, which top's .git file names, belongs to top.
func pointedTo(top, gitDir string) (common string, err error) {
	if hasCommonDir(gitDir) {
		// It must lie in the repository: else one that the workspace made could name any repository.
		if common, err = commonAround(gitDir); err != nil {
			return "", err
		}
		dir, err := recordedTop(gitDir)
		if err == nil && dir != top {
			err = fmt.Errorf("which is the worktree at %q and not this workspace; run git worktree repair after a move: %w", dir, ErrGitLayout)
		}
		return common, err
	}
	if err := isGitDir(gitDir, gitDir); err != nil {
		return "", err
	}
	separate := gitDir != top && paths.Inside(top, gitDir)
	if !separate && (paths.Inside(gitDir, top) || !inModules(gitDir) || workTreeOf(gitDir) != top) {
		return "", fmt.Errorf("which is no git directory of this workspace: it is neither below the directory of that .git, nor a worktree's, nor that of a submodule whose core.worktree names this workspace: %w", ErrGitLayout)
	}
	return gitDir, nil
}

// OfWorktree reports whether git would make gitDir for a worktree: its repository is around it.
func OfWorktree(gitDir string) bool {
	_, err := commonAround(gitDir)
	return err == nil
}

// commonAround returns the common directory of a worktree's git directory, which lies in it, as
// <common>/worktrees/<id>.
func commonAround(gitDir string) (string, error) {
	common, err := targetIn(paths.Join(gitDir, "commondir"), "", gitDir)
	if err != nil {
		return "", err
	}
	worktrees := filepath.Dir(gitDir)
	if filepath.Base(worktrees) != "worktrees" || filepath.Dir(worktrees) != common {
		return "", fmt.Errorf("whose commondir %q is not the repository around it: %w", common, ErrGitLayout)
	}
	if err := isGitDir(gitDir, common); err != nil {
		return "", err
	}
	return common, isGitDir(common, common)
}

// recordedTop returns the resolved directory of a worktree, as the worktree's git directory records it.
// It need not exist.
func recordedTop(gitDir string) (string, error) {
	back, err := pathIn(paths.Join(gitDir, "gitdir"), "", gitDir)
	if err != nil {
		return "", err
	}
	if filepath.Base(back) != ".git" {
		return "", fmt.Errorf("whose gitdir file names %q, which is not a .git: %w", back, ErrGitLayout)
	}
	return resolved(filepath.Dir(back)), nil // not .git, which may not be a symlink
}

// worktreeTop returns the directory that a worktree's git directory records, or "", and whether its .git
// leads back: another .git is that of another repository, and git worktree repair replaces it.
func worktreeTop(gitDir string) (recorded string, exists bool) {
	recorded, err := recordedTop(gitDir)
	if err != nil {
		return "", false
	}
	back, err := targetIn(paths.Join(recorded, ".git"), dotGitPrefix, recorded)
	return recorded, err == nil && back == gitDir
}

// inModules reports whether p lies in the modules directory of a git directory.
func inModules(p string) bool {
	for dir := range paths.Up(filepath.Dir(p)) {
		if filepath.Base(dir) == "modules" && validHead(paths.Join(filepath.Dir(dir), "HEAD")) {
			return true
		}
	}
	return false
}

// fill fills in the lists. It reads directories and decides nothing.
func (l *GitLayout) fill(top string, commandDirs []string) error {
	gitDir, common, dotGit := l.GitDir, l.CommonDir, paths.Join(top, ".git")
	switch {
	case paths.Inside(top, common):
		l.addWritable(gitDir)
	case paths.Inside(common, top):
		// Worktrees inside a bare repository: to show all of it would put the workspace and its
		// siblings under a read-only tree.
		writable := []string{"objects", "refs", "logs", "reftable", "lfs", "rr-cache"}
		for _, name := range append(writable, "HEAD", "config", "packed-refs", "shallow", "info", "hooks", "worktrees") {
			p := paths.Join(common, name)
			if fi, err := os.Lstat(p); err == nil && (fi.IsDir() || fi.Mode().IsRegular()) && !paths.Inside(p, top) {
				l.Readable = append(l.Readable, p)
			}
		}
		l.addWritable(gitDir)
		for _, name := range writable {
			l.addWritable(paths.Join(common, name))
		}
	default:
		l.Readable = append(l.Readable, common)
		l.addWritable(common)
	}
	if gitDir != top {
		if gitDir != dotGit {
			l.Protected = append(l.Protected, dotGit)
		}
		l.addPresent(top, ".gitmodules")
	}
	l.protect(gitDir)
	l.addSubmodules(gitDir, commandDirs)
	if gitDir != common {
		l.addPointer(paths.Join(gitDir, "commondir"), "", gitDir)
		l.Protected = append(l.Protected, paths.Join(gitDir, "gitdir"))
		l.protect(common)
		if main := mainTop(common); !paths.InsideAny(commandDirs, main) {
			l.addConfigured(main, common)
			l.addPresent(common, worktreeState[:]...)
		}
	}
	if err := l.addWorktrees(common, commandDirs); err != nil {
		return err
	}
	dirs, _ := l.writableGitDirs()
	l.Split = slices.ContainsFunc(append(dirs, l.modules()...), func(dir string) bool { return len(sharedIndexes(dir)) > 0 })
	return nil
}

// worktreeState lists the parts of a git directory that belong to its worktree alone. The reflog of
// HEAD does too, but git gc rewrites it from any worktree.
var worktreeState = [...]string{
	"HEAD", "index", "ORIG_HEAD", "MERGE_HEAD", "MERGE_MODE", "MERGE_MSG", "MERGE_AUTOSTASH", "AUTO_MERGE", "SQUASH_MSG",
	"CHERRY_PICK_HEAD", "REVERT_HEAD", "REBASE_HEAD", "rebase-merge", "rebase-apply", "sequencer",
	"BISECT_LOG", "BISECT_START", "BISECT_TERMS", "BISECT_NAMES", "refs/bisect", "refs/worktree", "refs/rewritten",
	"info/sparse-checkout",
}

// sharedIndexes returns the files that the index of a worktree uses with core.splitIndex. If the
// directory has too many entries to list, it returns the directory itself.
func sharedIndexes(gitDir string) (shared []string) {
	entries, err := readDir(gitDir, 0, maxGitEntries)
	for _, e := range entries {
		if strings.HasPrefix(e.Name, "sharedindex.") {
			shared = append(shared, paths.Join(gitDir, e.Name))
		}
	}
	if err != nil {
		return []string{gitDir}
	}
	return shared
}

// mainTop returns the main worktree of a common directory; the common directory itself in a bare
// repository.
func mainTop(common string) string {
	if top := workTreeOf(common); top != "" {
		return top
	}
	if filepath.Base(common) == ".git" {
		return filepath.Dir(common)
	}
	return common
}

// workTreeOf returns the work tree that the configuration of a git directory names, or "". It may not
// exist.
func workTreeOf(gitDir string) string {
	config, err := hostpath.ReadNoSymlinks(paths.Join(gitDir, "config"), maxGitConfig)
	worktree := parseCoreWorktree(config)
	if err != nil || worktree == "" {
		return ""
	}
	return resolved(absoluteIn(gitDir, worktree))
}

// addPresent adds the names that exist.
func (l *GitLayout) addPresent(dir string, names ...string) {
	for _, name := range names {
		p := paths.Join(dir, name)
		if _, err := hostpath.Lstat(p); err == nil {
			l.Present = append(l.Present, p)
		}
	}
}

// protect adds ObeyedInGitDir, and the repositories of submodules: commands cannot make any; addSubmodules
// opens existing ones.
func (l *GitLayout) protect(gitDir string) {
	for _, name := range append(ObeyedInGitDir[:], "modules") {
		l.Protected = append(l.Protected, paths.Join(gitDir, name))
	}
	if filepath.Base(gitDir) != ".git" { // git run inside it finds it as the top
		l.Protected = append(l.Protected, paths.Join(gitDir, ".git"))
	}
}

// configurations returns the files of the repository's own configuration.
func (l *GitLayout) configurations() []string {
	if l.GitDir == "" {
		return nil
	}
	return slices.Compact([]string{paths.Join(l.CommonDir, "config"), paths.Join(l.CommonDir, "config.worktree"), paths.Join(l.GitDir, "config.worktree")})
}

// addSubmodules adds the repositories of cloned submodules in a git directory, recursively. Those
// beyond maxModules are as protected as the directory around them.
func (l *GitLayout) addSubmodules(gitDir string, commandDirs []string) {
	dirs := []string{paths.Join(gitDir, "modules")}
	looked, found := 0, 0
	for len(dirs) > 0 {
		dir := dirs[0]
		dirs = dirs[1:]
		entries, err := subdirectories(dir)
		// A command can make any number of directories where git no longer accepts a git directory.
		if looked += len(entries); err != nil || looked > maxGitEntries {
			return
		}
		for _, p := range entries {
			if isGitDir(p, p) != nil {
				dirs = append(dirs, p) // a submodule's name with a slash
				if end := resolved(p); end != p && isGitDir(end, end) == nil {
					l.protect(p) // git follows links
				}
				continue
			}
			if found++; found > maxModules || l.addWorktrees(p, commandDirs) != nil {
				return
			}
			l.addWritable(p)
			l.protect(p)
			l.fixContents(paths.Join(p, "config"))
			dirs = append(dirs, paths.Join(p, "modules"))
		}
	}
}

// fixContents adds a configuration to FixedContents, if it sets core.worktree in git's format.
func (l *GitLayout) fixContents(file string) {
	data, err := hostpath.ReadNoSymlinks(file, maxGitConfig)
	if err != nil || parseCoreWorktree(data) == "" {
		return
	}
	var kept []byte
	for line := range bytes.Lines(data) {
		if key, _, ok := bytes.Cut(line, []byte("=")); !ok || !strings.EqualFold(string(bytes.TrimSpace(key)), "worktree") || bytes.HasSuffix(line, []byte("\\\n")) {
			kept = append(kept, line...)
		}
	}
	if parseCoreWorktree(kept) == "" {
		if l.FixedContents == nil {
			l.FixedContents = map[string][]byte{}
		}
		l.FixedContents[file] = kept
	}
}

// maxModules is the number of submodules to which commands can commit: each needs a dozen mounts.
const maxModules = 32

// addWorktrees protects other worktrees of a repository: git there would follow a changed commondir. A
// git inside that cannot see their directories would take them for stale, and remove their git
// directories if it could write them.
func (l *GitLayout) addWorktrees(common string, commandDirs []string) error {
	worktrees, err := subdirectories(paths.Join(common, "worktrees"))
	for _, other := range worktrees {
		top, exists := worktreeTop(other)
		switch {
		case exists:
			l.worktrees = append(l.worktrees, top)
			l.addPointer(paths.Join(other, "commondir"), "", other)
			l.addPointer(paths.Join(top, ".git"), dotGitPrefix, top)
		case top != "" && isGone(top):
			l.Lost = append(l.Lost, top)
		case top != "":
			l.strayWorktrees = append(l.strayWorktrees, fmt.Sprintf("git: %.300q lists the worktree %.300q, which is another repository, or none", other, top))
		default: // git understands more forms of that file
			l.strayWorktrees = append(l.strayWorktrees, fmt.Sprintf("git: which worktree %.300q lists is not understood", other))
		}
		switch {
		case other == l.GitDir:
		case exists && paths.InsideAny(commandDirs, top):
			l.Protected = append(l.Protected, paths.Join(other, "commondir"), paths.Join(other, "gitdir"), paths.Join(other, "config.worktree"))
		default:
			l.Protected = append(l.Protected, other)
			l.OtherWorktrees = append(l.OtherWorktrees, other)
			if exists {
				l.addConfigured(top, other)
			} else if isGitDir(other, common) == nil {
				l.away = append(l.away, other)
			}
		}
	}
	return err
}

// addConfigured adds the top of a worktree to Configured, if it has a configuration, or submodules, which
// have one. A stub is empty.
func (l *GitLayout) addConfigured(top, gitDir string) {
	if fi, err := os.Lstat(paths.Join(gitDir, "config.worktree")); err == nil && fi.Size() > 0 || !HasOnly(paths.Join(gitDir, "modules"), "") {
		l.Configured = append(l.Configured, top)
	}
}

// levelCost is the number of bytes that each level of a submodule's path takes from Budget.indexes: in
// no time, a command names ten thousand submodules in a hundred directories each, and the host walks to
// each several times.
const levelCost = 4 << 10

// WorkTrees returns the work trees of the repository with one at top. It takes the size of the index,
// and levelCost for the levels of submodules, from left.
func (l GitLayout) WorkTrees(top string, left *Budget) (w WorkTrees) {
	w.Worktrees = slices.Clone(l.worktrees)
	if main := mainTop(l.CommonDir); main != l.CommonDir { // a bare one has none
		w.Worktrees = append(w.Worktrees, main)
	}
	index, err := readIndex(paths.Join(l.GitDir, "index"), l.CommonDir, &left.indexes)
	w.All = err == nil
	links := index.Links
	if modules, err := hostpath.ReadNoSymlinks(paths.Join(top, ".gitmodules"), maxGitConfig); err == nil {
		links = append(links, configValues(modules, "path", func(section string) bool { return strings.HasPrefix(strings.ToLower(section), "submodule") })...)
	}
	add := func(p string) {
		list := &w.Submodules
		_, _, _ = hostpath.Follow(top, strings.TrimPrefix(strings.TrimPrefix(p, top), "/"), func(string) { list = &w.Linked }, nil)
		if p != top && paths.Inside(top, p) {
			*list = append(*list, p)
		}
	}
	for _, link := range links {
		levels := strings.Count(link, "/")
		if !filepath.IsLocal(link) || levels >= gitindex.MaxDepth {
			continue
		}
		if left.indexes -= int64(levels+1) * levelCost; left.indexes < 0 {
			w.All = false
			break
		}
		add(filepath.Join(top, link))
	}
	for _, dir := range l.modules() {
		add(l.submodule(top, dir))
	}
	return w
}

// submodule returns the work tree of one of modules. It may not exist.
func (l GitLayout) submodule(top, dir string) string {
	// git submodule deinit removes the setting; a submodule's name is mostly its path
	return cmp.Or(workTreeOf(dir), filepath.Join(top, strings.ReplaceAll(strings.TrimPrefix(dir, paths.Join(l.GitDir, "modules")+"/"), "/modules/", "/")))
}

// addWritable adds dir if it is a directory and no symlink, which would show its target.
func (l *GitLayout) addWritable(dir string) {
	if fi, err := os.Lstat(dir); err == nil && fi.IsDir() {
		l.Writable = append(l.Writable, dir)
	}
}

// subdirectories returns the paths of a directory's subdirectories, and of links; none if it is missing or
// not a directory. If it has more than maxGitEntries entries, it also returns an error.
func subdirectories(dir string) (list []string, err error) {
	entries, err := readDir(dir, 0, maxGitEntries)
	for _, e := range entries {
		if e.Kind == unix.DT_DIR || e.Kind == unix.DT_LNK {
			list = append(list, paths.Join(dir, e.Name))
		}
	}
	return list, err
}
