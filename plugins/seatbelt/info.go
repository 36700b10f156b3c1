package seatbelt

import "github.com/sbxhost/sbxhost/shared"

const version = "0.1.0-dev"

var info = shared.Info{
	Name:    "seatbelt",
	Version: version,
	Doc:     "the sandbox of macOS, with sandbox-exec: no daemon, no image; paths are the host's own",
	Features: shared.Features{
		shared.FeatureNetworkNone, shared.FeatureNetworkHost, shared.FeatureNetworkProxy,
		shared.FeatureFilesystemMinimal, shared.FeatureFilesystemHost,
		shared.FeatureHidden, shared.FeatureNested, shared.FeatureHomePrivate, shared.FeatureTempPrivate, shared.FeatureProcessesHidden, shared.FeatureKernelFiltered, shared.FeatureMetadata,
		shared.FeatureTTY, shared.FeatureUser,
	},
}
