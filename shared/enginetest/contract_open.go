package enginetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/sbxhost/sbxhost/shared"
)

// openRules are about what an engine says of itself and what Open refuses.
func openRules() []rule {
	return []rule{
		{id: "open.01", title: "Info is complete and does not change", run: infoRule},
		{id: "open.02", title: "what the schema declares is well-formed", run: schemaRule},
		{id: "open.03", title: "a feature that is not claimed is refused", run: unclaimedRule},
		{id: "open.04", title: "a Spec of a bad form is refused as such", run: formRule},
		{id: "open.05", title: "an option that is not declared is refused", run: func(ctx context.Context, b *bench) error {
			spec := b.spec()
			spec.Options = json.RawMessage(`{"sbxhost_no_such_option": true}`)
			return b.refuses(ctx, spec, shared.ErrInvalidSpec, shared.ErrUnsupported)
		}},
		{id: "open.06", title: "isolation and its absence are never confused", run: func(ctx context.Context, b *bench) error {
			spec := b.spec()
			spec.Unconfined = !spec.Unconfined
			return b.refuses(ctx, spec, shared.ErrUnsupported)
		}},
		{id: "open.07", title: "a context that is over ends Open", run: func(ctx context.Context, b *bench) error {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			sandbox, err := b.engine.Open(ctx, b.spec())
			if err == nil {
				sandbox.Close(context.WithoutCancel(ctx))
			}
			return wantKind("Open", err, context.Canceled)
		}},
		{id: "open.08", title: "Open does not keep what it was given", run: keepsNothing},
	}
}

// refuses wants Open to fail with one of the kinds.
func (b *bench) refuses(ctx context.Context, spec shared.Spec, kinds ...error) error {
	sandbox, err := b.engine.Open(ctx, spec)
	if err == nil {
		sandbox.Close(context.WithoutCancel(ctx))
	}
	return wantKind("Open", err, kinds...)
}

func infoRule(ctx context.Context, b *bench) error {
	first, err := b.engine.Info(ctx)
	if err != nil {
		return err
	}
	second, err := b.engine.Info(ctx)
	switch {
	case err != nil:
		return err
	case first.Name == "" || first.Version == "" || first.Doc == "":
		return fmt.Errorf("name %q, version %q and doc %q: none may be empty", first.Name, first.Version, first.Doc)
	case first.Name != second.Name || first.Version != second.Version || !slices.Equal(first.Features, second.Features):
		return errors.New("it is not the same the second time")
	}
	have := slices.Clone(first.Features)
	slices.Sort(have)
	if len(slices.Compact(have)) != len(first.Features) {
		return errors.New("a feature is listed twice")
	}
	if first.Features.Has(shared.FeatureUnconfined) {
		for _, f := range []shared.Feature{shared.FeatureNetworkNone, shared.FeatureFilesystemMinimal, shared.FeatureFilesystemHost, shared.FeatureHidden} {
			if first.Features.Has(f) {
				return fmt.Errorf("an engine without isolation cannot hold %s", f)
			}
		}
	}
	return nil
}

func schemaRule(ctx context.Context, b *bench) error {
	info, err := b.engine.Info(ctx)
	if err != nil {
		return err
	}
	types := []shared.OptionType{shared.OptionString, shared.OptionBool, shared.OptionNumber, shared.OptionStringList, shared.OptionStringMap}
	check := func(where string, attributes []shared.OptionAttribute) error {
		seen := map[string]bool{}
		for _, a := range attributes {
			switch {
			case a.Name == "" || seen[a.Name]:
				return fmt.Errorf("%sattribute %q: empty or there twice", where, a.Name)
			case !slices.Contains(types, a.Type):
				return fmt.Errorf("%sattribute %q: unknown type %q", where, a.Name, a.Type)
			case a.Doc == "" || strings.Contains(a.Doc, "\n"):
				return fmt.Errorf("%sattribute %q: its doc is not one line", where, a.Name)
			case len(a.Default) > 0 && !json.Valid(a.Default):
				return fmt.Errorf("%sattribute %q: its default is no JSON", where, a.Name)
			}
			seen[a.Name] = true
		}
		return nil
	}
	errs := []error{check("", info.Options.Attributes)}
	for _, block := range info.Options.Blocks {
		errs = append(errs, check("block "+block.Name+": ", block.Attributes))
	}
	return errors.Join(errs...)
}

