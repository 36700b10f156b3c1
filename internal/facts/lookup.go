//go:build unix

package facts

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/internal/scan"
	"github.com/sbxhost/sbxhost/internal/view"
	"github.com/sbxhost/sbxhost/workspace"
)

// lookup looks at the machine for one table, at each path once.
type lookup struct {
	ctx       context.Context // of the command
	m         *Machine
	writable  []string // where commands can write
	trees     []string // where they can look
	left      *workspace.Budget
	ways      map[string]*view.Way
	repos     map[string]view.Repository
	layouts   map[string]view.Repository // with Layout and Err alone
	workTrees map[string]workspace.WorkTrees
	links     map[string]view.Links
	gitLinks  map[string]workspace.Acts // see AddLinks
	mounts    func() ([]mount, error)
}

func newLookup(ctx context.Context, m *Machine, writable []string) *lookup {
	return &lookup{ctx: ctx, m: m, writable: writable, left: workspace.NewBudget(), ways: make(map[string]*view.Way, 128), repos: map[string]view.Repository{},
		layouts: map[string]view.Repository{}, workTrees: map[string]workspace.WorkTrees{}, links: map[string]view.Links{}, gitLinks: map[string]workspace.Acts{}, mounts: sync.OnceValues(mounts)}
}

// once returns what is known of a path, or else what find returns.
func once[V any](known map[string]V, p string, find func() V) V {
	v, ok := known[p]
	if !ok {
		v = find()
		known[p] = v
	}
	return v
}

// Follow implements view.Facts. Most paths share directories, so it walks to each directory once.
func (f *lookup) Follow(p string) view.Way {
	return *once(f.ways, p, func() *view.Way {
		var way view.Way
		at := strings.LastIndexByte(p, '/')
		if p == "/" || at < 0 || filepath.Clean(p) != p {
			way = Follow(p)
		} else if dir := f.Follow(p[:max(at, 1)]); dir.Err != nil {
			way = dir
		} else {
			way.End = paths.Move(p, p[:max(at, 1)], dir.End)
			if dir.Kind == view.Directory { // else nothing lies beneath a missing path, or a file
				step(&way, dir.End)
			}
			way.Links, way.DotDots = slices.Concat(dir.Links, way.Links), slices.Concat(dir.DotDots, way.DotDots)
		}
		return &way
	})
}

// forget drops all that f knows about paths.
func (f *lookup) forget() {
	clear(f.ways)
	clear(f.links)
}

// Follow returns where an absolute path of the host leads.
func Follow(p string) view.Way { return follow("/", p) }

// follow walks along a path from a directory without symlinks.
func follow(from, p string) (way view.Way) {
	end, info, err := hostpath.Follow(from, p, func(link string) { way.Links = append(way.Links, link) }, func(dir string) { way.DotDots = append(way.DotDots, dir) })
	if way.End, way.Err = end, err; errors.Is(err, fs.ErrPermission) {
		way.Err = view.ErrUnsearchable
	}
	if info == nil && err == nil && len(way.DotDots) > 0 {
		info, _ = os.Lstat(end) // "none/../file" leads there when a command has made none
	}
	if info != nil {
		way.Kind, way.UID, way.Names = status(info.Sys().(*syscall.Stat_t))
	}
	return way
}

// step is follow for the last name of way.End, which is seldom that of a symlink.
func step(way *view.Way, dir string) {
	var st syscall.Stat_t
	switch err := syscall.Lstat(way.End, &st); {
	case err == nil && st.Mode&syscall.S_IFMT != syscall.S_IFLNK:
		way.Kind, way.UID, way.Names = status(&st)
	case err != syscall.ENOENT:
		*way = follow(dir, filepath.Base(way.End))
	}
}

func status(st *syscall.Stat_t) (view.Kind, uint32, uint64) {
	return view.Kind(st.Mode & syscall.S_IFMT >> 12), st.Uid, uint64(st.Nlink)
}

// Unsearchable implements view.Facts. It matters only to root's commands for another user: any other
// caller cannot search such a directory either, and finds nothing in it. Only modes count: if an access
// control list forbids more, no mount is possible, and the engine fails.
func (f *lookup) Unsearchable(p string) (outermost string) {
	if f.m.Owner == nil {
		return ""
	}
	for dir := range paths.Up(filepath.Dir(p)) {
		if info, err := os.Lstat(dir); err == nil && !f.m.Owner.canSearch(info) {
			outermost = dir
		}
	}
	return outermost
}

func (o *Owner) canSearch(dir os.FileInfo) bool {
	st, mode := dir.Sys().(*syscall.Stat_t), dir.Mode()
	switch {
	case st.Uid == o.User.UID:
		return mode&0o100 != 0
	case st.Gid == o.User.GID || slices.Contains(o.User.Groups, st.Gid):
		return mode&0o010 != 0
	}
	return mode&0o001 != 0
}

func (f *lookup) Empty(dir string) bool { return workspace.HasOnly(dir, ".git") }

