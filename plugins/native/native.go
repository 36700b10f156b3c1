package native

import (
	"github.com/sbxhost/sbxhost/internal/engine/nsengine"
	"github.com/sbxhost/sbxhost/shared"
)

var info = shared.Info{
	Name:    "native",
	Version: "0.1.0-dev",
	Doc:     "Linux namespaces by the kernel's own calls: no daemon, no image, nothing to install",
	Features: shared.Features{
		shared.FeatureNetworkNone, shared.FeatureNetworkHost, shared.FeatureNetworkNames, shared.FeatureNetworkInject, shared.FeatureNetworkPorts,
		shared.FeatureFilesystemMinimal, shared.FeatureFilesystemHost,
		shared.FeatureRemap, shared.FeatureTmpfs, shared.FeatureHidden, shared.FeatureNested,
		shared.FeatureHomePrivate, shared.FeatureTempPrivate, shared.FeatureProcessesHidden, shared.FeatureKernelFiltered, shared.FeatureMetadata,
		// Available if the session has a directory and this machine permits it: Open refuses what
		// it cannot provide.
		shared.FeatureOverlay, shared.FeatureOverlayKept, shared.FeatureSourceFD,
		shared.FeatureProcesses, shared.FeatureDevices, shared.FeatureTTY, shared.FeatureTrace, shared.FeatureUser,
		// Open refuses these three if this machine cannot enforce them.
		shared.FeatureLimitMemory, shared.FeatureLimitCPUs, shared.FeatureLimitPIDs,
		shared.FeatureLimitOpenFiles, shared.FeatureLimitTempSize,
	},
	Options: shared.OptionSchema{Attributes: nsengine.Options},
}
