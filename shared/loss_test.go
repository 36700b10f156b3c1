package shared

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// What of a Spec an engine would not hold, by feature, and what of that the Spec takes.
func TestWithout(t *testing.T) {
	t.Parallel()
	all := Features{FeatureNetworkNone, FeatureFilesystemMinimal, FeatureTempPrivate, FeatureHomePrivate, FeatureProcessesHidden, FeatureKernelFiltered, FeatureMetadata,
		FeatureNested, FeatureHidden}
	but := func(lacks ...Feature) Features {
		return slices.DeleteFunc(slices.Clone(all), func(f Feature) bool { return slices.Contains(lacks, f) })
	}
	ws := []Entry{
		{Path: "/ws", Source: "/ws", Access: ReadWrite, Why: "workspace"},
		{Path: "/ws/.idea", Source: "/ws/.idea", Access: ReadOnly, Why: "protected, .idea"}, {Path: "/ws/.zed", Source: "/ws/.zed", Access: ReadOnly, Why: "protected, .zed"},
		{Path: "/ws/a", Why: "deny_paths"}, {Path: "/ws/b", Why: "deny_paths"},
	}
	for name, test := range map[string]struct {
		spec Spec
		have Features
		want string // features and attributes, with a ! where it is refused
	}{
		"all":             {Spec{Table: ws, Home: "/h"}, all, ""},
		"nothing":         {Spec{}, nil, "network.none network!, filesystem.minimal filesystem!, temp.private isolation!, processes.hidden isolation!, kernel.filtered isolation!, metadata isolation!"},
		"nothing at all":  {Spec{BestEffort: true}, nil, "network.none network, filesystem.minimal filesystem!, temp.private isolation, processes.hidden isolation, kernel.filtered isolation, metadata isolation"},
		"host's view":     {Spec{BestEffort: true}, append(but(FeatureFilesystemMinimal), FeatureFilesystemHost), "filesystem.minimal filesystem"},
		"no host's view":  {Spec{BestEffort: true, Filesystem: FilesystemHost}, all, "filesystem.host filesystem!"},
		"host's network":  {Spec{BestEffort: true, Network: Network{Mode: NetworkHost}}, all, "network.host network!"},
		"home":            {Spec{Home: "/h"}, but(FeatureHomePrivate), "home.private isolation!"},
		"hidden":          {Spec{Table: ws}, but(FeatureHidden), "hidden deny_paths!"},
		"nested":          {Spec{Table: ws, BestEffort: true}, but(FeatureNested), "mount.nested protected"},
		"TCP":             {Spec{BestEffort: true}, append(but(FeatureNetworkNone), FeatureNetworkTCP), "network.none network"},
		"names":           {Spec{BestEffort: true, Network: Network{Mode: NetworkNames}}, all, "network.names network!"},
		"names by proxy":  {Spec{Network: Network{Mode: NetworkNames}}, append(but(), FeatureNetworkProxy), "network.names network"},
		"names, no less":  {Spec{Network: Network{Mode: NetworkNames}}, append(but(), FeatureNetworkProxy, FeatureNetworkNames), ""},
		"ports":           {Spec{BestEffort: true, Network: Network{HostPorts: []uint16{1}, Publish: []string{"1"}}}, append(but(), FeatureNetworkNames), "network.ports host_ports!, network.ports publish!"},
		"limit":           {Spec{Limits: Limits{PIDs: 1}, BestEffort: true}, all, "limit.pids limits.pids!"},
		"limit, less":     {Spec{Limits: Limits{PIDs: 1, BestEffort: true}}, all, "limit.pids limits.pids"},
		"overlay":         {Spec{Table: []Entry{{Path: "/a", Source: "/a", Access: Overlay}}}, all, "mount.overlay table[0]!"},
		"overlay, less":   {Spec{Table: []Entry{{Path: "/a", Source: "/a", Access: Overlay, Degradable: true}}}, all, "mount.overlay table[0]"},
		"moved memory":    {Spec{Table: []Entry{{Path: "/a", Access: Private, Why: "x"}, {Path: "/b", Source: "/c", Access: ReadOnly, Why: "y"}}, BestEffort: true}, all, "mount.tmpfs x!, mount.remap y!"},
		"user":            {Spec{User: &User{}, BestEffort: true}, all, "user run_as!"},
		"unconfined":      {Spec{Unconfined: true, Table: ws, Home: "/h"}, Features{FeatureUnconfined}, ""},
		"must isolate":    {Spec{Unconfined: true}, all, "unconfined engine!"},
		"unconfined user": {Spec{Unconfined: true, User: &User{}, Limits: Limits{CPUs: 1}}, Features{FeatureUnconfined}, "user run_as!, limit.cpus limits.cpus!"},
	} {
		var got []string
		losses := test.spec.Without(test.have)
		for _, l := range losses {
			text := string(l.Feature) + " " + l.Attribute
			if !l.Accepted {
				text += "!"
			}
			got = append(got, text)
			if e := l.Event("e"); l.What == "" || !strings.Contains(e.Message, " is not enforced: engine \"e\" has no feature "+string(l.Feature)) {
				t.Errorf("%s: %+v is told as %+v", name, l, e)
			}
		}
		if strings.Join(got, ", ") != test.want {
			t.Errorf("%s: got %q", name, got)
		}
		if err := Refused("e", losses); errors.Is(err, ErrUnsupported) != strings.Contains(test.want, "!") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// All that one attribute asks for is in one error.
func TestRefusedNamesAll(t *testing.T) {
	t.Parallel()
	spec := Spec{Home: "/h"}
	err := Refused("e", spec.Without(Features{FeatureNetworkNone, FeatureFilesystemMinimal, FeatureProcessesHidden}))
	const want = `isolation: engine "e" cannot enforce a private home, a private /tmp, the filter of system calls, keeping commands from changing modes and times, and from seeing names, of files outside: ` +
		`it has no feature home.private, temp.private, kernel.filtered, metadata; isolation is "full" by default: use another engine, or write isolation = "best_effort" to run with less`
	if err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
	err = Refused("e", spec.Without(Features{FeatureFilesystemMinimal, FeatureTempPrivate, FeatureProcessesHidden}))
	if err == nil || !strings.Contains(err.Error(), "no feature network.none, nor home.private, kernel.filtered, metadata, which the definition needs too;") {
		t.Errorf("%v", err)
	}
}
