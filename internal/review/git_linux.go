package review

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/sbxhost/sbxhost/internal/gitindex"
	"github.com/sbxhost/sbxhost/internal/paths"
)

// maxGitFiles is the size of all configurations, indexes and packed refs of one tree that are read, in
// bytes, and maxGitFile that of one. A command can make a large one of holes.
const (
	maxGitFiles = 256 << 20
	maxGitFile  = 64 << 20
	maxConfig   = 1 << 20 // of a configuration or HEAD
)

var errLarge = errors.New("a file of git that is too large to read, or too large together with others")

// indexKey is the path of an index as a key in JSON, whatever bytes it has.
func indexKey(p string) string { return fmt.Sprintf("%+q", p) }

// annotate adds what a person should know of a change at a path of the host.
func (rules *Rules) annotate(c *Change, full string) {
	if c.New.Kind == Symlink && c.Refused == "" && rules.Above != nil {
		c.Refused = rules.Above(full)
	}
	if c.Op != Deleted && rules.IsGitControlled != nil && rules.IsGitControlled(full) {
		c.Note = "git outside of a sandbox acts on it"
	}
}

// ofGit checks changes of git's own files.
func (r *Review) ofGit(of *Comparison, changes []Change, rules *Rules) ([]Change, error) {
	source, layer := of.Root, of.Layer
	dirs := gitDirs{source, of.merged, of.Lower.Look, rules, map[string]string{}, nil, map[string]bool{}, map[string]bool{}, nil}
	r.git[layer] = dirs
	changes = dirs.keepObjects(changes)
	kept := changes[:0]
	for _, c := range changes {
		full := path.Join(source, c.Path)
		c.git = dirs.pathIn(full)
		store := dirs.store(full)
		c.object = c.Op == Added && store != "" && dirs.lower(store)
		if c.object && c.New.Kind == File && c.New.Mode&0o400 == 0 { // an apply makes a copy
			c.Refused = cmp.Or(c.Refused, "an object of git's that its owner cannot read")
		}
		var err error
		keep := true
		switch dirs.checkChange(&c, full); {
		case slices.Contains(rules.Configurations, full):
			c.Refused = "git's configuration: git outside of a sandbox acts on it"
		case c.Op == Modified && c.New.Kind == File && path.Base(full) == "HEAD" && isGitDir(path.Dir(full), dirs.lower):
			var head []byte
			if head, err = r.trees[layer].upper.read(c.Path, maxConfig); err == nil && !gitindex.ValidHead(head) {
				c.Refused = passesOver
			}
		case c.Op != Deleted && c.New.Kind == File && path.Base(full) == "packed-refs":
			var refs *io.SectionReader
			var done func()
			if refs, done, err = r.trees[layer].upper.openGit(c.Path, maxGitFile); err == nil && gitindex.MayReplace(refs) {
				c.Note = cmp.Or(c.Note, readsOther)
			}
			done()
		case c.Op != Deleted && c.New.Size > 0 && gitindex.AppliedByCommit(path.Base(full)):
			c.Refused = "the next git commit would write files by it"
		case c.Op != Deleted && c.New.Kind == File && (isIndex(c.git) || gitindex.IsIndexName(path.Base(full)) && r.trees[layer].upper.begins(c.Path, "DIRC")):
			keep, err = r.mergeIndex(layer, &c, isGitDir(path.Dir(full), dirs.lower))
		case c.Op != Deleted && c.New.Kind == File && gitindex.MayBeRef(c.git):
			var ref []byte
			if ref, err = r.trees[layer].upper.read(c.Path, maxGitFile); err == nil && gitindex.LeadsToNoRef(ref) {
				c.Refused = "a ref to a non-ref file: git would write to that file"
			}
		}
		if isShortage(err) {
			return nil, err
		} else if errors.Is(err, errLarge) {
			c.Refused = errLarge.Error()
		} else if err != nil {
			c.Refused = "it cannot be read"
		}
		if keep || c.Refused != "" {
			kept = append(kept, c)
		}
	}
	return kept, nil
}

