package review

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/gitindex"
	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/paths"
)

// maxGitFiles is the size of all configurations, indexes and packed refs of one tree that are read, in
// bytes, and maxGitFile that of one. A command can make a large one of holes.
const (
	maxGitFiles = 256 << 20
	maxGitFile  = 64 << 20
	maxConfig   = 1 << 20 // of a configuration
)

// indexKey is the path of an index as a key in JSON, whatever bytes it has.
func indexKey(p string) string { return fmt.Sprintf("%+q", p) }

// What git on the host would do by a change.
const (
	obeys      = "git outside of a sandbox acts on it"
	readsOther = "git outside of a sandbox reads other objects, or another history, by it" // in the place of its objects
	goesOn     = "git outside of a sandbox goes on with it: what is listed there can be commands"
	repository = "a repository: git outside of a sandbox acts on its hooks and its configuration"
	// passesOver is the reason to refuse a change that makes git use another repository than now.
	passesOver = "git would pass over the repository, and take one that lies around it"
	// actsOn is the reason to refuse what would become a submodule's repository. git 2.39 enters none
	// through a symlink; other versions may.
	actsOn = "git status in the repository around it would act on it"
)

// roles are the names in a git directory by which git, or a program for it, knows what lies there, with
// all beneath it, and the note on what is made or changed there.
var roles = map[string]string{
	"objects": "", "refs": "", "logs": "", "info": "", "worktrees": "", "modules": "", "lfs": "", "svn": "", "annex": "", "reftable": "", "lost-found": "", "NOTES_MERGE_WORKTREE": "",
	"hooks": obeys, "config": obeys, "config.worktree": obeys, "commondir": obeys, "gitdir": obeys, "info/attributes": obeys, "remotes": obeys, "branches": obeys,
	"rr-cache": obeys, "gitweb": obeys, "pid": obeys, "lazygit.yml": obeys, "sl": obeys,
	"shallow": readsOther, "info/grafts": readsOther, "refs/replace": readsOther,
	"rebase-merge": goesOn, "rebase-apply": goesOn, "sequencer": goesOn, "BISECT_START": goesOn, "BISECT_NAMES": goesOn,
}

// roleOf returns the longest name in roles that covers a path in a git directory; "" if there is none.
func roleOf(in string) (role, note string) {
	first, rest, _ := strings.Cut(in, "/")
	second, _, _ := strings.Cut(rest, "/")
	for _, one := range [...]string{first, first + "/" + second} { // a path can have two thousand names
		if n, ok := roles[one]; ok {
			role, note = one, n
		}
	}
	if role == "hooks" && path.Ext(in) == ".sample" {
		note = ""
	}
	return role, note
}

// maxNested is how many git directories can lie around a path: a change is judged in each. A command can
// put two thousand of them into one another.
const maxNested = 16

// A gitDir is a directory that git can take for a git directory before or after changes. Any change of
// a command can make a directory one, of any name.
type gitDir struct {
	path string
	was  bool // before
}

// in is the path in the git directory of one that lies there.
func (d gitDir) in(full string) string { return strings.TrimPrefix(full, d.path+"/") }

// sight describes a path of the host, before or after changes.
type sight func(full string) (Node, error)

// A picture is how git on the host sees files before and after changes. One path can lie in several git
// directories, such as a branch in a directory of refs that looks like one: it has a role in each, and
// a change is judged in each.
type picture struct {
	review        *Review
	before, after sight
	rules         *Rules
	known         map[string][]gitDir // see around
	linked        map[string]bool     // work trees whose index was read
	links         []string            // the host's gitlinks
	unread        []string            // work trees of the host whose gitlinks cannot be read
	submodules    map[string]bool     // see ofSubmodule; nil until needed
	noted         map[string]bool     // host paths with a note
}

// at returns the deepest layer around a path of the host, and the path in it; -1 if there is none.
func (r *Review) at(full string) (layer int, p string) {
	layer, source := -1, ""
	for i, t := range r.trees {
		if paths.Inside(t.source, full) && len(t.source) > len(source) {
			layer, source = i, t.source
		}
	}
	return layer, path.Join(".", strings.TrimPrefix(full, source))
}