func (f *lookup) LinksIn(dir string) view.Links {
	return once(f.links, dir, func() (found view.Links) {
		left := 10_000 // entries of the directory and its subdirectories
		found.Symlinks, found.All = workspace.LinksIn(dir, &left, func(p string) bool {
			// Agents keep worktrees of the project there, which others do not obey. A command can replace the
			// directory that .git names, but not this text.
			text, err := hostpath.ReadNoSymlinks(filepath.Join(p, ".git"), unix.PathMax)
			gitDir := strings.TrimSpace(strings.TrimPrefix(string(text), "gitdir: "))
			if !filepath.IsAbs(gitDir) {
				gitDir = filepath.Join(p, gitDir)
			}
			ofWorktree := filepath.Base(filepath.Dir(dir)) == "worktrees" && filepath.Base(p) == "objects" && workspace.MayBeBare(filepath.Dir(p)) // thousands, of a submodule
			return filepath.Base(p) != ".git" && !ofWorktree && (err != nil || !slices.ContainsFunc(f.writable, func(top string) bool {
				l, _ := f.layout(top)
				return l.CommonDir != "" && strings.HasPrefix(gitDir, l.CommonDir+"/worktrees/")
			}))
		}, func(p string) {
			st, _ := hostpath.Lstat(p)
			found.Hard = found.Hard || st.Nlink > 1
		})
		return found
	})
}

func (f *lookup) Repository(dir string) view.Repository {
	return once(f.repos, dir, func() (r view.Repository) {
		if r.Layout, r.Err = f.layout(dir); r.Err != nil {
			for _, l := range workspace.PointedLayouts(dir) {
				r.GitDirs = append(r.GitDirs, l.GitDir, l.CommonDir)
				r.Files = append(r.Files, f.m.Workspace.GitControls(f.ctx, dir, l, f.m.Owner.gitUser()).Files...)
			}
		} else if common := r.Layout.CommonDir; common != "" {
			r.GitControls = f.m.Workspace.GitControls(f.ctx, dir, r.Layout, f.m.Owner.gitUser())
			r.Hint = shortageHint(r.Failed)
			if p := filepath.Join(common, workspace.Alternates); Follow(p).Kind == view.File {
				r.Files = append(r.Files, workspace.GitControl{Path: p, Description: workspace.Alternates, File: true})
			}
		}
		return r
	})
}

// shortageHint is what to do about a shortage of descriptors, processes, memory, disk or size of
// files, which no definition causes; "" for other errors.
func shortageHint(err error) string {
	switch errno, _ := errors.AsType[syscall.Errno](err); errno {
	case syscall.EMFILE, syscall.ENFILE:
		return "let this process have more files open: ulimit -n"
	case syscall.EFBIG:
		return "let this process write larger files: ulimit -f"
	case syscall.ENOMEM, syscall.EAGAIN:
		return "try again when less runs here, or raise the limits of memory and processes"
	case syscall.ENOSPC, syscall.EDQUOT:
		return "free space on that disk; if df -i shows no free inodes, remove files"
	}
	return ""
}

// layout is [workspace.GitDirs].
func (f *lookup) layout(dir string) (workspace.GitLayout, error) {
	r := once(f.layouts, dir, func() (r view.Repository) {
		r.Layout, r.Err = workspace.GitDirs(dir, f.writable...)
		return r
	})
	return r.Layout, r.Err
}

func (f *lookup) UserControls() []workspace.GitControl {
	return f.m.Workspace.UserControls(f.ctx, f.m.Owner.gitUser())
}

func (f *lookup) Around(dir string) []string { return f.m.Workspace.Around(dir) }

func (f *lookup) WorkTrees(top string) workspace.WorkTrees {
	l, _ := f.layout(top)
	return once(f.workTrees, top, func() workspace.WorkTrees { return l.WorkTrees(top, f.left) })
}

// submodules returns the submodules of some repositories, recursively, that lie in some directories:
// gitlinks in an index, each with the outermost of those repositories. If it has a .git, git status in
// that repository enters it, and acts on its configuration.
func (f *lookup) submodules(own, within []string) map[string]string {
	found := map[string]string{}
	var enter func(dir, from string)
	enter = func(dir, from string) {
		l, err := f.layout(dir)
		if err != nil || l.GitDir == "" {
			return
		}
		for _, p := range f.WorkTrees(dir).Submodules {
			if _, known := found[p]; known || !paths.InsideAny(within, p) || strings.Count(strings.TrimPrefix(p, from), "/") > scan.MaxDepth {
				continue
			}
			if found[p] = from; f.Follow(filepath.Join(p, ".git")).Kind != view.Absent {
				enter(p, from)
			}
		}
	}
	for _, dir := range own {
		enter(dir, dir)
	}
	return found
}

// addSecondMounts returns own, and where another mount shows these paths in what commands write, or, if
// they are hidden, in what they see. It adds the mounts there that show once more what commands
// write, because nothing is protected in them.
func (f *lookup) addSecondMounts(own []view.HostPath) []view.HostPath {
	table, _ := f.mounts() // none on a system without /proc
	all := slices.Clip(own)
	shown, seen := mountsIn(table, f.writable...), mountsIn(table, f.trees...)
	for _, o := range own {
		in := shown
		if o.Kind == view.HostState {
			in = seen
		}
		names := []string{""}
		if o.Kind == view.HostNames { // each can be a mount itself
			names = o.Names
		}
		for _, name := range names {
			way := f.Follow(filepath.Join(o.Path, name))
			for _, at := range otherPaths(table, in, way.End) {
				again := o
				if again.Path = at; name != "" {
					again.Path, again.Names = filepath.Dir(at), []string{filepath.Base(at)}
				}
				all = append(all, again)
			}
		}
	}
	for _, m := range shown {
		same := func(src string) bool {
			on := mountOf(table, src)
			return on.dev == m.dev && !paths.Inside(m.at, src) && (paths.Inside(m.root, on.in(src)) || paths.Inside(on.in(src), m.root))
		}
		if m.id != "" && slices.ContainsFunc(f.writable, same) {
			all = append(all, view.HostPath{Path: m.at, Description: "another mount of what commands write", Kind: view.HostDir})
		}
	}
	return all
}
