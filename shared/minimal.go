package shared

import (
	_ "embed"
	"strings"
)

//go:embed minimal_view.txt
var minimalView string

// MinimalView lists what of the host an engine shows for [FilesystemMinimal], read-only, of what is
// there: directories of programs, and files and directories of /etc. A name may have a star. The same
// is in minimal_view.txt, with what is left out and why, for engines in other languages.
func MinimalView() (paths []string) {
	for line := range strings.Lines(minimalView) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "/") {
			paths = append(paths, line)
		}
	}
	return paths
}
