package enginetest_test

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/plugins/native"
	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/enginetest"
)

// A lie is an engine that isolates, but for what change does to a Spec when it is asked for
// something else.
type lie struct {
	shared.Engine
	when   func(*shared.Spec, *shared.Command) bool
	change func(*shared.Spec)
}

func (l *lie) Open(ctx context.Context, spec shared.Spec) (shared.Sandbox, error) {
	honest, err := l.Engine.Open(ctx, spec)
	if err != nil {
		return nil, err
	}
	changed := spec
	changed.Table = slices.Clone(spec.Table)
	l.change(&changed)
	other, err := l.Engine.Open(ctx, changed)
	if err != nil {
		honest.Close(ctx)
		return nil, err
	}
	return &lyingSandbox{honest, other, l, spec}, nil
}

type lyingSandbox struct {
	shared.Sandbox
	other shared.Sandbox
	lie   *lie
	spec  shared.Spec
}

func (s *lyingSandbox) Start(ctx context.Context, cmd shared.Command, stdio shared.Stdio) (shared.Process, error) {
	if s.lie.when(&s.spec, &cmd) {
		return s.other.Start(ctx, cmd, stdio)
	}
	return s.Sandbox.Start(ctx, cmd, stdio)
}

func (s *lyingSandbox) Close(ctx context.Context) error {
	s.other.Close(ctx)
	return s.Sandbox.Close(ctx)
}

// What an engine drops for some commands only is found, and the feature named that it must not
// claim then.
func TestLiesAreCaught(t *testing.T) {
	t.Parallel()
	if p, err := native.New().Probe(t.Context()); err != nil || !p.Ready {
		t.Skipf("native is not ready: %v %s", err, p.Reason)
	}
	unmasked := func(s *shared.Spec) {
		s.Table = slices.DeleteFunc(s.Table, func(e shared.Entry) bool { return e.Access == shared.Hidden })
	}
	type test struct {
		lie  lie
		drop shared.Feature // "": none, since it is a rule for all engines
	}
	tests := map[string]test{
		"read.67": {lie{when: func(_ *shared.Spec, c *shared.Command) bool { return c.TTY }, change: unmasked}, shared.FeatureHidden},
		"read.68": {lie{when: func(_ *shared.Spec, c *shared.Command) bool { return c.Script != "" }, change: unmasked}, shared.FeatureHidden},
		"read.69": {lie{when: func(s *shared.Spec, _ *shared.Command) bool { return s.Network.Mode == shared.NetworkHost }, change: unmasked}, shared.FeatureHidden},
		"read.70": {lie{when: func(s *shared.Spec, _ *shared.Command) bool { return s.Filesystem == shared.FilesystemHost }, change: unmasked}, shared.FeatureHidden},
		"read.71": {lie{when: func(s *shared.Spec, _ *shared.Command) bool { return s.Session.Dir != "" }, change: unmasked}, shared.FeatureHidden},
		"write.77": {lie{when: func(*shared.Spec, *shared.Command) bool { return true }, change: func(s *shared.Spec) {
			for i := range s.Table {
				if info, err := os.Stat(s.Table[i].Source); err == nil && info.Mode().IsRegular() {
					s.Table[i].Access = shared.ReadWrite
				}
			}
		}}, shared.FeatureNested},
		"net.25": {lie{when: func(*shared.Spec, *shared.Command) bool { return false }, change: func(*shared.Spec) {}}, shared.FeatureNetworkTranslated},
		// Its plan is the honest one's.
		"command.15": {lie{when: func(*shared.Spec, *shared.Command) bool { return true }, change: func(s *shared.Spec) {
			for i := range s.Table {
				s.Table[i].Access = shared.ReadWrite
			}
		}}, ""},
	}
	tests["command.17"] = test{lie{when: func(*shared.Spec, *shared.Command) bool { return true }, change: func(s *shared.Spec) {
		for i := range s.Table {
			if s.Table[i].Access == shared.Overlay {
				s.Table[i].Access = shared.ReadWrite
			}
		}
	}}, shared.FeatureOverlayKept}
	for _, id := range []string{"session.01", "session.02", "session.03", "session.04"} {
		tests[id] = test{lie{when: func(s *shared.Spec, _ *shared.Command) bool { return s.Session.Processes },
			change: func(s *shared.Spec) { s.Session.Processes = false }}, shared.FeatureProcesses}
	}
	tests["command.16"] = test{lie{when: func(*shared.Spec, *shared.Command) bool { return false }, change: func(*shared.Spec) {}}, shared.FeatureTrace}
	for _, id := range []string{"net.27", "net.30", "net.31", "net.32"} {
		tests[id] = test{lie{when: func(s *shared.Spec, _ *shared.Command) bool { return s.Network.Mode == shared.NetworkNames },
			change: func(s *shared.Spec) { s.Network = shared.Network{Mode: shared.NetworkHost} }}, shared.FeatureNetworkNames}
	}
	tests["net.27/silent"] = test{lie{when: func(*shared.Spec, *shared.Command) bool { return false }, change: func(*shared.Spec) {}}, shared.FeatureNetworkNames}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			id, how, _ := strings.Cut(name, "/")
			var honest shared.Engine = native.New()
			if id == "net.25" {
				honest = &brokenEngine{honest, breakage{info: func(i shared.Info) shared.Info {
					i.Features = append(slices.Clone(i.Features), shared.FeatureNetworkTranslated)
					return i
				}}}
			} else if r := suite(t, honest, enginetest.Options{Run: only(id)}).Run(t.Context(), nil); len(r.Results) != 1 || r.Results[0].Status != enginetest.Held {
				if id == "session.04" && os.Getuid() != 0 && len(r.Results) == 1 && r.Results[0].Status == enginetest.NotApplicable {
					t.Skip("this user has no control groups; root's run has them")
				}
				t.Fatalf("the control: %+v", r)
			}
			if id == "command.16" {
				honest = &brokenEngine{honest, changed(func(c *shared.Command, _ *shared.Stdio) { c.Trace = false })}
			}
			if how == "silent" {
				none := make(chan shared.Event)
				close(none)
				honest = &brokenEngine{honest, breakage{events: func(shared.Process) <-chan shared.Event { return none }}}
			}
			test.lie.Engine = honest
			r := suite(t, &test.lie, enginetest.Options{Run: only(id)}).Run(t.Context(), nil)
			if len(r.Results) != 1 || !r.Results[0].Status.Bad() {
				t.Errorf("the kit did not notice: %+v", r)
			}
			if _, drop := r.Claims(); test.drop != "" && !slices.Equal(drop, []shared.Feature{test.drop}) {
				t.Errorf("to be dropped are %q", drop)
			}
		})
	}
}

