package contract

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/enginetest/internal/actor"
	"github.com/sbxhost/sbxhost/shared/enginetest/internal/scene"
)

// openRules are about an engine's description of itself, and about what Open refuses.
func openRules() []Rule {
	return []Rule{
		{ID: "open.01", Title: "Info is complete and does not change", run: infoRule},
		{ID: "open.02", Title: "what the schema declares is well-formed", run: schemaRule},
		{ID: "open.03", Title: "a feature that is not claimed is refused", run: unclaimedRule},
		{ID: "open.04", Title: "a Spec of a bad form is refused as such", run: formRule},
		{ID: "open.05", Title: "an option that is not declared is refused, and no error tells its value", run: func(s *subject) {
			spec := s.spec()
			spec.Options = json.RawMessage(`{"sbxhost_no_such_option": "` + s.Canary + `"}`)
			told := fmt.Sprint(s.refuses(spec, shared.ErrInvalidSpec, shared.ErrUnsupported))
			s.Demand(!strings.Contains(told, s.Canary), "the error has the option's value: %s", scene.Tail(told))
		}},
		{ID: "open.06", Title: "isolation and its absence are never confused", run: func(s *subject) {
			spec := s.spec()
			spec.Unconfined = !spec.Unconfined
			s.refuses(spec, shared.ErrUnsupported)
		}},
		{ID: "open.07", Title: "a context that is over ends Open", run: func(s *subject) {
			over, cancel := context.WithCancel(s.Ctx)
			cancel()
			s.Ctx = over
			s.refuses(s.spec(), context.Canceled)
		}},
		{ID: "open.08", Title: "Open does not keep what it was given", run: keepsNothing},
		{ID: "open.09", Title: "nothing stays in /tmp and /var/tmp", Alone: true, run: staysClean},
	}
}

func infoRule(s *subject) {
	first := s.Kit.Info
	s.once(s.sh(":"), nil)
	second, err := s.Engine.Info(s.Ctx)
	s.Must(err)
	s.Demand(first.Name != "" && first.Version != "" && first.Doc != "", "name %q, version %q and doc %q: none may be empty", first.Name, first.Version, first.Doc)
	s.Demand(first.Name == second.Name && first.Version == second.Version && slices.Equal(first.Features, second.Features), "it is not the same the second time")
	want := s.Kit.Name
	s.Demand(paths.IsName(first.Name) && (want == "" || first.Name == want),
		"its name is %q: up to 64 letters, digits and . _ -, as its program is called: sbxhost-engine-%s", first.Name, cmp.Or(want, "NAME"))
	have := slices.Clone(first.Features)
	slices.Sort(have)
	s.Demand(len(slices.Compact(have)) == len(first.Features), "a feature is listed twice")
	if first.Features.Has(shared.FeatureUnconfined) {
		for _, f := range isolation {
			s.Demand(!first.Features.Has(f), "an engine without isolation cannot hold %s", f)
		}
	}
}

func schemaRule(s *subject) {
	types := []shared.OptionType{shared.OptionString, shared.OptionBool, shared.OptionNumber, shared.OptionStringList, shared.OptionStringMap}
	seen := map[string]bool{}
	for _, a := range s.Kit.Info.Options.Attributes {
		s.Demand(a.Name != "" && !seen[a.Name], "attribute %q: empty or there twice", a.Name)
		s.Demand(slices.Contains(types, a.Type), "attribute %q: unknown type %q", a.Name, a.Type)
		s.Demand(a.Doc != "" && !strings.Contains(a.Doc, "\n"), "attribute %q: its doc is not one line", a.Name)
		s.Demand(len(a.Default) == 0 || json.Valid(a.Default), "attribute %q: its default is no JSON", a.Name)
		seen[a.Name] = true
	}
}

// An ask is a Spec or a Command that needs a feature.
type ask struct {
	feature shared.Feature
	change  func(*shared.Spec) // nil if every Spec needs it
}

// with adds an entry to a Spec.
func with(e shared.Entry) func(*shared.Spec) {
	e.Why = "x"
	return func(s *shared.Spec) { s.Table = append(s.Table, e) }
}

// isolation lists the features that an engine without isolation cannot have.
var isolation = []shared.Feature{
	shared.FeatureNetworkNone, shared.FeatureNetworkTCP, shared.FeatureNetworkNames, shared.FeatureNetworkProxy, shared.FeatureNetworkInject, shared.FeatureNetworkPorts, shared.FeatureFilesystemMinimal, shared.FeatureFilesystemHost, shared.FeatureHidden, shared.FeatureNested,
	shared.FeatureHomePrivate, shared.FeatureTempPrivate, shared.FeatureProcessesHidden, shared.FeatureKernelFiltered, shared.FeatureMetadata,
}

