package nsengine

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"slices"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/seccomp"
)

// Features are those of all engines that mount in namespaces.
var Features = shared.Features{
	shared.FeatureNetworkNone, shared.FeatureNetworkHost, shared.FeatureNetworkNames, shared.FeatureNetworkInject, shared.FeatureNetworkPorts,
	shared.FeatureFilesystemMinimal, shared.FeatureFilesystemHost,
	shared.FeatureRemap, shared.FeatureTmpfs, shared.FeatureHidden, shared.FeatureNested,
	shared.FeatureHomePrivate, shared.FeatureTempPrivate, shared.FeatureProcessesHidden, shared.FeatureKernelFiltered, shared.FeatureMetadata,
	shared.FeatureSourceFD, shared.FeatureDevices,
	shared.FeatureTTY, shared.FeatureTrace, shared.FeatureUser,
	// Open refuses these three if this machine cannot enforce them.
	shared.FeatureLimitMemory, shared.FeatureLimitCPUs, shared.FeatureLimitPIDs,
	shared.FeatureLimitOpenFiles, shared.FeatureLimitTempSize,
}

// Options are the attributes that [Filter] reads.
var Options = []shared.OptionAttribute{
	{
		Name: "ptrace", Type: shared.OptionBool, Default: json.RawMessage("false"),
		Doc: "permit debuggers and tracers (gdb, strace) inside",
	},
	{
		Name: "unix_sockets", Type: shared.OptionBool, Default: json.RawMessage("true"),
		Doc: "permit unix sockets; without, commands can make only connected pairs of stream sockets, and Python's multiprocessing.Manager fails",
	},
	{
		Name: "nested_userns", Type: shared.OptionBool, Default: json.RawMessage("false"),
		Doc: "permit user namespaces, and mounts in them, inside; sandboxes of browsers need them",
	},
}

// ParseFilter reads [Options] out of an engine's options. A null means the default. It ignores
// other names.
func ParseFilter(raw json.RawMessage) (seccomp.Options, error) {
	o := seccomp.Options{UnixSockets: true}
	read := func(name string, value *bool) error { return Option(raw, name, "true or false", value) }
	err := cmp.Or(read("nested_userns", &o.NestedUserNamespaces), read("ptrace", &o.Ptrace), read("unix_sockets", &o.UnixSockets))
	return o, err
}

// Option reads one option into value, which does not change if the option is missing or null. kind
// describes the option's type, for the error.
func Option(raw json.RawMessage, name, kind string, value any) error {
	if len(raw) == 0 {
		return nil
	}
	var given map[string]json.RawMessage
	if err := json.Unmarshal(raw, &given); err != nil {
		return &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: "config", Message: "is not a JSON object"}
	}
	if text, ok := given[name]; ok && string(text) != "null" && json.Unmarshal(text, value) != nil {
		return &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: "config." + name, Message: "must be " + kind}
	}
	return nil
}

// Filter is the filter of system calls that the init loads for a command. groups says that more
// than the first of the command's groups have a number in the sandbox.
func Filter(spec *shared.Spec, groups bool) (seccomp.Filter, error) {
	o, err := ParseFilter(spec.Options)
	if err != nil {
		return seccomp.Filter{}, err
	}
	o.Owners = owners(spec, groups)
	f, err := seccomp.New(runtime.GOARCH, o)
	if err != nil {
		return f, &shared.Error{Kind: shared.ErrUnusable, Attribute: "engine", Message: err.Error()}
	}
	return f, nil
}

// FilterProgram is [Filter] for a cmdengine.Config.
func FilterProgram(groups bool) func(*shared.Spec) ([]byte, error) {
	return func(spec *shared.Spec) ([]byte, error) {
		f, err := Filter(spec, groups)
		return f.Bytes(), err
	}
}

// owners are the users to whom a command can give its files.
func owners(spec *shared.Spec, groups bool) *seccomp.Owners {
	o := &seccomp.Owners{UID: uint32(os.Geteuid()), GIDs: []uint32{uint32(os.Getegid())}}
	var others []uint32
	if u := spec.User; u != nil {
		o.UID, o.GIDs, others = u.UID, []uint32{u.GID}, u.Groups
	} else if list, err := os.Getgroups(); err == nil && groups {
		for _, g := range list {
			others = append(others, uint32(g))
		}
	}
	if groups {
		o.GIDs = append(o.GIDs, others...)
		slices.Sort(o.GIDs)
		o.GIDs = slices.Compact(o.GIDs)
	}
	return o
}

// TraceProgram is for a cmdengine.Config with [shared.FeatureTrace]. It refuses a command that may
// trace its own processes, because a process has one tracer.
func TraceProgram(spec *shared.Spec) ([]byte, error) {
	o, err := ParseFilter(spec.Options)
	if err != nil {
		return nil, err
	}
	refused := func(why, hint string) ([]byte, error) {
		return nil, &shared.Error{Kind: shared.ErrUnsupported, Attribute: "trace", Message: why, Hint: hint}
	}
	if o.Ptrace {
		return refused("a sandbox with config { ptrace = true } permits commands to trace, and a process has only one tracer", "leave out the one or the other")
	}
	if why := yamaRefuses(content("/proc/sys/kernel/yama/ptrace_scope")); why != "" {
		return refused(why, "as root: sysctl -w kernel.yama.ptrace_scope=1")
	}
	f, err := seccomp.Tracing(runtime.GOARCH)
	if err != nil {
		return refused(err.Error(), "")
	}
	return f.Bytes(), nil
}

// yamaRefuses says why nobody can trace their own children with this ptrace_scope; else "". It is
// pure.
func yamaRefuses(scope string) string {
	switch scope {
	case "", "0", "1":
		return ""
	case "2":
		return "the security module Yama lets only root trace here: kernel.yama.ptrace_scope is 2"
	}
	return "the security module Yama lets nobody trace here until the next boot: kernel.yama.ptrace_scope is " + scope
}

// FreshHome is the home directory if it is memory of each command; else empty. lasting says that
// the session keeps it.
func FreshHome(spec *shared.Spec, lasting bool) string {
	shown := func(e shared.Entry) bool { return e.Path == spec.Home && e.Access != shared.Private }
	if lasting || slices.ContainsFunc(spec.Table, shown) {
		return ""
	}
	return spec.Home
}

// LetSearch is the hint for a path that the user of the commands cannot reach.
func LetSearch(u *shared.User) string {
	return fmt.Sprintf("commands run as user %d, the owner of the workspace: let that user search all directories above the shown paths (chmod o+x), or run as that user", u.UID)
}