// gitDirs are the git directories of a layer's review, or around it. Any change of a command can
// make a directory a git directory, of any name.
type gitDirs struct {
	root          string
	after, before func(path string) (Node, error) // the change
	rules         *Rules
	known         map[string]string // by directory of the host, the git directory around it
	submodules    []string          // the host's, and where these lead after the change; nil until needed
	noted         map[string]bool   // host paths with a note
	stores        map[string]bool   // whether git on the host has objects in this directory
	gone          map[string]bool   // deleted directories of the host, besides those that after lacks
}

// store is the directory of git's objects that contains a path of the host; "" if there is none. It
// uses the host's state: a review could make a repository no repository, or put another one into
// its objects. A branch or a submodule may have the name objects too.
func (g *gitDirs) store(full string) string {
	for at := 0; ; {
		i := strings.Index(full[at:]+"/", "/objects/")
		if i < 0 {
			return ""
		}
		dir := full[:at+i]
		at += i + len("/objects")
		is, ok := g.stores[dir]
		if !ok {
			is = path.Base(dir) == ".git" || isGitDir(dir, g.lower) && !strings.Contains(dir, "/.git/refs/")
			g.stores[dir] = is
		}
		if is {
			return full[:at]
		}
	}
}

// pathIn is the path of a file within its git directory; "" if it is in none.
func (g *gitDirs) pathIn(full string) string {
	dir := g.dirOf(path.Dir(full))
	if store := g.store(full); store != "" {
		dir = path.Dir(store)
	} else if dir == "" {
		return ""
	}
	return strings.TrimPrefix(full, dir+"/")
}

// keepObjects drops deletions of git's objects if the repository stays, and objects that both sides
// made: an object's name is the hash of its contents. An object that nothing needs does no harm,
// and the host may need it by now.
func (g *gitDirs) keepObjects(changes []Change) []Change {
	takes := g.takesObjects(changes)
	return slices.DeleteFunc(changes, func(c Change) bool { return takes(&c) })
}

// deletedDirs returns the directories of the host that changes delete.
func (g *gitDirs) deletedDirs(changes []Change) map[string]bool {
	gone := map[string]bool{}
	for _, c := range changes {
		if c.Old.Kind == Directory && c.New.Kind != Directory {
			gone[path.Join(g.root, c.Path)] = true
		}
	}
	return gone
}

// takesObjects finds the changes that delete objects of a repository that stays when all changes
// are applied.
func (g *gitDirs) takesObjects(changes []Change) func(*Change) bool {
	gone := g.deletedDirs(changes)
	return func(c *Change) bool {
		full := path.Join(g.root, c.Path)
		store := g.store(full)
		if store == "" || gone[path.Dir(store)] || c.Old.Kind == Absent || c.New.Kind == Directory && c.Op != Mode {
			return false
		}
		// info/ has no objects, and git makes it anew.
		return c.Op == Deleted || c.Op == Modified && c.Old.Kind == c.New.Kind && !under(store+"/info", full)
	}
}

// passesOver is the reason to refuse a change that makes git use another repository than now.
const passesOver = "git would pass over the repository, and take one that lies around it"

// unmakes reports whether a change at a path of the host makes a git directory invalid while it
// stays.
func (g *gitDirs) unmakes(c *Change, full string) bool {
	dir, needed := path.Dir(full), uint32(0o100)
	switch path.Base(full) {
	case "HEAD":
		needed = 0o400
	case "objects", "refs":
	default:
		dir = full
	}
	switch {
	case !isGitDir(dir, g.lower):
		return false
	case c.Op == Deleted:
		return dir != full && g.now(dir) && !g.gone[dir]
	case dir != full && c.Old.Kind != c.New.Kind:
		return true
	}
	return c.Old.Mode&needed != 0 && c.New.Mode&needed == 0
}

