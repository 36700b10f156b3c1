package bwrap

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/sbxhost/sbxhost/shared"
)

const version = "0.1.0-dev"

var info = shared.Info{
	Name:    "bwrap",
	Version: version,
	Doc:     "Linux namespaces through bubblewrap: no daemon, no image, milliseconds a command",
	Features: shared.Features{
		shared.FeatureNetworkNone, shared.FeatureNetworkHost,
		shared.FeatureFilesystemMinimal, shared.FeatureFilesystemHost,
		shared.FeatureRemap, shared.FeatureTmpfs, shared.FeatureMasks,
		// Held where the session has a directory and this machine allows it: Open
		// refuses what it cannot hold.
		shared.FeatureOverlay, shared.FeatureSourceFD,
		shared.FeatureTTY, shared.FeatureUser,
		shared.FeatureLimitOpenFiles, shared.FeatureLimitTempSize,
	},
	Options: shared.OptionSchema{Attributes: []shared.OptionAttribute{{
		Name: "path", Type: shared.OptionString,
		Doc: "absolute path of the bwrap program; default: where distributions install it, never PATH",
	}}},
}

// options are the engine's own options.
type options struct {
	path string
}

func parseOptions(raw json.RawMessage) (options, error) {
	var o options
	if len(raw) == 0 {
		return o, nil
	}
	var values map[string]json.RawMessage
	if err := json.Unmarshal(raw, &values); err != nil {
		return o, &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: "config", Message: "not a JSON object"}
	}
	for name, value := range values {
		if name != "path" {
			return o, &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: "config." + name, Message: "no such option", Hint: "bwrap has: path"}
		}
		var p *string
		if err := json.Unmarshal(value, &p); err != nil {
			return o, &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: "config.path", Message: "must be a string"}
		}
		if p == nil {
			continue // null is the default
		}
		if !strings.HasPrefix(*p, "/") || strings.IndexByte(*p, 0) >= 0 {
			return o, &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: "config.path", Message: fmt.Sprintf("%q is not an absolute path", *p)}
		}
		o.path = *p
	}
	return o, nil
}