// sight returns a function that describes a path of the host, in its layer or on the disk.
func (r *Review) sight(in func(layer int, p string) (Node, error)) sight {
	return func(full string) (n Node, err error) {
		if layer, p := r.at(full); layer >= 0 {
			return in(layer, p)
		}
		if st, err := hostpath.Lstat(full); err == nil {
			n = nodeOf(&st)
			n.Target, _ = os.Readlink(full)
		}
		return n, nil
	}
}

func (look sight) has(full string) bool {
	n, err := look(full)
	return err != nil || n.Kind != Absent
}

// isGitDir reports whether git accepts a directory as a git directory, whatever its HEAD has, or lists it
// as that of a worktree: git worktree repair writes to where its gitdir says.
func (look sight) isGitDir(dir string) bool {
	return look.has(dir+"/HEAD") && (look.has(dir+"/commondir") || look.has(dir+"/objects") && look.has(dir+"/refs")) ||
		path.Base(path.Dir(dir)) == "worktrees" && look.has(dir+"/gitdir")
}

// around returns the git directories that contain what lies in a directory, the outermost first.
func (g *picture) around(dir string) []gitDir {
	list, ok := g.known[dir]
	if ok {
		return list
	}
	if dir != "/" {
		list = g.around(path.Dir(dir))
	}
	if g.before.has(dir+"/.git") && !strings.Contains(dir, "/.git/") { // a work tree of the host, which can lie in a bare repository
		g.addLinks(dir)
		list = slices.DeleteFunc(slices.Clone(list), func(one gitDir) bool {
			role, _ := roleOf(one.in(dir))
			return role == ""
		})
	}
	if was := g.before.isGitDir(dir); len(list) < maxNested && (was || path.Base(dir) == ".git" || g.after.isGitDir(dir)) {
		list = append(slices.Clip(list), gitDir{dir, was})
	}
	g.known[dir] = list
	return list
}

// home returns the git directory to which a file belongs, and its path there; "" if there is none. A
// review could put another repository around one of the host, or into its objects, so it is the
// outermost one that knows the path, of those that the host has first.
func (g *picture) home(full string) (dir gitDir, in string) {
	dirs := g.around(path.Dir(full))
	for _, was := range [...]bool{true, false} {
		for _, one := range dirs {
			in := one.in(full)
			if role, _ := roleOf(in); one.was == was && role != "" && role != "modules" && role != "worktrees" {
				return one, in
			}
		}
	}
	if len(dirs) == 0 {
		return gitDir{}, ""
	}
	dir = dirs[len(dirs)-1]
	return dir, dir.in(full)
}

// store is the directory of the host with git's objects around a path; "" if there is none.
func (g *picture) store(full string) string {
	dir, in := g.home(full)
	if objects(in) && (dir.was || path.Base(dir.path) == ".git") && g.before.has(dir.path+"/objects") {
		return dir.path + "/objects"
	}
	return ""
}

// takesObject reports whether a change deletes or replaces an object of a repository that stays. An
// object's name is the hash of its contents; one that nothing needs does no harm, and the host may
// need it by now.
func (g *picture) takesObject(c *Change, full string) bool {
	store := g.store(full)
	if store == "" || c.Old.Kind == Absent || c.New.Kind == Directory && c.Op != Mode {
		return false
	}
	if n, err := g.after(path.Dir(store)); err == nil && n.Kind != Directory {
		return false
	}
	// info/ has no objects, and git makes it anew.
	return c.Op == Deleted || c.Op == Modified && c.Old.Kind == c.New.Kind && !under(store+"/info", full)
}

// unmakes reports whether a change makes a git directory of the host invalid while it stays, or one that
// does not share what another has.
func (g *picture) unmakes(c *Change, full string) bool {
	dir, needed := path.Dir(full), uint32(0o100)
	switch path.Base(full) {
	case "HEAD", "commondir":
		needed = 0o400
	case "objects", "refs":
	default:
		dir = full
	}
	switch {
	case c.Op == Added || !g.before.isGitDir(dir):
		return false
	case c.Op == Deleted:
		return dir != full && g.after.has(dir)
	case dir != full && c.Old.Kind != c.New.Kind:
		return true
	}
	return c.Old.Mode&needed != 0 && c.New.Mode&needed == 0
}