// checkChange checks what git on the host would do after a change at a path of the host.
func (g *gitDirs) checkChange(c *Change, full string) {
	if c.Refused == "" && c.Op != Added && g.unmakes(c, full) {
		c.Refused = passesOver
	}
	if c.Op == Deleted || c.Op == Mode && !strings.Contains(full, "/hooks/") {
		return
	}
	dir := g.dirOf(path.Dir(full))
	if path.Base(full) == ".git" {
		dir = full
	}
	refused, note, at := "", "", full
	switch in := strings.TrimPrefix(full, dir+"/"); {
	case strings.HasSuffix(full, "/objects/info/alternates"):
		refused = "git would take objects from where it says"
	case c.Old.Kind != Absent && c.Old.Kind != c.New.Kind && g.store(full) != "":
		refused = "it takes the place of git's objects"
	case dir == "":
	case c.New.Kind == Symlink && g.dirOf(path.Dir(full)) != "":
		// It writes its messages and logs to the link's target, such as its configuration.
		refused = "a symlink in a git directory: git would write to what it leads to"
	case c.New.Kind == Fifo && g.dirOf(path.Dir(full)) != "":
		refused = "a pipe in a git directory: git would wait for it, or read what a command writes later"
	case strings.HasPrefix(in, "hooks/") && path.Ext(in) != ".sample":
		note = "git outside of a sandbox acts on it" // on each change: a person may look at only one
	case dir == full || !isGitDir(dir, g.lower):
		note, at = "a repository: git outside of a sandbox acts on its hooks and its configuration", dir
		if path.Base(dir) == ".git" && g.isSubmodule(path.Dir(dir)) {
			refused = actsOn
		}
	case in == "config" && !slices.Contains(g.rules.Configurations, full) || in == "config.worktree" || in == "commondir" || in == "hooks" || in == "lazygit.yml" || in == "pid" || under("gitweb", in):
		note = "git outside of a sandbox acts on it"
	case in == "shallow" || in == "info/grafts" || strings.HasPrefix(in, "refs/replace/"):
		note = readsOther
	}
	for _, step := range gitindex.Unfinished {
		if gitindex.AppliedByCommit(step) {
			continue // ofGit refuses it
		}
		p := path.Join(dir, step)
		if path.Base(dir) == step { // also because of its contents
			p = dir
		}
		if dir != "" && under(p, full) {
			note, at = "git outside of a sandbox goes on with it: what is listed there can be commands", p
		}
	}
	if c.New.Kind == Symlink && slices.ContainsFunc(g.rules.Submodules, func(one string) bool {
		return paths.Inside(full, one) && g.now(path.Join(g.follow(one), ".git"))
	}) {
		refused = actsOn
	}
	c.Refused = cmp.Or(c.Refused, refused)
	if note != "" && c.Refused == "" && !g.noted[at] {
		g.noted[at], c.Note = true, note
	}
}

// readsOther is the note on what stands in the place of git's objects.
const readsOther = "git outside of a sandbox reads other objects, or another history, by it"

// actsOn is the reason to refuse what would become a submodule's repository. git 2.39 enters none
// through a symlink; other versions may.
const actsOn = "git status in the repository around it would act on it"

func (g *gitDirs) isSubmodule(dir string) bool {
	if g.submodules == nil {
		g.submodules = slices.Clone(g.rules.Submodules)
		for _, one := range g.rules.Submodules {
			g.submodules = append(g.submodules, g.follow(one))
		}
	}
	return slices.Contains(g.submodules, dir)
}

// follow returns the path of the host to which one leads after the change.
func (g *gitDirs) follow(full string) string {
	end, _, _ := paths.Follow("/", full, func(p string, _ bool) (paths.Step, error) {
		if !paths.Inside(g.root, p) {
			target, _ := os.Readlink(p)
			return paths.Step{Target: target}, nil
		}
		n, err := g.after(strings.TrimPrefix(strings.TrimPrefix(p, g.root), "/"))
		return paths.Step{Missing: err == nil && n.Kind == Absent, Target: n.Target}, nil
	}, nil)
	return end
}

