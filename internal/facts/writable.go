//go:build unix

package facts

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/internal/view"
	"github.com/sbxhost/sbxhost/workspace"
)

// Writable is where commands can write on the host.
type Writable struct {
	Roots    []string // of the workspace, of WritableRoots
	Outer    []string // repositories around a root that nobody named: in another directory they are the workspace
	Binds    []string // writable binds
	Sessions []string // directories of sessions
	Reviews  []string // directories of reviews
}

// Around returns the writable directory that contains a path, in words; "" if none does.
func (w *Writable) Around(p string) string {
	kinds := [...]struct {
		what string
		dirs []string
	}{
		{"the workspace", w.Roots}, {"a repository around the workspace", w.Outer}, {"what is bound writable", w.Binds}, {"the files of sessions", w.Sessions}, {"the files of reviews", w.Reviews},
	}
	for _, kind := range kinds {
		if i := slices.IndexFunc(kind.dirs, func(dir string) bool { return paths.Inside(dir, p) }); i >= 0 {
			return kind.what + " (" + hostpath.Quote(kind.dirs[i]) + ")"
		}
	}
	if paths.InsideAny(systemPrograms, p) {
		return ""
	}
	table, _ := mounts() // none on a system without /proc
	for _, kind := range kinds {
		if at := otherPaths(table, mountsIn(table, kind.dirs...), p); at != nil {
			return "a mount of what commands write (" + hostpath.Quote(at[0]) + ")"
		}
	}
	return ""
}

// systemPrograms are directories of which Around looks for no other mounts: a command that can write to
// such a mount can write all of the system, and to read the table of mounts costs time.
var systemPrograms = []string{"/usr/bin", "/usr/sbin", "/bin", "/sbin"}

// WritableRoots returns the writable roots of a workspace, the project root first, each also as it was spelled.
func WritableRoots(ws *workspace.Workspace) (dirs []string) {
	for _, r := range ws.Roots() {
		if r.Writable {
			dirs = append(dirs, r.Path, r.Declared)
		}
	}
	return slices.Compact(dirs)
}

// Workspace is that of commands at root, or discovered from dir if root is empty, with the extra roots in
// writable if they are valid. A directory that cannot be a workspace, such as a home, has no commands, and
// an empty one.
func (c *Caller) Workspace(root, dir string, writable []string) *workspace.Workspace {
	if root == "" {
		root, _ = workspace.Discover(dir, c.Home)
	}
	for _, writable := range [][]string{writable, nil} {
		ws, err := workspace.New(workspace.Options{Root: root, Writable: writable, Home: c.Home, LookupEnv: c.LookupEnv})
		if err == nil {
			return ws
		}
	}
	return &workspace.Workspace{}
}

// WritableBinds returns the writable binds, as directories of the host without symlinks, with a
// workspace at root.
func (m *Machine) WritableBinds(root string, binds []view.Bind) (dirs []string) {
	for _, b := range binds {
		if !b.Writable {
			continue
		}
		if dir, err := filepath.EvalSymlinks(view.Absolute(m.home(), root, b.Host)); err == nil && filepath.IsAbs(dir) && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// DroppedFromPath says, by directory, why directories of the caller's PATH are not in a command's
// environment: they lie in some roots.
func (c *Caller) DroppedFromPath(environ, roots []string) map[string]string {
	dropped := map[string]string{}
	kept, _ := valueIn(environ, "PATH")
	for _, dir := range filepath.SplitList(c.Getenv("PATH")) {
		if paths.InsideAny(roots, dir) && !slices.Contains(filepath.SplitList(kept), dir) && Follow(dir).Kind == view.Directory {
			dropped[dir] = fmt.Sprintf("PATH entry %s is inside the workspace and was dropped: a command could put programs for others there; env = { PATH = %s } passes it", hostpath.Quote(dir), strconv.Quote(dir+":${env.PATH}"))
		}
	}
	return dropped
}