// judge refuses a change, or adds a note, by what git on the host would do after it.
func (g *picture) judge(c *Change, full string) {
	if c.New.Kind == Symlink {
		c.Refused = cmp.Or(c.Refused, refusedLink(g.review.trees[c.layer].source, full, c.New.Target, g.after, g.rules))
	}
	dirs := g.around(path.Dir(full))
	refused := ""
	switch {
	case len(dirs) == maxNested:
		refused = "git directories that lie in too many others"
	case g.unmakes(c, full):
		refused = passesOver
	case c.Op != Deleted && c.New.Size > 0 && gitindex.AppliedByCommit(path.Base(full)):
		refused = "the next git commit would write files by it"
	case c.Op == Deleted || c.Op == Mode && !strings.Contains(full, "/hooks/"):
		return
	case strings.HasSuffix(full, "/info/alternates"):
		refused = "git would take objects from where it says"
	case c.Op == Modified && c.Old.Kind != c.New.Kind && g.store(full) != "":
		refused = "it takes the place of git's objects"
	case c.New.Kind == Symlink && len(dirs) > 0:
		// It writes its messages and logs to the link's target, such as its configuration.
		refused = "a symlink in a git directory: git would write to what it leads to"
	case c.New.Kind == Fifo && len(dirs) > 0:
		refused = "a pipe in a git directory: git would wait for it, or read what a command writes later"
	case c.New.Kind == Symlink && slices.ContainsFunc(g.links, func(one string) bool {
		return paths.Inside(full, one) && g.after.has(g.after.follow(one+"/.git"))
	}):
		refused = actsOn
	}
	if path.Base(full) == ".git" {
		dirs = append(slices.Clip(dirs), gitDir{full, false})
	}
	for _, dir := range dirs {
		in, at := dir.in(full), full
		role, note := roleOf(in)
		hook := strings.HasPrefix(in, "hooks/") && note != "" // on each: a person may look at only one
		if !dir.was && g.ofSubmodule(dir.path) {
			refused = cmp.Or(refused, actsOn)
		}
		if note == goesOn {
			at = path.Join(dir.path, role)
		} else if !dir.was && !hook {
			note, at = repository, dir.path
			if full != at && path.Dir(full) != at { // it can seem to be said of a repository in that one
				note += ", in " + hostpath.Quote(at)
			}
		}
		if note != "" && cmp.Or(c.Refused, refused) == "" && !g.noted[at] {
			if g.noted[at] = true; c.Note != "" && c.Note != note {
				note = c.Note + "; " + note
			}
			c.Note = note
		}
	}
	c.Refused = cmp.Or(c.Refused, refused)
}

// ofSubmodule reports whether a git directory is that of a gitlink of the host, or will be: its .git, or
// what that leads to.
func (g *picture) ofSubmodule(dir string) bool {
	if g.submodules == nil {
		g.submodules = map[string]bool{}
		for _, one := range g.links {
			for _, at := range [...]string{g.after.follow(one) + "/.git", g.after.follow(one + "/.git"), g.after.gitDirOf(one)} {
				g.submodules[at] = true
			}
		}
	}
	return g.submodules[dir] || paths.InsideAny(g.unread, path.Dir(path.Dir(dir)))
}

// gitDirOf returns where the .git of a work tree leads. Only the host's text counts: a new one is judged
// by itself.
func (look sight) gitDirOf(top string) string {
	at := look.follow(top + "/.git")
	text, _ := readRegular(at, maxConfig)
	if to, ok := strings.CutPrefix(string(text), "gitdir: "); ok {
		return look.follow(pointer(path.Dir(at), to))
	}
	return at
}

// pointer is the path that a file of git in a directory names. No path is longer than the kernel's, and
// each of its names would cost time.
func pointer(dir, text string) string {
	switch text = strings.TrimRight(text, "\r\n"); {
	case len(text) >= unix.PathMax:
		return "/"
	case path.IsAbs(text):
		return text
	}
	return dir + "/" + text
}

// follow returns the path to which one leads.
func (look sight) follow(full string) string {
	end, _, err := paths.Follow("/", full, func(p string, _ bool) (paths.Step, error) {
		n, err := look(p)
		return paths.Step{Missing: n.Kind == Absent, Target: n.Target}, err
	}, nil)
	if err != nil {
		return full
	}
	return end
}