// An engine that claims a part is tried for that, and told what else holds of what it does
// not claim.
func TestPartsAreTried(t *testing.T) {
	t.Parallel()
	if p, err := native.New().Probe(t.Context()); err != nil || !p.Ready {
		t.Skipf("native is not ready: %v %s", err, p.Reason)
	}
	some := shared.Features{shared.FeatureTempPrivate, shared.FeatureProcessesHidden}
	e := &brokenEngine{native.New(), breakage{
		info: func(i shared.Info) shared.Info {
			i.Features = slices.DeleteFunc(slices.Clone(i.Features), some.Has)
			return i
		},
		open: func(ctx context.Context, e shared.Engine, spec shared.Spec) (shared.Sandbox, error) {
			spec.BestEffort = false // native holds all
			return e.Open(ctx, spec)
		},
	}}
	r := suite(t, e, enginetest.Options{Run: every("read.13", "read.25", "proc.08", "write.41", "kernel.05", "net.01")}).Run(t.Context(), nil)
	may, drop := r.Claims()
	if len(r.Results) != 6 || !slices.Equal(may, []shared.Feature{shared.FeatureTempPrivate, shared.FeatureProcessesHidden}) || len(drop) > 0 {
		t.Errorf("may claim %q, must drop %q: %+v", may, drop, r)
	}
	for _, one := range r.Results {
		if claimed := !some.Has(one.Feature); one.Feature == "" || claimed && one.Status != enginetest.Held || !claimed && (one.Status != enginetest.Skipped || one.Found != enginetest.Held) {
			t.Errorf("%+v", one)
		}
	}
}

// Without a pid namespace the init ends what a command leaves behind, when its engine is
// killed, too.
func TestWithoutPIDNamespace(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	o := enginetest.Options{Launch: startBroken(self, "no pid namespace"),
		Run: every("life.01", "life.02", "life.03", "life.04", "life.05", "life.06", "life.07", "process.01", "process.02", "process.03")}
	l, err := o.Launch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Kill)
	r := suite(t, l, o).Run(t.Context(), nil)
	for _, one := range r.Results {
		if one.Status != enginetest.Held && one.Found != enginetest.Held {
			t.Errorf("%+v", one)
		}
	}
	if len(r.Results) != 10 {
		t.Errorf("%d results", len(r.Results))
	}
}
