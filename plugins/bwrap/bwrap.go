package bwrap

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/sbxhost/sbxhost/internal/engine/nsengine"
	"github.com/sbxhost/sbxhost/shared"
)

var info = shared.Info{
	Name:    "bwrap",
	Version: "0.1.0-dev",
	Doc:     "Linux namespaces through bubblewrap: no daemon, no image, milliseconds a command",
	Features: shared.Features{
		shared.FeatureNetworkNone, shared.FeatureNetworkHost, shared.FeatureNetworkNames, shared.FeatureNetworkInject, shared.FeatureNetworkPorts,
		shared.FeatureFilesystemMinimal, shared.FeatureFilesystemHost,
		shared.FeatureRemap, shared.FeatureTmpfs, shared.FeatureHidden, shared.FeatureNested,
		shared.FeatureHomePrivate, shared.FeatureTempPrivate, shared.FeatureProcessesHidden, shared.FeatureKernelFiltered, shared.FeatureMetadata,
		shared.FeatureSourceFD, shared.FeatureDevices,
		shared.FeatureTTY, shared.FeatureTrace, shared.FeatureUser,
		// Open refuses these three if this machine cannot enforce them.
		shared.FeatureLimitMemory, shared.FeatureLimitCPUs, shared.FeatureLimitPIDs,
		shared.FeatureLimitOpenFiles, shared.FeatureLimitTempSize,
	},
	Options: shared.OptionSchema{Attributes: append([]shared.OptionAttribute{{
		Name: "path", Type: shared.OptionString,
		Doc: "absolute path of the bwrap program; default: where distributions install it, never PATH",
	}}, nsengine.Options...)},
}

// parsePath reads the option "path"; empty means none.
func parsePath(options json.RawMessage) (string, error) {
	var path *string
	if err := nsengine.Option(options, "path", "a string", &path); err != nil || path == nil {
		return "", err
	}
	if !strings.HasPrefix(*path, "/") || strings.IndexByte(*path, 0) >= 0 {
		return "", &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: "config.path", Message: fmt.Sprintf("%q is not an absolute path", *path)}
	}
	return *path, nil
}
