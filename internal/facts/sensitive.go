//go:build unix

package facts

import (
	"strings"

	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/internal/scan"
	"github.com/sbxhost/sbxhost/internal/view"
)

// SensitiveFiles names ten files near the top of the workspace that look as if they held secrets.
func (m *Machine) SensitiveFiles() (list []string) {
	var roots []string
	for _, root := range m.Workspace.Roots() {
		roots = append(roots, root.Path)
	}
	const most, depth = 10, 4
	found, err := m.scanners.scanner(nil, "sensitive", scan.Query{Name: view.Sensitive}, paths.Outermost(roots)).ScanTo(depth)
	if err != nil {
		return nil
	}
	for _, f := range found.Found {
		if f.Reason == scan.SensitiveName && len(list) < most && !strings.Contains(f.Path, "/node_modules/") {
			list = append(list, f.Path)
		}
	}
	return list
}