// asks lists what Open must refuse if the engine does not claim the feature.
func asks(source string) []ask {
	return []ask{
		{shared.FeatureNetworkNone, func(s *shared.Spec) { s.Network.Mode = shared.NetworkNone }},
		{shared.FeatureNetworkHost, func(s *shared.Spec) { s.Network.Mode = shared.NetworkHost }},
		{shared.FeatureNetworkNames, func(s *shared.Spec) {
			s.Network = shared.Network{Mode: shared.NetworkNames, Names: []string{"name.example"}}
		}},
		{shared.FeatureNetworkInject, func(s *shared.Spec) {
			s.Network = injecting("name.example", "name.example", "", "secret")
		}},
		{shared.FeatureNetworkPorts, func(s *shared.Spec) { s.Network = shared.Network{HostPorts: []uint16{5432}} }},
		{shared.FeatureNetworkPorts, func(s *shared.Spec) { s.Network = shared.Network{Publish: []string{"127.0.0.1:0:3000"}} }},
		{shared.FeatureFilesystemMinimal, func(s *shared.Spec) { s.Filesystem = shared.FilesystemMinimal }},
		{shared.FeatureFilesystemHost, func(s *shared.Spec) { s.Filesystem = shared.FilesystemHost }},
		{shared.FeatureRemap, with(shared.Entry{Source: source, Path: "/remapped", Access: shared.ReadOnly})},
		{shared.FeatureOverlay, with(shared.Entry{Source: source, Path: source, Access: shared.Overlay})},
		{shared.FeatureTmpfs, with(shared.Entry{Path: source, Access: shared.Private})},
		{shared.FeatureHidden, with(shared.Entry{Path: source, Access: shared.Hidden, Missing: shared.MissingIgnore})},
		{shared.FeatureNested, func(s *shared.Spec) {
			for _, path := range []string{source, source + "/sub"} {
				s.Table = append(s.Table, shared.Entry{Source: path, Path: path, Access: shared.ReadWrite, Why: "x"})
			}
			s.Table[len(s.Table)-1].Access = shared.ReadOnly
		}},
		{shared.FeatureHomePrivate, func(s *shared.Spec) { s.Home = "/home/probe" }},
		{shared.FeatureTempPrivate, nil},
		{shared.FeatureProcessesHidden, nil},
		{shared.FeatureKernelFiltered, nil},
		{shared.FeatureMetadata, nil},
		{shared.FeatureDevices, func(s *shared.Spec) { s.Devices = []string{"/dev/fuse"} }},
		{shared.FeatureUser, func(s *shared.Spec) { s.User = &shared.User{UID: 12345, GID: 12345} }},
		{shared.FeatureLimitMemory, func(s *shared.Spec) { s.Limits.Memory = 1 << 30 }},
		{shared.FeatureLimitCPUs, func(s *shared.Spec) { s.Limits.CPUs = 1 }},
		{shared.FeatureLimitPIDs, func(s *shared.Spec) { s.Limits.PIDs = 500 }},
		{shared.FeatureLimitOpenFiles, func(s *shared.Spec) { s.Limits.OpenFiles = 500 }},
		{shared.FeatureLimitTempSize, func(s *shared.Spec) { s.Limits.TempSize = 1 << 20 }},
	}
}

// Asked lists the features for which an engine that does not claim them is asked.
func Asked() (list shared.Features) {
	for _, a := range asks("/x") {
		list = append(list, a.feature)
	}
	return slices.Compact(list)
}

// unclaimedRule asks for each feature that the engine does not claim.
func unclaimedRule(s *subject) {
	claims := s.Kit.Info.Features
	for _, ask := range asks(s.Shown) {
		spec := s.spec()
		// Unconfined means that the engine does not enforce these.
		meant := spec.Unconfined && (ask.feature == shared.FeatureNetworkHost || ask.feature == shared.FeatureDevices || slices.Contains(isolation, ask.feature))
		if claims.Has(scene.Claimable(claims, ask.feature)) || meant {
			continue
		}
		if ask.change != nil {
			ask.change(&spec)
		}
		if shared.Refused("", spec.Without(claims)) == nil { // what it takes less of
			spec.BestEffort, spec.Limits.BestEffort = false, false
		}
		s.Check(string(ask.feature)+" is not claimed", func() {
			err := s.refuses(spec, shared.ErrUnsupported)
			e, ok := errors.AsType[*shared.Error](err)
			s.Demand(ok && e.Attribute != "", "the error leads to no attribute: %v", err)
		})
	}
	// The feature that commands need.
	sandbox := s.open()
	if claims.Has(shared.FeatureTTY) {
		return
	}
	_, slave := s.Terminal()
	cmd := s.sh("exit 0")
	cmd.TTY = true
	s.Check(string(shared.FeatureTTY)+" is not claimed", func() {
		s.Wants("Start", s.notStarted(sandbox, cmd, shared.Stdio{Stdin: slave, Stdout: slave, Stderr: slave}), shared.ErrUnsupported)
	})
}

