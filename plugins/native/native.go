package native

import (
	"encoding/json"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/seccomp"
)

const version = "0.1.0-dev"

var info = shared.Info{
	Name:    "native",
	Version: version,
	Doc:     "Linux namespaces by the kernel's own calls: no daemon, no image, nothing to install",
	Features: shared.Features{
		shared.FeatureNetworkNone, shared.FeatureNetworkHost,
		shared.FeatureFilesystemMinimal, shared.FeatureFilesystemHost,
		shared.FeatureRemap, shared.FeatureTmpfs, shared.FeatureHidden,
		// Held where the session has a directory and this machine allows it: Open
		// refuses what it cannot hold.
		shared.FeatureOverlay, shared.FeatureSourceFD,
		shared.FeatureTTY, shared.FeatureUser,
		// Of these three Open refuses what this machine cannot hold.
		shared.FeatureLimitMemory, shared.FeatureLimitCPUs, shared.FeatureLimitPIDs,
		shared.FeatureLimitOpenFiles, shared.FeatureLimitTempSize,
	},
	Options: shared.OptionSchema{Attributes: []shared.OptionAttribute{
		{
			Name: "ptrace", Type: shared.OptionBool, Default: json.RawMessage("false"),
			Doc: "let debuggers and tracers (gdb, strace) work inside",
		},
		{
			Name: "unix_sockets", Type: shared.OptionBool, Default: json.RawMessage("true"),
			Doc: "let unix sockets be made; without, only connected pairs of stream sockets, and Python's multiprocessing.Manager fails",
		},
		{
			Name: "nested_userns", Type: shared.OptionBool, Default: json.RawMessage("false"),
			Doc: "let user namespaces, and mounts in them, be made inside, as sandboxes of browsers want",
		},
	}},
}

// parseOptions reads the engine's own options, whose names have been checked. A null is
// the default.
func parseOptions(raw json.RawMessage) (seccomp.Options, error) {
	o := seccomp.Options{UnixSockets: true}
	var given map[string]json.RawMessage
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &given); err != nil {
			return o, &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: "config", Message: "is not a JSON object"}
		}
	}
	for name, option := range map[string]*bool{"ptrace": &o.Ptrace, "unix_sockets": &o.UnixSockets, "nested_userns": &o.NestedUserNamespaces} {
		value, ok := given[name]
		if !ok || string(value) == "null" {
			continue
		}
		if err := json.Unmarshal(value, option); err != nil {
			return o, &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: "config." + name, Message: "must be true or false"}
		}
	}
	return o, nil
}
