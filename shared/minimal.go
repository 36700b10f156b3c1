package shared

import (
	"slices"

	"github.com/sbxhost/sbxhost/internal/curated"
)

// MinimalView lists what an engine shows of the host for [FilesystemMinimal], read-only, if it
// exists: directories of programs, then files and directories of /etc and /var. A name may contain
// a star, and be a symlink, such as /bin: then the engine makes the same symlink.
func MinimalView() []string { return slices.Concat(curated.Roots[:], curated.Patterns()) }