func formRule(s *subject) {
	shown := func(source, path string) func(*shared.Spec) {
		return with(shared.Entry{Source: source, Path: path, Access: shared.ReadOnly})
	}
	for name, change := range map[string]func(*shared.Spec){
		"a relative source":          shown("x", "/x"),
		"a source with ..":           shown("/usr/../etc", "/x"),
		"a source with / at its end": shown("/usr/", "/x"),
		"a relative destination":     shown("/usr", "usr"),
		"a destination with ..":      shown("/usr", "/x/../y"),
		"a path with a NUL":          shown("/usr\x00", "/usr\x00"),
		"an unknown access":          with(shared.Entry{Source: "/usr", Path: "/x", Access: 77}),
		"unknown of what is missing": with(shared.Entry{Path: "/x", Access: shared.Hidden, Missing: 77}),
		"a hidden relative path":     with(shared.Entry{Path: "x", Access: shared.Hidden}),
		"a hidden path with source":  with(shared.Entry{Source: "/usr", Path: "/x", Access: shared.Hidden}),
		"two at one place":           shown(s.Shown, s.WS),
		"a tmpfs with a source":      with(shared.Entry{Source: "/usr", Path: "/x", Access: shared.Private}),
		"an unknown view":            func(s *shared.Spec) { s.Filesystem = 77 },
		"an unknown network":         func(s *shared.Spec) { s.Network.Mode = 77 },
		"a relative home":            func(s *shared.Spec) { s.Home = "home" },
		"a relative session":         func(s *shared.Spec) { s.Session.Dir = "session" },
		"a negative number of CPUs":  func(s *shared.Spec) { s.Limits.CPUs = -1 },
		"options that are not JSON":  func(s *shared.Spec) { s.Options = json.RawMessage("{") },
		"read-only without a source": shown("", s.Shown),
		"a home with a NUL":          func(s *shared.Spec) { s.Home = "/home\x00" },
		"a session with a NUL":       func(s *shared.Spec) { s.Session.Dir = "/session\x00" },
		"a device not in /dev":       func(s *shared.Spec) { s.Devices = []string{"/etc/passwd"} },
		"a device with ..":           func(s *shared.Spec) { s.Devices = []string{"/dev/../dev/null"} },
		"a destination of no length": shown("/usr", ""),
	} {
		spec := s.spec()
		change(&spec)
		s.Check(name, func() { s.refuses(spec, shared.ErrInvalidSpec) })
	}
}

// keepsNothing changes a Spec after it was opened.
func keepsNothing(s *subject) {
	spec := s.spec()
	sandbox := s.OpenAs(spec)
	for i := range spec.Table {
		spec.Table[i] = shared.Entry{Source: "/no/such", Path: "/no/such", Access: shared.ReadOnly}
	}
	s.Check("after the caller changed its Spec", func() {
		o := s.run(sandbox, s.inside("read", s.Path("ws/file")), nil)
		s.Demand(o.Verdict.Kind == actor.Got, "%s", o.Output())
	})
	_, err := os.Stat(s.WS)
	s.Must(err)
}

// temporary returns the files in the directories for temporary files, by the beginning of their
// names.
func temporary(s *subject) map[string][]string {
	found := map[string][]string{}
	for _, dir := range []string{"/tmp", "/var/tmp", os.TempDir()} {
		entries, err := os.ReadDir(dir)
		s.Must(err)
		for _, e := range entries {
			kind := strings.TrimRight(e.Name(), "0123456789")
			if !strings.HasPrefix(kind, "Test") { // tests make directories with such names
				kind = kind[:min(3, len(kind))]
			}
			kind = filepath.Join(dir, kind)
			found[kind] = append(found[kind], filepath.Join(dir, e.Name()))
		}
	}
	return found
}

// staysClean looks for files that stay. Other programs use these directories, too. So only this counts:
// as many new files of one kind as sandboxes were opened, that do not go away.
func staysClean(s *subject) {
	n, before := s.Many(16, 10), temporary(s)
	for range n {
		_, err := s.Engine.Probe(s.Ctx)
		s.Must(err)
		sandbox, err := s.Engine.Open(s.Ctx, s.spec())
		s.Must(err)
		s.prints(sandbox, "exit 0", "")
		s.Must(sandbox.Close(s.Ctx))
	}
	for kind, list := range temporary(s) {
		stay := slices.DeleteFunc(list, func(path string) bool { // except those of other scenes
			return slices.Contains(before[kind], path) || strings.Contains(path, "sbxhost-probe-")
		})
		s.Check(kind+"*", func() {
			s.Until(func() error {
				stay = slices.DeleteFunc(stay, func(path string) bool { return scene.HostHas(path) == nil })
				if len(stay) < n {
					return nil
				}
				return fmt.Errorf("there are %d more after %d commands in sandboxes of their own", len(stay), n)
			})
		})
	}
}
