package bwrap

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/seccomp"
)

const version = "0.1.0-dev"

var info = shared.Info{
	Name:    "bwrap",
	Version: version,
	Doc:     "Linux namespaces through bubblewrap: no daemon, no image, milliseconds a command",
	Features: shared.Features{
		shared.FeatureNetworkNone, shared.FeatureNetworkHost,
		shared.FeatureFilesystemMinimal, shared.FeatureFilesystemHost,
		shared.FeatureRemap, shared.FeatureTmpfs, shared.FeatureHidden,
		shared.FeatureSourceFD,
		shared.FeatureTTY, shared.FeatureUser,
		// Of these three Open refuses what this machine cannot hold.
		shared.FeatureLimitMemory, shared.FeatureLimitCPUs, shared.FeatureLimitPIDs,
		shared.FeatureLimitOpenFiles, shared.FeatureLimitTempSize,
	},
	Options: shared.OptionSchema{Attributes: []shared.OptionAttribute{
		{
			Name: "path", Type: shared.OptionString,
			Doc: "absolute path of the bwrap program; default: where distributions install it, never PATH",
		},
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

// options are the engine's own options.
type options struct {
	path   string
	filter seccomp.Options
}

func parseOptions(raw json.RawMessage) (options, error) {
	o := options{filter: seccomp.Options{UnixSockets: true}}
	if len(raw) == 0 {
		return o, nil
	}
	var values map[string]json.RawMessage
	if err := json.Unmarshal(raw, &values); err != nil {
		return o, &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: "config", Message: "not a JSON object"}
	}
	for name, value := range values {
		var err error
		switch name {
		case "path":
			err = o.setPath(value)
		case "ptrace":
			err = setBool(&o.filter.Ptrace, name, value)
		case "unix_sockets":
			err = setBool(&o.filter.UnixSockets, name, value)
		case "nested_userns":
			err = setBool(&o.filter.NestedUserNamespaces, name, value)
		default:
			err = &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: "config." + name, Message: "no such option",
				Hint: "bwrap has: path, ptrace, unix_sockets, nested_userns"}
		}
		if err != nil {
			return o, err
		}
	}
	return o, nil
}

// A null, of any option, is its default.

func (o *options) setPath(value json.RawMessage) error {
	var p *string
	if err := json.Unmarshal(value, &p); err != nil {
		return &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: "config.path", Message: "must be a string"}
	}
	if p == nil {
		return nil
	}
	if !strings.HasPrefix(*p, "/") || strings.IndexByte(*p, 0) >= 0 {
		return &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: "config.path", Message: fmt.Sprintf("%q is not an absolute path", *p)}
	}
	o.path = *p
	return nil
}

func setBool(option *bool, name string, value json.RawMessage) error {
	var b *bool
	if err := json.Unmarshal(value, &b); err != nil {
		return &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: "config." + name, Message: "must be true or false"}
	}
	if b != nil {
		*option = *b
	}
	return nil
}