// addLinks adds the gitlinks of a work tree of the host. Those of the review's directories are known.
func (g *picture) addLinks(top string) {
	file := g.before.gitDirOf(top) + "/index"
	if in, p := g.review.at(top); in < 0 || p == "." || g.linked[top] || !g.before.has(file) {
		return
	}
	g.linked[top] = true
	var index gitindex.Index
	ok := false
	if layer, p := g.review.at(file); layer >= 0 {
		t := g.review.trees[layer].lower
		index, ok, _ = t.index(p, hashSize(p, t))
	} else { // of a worktree whose repository lies elsewhere
		text, _ := readRegular(file, maxGitFile)
		for _, hash := range [...]int{20, 32} {
			if !ok {
				index, ok = gitindex.Read(bytes.NewReader(text), int64(len(text)), hash)
			}
		}
	}
	if !ok {
		g.unread = append(g.unread, top)
	}
	for _, link := range index.Links {
		g.links = append(g.links, path.Join(top, link))
	}
}

// ofGit checks changes of git's own files, and drops those that delete objects, or that differ from the
// index by times only.
func (r *Review) ofGit(changes []Change) ([]Change, error) {
	g := r.git
	for _, c := range changes {
		g.around(path.Dir(path.Join(r.trees[c.layer].source, c.path))) // it finds all gitlinks
	}
	kept := changes[:0]
	for _, c := range changes {
		full := path.Join(r.trees[c.layer].source, c.path)
		if g.takesObject(&c, full) {
			continue
		}
		_, c.git = g.home(full)
		c.object = c.Op == Added && g.store(full) != ""
		if c.object && c.New.Kind == File && c.New.Mode&0o400 == 0 { // an apply makes a copy
			c.Refused = cmp.Or(c.Refused, "an object of git's that its owner cannot read")
		}
		if slices.Contains(g.rules.Configurations, full) {
			c.Refused = "git's configuration: git outside of a sandbox acts on it"
		}
		g.judge(&c, full)
		keep, err := true, error(nil)
		if c.Op != Deleted && c.New.Kind == File && c.Refused == "" {
			keep, err = g.readGit(&c, full)
		}
		if isShortage(err) {
			return nil, err
		} else if errors.Is(err, hostpath.ErrIrregular) {
			c.Refused = "a file of git that is too large to read, or too large together with others"
		} else if err != nil {
			c.Refused = "it cannot be read"
		}
		if keep || c.Refused != "" {
			kept = append(kept, c)
		}
	}
	return kept, nil
}

// readGit judges a change by the text of a file, if git obeys that. It reports whether the change is one.
func (g *picture) readGit(c *Change, full string) (keep bool, err error) {
	t, dir, base := g.review.trees[c.layer].upper, path.Dir(full), path.Base(full)
	ofHost := g.before.isGitDir(dir)
	if isIndex(c.git) || gitindex.IsIndexName(base) && t.begins(c.path, "DIRC") {
		return g.review.mergeIndex(c, dir, ofHost)
	}
	isRef := slices.ContainsFunc(g.around(dir), func(one gitDir) bool { return gitindex.MayBeRef(one.in(full)) })
	isHead := base == "HEAD" && c.Op == Modified && ofHost
	if !isRef && !isHead && base != "commondir" && base != "packed-refs" {
		return true, nil
	}
	text, err := t.read(c.path, maxGitFile)
	switch {
	case err != nil:
	case isHead && !gitindex.ValidHead(text):
		c.Refused = passesOver
	case isRef && gitindex.LeadsToNoRef(text):
		c.Refused = "a ref to a non-ref file: git would write to that file"
	case base == "commondir":
		if !g.after.isGitDir(g.after.follow(pointer(dir, string(text)))) {
			c.Refused = "it leads to no git directory" // a later review could make one there, and nobody would see that by its paths
		}
		_, err = g.after(full) // an error that is one of following, too: after that everything seems to be a git directory
	case base == "packed-refs" && gitindex.MayReplace(bytes.NewReader(text)):
		c.Note = cmp.Or(c.Note, readsOther)
	}
	return true, err
}

