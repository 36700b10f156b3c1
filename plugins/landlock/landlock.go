package landlock

import (
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/sbxhost/sbxhost/internal/engine/mountplan"
	"github.com/sbxhost/sbxhost/internal/engine/nsengine"
	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/seccomp"
)

var info = shared.Info{
	Name:    "landlock",
	Version: "0.1.0-dev",
	Doc:     "Landlock and a filter of system calls, for machines without namespaces: it needs no privilege, and enforces less",
	Features: shared.Features{
		shared.FeatureNetworkNone, shared.FeatureNetworkHost,
		shared.FeatureFilesystemMinimal, shared.FeatureFilesystemHost,
		shared.FeatureHidden, shared.FeatureHomePrivate, shared.FeatureKernelFiltered,
		shared.FeatureTTY, shared.FeatureTrace, shared.FeatureUser,
		// Open refuses these three if this machine cannot enforce them.
		shared.FeatureLimitMemory, shared.FeatureLimitCPUs, shared.FeatureLimitPIDs,
		shared.FeatureLimitOpenFiles,
	},
	Options: shared.OptionSchema{Attributes: []shared.OptionAttribute{
		nsengine.Options[0],
		{
			Name: "unix_sockets", Type: shared.OptionBool, Default: json.RawMessage("false"),
			Doc: "permit unix sockets; commands can then connect to every socket of this machine that you can connect to",
		},
		{
			Name: "abi", Type: shared.OptionNumber,
			Doc: fmt.Sprintf("the newest version of Landlock to use, 1 to %d, to try what an older kernel enforces; default: the kernel's", newestABI),
		},
	}},
}

// options are the engine's own.
type options struct {
	filter seccomp.Options
	abi    int // 0 means the kernel's
}

func parseOptions(raw json.RawMessage) (o options, err error) {
	o.filter = seccomp.Options{Unhidden: true}
	read := func(name, kind string, value any) error { return nsengine.Option(raw, name, kind, value) }
	err = cmp.Or(read("ptrace", "true or false", &o.filter.Ptrace), read("unix_sockets", "true or false", &o.filter.UnixSockets), read("abi", "a whole number", &o.abi))
	if err == nil && (o.abi < 0 || o.abi > newestABI) {
		err = mountplan.Invalid("config.abi", "", "is not from 1 to %d", newestABI)
	}
	return o, err
}

// filterOptions are those of a Spec's filter with that version of Landlock.
func (o options) filterOptions(spec *shared.Spec, abi int) seccomp.Options {
	f := o.filter
	f.NoNetwork = spec.Network.Mode != shared.NetworkHost
	f.NoTruncation = handled(abi)&truncate == 0
	return f
}
