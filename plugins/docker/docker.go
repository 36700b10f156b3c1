package docker

import (
	"encoding/json"

	"github.com/sbxhost/sbxhost/plugins/docker/internal/definition"
	"github.com/sbxhost/sbxhost/shared"
)

var info = shared.Info{
	Name:    "docker",
	Version: definition.Version,
	Doc:     "containers of a local Docker daemon: another root file system, limits held by cgroups",
	Features: shared.Features{
		shared.FeatureNetworkNone, shared.FeatureNetworkHost, shared.FeatureNetworkTranslated,
		shared.FeatureNetworkProxy, shared.FeatureNetworkPorts,
		shared.FeatureFilesystemMinimal,
		shared.FeatureRemap, shared.FeatureTmpfs, shared.FeatureHidden, shared.FeatureNested, shared.FeatureSourceFD,
		shared.FeatureHomePrivate, shared.FeatureTempPrivate, shared.FeatureProcessesHidden, shared.FeatureKernelFiltered, shared.FeatureMetadata,
		shared.FeatureDevices, shared.FeatureTTY, shared.FeatureUser,
		shared.FeatureLimitMemory, shared.FeatureLimitCPUs, shared.FeatureLimitPIDs,
		shared.FeatureLimitOpenFiles, shared.FeatureLimitTempSize,
	},
	Options: shared.OptionSchema{
		Attributes: []shared.OptionAttribute{
			{Name: "image", Type: shared.OptionString, Doc: "image to run commands in, such as \"node:20-alpine\""},
			{Name: "pull", Type: shared.OptionString, Doc: "when to fetch the image from a registry: missing, always or never", Default: json.RawMessage(`"missing"`)},
			{Name: "platform", Type: shared.OptionString, Doc: "platform of the image, such as \"linux/arm64\"; default: the daemon's"},
			{Name: "user", Type: shared.OptionString, Doc: "user inside, UID or UID:GID or a name of the image; default: the caller's numbers"},
			{Name: "cap_add", Type: shared.OptionStringList, Doc: "capabilities to add to none, such as [\"NET_RAW\"]; each is reported"},
			{Name: "writable_root", Type: shared.OptionBool, Doc: "make the container's root file system writable, for as long as the container lives", Default: json.RawMessage(`false`)},
		},
	},
}
