//go:build unix

package facts

import (
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/sbxhost/sbxhost/host/view"
)

// What a look for sensitive files is bounded by: a person waits for it.
const (
	maxSensitive     = 10
	sensitiveEntries = 20_000
)

// SensitiveFiles names files of the workspace that look as if they held
// secrets, up to a number, in a part of the trees that is quick to walk.
func (m *Machine) SensitiveFiles() []string {
	var found []string
	entries := 0
	walk := func(path string, d fs.DirEntry, err error) error {
		entries++
		switch {
		case entries > sensitiveEntries || len(found) == maxSensitive:
			return filepath.SkipAll
		case err != nil:
			if d != nil && d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "node_modules"):
			return filepath.SkipDir
		case !d.IsDir() && view.Sensitive(d.Name()) && !slices.Contains(found, path):
			found = append(found, path)
		}
		return nil
	}
	filepath.WalkDir(m.Workspace.Root(), walk)
	for _, root := range m.Workspace.Roots() {
		if root.Path != m.Workspace.Root() {
			filepath.WalkDir(root.Path, walk)
		}
	}
	return found
}