// mergeIndex reports whether the review's index differs from the workspace's old one. It clears a
// conflict if only times were written there since. dir is its git directory. ofHost says that the host
// has that: its index gets no new gitlink, because git status would act on the configuration that lies
// there. A new worktree, or another repository, gets none to a repository of the host.
func (r *Review) mergeIndex(c *Change, dir string, ofHost bool) (bool, error) {
	p := r.trees[c.layer]
	hash := hashSize(c.path, p.lower, p.upper)
	index, ok, err := p.upper.index(c.path, hash)
	var host gitindex.Index
	known := false
	if err == nil && c.Old.Kind == File {
		host, known, err = p.lower.index(c.path, hash)
	}
	if err != nil {
		return false, err
	}
	top := path.Dir(dir)
	if text, err := p.upper.read(path.Dir(c.path)+"/gitdir", maxConfig); err == nil {
		top = path.Dir(pointer(dir, string(text)))
	}
	added := slices.IndexFunc(index.Links, func(link string) bool {
		return !slices.Contains(host.Links, link) && (ofHost || r.git.before.has(r.git.before.follow(path.Join(top, link))+"/.git"))
	})
	switch {
	case !ok:
		c.Refused = "an index of git that is not understood"
	case index.Misplaced != "":
		c.Refused = fmt.Sprintf("git would write %.300q by it", index.Misplaced)
	case added >= 0:
		c.Refused = fmt.Sprintf("it makes %.300q a submodule: git status would act on its configuration", index.Links[added])
	}
	was, begun := r.rec.Layers[c.layer].Indexes[indexKey(c.path)]
	if c.Refused != "" || !known || !begun {
		return true, nil
	}
	if host.Entries == string(was) {
		c.Conflict = ""
	}
	return index.Entries != string(was) && index.Entries != host.Entries, nil
}

// openGit opens a file of git, if it has at most limit bytes, and it and those that were opened before
// are not too large.
func (t *tree) openGit(p string, limit int64) (*hostpath.RegularFile, error) {
	f, err := t.file(p, min(limit, maxGitFiles-t.ofGit))
	if err == nil {
		t.ofGit += f.Size()
	}
	return f, err
}

// read returns a file of git; see openGit.
func (t *tree) read(p string, limit int64) ([]byte, error) {
	f, err := t.openGit(p, limit)
	if err != nil {
		return nil, err
	}
	defer f.File.Close()
	return io.ReadAll(f)
}

// index reads an index; ok says that it is understood. If not, it is empty.
func (t *tree) index(p string, hash int) (index gitindex.Index, ok bool, err error) {
	f, err := t.openGit(p, maxGitFile)
	if err != nil {
		return index, false, err
	}
	defer f.File.Close()
	if index, ok = gitindex.Read(f, f.Size(), hash); !ok {
		index = gitindex.Index{}
	}
	return index, ok, nil
}

// begins reports whether a file begins with these bytes.
func (t *tree) begins(p, with string) bool {
	f, err := t.file(p, math.MaxInt64)
	if err != nil {
		return false
	}
	defer f.File.Close()
	b := make([]byte, len(with))
	_, err = io.ReadFull(f, b)
	return err == nil && string(b) == with
}

// hashSize is the size of the hashes in an index, from its repository's configuration in the trees,
// or in the first one's place on the host; 0 if unknown.
func hashSize(index string, trees ...*tree) (size int) {
	dirs := []string{path.Dir(index)}
	if path.Base(path.Dir(path.Dir(path.Join(trees[0].path, index)))) == "worktrees" { // perhaps a worktree's
		dirs = append(dirs, path.Join(dirs[0], "../.."))
	}
	for _, dir := range dirs {
		for i, t := range trees {
			config, err := []byte(nil), fs.ErrNotExist
			if at := path.Join(dir, "config"); !strings.HasPrefix(at, "../") {
				config, err = t.read(at, maxConfig)
			} else if i == 0 {
				config, err = readRegular(path.Join(t.path, at), maxConfig) // another workspace's command can have made it
			}
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			of := gitindex.HashSize(string(config))
			if err != nil || of == 0 || size != 0 && of != size {
				return 0
			}
			size = of
		}
	}
	return cmp.Or(size, gitindex.HashSize(""))
}