func (g *gitDirs) dirOf(dir string) string {
	found, ok := g.known[dir]
	if ok || dir == "/" {
		return found
	}
	found = g.dirOf(path.Dir(dir))
	part, _, _ := strings.Cut(strings.TrimPrefix(dir, found+"/"), "/")
	switch own := found != "" && slices.Contains([]string{"refs", "logs", "info", "objects", "worktrees", "modules"}, part); {
	case path.Base(dir) == ".git", isGitDir(dir, g.now) && !(own && part == "refs"): // names of branches can look like one; none has a .git
		found = dir
	case !own && !strings.Contains(dir, "/.git/") && g.lower(path.Join(dir, ".git")):
		found = "" // a work tree of the host, which can lie in a bare repository
	}
	g.known[dir] = found
	return found
}

// now reports whether commands of the review see a file at a path of the host, and lower whether
// the host has one.
func (g *gitDirs) now(full string) bool   { return g.has(full, g.after) }
func (g *gitDirs) lower(full string) bool { return g.has(full, g.before) }

func (g *gitDirs) has(full string, look func(string) (Node, error)) bool {
	if !paths.Inside(g.root, full) {
		_, err := os.Lstat(full)
		return err == nil
	}
	n, err := look(strings.TrimPrefix(strings.TrimPrefix(full, g.root), "/"))
	return err != nil || n.Kind != Absent
}

// isGitDir reports whether git accepts a directory as a git directory.
func isGitDir(dir string, has func(string) bool) bool {
	return has(dir+"/HEAD") && (has(dir+"/commondir") || has(dir+"/objects") && has(dir+"/refs"))
}

// mergeIndex reports whether the review's index differs from the workspace's old one. It clears a
// conflict if only times were written there since. ofHost says that the host has the repository: its
// index gets no new gitlink, because git status would act on the configuration that lies there.
func (r *Review) mergeIndex(layer int, c *Change, ofHost bool) (bool, error) {
	p := r.trees[layer]
	hash := hashSize(c.Path, p.lower, p.upper)
	index, ok, err := p.upper.index(c.Path, hash)
	var host gitindex.Index
	known := false
	if err == nil && c.Old.Kind == File {
		host, known, err = p.lower.index(c.Path, hash)
	}
	if err != nil {
		return false, err
	}
	added := slices.IndexFunc(index.Links, func(link string) bool { return ofHost && !slices.Contains(host.Links, link) })
	switch {
	case !ok:
		c.Refused = "an index of git that is not understood"
	case index.Misplaced != "":
		c.Refused = fmt.Sprintf("git would write %.300q by it", index.Misplaced)
	case added >= 0:
		c.Refused = fmt.Sprintf("it makes %.300q a submodule: git status would act on its configuration", index.Links[added])
	}
	was, begun := r.rec.Layers[layer].Indexes[indexKey(c.Path)]
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
func (t *tree) openGit(p string, limit int64) (text *io.SectionReader, done func(), err error) {
	f, err := t.file(p)
	if err != nil {
		return nil, func() {}, err
	}
	info, err := f.Stat()
	if err != nil || info.Size() > min(limit, maxGitFiles-t.ofGit) {
		f.Close()
		return nil, func() {}, t.error("read", p, cmp.Or(err, errLarge))
	}
	t.ofGit += info.Size()
	return io.NewSectionReader(f, 0, info.Size()), func() { f.Close() }, nil
}

// read returns a file of git; see openGit.
func (t *tree) read(p string, limit int64) ([]byte, error) {
	text, done, err := t.openGit(p, limit)
	defer done()
	if err != nil {
		return nil, err
	}
	return io.ReadAll(text)
}

// index reads an index; ok says that it is understood. If not, it is empty.
func (t *tree) index(p string, hash int) (index gitindex.Index, ok bool, err error) {
	text, done, err := t.openGit(p, maxGitFile)
	defer done()
	if err == nil {
		index, ok = gitindex.Read(text, text.Size(), hash)
	}
	if !ok {
		index = gitindex.Index{}
	}
	return index, ok, err
}

// begins reports whether a file begins with these bytes.
func (t *tree) begins(p, with string) bool {
	f, err := t.file(p)
	if err != nil {
		return false
	}
	defer f.Close()
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