// An ask is a Spec or a Command that needs a feature.
type ask struct {
	feature shared.Feature
	change  func(*shared.Spec)
}

// asks are of what Open must refuse where the engine does not claim it.
func asks(source string) []ask {
	return []ask{
		{shared.FeatureNetworkNone, func(s *shared.Spec) { s.Network.Mode = shared.NetworkNone }},
		{shared.FeatureNetworkHost, func(s *shared.Spec) { s.Network.Mode = shared.NetworkHost }},
		{shared.FeatureFilesystemMinimal, func(s *shared.Spec) { s.Filesystem = shared.FilesystemMinimal }},
		{shared.FeatureFilesystemHost, func(s *shared.Spec) { s.Filesystem = shared.FilesystemHost }},
		{shared.FeatureRemap, func(s *shared.Spec) {
			s.Table = append(s.Table, shared.Entry{Source: source, Path: "/remapped", Why: "x", Access: shared.ReadOnly})
		}},
		{shared.FeatureOverlay, func(s *shared.Spec) {
			s.Table = append(s.Table, shared.Entry{Source: source, Path: source, Access: shared.Overlay, Why: "x"})
		}},
		{shared.FeatureTmpfs, func(s *shared.Spec) {
			s.Table = append(s.Table, shared.Entry{Path: source, Access: shared.Private, Why: "x"})
		}},
		{shared.FeatureHidden, func(s *shared.Spec) {
			s.Table = append(s.Table, shared.Entry{Path: source, Access: shared.Hidden, Missing: shared.MissingIgnore, Why: "x"})
		}},
		{shared.FeatureUser, func(s *shared.Spec) { s.User = &shared.User{UID: 12345, GID: 12345} }},
		{shared.FeatureLimitMemory, func(s *shared.Spec) { s.Limits.Memory = 1 << 30 }},
		{shared.FeatureLimitCPUs, func(s *shared.Spec) { s.Limits.CPUs = 1 }},
		{shared.FeatureLimitPIDs, func(s *shared.Spec) { s.Limits.PIDs = 500 }},
		{shared.FeatureLimitOpenFiles, func(s *shared.Spec) { s.Limits.OpenFiles = 500 }},
		{shared.FeatureLimitTempSize, func(s *shared.Spec) { s.Limits.TempSize = 1 << 20 }},
	}
}

