package native

import (
	"slices"

	"github.com/sbxhost/sbxhost/internal/engine/nsengine"
	"github.com/sbxhost/sbxhost/shared"
)

var info = shared.Info{
	Name:    "native",
	Version: "0.1.0-dev",
	Doc:     "Linux namespaces by the kernel's own calls: no daemon, no image, nothing to install",
	// Overlays are available if the session has a directory and this machine permits it: Open
	// refuses what it cannot provide.
	Features: append(slices.Clip(nsengine.Features), shared.FeatureOverlay, shared.FeatureOverlayKept, shared.FeatureProcesses),
	Options:  shared.OptionSchema{Attributes: nsengine.Options},
}
