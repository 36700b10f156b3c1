package shared

import (
	"slices"

	"github.com/sbxhost/sbxhost/internal/curated"
)

// MinimalView lists what of the host an engine shows for [FilesystemMinimal], read-only, of what is
// there: directories of programs, then files and directories of /etc and /var. A name may have a star.
func MinimalView() []string { return slices.Concat(curated.Roots[:], curated.Patterns()) }