// unclaimedRule asks for each feature that the engine does not claim.
func unclaimedRule(ctx context.Context, b *bench) error {
	info, err := b.engine.Info(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, ask := range asks(b.scene.shown) {
		if info.Features.Has(ask.feature) {
			continue
		}
		spec := b.spec()
		if isolation := spec.Unconfined; isolation && slices.Contains([]shared.Feature{
			// What Unconfined means is that these are not held.
			shared.FeatureNetworkNone, shared.FeatureNetworkHost, shared.FeatureFilesystemMinimal, shared.FeatureFilesystemHost, shared.FeatureHidden}, ask.feature) {
			continue
		}
		ask.change(&spec)
		if err := b.refuses(ctx, spec, shared.ErrUnsupported); err != nil {
			errs = append(errs, fmt.Errorf("%s is not claimed: %w", ask.feature, err))
		}
	}
	return errors.Join(append(errs, b.unclaimedByCommands(ctx, info.Features))...)
}

// unclaimedByCommands asks for the feature that commands need.
func (b *bench) unclaimedByCommands(ctx context.Context, claims shared.Features) error {
	sandbox, err := b.open(ctx)
	if err != nil {
		return err
	}
	refused := func(feature shared.Feature, cmd shared.Command, stdio shared.Stdio) error {
		p, err := sandbox.Start(ctx, cmd, stdio)
		if err == nil {
			p.Wait(endNow(ctx, p))
		}
		return wantKind(string(feature)+" is not claimed: Start", err, shared.ErrUnsupported)
	}
	var errs []error
	if !claims.Has(shared.FeatureTTY) && !claims.Has(shared.FeatureTTYEngine) {
		t, err := openTerminal()
		if err != nil {
			return err
		}
		defer t.close()
		cmd := b.sh("exit 0")
		cmd.TTY = true
		errs = append(errs, refused(shared.FeatureTTY, cmd, shared.Stdio{Stdin: t.slave, Stdout: t.slave, Stderr: t.slave}))
	}
	return errors.Join(errs...)
}

func formRule(ctx context.Context, b *bench) error {
	mount := func(m shared.Entry) func(*shared.Spec) {
		return func(s *shared.Spec) { s.Table = append(s.Table, m) }
	}
	var errs []error
	for name, change := range map[string]func(*shared.Spec){
		"a relative source":          mount(shared.Entry{Source: "x", Path: "/x", Access: shared.ReadOnly}),
		"a relative destination":     mount(shared.Entry{Source: "/usr", Path: "usr", Access: shared.ReadOnly}),
		"a destination with ..":      mount(shared.Entry{Source: "/usr", Path: "/x/../y", Access: shared.ReadOnly}),
		"a path with a NUL":          mount(shared.Entry{Source: "/usr\x00", Path: "/usr\x00", Access: shared.ReadOnly}),
		"an unknown access":          mount(shared.Entry{Source: "/usr", Path: "/x", Access: 77}),
		"unknown of what is missing": mount(shared.Entry{Path: "/x", Access: shared.Hidden, Missing: 77}),
		"a hidden relative path":     mount(shared.Entry{Path: "x", Access: shared.Hidden}),
		"a hidden path with source":  mount(shared.Entry{Source: "/usr", Path: "/x", Access: shared.Hidden}),
		"two at one place":           mount(shared.Entry{Source: b.scene.shown, Path: b.scene.ws, Access: shared.ReadOnly}),
		"a tmpfs with a source":      mount(shared.Entry{Source: "/usr", Path: "/x", Access: shared.Private}),
		"an unknown view":            func(s *shared.Spec) { s.Filesystem = 77 },
		"an unknown network":         func(s *shared.Spec) { s.Network.Mode = 77 },
		"a relative home":            func(s *shared.Spec) { s.Home = "home" },
		"a relative session":         func(s *shared.Spec) { s.Session.Dir = "session" },
		"a negative number of CPUs":  func(s *shared.Spec) { s.Limits.CPUs = -1 },
		"options that are not JSON":  func(s *shared.Spec) { s.Options = json.RawMessage("{") },
		"a destination of no length": mount(shared.Entry{Source: "/usr", Path: "", Access: shared.ReadOnly}),
	} {
		spec := b.spec()
		change(&spec)
		if err := b.refuses(ctx, spec, shared.ErrInvalidSpec); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// keepsNothing changes a Spec after it was opened.
func keepsNothing(ctx context.Context, b *bench) error {
	spec := b.spec()
	sandbox, err := b.engine.Open(ctx, spec)
	if err != nil {
		return err
	}
	b.later(func() { sandbox.Close(context.WithoutCancel(ctx)) })
	for i := range spec.Table {
		spec.Table[i] = shared.Entry{Source: "/no/such", Path: "/no/such", Access: shared.ReadOnly}
	}
	r, err := b.run(ctx, sandbox, b.command("read", b.scene.path("ws/file")), nil)
	if err != nil {
		return fmt.Errorf("after the caller changed its Spec: %w", err)
	}
	if v := readVerdict([]byte(r.stdout), r.Result); v.Kind != verdictGot {
		return fmt.Errorf("after the caller changed its Spec: %s", v.Detail)
	}
	_, err = os.Stat(b.scene.ws)
	return err
}
